# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Every controller on this machine's own kernel: registered by bpftool alone and by the loader, and used."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from asymlab.controllers import built_in
from tests.live.cgroups import remove_cgroup, within
from tests.live.harness import (  # noqa: F401
    ASYMCC,
    CGROUP2,
    asymcc,
    kernel_has,
    needs_cgroup2,
    program,
    pytestmark,
    run,
    unique,
    values,
)
from tests.live.pairs import joined_ends, server, transfer

CONTROLLERS = built_in(ASYMCC.parent)
FITTING = {"fast": ("--set", "alpha=5")}  # by its rate more than a queue of 40 holds: recovery without end
PATIENT = {"accsa"}  # shrinks a window after a second, not an RTO
SIZE = 3_000_000
TWO_HALVES = """
import socket, sys, time
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[4].encode())
s.connect((sys.argv[1], int(sys.argv[2])))
print("connected", flush=True)
half = int(sys.argv[3]) // 2
s.sendall(b"x" * half)
time.sleep(0.6)
s.sendall(b"x" * half)
s.recv(1)
"""


@pytest.mark.parametrize("name", CONTROLLERS)
def test_registered_by_bpftool_alone(name, pair):
    if kernel_has(name):
        pytest.skip(f"{name} is registered on this machine")
    run("bpftool", "struct_ops", "register", ASYMCC.parent / f"{name}.bpf.o")
    try:
        transfer(pair, "10.9.0.2", 7201, SIZE // 10, name)
        assert values(name, "counters")["flows"] >= 1
    finally:
        run("bpftool", "struct_ops", "unregister", "name", name)
    assert not kernel_has(name)


def idle_and_outage(name: str) -> dict[str, int]:
    """What it counts, over a pause longer than the RTO, and the link down for most of a second: all bytes arrive."""
    cc = unique("t")
    group = Path(CGROUP2[0], f"asymcc-{cc}") if json.loads(asymcc("show", name, "--json"))["cgroup_programs"] else None
    halves, under = (), ()
    with joined_ends() as pair:
        try:
            if group:
                group.mkdir()
                halves, under = ("--cgroup", group), within(group)
            asymcc("load", name, "--as", cc, *halves, *FITTING.get(name, ()))
            with server(pair, "10.9.0.2", 7202, SIZE, under) as s:
                argv = (
                    "ip",
                    "netns",
                    "exec",
                    pair.client,
                    sys.executable,
                    "-c",
                    TWO_HALVES,
                    "10.9.0.2",
                    7202,
                    SIZE,
                    cc,
                )
                with program(*under, *argv) as c:
                    assert c.stdout.readline() == "connected\n", c.stderr.read()
                    time.sleep(0.3)
                    pair.sh(pair.server, "ip", "link", "set", pair.dev_s, "down")
                    time.sleep(0.8)
                    pair.sh(pair.server, "ip", "link", "set", pair.dev_s, "up")
                    assert c.wait(timeout=60) == 0, c.stderr.read()
                assert s.communicate(timeout=30)[0].split() == [str(SIZE), "0"]
            return {c["name"]: c["value"] for c in json.loads(asymcc("show", cc, "--json"))["counters"]}
        finally:
            run(ASYMCC, "unload", "--force", cc, check=False)
            if group:
                remove_cgroup(group)


@pytest.fixture(scope="module")
def all_at_once():
    """Of each controller. They mostly wait, each between namespaces of its own."""
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
