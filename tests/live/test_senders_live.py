# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Every controller on this machine's own kernel: registered by bpftool alone and by the loader, and used."""

from __future__ import annotations

import json
import sys
import time

import pytest

from asymlab.controllers import built_in
from tests.live.harness import ASYMCC, asymcc, kernel_has, program, pytestmark, run, values  # noqa: F401
from tests.live.pairs import server, transfer

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


@pytest.mark.parametrize("name", CONTROLLERS)
def test_idle_and_outage(name, alias, pair, joined):
    """A pause longer than the RTO, and the link down for most of a second: all bytes arrive."""
    cc = alias()
    halves = ("--cgroup", joined) if json.loads(asymcc("show", name, "--json"))["cgroup_programs"] else ()
    asymcc("load", name, "--as", cc, *halves, *FITTING.get(name, ()))
    with server(pair, "10.9.0.2", 7202, SIZE) as s:
        with program(
            "ip", "netns", "exec", pair.client, sys.executable, "-c", TWO_HALVES, "10.9.0.2", 7202, SIZE, cc
        ) as c:
            assert c.stdout.readline() == "connected\n", c.stderr.read()
            time.sleep(0.3)
            pair.sh(pair.server, "ip", "link", "set", pair.dev_s, "down")
            time.sleep(0.8)
            pair.sh(pair.server, "ip", "link", "set", pair.dev_s, "up")
            assert c.wait(timeout=60) == 0, c.stderr.read()
        assert s.communicate(timeout=30)[0].split() == [str(SIZE), "0"]
    counted = {c["name"]: c["value"] for c in json.loads(asymcc("show", cc, "--json"))["counters"]}
    assert counted["flows"] >= 1
    for what, least in (
        ("losses", 1),
        ("timeouts", 1),
        ("idle_restarts", 0 if name in PATIENT else 1),
        ("reloads", 0 if "idle_restarts" in counted else 2),
    ):
        assert counted.get(what, least) >= least, what
