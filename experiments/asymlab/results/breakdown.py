# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A run by the directions of its flows, and the time that a flow of a given size took.

In sums over both directions of an unequal link a fair run looks unfair. So each direction has its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..guest.job import Flow, Job
from ..guest.programs import WithPrograms
from .metrics import jain, percentiles, reply_times
from .store import Run

FORWARD, REVERSE = "forward", "reverse"
ONE_WAY = "goodput_bps", "utilisation", "jain", "retransmits"  # of a direction: over both they tell little


@dataclass(frozen=True)
class Direction:
    """The flows of one direction, and their sums."""

    name: str  # FORWARD or REVERSE; "" if all flows go one way
    flows: list[dict]  # of the metrics
    utilisation: float  # of the link that carries their data, at the busiest hop
    ack_utilisation: float  # of the other

    @property
    def goodput_bps(self) -> float:
        return float(sum(f["goodput_bps"] for f in self.flows))

    @property
    def jain(self) -> float:
        return jain([f["goodput_bps"] for f in self.flows])

    @property
    def retransmits(self) -> int:
        return sum(f["retransmits"] for f in self.flows)

    @property
    def slowest(self) -> dict:
        """The flow whose RTTs stand for all: its median is the largest."""
        return max(self.flows, key=lambda f: (f["rtt_s"] or {}).get("p50", 0.0), default={"flow": "-", "rtt_s": {}})

    @property
    def rtt_s(self) -> dict[str, float]:
        """The slowest flow's."""
        return self.slowest["rtt_s"] or {}


def direction_of(src: str, dst: str, job: Job) -> str:
    """By the nodes that two hosts are linked to. The first hop's is the leftmost."""
    node = {end.dev: end.node for end in job.ends}
    order = [node.get(hop.forward.dev) for hop in job.watch] + [node.get(job.watch[-1].reverse.dev)]
    neighbour = {a.node: b.node for link in job.links for a, b in (link.ends, link.ends[::-1])}
    left, right = (neighbour.get(host) for host in (src, dst))
    there = left in order and right in order and order.index(left) > order.index(right)
    return REVERSE if there else FORWARD


def directions_by_flow(run: Run) -> dict[int, str]:
    """The directions of the flows, and of what its programs' connections carry, by their numbers."""
    job = run.job
    ways = {flow.id: direction_of(flow.src, flow.dst, job) for flow in job.flows}
    if isinstance(job, WithPrograms):
        node = {end.addr: end.node for end in job.ends}
        host = {name: node.get(addr, "") for name, addr in job.names.items()}
        ways |= {of["flow"]: direction_of(host[of["src"]], host[of["dst"]], job) for of in run.connections}
    return ways


def directions(run: Run) -> list[Direction]:
    """One for each direction that has flows; one if there is none."""
    m, by_flow = run.metrics, directions_by_flow(run)
    used = (m["utilisation"], m["reverse_utilisation"])
    ways = [
        (name, [f for f in m["flows"] if by_flow.get(f["flow"], FORWARD) == name], used[::step])
        for name, step in ((FORWARD, 1), (REVERSE, -1))
    ]
    rows = [(name, flows, both) for name, flows, both in ways if flows]
    if not rows or len(rows) == 1 and rows[0][0] == FORWARD:
        return [Direction("", m["flows"], *used)]
    return [Direction(name, flows, *both) for name, flows, both in rows]


@dataclass(frozen=True)
class Times:
    """The times that flows with a size, or replies, took together: those of one controller."""

    controller: str
    what: str  # "flows" or "replies"
    done: str  # how many were measured, such as "3 of 4"
    seconds: dict[str, float]  # percentiles; empty if none is done


def times(run: Run) -> list[Times]:
    """Replies are those that were asked for while the run measures; flows all of them."""
    groups: dict[tuple[str, str], list[Flow]] = {}
    for flow in run.job.flows:
        if flow.size_bytes or flow.reply_bytes:
            groups.setdefault((flow.controller, "flows" if flow.size_bytes else "replies"), []).append(flow)
    rows = []
    for (controller, what), flows in groups.items():
        if what == "flows":
            whole = {of["flow"]: of.get("done_s") for of in run.metrics["flows"]}
            took = [whole[flow.id] * 1e6 for flow in flows if whole[flow.id]]
            done = f"{len(took)} of {len(flows)}"
        else:
            replies, since = run.record["agent"]["replies"], run.job.measure_from_s
            took = [t / 1e3 for f in flows for t in reply_times(f, run.job, replies.get(str(f.id), []), since)]
            done = str(len(took))
        rows.append(Times(controller, what, done, percentiles(took)))
    return rows


@dataclass(frozen=True)
class Completion:
    """The time of a flow with a size, from its start until its last byte was acknowledged."""

    seconds: float
    goodput_bps: float  # over that time


def completion(run: Run, flow: int) -> Completion | None:
    """None: the flow has no size, or has not ended."""
    of = next((f for f in run.job.flows if f.id == flow), None)
    if of is None or of.size_bytes is None:
        return None
    seconds = next(f["done_s"] for f in run.metrics["flows"] if f["flow"] == flow)
    return Completion(seconds, of.size_bytes * 8 / seconds) if seconds else None
