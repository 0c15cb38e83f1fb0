# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Invariants of each run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ... import LabError
from ...guest.protocol import COMPARE_BYTES, Fault
from ...plan import topology
from ...plan.opportunities import BYTES
from ...plan.queues import RULES
from ...plan.scenario import Case, Direction
from ...results import metrics, store
from . import stack
from .silence import close, silence
from .view import View

UNPACED = (1 << 64) - 1
INITIAL_WINDOW = 10  # RFC 6928
LOG = re.compile(r"WARNING|BUG|Oops|refcount|struct_ops|use-after|deadlock|hung|stall|leak", re.I)


@dataclass(frozen=True)
class Broken:
    invariant: str
    controller: str  # whose flow, or that of the first
    words: str


def content(v: View) -> Iterator[tuple[str, str]]:
    for flow, _ in v.flows():
        told = v.run.record["agent"]["verified"][str(flow.id)]
        acks = v.acks(flow)
        if told["wrong_at"] is not None:
            yield flow.controller, f"flow {flow.id}: byte {told['wrong_at']} is not the one that was sent"
        acked, waits = (
            int(acks["acked"].astype("u8").sum()),
            COMPARE_BYTES + 2 * int(acks["cwnd"].max(initial=0)) * v.scenario.path.mtu,
        )
        if acked > told["bytes"] + waits:  # what its reader has not been woken for, and what came since
            yield flow.controller, f"flow {flow.id}: {acked} bytes are acknowledged, {told['bytes']} were read"


def window(v: View) -> Iterator[tuple[str, str]]:
    """No window grows by more than was delivered, but Hybla's and Westwood's by law, and Formosa's, which has a slack.

    On a path without delay the stack paces ten packets in the half of some us: large ones the faster."""
    fastest = 10**10 * max(v.scenario.path.mtu / 1500, 1)
    others = {"hybla", "formosa", *stack.WESTWOOD}
    told = {c.name for c in v.run.job.controllers if "init_cwnd" in c.set}  # by what its first window is
    for flow, _ in v.flows():
        acks = v.acks(flow)
        wrong = acks[(acks["cwnd"] < 1) | (acks["cwnd"] > 1 << 20)]
        if len(wrong):
            yield flow.controller, f"flow {flow.id}: cwnd {wrong['cwnd'][0]} at {wrong['t'][0]:.3f} s"
        first = acks["cwnd"][:1].astype("u8").clip(min=INITIAL_WINDOW)
        wrong = acks[acks["cwnd"] > first + acks["delivered"]]
        if len(wrong) and v.law(flow) not in others and flow.controller not in told:
            grown = f"cwnd {wrong['cwnd'][0]} with {wrong['delivered'][0]} delivered"
            yield flow.controller, f"flow {flow.id}: {grown} at {wrong['t'][0]:.3f} s"
        acks = acks[1:]  # the first may find the rate from before any RTT: the stack divided by nothing
        wrong = acks[
            (acks["srtt_us"] > 0) & ((acks["pacing"] == 0) | ((acks["pacing"] > fastest) & (acks["pacing"] < UNPACED)))
        ]
        if len(wrong):
            yield (flow.controller, f"flow {flow.id}: pacing at {wrong['pacing'][0]} bytes/s at {wrong['t'][0]:.3f} s")


def allowed(phases: list[tuple[float, Direction]], start: float, end: float) -> float:
    """Bits of a rate that changes, or of a trace: those of the ms at both edges, too."""
    if trace := phases[0][1].trace:
        return 8 * BYTES * (trace.until(1e3 * end + 1) - trace.until(1e3 * start - 2))
    turns = [max(t, start) for t, _ in phases[1:]] + [end]
    return sum(max(min(until, end) - max(since, start), 0) * d.rate for (since, d), until in zip(phases, turns))


def link(v: View) -> Iterator[tuple[str, str]]:
    """In each second; a bin tells of packets at its edge, a bucket holds two packets."""
    for k in range(1, len(v.run.job.watch) + 1):
        for d in topology.DIRECTIONS:
            for second in range(int(v.end)):
                rows = metrics.link_window(v.run.links, v.watched((k, d)).dev, second, second + 1)
                bits = 8 * float((rows["bytes"] - metrics.ETHERNET * rows["packets"]).sum())
                most = 1.002 * allowed(v.phases[k, d], second, second + 1) + 8 * 4 * v.packet((k, d))
                if bits > most:
                    yield (
                        v.scenario.flows[0].controller,
                        f"hop {k} {d}: {bits:.0f} bits in second {second}, {most:.0f} may pass",
                    )
                    break


def rtt(v: View) -> Iterator[tuple[str, str]]:
    """Timestamps count in ms: a sample from them may be one short."""
    for job, flow in v.flows():
        acks, base = v.acks(job), v.base_us(flow)
        acks = acks[acks["rtt_us"] > 0]
        short = acks[acks["rtt_us"].astype("i8") < base - 1000]
        if len(short):
            yield (
                job.controller,
                f"flow {job.id}: RTT {short['rtt_us'][0]} us at {short['t'][0]:.3f} s, the path has {base}",
            )


