# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Every controller on this machine's own kernel: registered by bpftool alone and by the loader, and used."""

from __future__ import annotations

import json
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from asymlab.machine.kernel import series
from asymlab.plan import objects
from tests.live.cgroups import remove_cgroup, within
from tests.live.harness import (  # noqa: F401
    ASYMCC,
    CGROUP2,
    asymcc,
    endpoint,
    kernel_has,
    needs_cgroup2,
    program,
    pytestmark,
    run,
    saying,
    unique,
    values,
)
from tests.live.pairs import enter, joined_ends, transfer

CONTROLLERS = objects.built_for(series(os.uname().release))
FITTING = {"fast": ("--set", "alpha=5")}  # by its rate more than a queue of 40 holds: recovery without end
PATIENT = {"accsa"}  # shrinks a window after a second, not an RTO


@pytest.mark.parametrize("name", CONTROLLERS)
def test_registered_by_bpftool_alone(name, pair):
    if kernel_has(name):
        pytest.skip(f"{name} is registered on this machine")
    output = run("bpftool", "struct_ops", "register", ASYMCC.parent / f"{name}.bpf.o").stderr
    number = re.search(rf"Registered tcp_congestion_ops {name} id (\d+)", output)[1]
    try:
        transfer(pair, "10.9.0.2", 7201, 300_000, name)
        assert values(name, "counters")["flows"] >= 1
    finally:
        run("bpftool", "struct_ops", "unregister", "id", number)  # another one of its object may be on its way out
    assert not kernel_has(name)


def idle_and_outage(name: str) -> dict[str, int]:
    """Its counters after a link that is down at times, and a pause longer than the RTO: all bytes arrive."""
    cc = unique("t")
    group = Path(CGROUP2[0], f"asymcc-{cc}") if json.loads(asymcc("show", name, "--json"))["cgroup_programs"] else None
    halves, under = (), ()
    with joined_ends() as pair:
        try:
            if group:
                group.mkdir()
                halves, under = ("--cgroup", group), within(group)
            asymcc("load", name, "--as", cc, *halves, *FITTING.get(name, ()))
            there = {"address": "10.9.0.2", "port": 7202}
            with saying("ready", *under, *enter(pair.server), *endpoint("tally", **there)):
                with saying("connected", *under, *enter(pair.client), *endpoint("two_parts", **there, cc=cc)) as c:
                    for i in range(9):
                        time.sleep(0.3 + 0.4 * i)  # that it may be out of the recovery before
                        pair.sh(pair.server, "ip", "link", "set", pair.dev_s, "down")
                        time.sleep(0.8)
                        pair.sh(pair.server, "ip", "link", "set", pair.dev_s, "up")
                        if values(cc, "counters").get("timeouts", 1):
                            break  # a sender is not told of a timeout that comes during a recovery
                    time.sleep(0.3)
                    c.stdin.write("enough\n")
                    c.stdin.flush()
                    assert c.wait(timeout=60) == 0, c.stderr.read()
            return values(cc, "counters")
        finally:
            run(ASYMCC, "unload", "--force", cc, check=False)
            if group:
                remove_cgroup(group)


@pytest.fixture(scope="module")
def all_at_once():
    """The runs of all controllers. They mostly wait, each between namespaces of its own."""
    with ThreadPoolExecutor(len(CONTROLLERS)) as pool:
        return {name: pool.submit(idle_and_outage, name) for name in CONTROLLERS}


@needs_cgroup2
@pytest.mark.parametrize("name", CONTROLLERS)
def test_idle_and_outage(name, all_at_once):
    """A test that is tried again has a connection of its own."""
    counted = all_at_once.pop(name).result() if name in all_at_once else idle_and_outage(name)
    assert counted["flows"] >= 1
    for what, least in (
        ("losses", 1),
        ("timeouts", 1),
        ("idle_restarts", 0 if name in PATIENT else 1),
        ("reloads", 0 if "idle_restarts" in counted else 2),
    ):
        assert counted.get(what, least) >= least, what
