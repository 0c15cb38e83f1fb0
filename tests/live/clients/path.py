# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Client, router and server in network namespaces: much toward the client, little toward the server, and delay.

    client --veth-- router --wire.py-- server

The queues are the router's; those of the ends have room for all.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

CLIENT, SERVER = "10.9.1.1", "10.9.2.2"
NET, GATEWAY = "10.9.1.0/24", "10.9.2.1"  # the client's, as the server reaches it
serial = itertools.count()


@dataclasses.dataclass(frozen=True)
class Link:
    """Forward leads to the client."""

    forward: int = 20_000_000  # bit/s
    reverse: int = 250_000
    forward_queue: int = 100 * 1514  # bytes
    reverse_queue: int = 20 * 1500
    delay: float = 0.010  # s, each way


@dataclasses.dataclass
class Path3:
    client: str
    router: str
    server: str

    @staticmethod
    def inside(ns: str, *argv) -> list[str]:
        return ["ip", "netns", "exec", ns, *map(str, argv)]

    def sh(self, ns: str, *argv, check: bool = True) -> str:
        p = subprocess.Popen(
            self.inside(ns, *argv), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            out, err = p.communicate(timeout=120)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(p.pid, signal.SIGKILL)  # what it may have started, too
        assert not check or p.returncode == 0, f"{argv}: {p.returncode}\n{out}{err}"
        return out


@contextlib.contextmanager
def running(*argv, ready: str = "", **kw):
    """A program that runs till the end of the block; with `ready`, from the line on that has this word."""
    p = subprocess.Popen(
        [str(a) for a in argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        **kw,
    )
    try:
        lines = []
        while ready and ready not in "".join(lines[-1:]):
            lines.append(p.stdout.readline())
            assert lines[-1], f"{argv} ended: {''.join(lines)}"
        yield p
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGTERM)
        try:
            p.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            p.communicate()


@contextlib.contextmanager
def asymmetric(link: Link = Link()):
    tag = f"{os.getpid()}_{next(serial)}"
    p = Path3(*(f"tx{what}{tag}" for what in "crs"))
    with contextlib.ExitStack() as end:
        for ns in (p.client, p.router, p.server):
            end.callback(subprocess.run, ["ip", "netns", "del", ns], capture_output=True)
            subprocess.run(["ip", "netns", "add", ns], check=True)
            p.sh(ns, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1", "net.ipv4.ip_forward=1")
            p.sh(ns, "ip", "link", "set", "lo", "up")
        p.sh(p.router, "ip", "link", "add", "west", "type", "veth", "peer", "name", "eth0", "netns", p.client)
        wire = Path(__file__).with_name("wire.py")
        end.enter_context(running(sys.executable, wire, link.delay, p.router, "east", p.server, "eth0", ready="ready"))
        for ns, dev, address in (
            (p.client, "eth0", CLIENT),
            (p.router, "west", "10.9.1.2"),
            (p.router, "east", GATEWAY),
            (p.server, "eth0", SERVER),
        ):
            p.sh(ns, "ip", "addr", "add", f"{address}/24", "dev", dev)
            p.sh(ns, "ip", "link", "set", dev, "up")
        for ns, dev in ((p.client, "eth0"), (p.router, "west")):
            p.sh(ns, "ethtool", "-K", dev, "tso", "off", "gso", "off", "gro", "off")
        p.sh(p.client, "ip", "route", "add", "10.9.2.0/24", "via", "10.9.1.2", "congctl", "cubic")
        p.sh(p.server, "ip", "route", "add", NET, "via", GATEWAY)
        for dev, rate, limit in (
            ("west", link.forward, link.forward_queue),
            ("east", link.reverse, link.reverse_queue),
        ):
            tbf = ("tbf", "rate", rate, "burst", "3000", "limit", limit)
            p.sh(p.router, "tc", "qdisc", "add", "dev", dev, "root", *tbf)
        yield p
