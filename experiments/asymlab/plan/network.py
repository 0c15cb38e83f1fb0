# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A job's links and routes."""

from __future__ import annotations

from dataclasses import replace

from ..guest import job


class Network:
    """Links and routes in the order they are added: names and addresses follow from it."""

    def __init__(self, mtu: int, ip: int) -> None:
        self.mtu, self.ip = mtu, ip
        self.links: list[job.Link] = []
        self.routes: list[job.Route] = []
        self.ends: dict[tuple[str, str], job.End] = {}  # (node, neighbour): the node's end of their link

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

    def route(self, node: str, via: str, to: job.End) -> None:
        """From a node by a neighbour to where an end is."""
        network = to.addr.rsplit(":", 1)[0] + ":0/112" if self.ip == 6 else to.addr.rsplit(".", 1)[0] + ".0/30"
        self._add_route(node, via, network)

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
