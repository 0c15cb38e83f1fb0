# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Every controller on this machine's own kernel against peers that misbehave (peers/attacks.py), each beside an
honest one; `make attack` at length."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.live.harness import CGROUP2, ROOT, asymcc, kernel_has, run, unique
from tests.live.harness import pytestmark as live
from tests.live.peers.attacks import ATTACKS
from tests.live.peers.bounds import WARNINGS, beyond, line
from tests.live.test_senders_live import CONTROLLERS

pytestmark = [
    *live,
    pytest.mark.skipif(not CGROUP2 or not Path("/dev/net/tun").exists(), reason="needs cgroup2 and /dev/net/tun"),
]

FULL = os.environ.get("ATTACK") == "full"
ROUNDS, LIMIT_S = (300, 900) if FULL else (20, 60)
RENOS = 2  # first and as many last in a round: what follows an attack hangs on a packet's time
FITTING = {"fast": ("--set", "alpha=5")}


def warnings() -> list[str]:
    return [line for line in run("dmesg").stdout.splitlines() if re.search(WARNINGS, line)]


@pytest.fixture(scope="module")
def loaded():
    """All of them by names of their own, in a namespace and, for what has programs for a cgroup, in one each. The
    names, and how to run there."""
    names, groups = {name: unique("a")[:8] + name[:7] for name in CONTROLLERS}, []
    before = warnings()
    try:
        for name, cc in names.items():
            halves = ()
            if json.loads(asymcc("show", name, "--json"))["cgroup_programs"]:
                groups.append(Path(CGROUP2[0]) / f"asymcc-{cc}")
                groups[-1].mkdir()
                halves = ("--cgroup", groups[-1])
            asymcc("load", name, "--as", cc, *halves, *FITTING.get(name, ()))
        yield names, groups
    finally:
        for cc in names.values():
            run(ROOT / "build" / "asymcc", "unload", "--force", cc, check=False)
        for group in groups:
            group.rmdir()
    assert not [cc for cc in names.values() if kernel_has(cc)]
    assert warnings() == before


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_peer_gains_more_than_reno_would_give(attack, loaded):
    names, groups = loaded
    argv = [
        sys.executable,
        "-m",
        "tests.live.peers.attacks",
        *["reno"] * RENOS,
        *names.values(),
        *["reno"] * RENOS,
        "--attack",
        attack,
        "--rounds",
        str(ROUNDS),
        *(["--both"] if FULL else []),
    ]
    script = f'echo $$ > {groups[-1]}/cgroup.procs && exec unshare -n "$@"'
    suspects = {"reno": "reno", **names}
    for _ in range(3):  # a busy machine delays the peer; what is a law's fault is there each time
        done = run("sh", "-c", script, "sh", *argv, timeout=LIMIT_S, cwd=ROOT)
        flows = json.loads(done.stdout)["flows"]
        reno = max(f["late"] for f in flows if f["controller"] == "reno" and not f["beside"])
        wrong = []
        for name, cc in list(suspects.items()):
            own = [f for f in flows if f["controller"] == cc]
            for f in own if FULL else ():
                if not f["beside"]:
                    print(f"{attack:20} {name:14} {line(f)}")
            if faults := [fault for f in own for fault in beyond(name, attack, f, reno, ROUNDS)]:
                wrong += faults
            else:
                del suspects[name]
        if not suspects:
            break
    assert not wrong, "\n".join(wrong)
