# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A router with NAT, stock hosts behind it, a server before it, and a slow uplink between these two."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from tests.live.harness import ASYMCC, endpoint, program, run, saying, unique

SERVER, SERVER6, PORT = "203.0.113.2", "2001:db8:ff::2", 8080


@dataclasses.dataclass
class Home:
    """Its namespaces. The router's uplink is wan0."""

    router: str
    server: str
    hosts: list[str]

    def sh(self, ns: str, *argv, **keys):
        return run("ip", "netns", "exec", ns, *argv, **keys)

    def asymcc(self, *argv, **keys):
        """On the router; not by `ip netns exec`, which hides cgroups."""
        return run("nsenter", f"--net=/run/netns/{self.router}", ASYMCC, *argv, **keys)

    @contextlib.contextmanager
    def serving(self, address: str = SERVER):
        with saying("ready", *endpoint("serve", self.server, address=address, port=PORT)):
            yield

    def downloads(self, n: int, address: str = SERVER, each: int = 1) -> list[tuple[int, float]]:
        """`each` at once by every host: bytes and seconds."""
        with contextlib.ExitStack() as stack:
            running = [
                stack.enter_context(program(*endpoint("fetch", host, address=address, port=PORT, n=n)))
                for host in self.hosts
                for _ in range(each)
            ]
            results = [p.communicate(timeout=120)[0].split() for p in running]
        return [(int(got), float(seconds)) for got, seconds in results]


@contextlib.contextmanager
def home(hosts: int = 3, down: str = "20mbit", up: str = "100kbit") -> Iterator[Home]:
    """The queues make the RTT."""
    h = Home(unique("router"), unique("server"), [unique("host") for _ in range(hosts)])
    namespaces = []
    try:
        for ns in (h.router, h.server, *h.hosts):
            run("ip", "netns", "add", ns)
            namespaces.append(ns)
            run("ip", "-n", ns, "link", "set", "lo", "up")
        build(h, down, up)
        yield h
    finally:
        for ns in namespaces:
            run("ip", "netns", "del", ns)


def build(h: Home, down: str, up: str) -> None:
    def ip(ns: str, line: str) -> None:
        run("ip", "-n", ns, *line.split())

    ip(h.router, f"link add wan0 type veth peer name s0 netns {h.server}")
    ip(h.router, "link set wan0 up")
    ip(h.server, "link set s0 up")
    ip(h.router, "addr add 203.0.113.1/24 dev wan0")
    ip(h.router, "addr add 2001:db8:ff::1/64 dev wan0 nodad")
    ip(h.server, f"addr add {SERVER}/24 dev s0")
    ip(h.server, f"addr add {SERVER6}/64 dev s0 nodad")
    # Routes take any controller. A namespace's default must be one that this machine allows everybody.
    ip(h.server, "route change 203.0.113.0/24 dev s0 congctl cubic")
    ip(h.server, "route add 2001:db8:1::/48 via 2001:db8:ff::1 congctl cubic")
    for n, host in enumerate(h.hosts):
        ip(h.router, f"link add lan{n} type veth peer name h0 netns {host}")
        ip(h.router, f"addr add 10.0.{n}.1/24 dev lan{n}")
        ip(h.router, f"addr add 2001:db8:1:{n}::1/64 dev lan{n} nodad")
        ip(h.router, f"link set lan{n} up")
        ip(host, f"addr add 10.0.{n}.2/24 dev h0")
        ip(host, f"addr add 2001:db8:1:{n}::2/64 dev h0 nodad")
        ip(host, "link set h0 up")
        ip(host, f"route add default via 10.0.{n}.1")
        ip(host, f"route add default via 2001:db8:1:{n}::1")
    for key in ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"):
        h.sh(h.router, "sysctl", "-q", "-w", key)
    for rule in ("table ip nat", "chain ip nat post { type nat hook postrouting priority 100 ; }"):
        h.sh(h.router, "nft", "add", *rule.split())
    h.sh(h.router, "nft", "add", "rule", "ip", "nat", "post", "oifname", "wan0", "masquerade")
    h.sh(h.router, *f"tc qdisc add dev wan0 root tbf rate {up} burst 3000 limit 5000".split())
    h.sh(h.server, *f"tc qdisc add dev s0 root tbf rate {down} burst 3000 limit 60000".split())
