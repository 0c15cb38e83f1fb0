# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""For how long a flow may be without progress."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...plan.scenario import Flow
from .view import View


def round_trip(v: View, flow: Flow) -> float:
    """The longest there was, s: each delay at its longest, a queue as long as any was, and a delayed ACK's 0.2 s."""
    total = 0.2 + 2 * flow.extra_delay / 1e6
    for place in v.both_ways(flow):
        directions = [d for _, d in v.phases[place]]
        queued = (
            (int(v.links(place)["qlen_max"].max(initial=0)) + 3) * v.packet(place) * 8 / min(d.rate for d in directions)
        )
        total += max(d.delay + d.jitter for d in directions) / 1e6 + queued
    return total


def tries_lost(v: View, flow: Flow, since: float, until: float) -> int:
    """How many tries in a row may have been lost in a silence.

    A queue's drops: the next try comes a timeout later, and each timeout is twice the one before. The first is at least
    0.2 s and the shortest round trip. So many drops that far apart there were, whosever. Random loss, p both ways:
    k tries with p^k < 10^-4. A shorter MTU: one, until ICMP tells.
    """
    through, base = 1.0, 2 * flow.extra_delay / 1e6
    drops: set[float] = set()
    for place in v.both_ways(flow):
        through *= 1 - max(d.loss for _, d in v.phases[place])
        base += min(d.delay for _, d in v.phases[place]) / 1e6
        drops |= {float(t) for t in v.drops(place) if since - 0.2 <= t < until}
    lost, due, step = 0, -math.inf, max(0.2, base)
    for t in sorted(drops):
        if t >= due:
            lost, due, step = lost + 1, t + step, 2 * step
    if through < 1:
        lost += math.ceil(math.log(1e-4) / math.log(1 - through))
    return lost + any(c.mtu for c in v.scenario.changes)


def silence_limit(v: View, flow: Flow, since: float, until: float) -> float:
    """For how long a flow may have been without progress then, s.

    A timeout T is at most three round trips R (srtt + 4 rttvar, of a first sample), and at least the SYN's 1 s. What
    began the silence was lost, and n tries in a row after it may be (tries_lost): T + 2T + ..., and the round trip of
    the one that arrives, is T (2^(n+1) - 1) + R.
    """
    longest = round_trip(v, flow)
    return max(1, 3 * longest) * (2.0 ** (tries_lost(v, flow, since, until) + 1) - 1) + longest


def active(v: View, job: dict) -> list[tuple[float, float]]:
    """When it had data to send."""
    first = (job["start_s"], v.end if job["stop_s"] is None else job["stop_s"])
    return [first] + ([(job["resume_s"], v.end)] if job["resume_s"] is not None else [])


def silences(v: View) -> Iterator[tuple[dict, float, float, float]]:
    """Of each flow's times of activity: (flow, since, until, limit) of its longest silence."""
    bin_s = v.run.job["bin_ms"] / 1e3
    for job, flow in v.flows():
        rows = v.run.goodput[(v.run.goodput["flow"] == job["id"]) & (v.run.goodput["bytes"] > 0)]
        for start, end in active(v, job):
            moments = [start, *(float(t) + bin_s for t in sorted(rows["t"]) if start <= t and t + bin_s < end), end]
            since, until = max(zip(moments, moments[1:]), key=lambda gap: gap[1] - gap[0])
            yield job, since, until, silence_limit(v, flow, since, until)


def silence(v: View) -> Iterator[tuple[str, str]]:
    for job, since, until, limit in silences(v):
        if until - since > limit:
            yield (
                job["controller"],
                f"flow {job['id']}: nothing arrived from {since:.1f} to {until:.1f} s, at most {limit:.1f} s may be",
            )
