# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A job's links and routes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from ..guest import job
from . import tunnels


class Network:
    """Links and routes in the order they are added: names and addresses follow from it."""

    def __init__(self, mtu: int, ip: int) -> None:
        self.mtu, self.ip = mtu, ip
        self.links: list[job.Link] = []
        self.routes: list[job.Route] = []
        self.ends: dict[tuple[str, str], job.End] = {}  # (node, neighbour): the node's end of their link
        self.tunnels: list[job.Tunnel] = []

    def link(
        self, a: str, b: str, ab: job.Shape, ba: job.Shape, offloads: bool = False, segment: int | None = None
    ) -> None:
        """`offloads` and `segment`: of a's end."""
        k = len(self.links) + 1  # at most 144: 8 hops of three links, 60 entries of two hosts
        prefix = f"fd77::{k:x}:" if self.ip == 6 else f"10.77.{k}."
        self.ends[a, b], self.ends[b, a] = (
            job.End(n, f"{n}-{m}", f"{prefix}{i}", f"02:00:00:00:{k:02x}:{i:02x}", shape, *own)
            for i, n, m, shape, own in ((1, a, b, ab, (offloads, segment or 0)), (2, b, a, ba, ()))
        )
        self.links.append(job.Link(self.ends[a, b], self.ends[b, a], self.mtu))

    def tunnel(self, kind: tunnels.Kind, trunk: list[str]) -> None:
        """From the first of these nodes to the last; those between know its ends and no host."""
        ends = self.ends[trunk[0], trunk[1]], self.ends[trunk[-1], trunk[-2]]
        for a, b in pairwise(trunk):
            if b != trunk[-1]:
                self.route(a, b, ends[1])
            if a != trunk[0]:
                self.route(b, a, ends[0])
        mtu = self.mtu - tunnels.adds(kind)
        self.tunnels = [
            job.Tunnel(at.node, f"{at.node}-tunnel", kind, mtu, f"10.78.0.{i + 1}", at.addr, to.addr, i)
            for i, (at, to) in enumerate((ends, ends[::-1]))
        ]

    def route(self, node: str, via: str, to: job.End) -> None:
        """From a node by a neighbour to where an end is; through the tunnel, if there is one."""
        network = to.addr.rsplit(":", 1)[0] + ":0/112" if self.ip == 6 else to.addr.rsplit(".", 1)[0] + ".0/30"
        if not self.tunnels:
            return self._add_route(node, via, network)
        for at, far in (self.tunnels, self.tunnels[::-1]):
            if at.node == node:
                self.routes.append(job.Route(node, network, far.addr, at.dev, ""))

    def second(self, end: job.End) -> str:
        """Another address of a host, with the routes to it, which are those to its end."""
        own, addr = end.addr.rsplit(".", 1)[0] + ".0/30", end.addr.replace("10.77.", "10.79.")
        network = f"{addr}/32"
        self.routes += [replace(route, dst=network) for route in self.routes if route.dst == own]
        self._add_route(end.dev.removeprefix(f"{end.node}-"), end.node, network)
        return addr

    def aside(self, end: job.End, to: job.End) -> None:
        """A host's route by another link of its own to where an end is, with the attributes of its way out."""
        attrs = next(r.attrs for r in self.routes if (r.node, r.dst) == (end.node, "default"))
        switch = end.dev.removeprefix(f"{end.node}-")
        self._add_route(end.node, switch, to.addr.rsplit(".", 1)[0] + ".0/30", attrs)

    def way_out(self, end: job.End, attrs: list[str]) -> None:
        """A host's route to everywhere."""
        self._add_route(end.node, end.dev.removeprefix(f"{end.node}-"), "default", " ".join(attrs))

    def amend_way_out(self, end: job.End, attrs: list[str]) -> None:
        """More attributes for that route."""
        at = next(i for i, r in enumerate(self.routes) if (r.node, r.dst) == (end.node, "default"))
        had = self.routes[at]
        self.routes[at] = replace(had, attrs=" ".join(dict.fromkeys([*filter(None, [had.attrs]), *attrs])))

    def _add_route(self, node: str, via: str, dst: str, attrs: str = "") -> None:
        self.routes.append(job.Route(node, dst, self.ends[via, node].addr, self.ends[node, via].dev, attrs))
