# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""For how long a flow may be without progress."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...guest import job as planned
from ...plan.opportunities import BYTES
from ...plan.scenario import Direction, Flow
from .view import View

ENDLESS = 100  # tries whose timeouts end after any run
SACK, TIMESTAMPS = 5, 8  # kinds of options
ACK_BYTES = 14 + 40 + 60  # with Ethernet's header, and all the options that there may be


def round_trip(v: View, flow: Flow, since: float = 0, until: float = math.inf) -> float:
    """The longest there was then, s: each delay at its longest, a queue as long as any was, a delayed ACK's 0.2 s."""
    total = 0.2 + 2 * (v.scenario.access_delay(flow) + v.scenario.coalesce) / 1e6
    for place in v.both_ways(flow):
        directions = [d for _, d in v.phases[place]]
        rows = v.links(place)
        then = rows["qlen_max"][(rows["t"] > since - v.run.job.bin_ms / 1e3) & (rows["t"] < until)]
        packet = v.packet(place) if v.loaded(place) else ACK_BYTES
        queued = leaves(v, place, int(then.max(initial=0)) + 3, packet)
        total += max(d.delay + d.jitter for d in directions) / 1e6 + queued
    return total


def leaves(v: View, place: tuple[int, str], packets: int, size: int) -> float:
    """The longest that so many packets take to leave a queue, s."""
    directions = [d for _, d in v.phases[place]]
    if trace := directions[0].trace:
        return trace.longest_ms(packets * math.ceil(size / BYTES)) / 1e3
    queue = v.queue(place)
    taken = queue.rate_bps / queue.passes_bps(size)  # of a link with headers or cells of its own
    return packets * size * 8 * taken / min(d.rate for d in directions)


def loses(d: Direction) -> float:
    """The share of tries that are lost, one of which was; in bursts, those after a loss."""
    return max(d.loss, 1 - 1 / d.loss_burst) if d.loss and d.loss_burst else d.loss


def tries_lost(v: View, flow: Flow, since: float, until: float) -> int:
    """How many tries in a row may have been lost in a silence.

    A queue's drops: the next try comes a timeout later, and each timeout is twice the one before. The first is at least
    0.2 s and the shortest round trip. So many drops that far apart there were, whosever; of a policer's nobody knows
    when. Random loss, p both ways: k tries with p^k < 10^-4. A shorter MTU: one, until ICMP tells.
    """
    through, base = 1.0, 2 * v.scenario.access_delay(flow) / 1e6
    drops: set[float] = set()
    for place in v.both_ways(flow):
        through *= 1 - max(loses(d) for _, d in v.phases[place])
        base += min(d.delay for _, d in v.phases[place]) / 1e6
        drops |= {float(t) for t in v.drops(place) if since - 0.2 <= t < until}
    if drops and loses_sack(v, flow):
        return ENDLESS
    lost, due, step = 0, -math.inf, max(0.2, base)
    for t in sorted(drops):
        if t >= due:
            lost, due, step = lost + 1, t + step, 2 * step
    if through < 1:
        lost += math.ceil(math.log(1e-4) / math.log(1 - through))
    return lost + any(c.mtu for c in v.scenario.changes)


def last_measured(v: View, job: planned.Flow, until: float) -> float:
    """When the flow last had a sample of its RTT, which then changes the smoothed one, s.

    Each timeout since then has doubled the next (RFC 6298, 5.5 to 5.7). Without timestamps what was sent again gives no
    sample even if it arrives (Karn).
    """
    acks = v.run.acks[v.run.acks["flow"] == job.id]
    changed = np.diff(acks["srtt_us"], prepend=0) != 0
    return float(acks["t"][(acks["t"] <= until) & changed].max(initial=job.start_s))


def strips(v: View, places: list[tuple[int, str]], kind: int, syn: bool) -> bool:
    """Whether a middlebox there takes an option of that kind away; `syn` False: and leaves it to the handshake."""
    found = [d.strip for place in places for _, d in v.phases[place]]
    return any(s and kind in s.kinds and (syn or not s.syn) for s in found)