def clean(v: View) -> bool:
    """One flow from start to end, nothing random, no changes, default parameters and options: laws' own ground."""
    s = v.scenario
    plain = all(
        not (d.loss or d.reorder or d.duplicate or d.jitter or d.strip or d.rewrite or d.policer or d.trace)
        and not any(getattr(d, rule) for rule in RULES)
        for hop in s.path.chain
        for d in (hop.forward, hop.reverse)
    )
    return (
        plain
        and len(s.flows) == 1
        and s.flows[0].count == 1
        and s.flows[0].stop is None
        and s.flows[0].size is None
        and not s.flows[0].own_sysctls
        and not s.background
        and not s.changes
        and not s.controllers
        and s.thin in (None, {"thins": 1})
        and not s.coalesce
        and s.profile not in ("newreno", "impatient", "classic")
    )


def floor_of(v: View) -> tuple[float, str] | None:
    """Share of the slowest hop that a flow alone should have in the second half of a run, and why.

    None where nothing is promised: the path must be clean, its queue at least half of what the path holds (and 8
    packets), the way back fast enough for an ACK a packet, and there must be time: an additive increase needs a round
    trip a packet to fill path and queue. Then a law that halves (or takes less) at a loss keeps 3/4 of the link at
    worst: (1 + 1/2) BDP / 2. Two thirds of that are asked for, since recovery from the overshoot of slow start is the
    stack's and takes its time.
    """
    if not clean(v):
        return None
    flow = v.scenario.flows[0]
    back = "reverse" if flow.direction == "forward" else "forward"
    hops = [(v.phases[k, flow.direction][0][1], v.phases[k, back][0][1]) for k in v.crossed(flow)]
    slowest = min((there for there, _ in hops), key=lambda d: d.rate)
    bits = 8 * v.scenario.path.mtu
    base = sum(there.delay + here.delay for there, here in hops) / 1e6 + 2 * flow.extra_delay / 1e6
    holds = slowest.rate * base / bits
    ack_rate = min(here.rate / (8 * topology.header_bytes(v.scenario)) for _, here in hops)
    if min(there.queue for there, _ in hops) < max(holds / 2, 8) or ack_rate < 1.2 * slowest.rate / bits:
        return None
    full = base + slowest.queue * bits / slowest.rate
    if (holds + slowest.queue) * full > v.end / 2 - flow.start / 1e6:
        return None
    return 0.5, "two thirds of the 3/4 that halving leaves"


def floor(v: View) -> Iterator[tuple[str, str]]:
    if not (asked := floor_of(v)):
        return
    least, why = asked
    flow = v.scenario.flows[0]
    slowest = min(v.phases[k, flow.direction][0][1].rate for k in v.crossed(flow))
    rows = v.run.goodput[(v.run.goodput["flow"] == 0) & (v.run.goodput["t"] >= v.end / 2)]
    share = float(rows["bytes"].sum()) * 8 / (v.end / 2) / (slowest * v.run.job.payload_share)
    if share < least:
        yield flow.controller, f"{share:.2f} of the link in the second half, {least} is the least ({why})"


def uplink(v: View) -> Iterator[tuple[str, str]]:
    """It is held up by no more than two ticks of 40 ms."""
    if not (spec := v.scenario.uplink) or spec.law != "asymcc":
        return
    ticks, name = v.run.uplink, v.scenario.flows[0].controller
    least, most = spec.least or 1e5, spec.most or 1e10
    wrong = ticks[~((ticks["rate"] >= least) & (ticks["rate"] <= most) & (ticks["queue"] >= 0))]
    if len(wrong):
        yield name, f"uplink: {wrong['rate'][0]:.0f} bit/s, from {least:.0f} to {most:.0f} may be; {wrong[0]}"
    if len(ticks) < 25 * v.end - 5 or np.diff(ticks["t"]).max() > 0.12:
        yield name, f"uplink: {len(ticks)} ticks in {v.end:.0f} s, the longest {np.diff(ticks['t']).max():.2f} s"


def left(v: View) -> Iterator[tuple[str, str]]:
    if rest := v.run.record["agent"]["left"]:
        yield v.scenario.flows[0].controller, "still in the kernel: " + ", ".join(rest)


def log(v: View) -> Iterator[tuple[str, str]]:
    for line in v.run.record["agent"]["kernel_log"]:
        if LOG.search(line):
            yield v.scenario.flows[0].controller, line


INVARIANTS: dict[str, Callable[[View], Iterator[tuple[str, str]]]] = {
    f.__name__: f for f in (content, silence, close, window, link, rtt, floor, uplink, left, log, *stack.RULES)
}
# The invariant that a run without results broke.
BROKEN: dict[str, str] = {
    Fault.FLOW: "broken",
    Fault.COMMAND: "command",
    Fault.SET: "command",
    Fault.AGENT: "machine",
    Fault.MACHINE: "machine",
}


def judge(case: Case, result: store.Run | LabError) -> list[Broken]:
    """The invariants that it broke. A run that its self-check calls invalid is not judged."""
    first = case.scenario.flows[0].controller
    if isinstance(result, LabError):
        return [Broken(BROKEN[result.kind], first, str(result))] if result.kind in BROKEN else []
    if not result.valid:
        return []
    v = View(case, result)
    return [Broken(name, controller, words) for name, holds in INVARIANTS.items() for controller, words in holds(v)]
