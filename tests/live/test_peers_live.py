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
from tests.live.test_senders_live import CONTROLLERS

pytestmark = [
    *live,
    pytest.mark.skipif(not CGROUP2 or not Path("/dev/net/tun").exists(), reason="needs cgroup2 and /dev/net/tun"),
]

FULL = os.environ.get("ATTACK") == "full"
ROUNDS, LIMIT_S = (300, 900) if FULL else (20, 60)
RENOS = 2  # first and as many last in a round: what follows an attack hangs on a packet's time
W_MAX = 1 << 20
FACTOR, SMALL = 3, 25  # of Reno's largest window in the second half, or of this one: first windows and a round's growth
FITTING = {"fast": ("--set", "alpha=5")}

# Where the law itself allows more: about what an honest peer gets, or a packet for each that was delivered.
HONEST, DELIVERED = "thrice what the peer's window lets out", "one packet for each delivered"
BY_LAW = {
    ("taichung", "spoofed_plainly"): (HONEST, "(11) cuts what was queued, and nothing is while the RTT is flat"),
    ("formosa", "spoofed_plainly"): (
        HONEST,
        "it paces: the ACK comes before the repair is out, and the stack takes the reduction back",
    ),
    ("formosa", "undone"): (HONEST, "the same"),
    ("nreno", "spoofed_plainly"): (
        HONEST,
        "they meet a window below three: the stack takes them for reordering then, not so with tcp_max_reordering=3",
    ),
    ("bpf_bic", "spoofed_plainly"): (HONEST, "BIC keeps four fifths and seeks the last maximum"),
    ("bpf_bic", "anything"): (HONEST, "the same"),
    ("bpf_bic", "undone"): (
        HONEST,
        "the same: where slow start, Reno's too, passed the first losses and came to 196, BIC ends at 103, Reno at 12",
    ),
    ("bbr3", "reneging"): (HONEST, "its window is twice what the path holds by rate and RTT, losses below 2 % or none"),
    ("bbr3", "undone"): (HONEST, "the same"),
    ("bbr3", "anything"): (HONEST, "the same"),
    ("bpf_vegas", "flood"): (DELIVERED, "Linux's Vegas, in slow start, does not ask whether the window is used"),
    ("nreno", "flood"): (DELIVERED, "[N] counts ACKs"),
    ("nreno", "anything"): (DELIVERED, "floods are among it"),
}


def warnings() -> list[str]:
    return [
        line
        for line in run("dmesg").stdout.splitlines()
        if re.search(r"WARNING|BUG|Oops|cut here|Call Trace|refcount|general protection", line)
    ]


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
    done = run("sh", "-c", script, "sh", *argv, timeout=LIMIT_S, cwd=ROOT)
    flows = json.loads(done.stdout)["flows"]
    reno = max(f["late"] for f in flows if f["controller"] == "reno" and not f["beside"])
    wrong = []
    for name, cc in [("reno", "reno"), *names.items()]:
        for f in [f for f in flows if f["controller"] == cc]:
            what = f"{name} {f}"
            if not (f["right"] and 1 <= f["low"] and f["most"] <= W_MAX):
                wrong.append(f"bytes, window: {what}")
            if f["beside"]:
                if not f["open"] or f["arrived"] < ROUNDS * f["flight"] * 100:
                    wrong.append(f"the honest one beside it: {what}")
                continue
            law, _ = BY_LAW.get((name, attack), ("", ""))
            bound = {"": FACTOR * max(reno, SMALL), HONEST: 3 * f["flight"], DELIVERED: f["segments"] + SMALL}[law]
            if f["late"] > bound:
                wrong.append(f"beyond {bound} (Reno {reno}): {what}")
            if FULL:
                cwnd = f"cwnd {f['low']}-{f['most']}, at the end {f['late']} of {bound}"
                sent = f"{f['segments']} segments, {f['retransmits']} again"
                print(f"{attack:20} {name:14} IPv{f['family']} {cwnd}; {sent}")
    assert not wrong, "\n".join(wrong)