def echoes_syn(v: View, flow: Flow) -> bool:
    """Whether data lose the timestamps that the handshake had.

    Then each ACK echoes that of the SYN, and the kernel takes the connection's age for the RTT of what was sent again.
    """
    return strips(v, [place for place in v.both_ways(flow) if place[1] == flow.direction], TIMESTAMPS, syn=False)


def loses_sack(v: View, flow: Flow) -> bool:
    """Whether ACKs lose what they tell of gaps.

    Then F-RTO undoes each timeout (docs/findings.md, 5), and each repairs one gap: as many may follow as were lost.
    """
    return strips(v, [place for place in v.both_ways(flow) if place[1] != flow.direction], SACK, syn=True)


def silence_limit(v: View, job: planned.Flow, flow: Flow, measured: float, until: float) -> float:
    """For how long a flow may have been without progress until then, s, with an RTT measured last at `measured`.

    A timeout T is at most three round trips R (srtt + 4 rttvar, of a first sample), and at least the SYN's 1 s. The
    silence began with a loss, and n tries in a row after it may be lost (tries_lost): T + 2T + ..., and the round trip
    of the one that arrives, is T (2^(n+1) - 1) + R.
    """
    longest = until - job.start_s if echoes_syn(v, flow) else round_trip(v, flow)
    tries = min(tries_lost(v, flow, measured, until), ENDLESS)
    return max(1, 3 * longest) * (2.0 ** (tries + 1) - 1) + longest


def all_arrived(v: View, job: planned.Flow) -> float | None:
    """When the last byte of a flow with a size arrived, s; None if it did not, or there is no last one."""
    if job.size_bytes != v.run.record["agent"]["verified"][str(job.id)]["bytes"]:
        return None
    rows = v.run.goodput[(v.run.goodput["flow"] == job.id) & (v.run.goodput["bytes"] > 0)]
    return float(rows["t"].max()) + v.run.job.bin_ms / 1e3


def active(v: View, job: planned.Flow) -> list[tuple[float, float]]:
    """When it had data to send."""
    first = (job.start_s, all_arrived(v, job) or (v.end if job.stop_s is None else job.stop_s))
    return [first] + ([(job.resume_s, v.end)] if job.resume_s is not None else [])


def silences(v: View) -> Iterator[tuple[planned.Flow, float, float, float]]:
    """One row for each of a flow's times of activity: (flow, since, until, limit) of its longest silence."""
    bin_s = v.run.job.bin_ms / 1e3
    for job, flow in v.flows():
        rows = v.run.goodput[(v.run.goodput["flow"] == job.id) & (v.run.goodput["bytes"] > 0)]
        for start, end in active(v, job):
            moments = [start, *(float(t) + bin_s for t in sorted(rows["t"]) if start <= t and t + bin_s < end), end]
            since, until = max(zip(moments, moments[1:]), key=lambda gap: gap[1] - gap[0])
            yield job, since, until, silence_limit(v, job, flow, last_measured(v, job, since), until)


def close(v: View) -> Iterator[tuple[str, str]]:
    """The ACK of a FIN takes a round trip at most where nothing can be lost. It may be lost while the last data, which
    arrive before it would, wait in a queue."""
    for job, flow in v.flows():
        if (since := all_arrived(v, job)) is None:
            continue
        closed = v.run.record["agent"]["closed"].get(str(job.id))
        until = sum(closed) / 1e9 if closed else v.end
        lost = tries_lost(v, flow, since - round_trip(v, flow), until)
        measured = last_measured(v, job, since)
        limit = silence_limit(v, job, flow, measured, until) if lost else round_trip(v, flow, since, until)
        if until - since > limit:
            yield (
                job.controller,
                f"flow {job.id}: all data arrived at {since:.2f} s, and the FIN's ACK did not until {until:.2f} s, "
                f"at most {limit:.2f} s may be",
            )


def silence(v: View) -> Iterator[tuple[str, str]]:
    for job, since, until, limit in silences(v):
        if until - since > limit:
            yield (
                job.controller,
                f"flow {job.id}: nothing arrived from {since:.1f} to {until:.1f} s, at most {limit:.1f} s may be",
            )
