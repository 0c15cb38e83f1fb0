# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""From a direction of a scenario to the shapes of its devices, and to the packets that measure them."""

from __future__ import annotations

import math
from itertools import count

from ..guest import job
from . import opportunities
from .model import Direction
from .queues import DISCIPLINES, Cake, Red

# Largest packet of a direction that carries ACKs only, so that its bucket is small: the kernel's least MSS, a header.
ACK_MTU = 100
ICMP_BYTES = {4: 576, 6: 1280}  # of what tells of a smaller MTU, at most (RFC 1812, 4.3.2.3; RFC 4443, 3.2)
LATE_S = 1e-3  # of 10^6 instructions: so much later than its timer a queue may be served
TRAIN_S = 100e-6  # of 10^5 instructions: a packet of a train takes its sender less


def _tc_weight_log(min_packets: int, burst: int) -> int:
    """n of the weight 2^-n: tc asks for a burst.

    It takes the largest weight that lets a burst of so many packets pass (Floyd and Jacobson 1993, (3)).
    """
    return next(n for n in range(1, 32) if burst + 1 - min_packets <= (1 - (1 - 2**-n) ** burst) * 2**n)


def _red(red: Red, queue: int, packet: int) -> job.Red:
    """The kernel's RED counts bytes, those that tbf counts. Thresholds and limit are multiples of the usual packet."""
    wanted = red.weight_log
    burst = next(b for b in count(red.min) if _tc_weight_log(red.min, b) >= wanted)
    return job.Red(
        packet_bytes=packet,
        limit_bytes=queue * packet,
        min_bytes=red.min * packet,
        max_bytes=red.max * packet,
        probability=red.probability,
        burst=burst,
        weight_log=_tc_weight_log(red.min, burst),
        ecn=red.ecn,
    )


def bucket(rate_bps: int, packet: int, clock_factor: int) -> int:
    """Bytes: the largest packet, and as much as comes while the queue waits for its timer, at most another packet.

    Credit above the bucket is lost, and with it rate.
    """
    return packet + min(packet, math.ceil(rate_bps * LATE_S / clock_factor / 8))


def ack_packet(rate_bps: int, mtu: int, clock_factor: int, least: int) -> int:
    """The largest packet of a direction that carries ACKs only. On a fast link a train needs larger ones."""
    return min(mtu, max(least, math.ceil(rate_bps * TRAIN_S / clock_factor / 8)))


def bottleneck(direction: Direction, largest: int, usual: int, clock_factor: int) -> job.Bottleneck:
    if trace := direction.trace:
        played = job.Trace(opportunities.keep(trace.digest, trace.pack()), len(trace.ms), trace.period_ms)
        return job.Bottleneck(trace.peak_bps(), largest, largest, direction.queue, trace=played)
    red = _red(direction.red, direction.queue, usual) if direction.red else None
    burst = bucket(direction.rate, largest, clock_factor)
    cake = _cake(direction.cake) if direction.cake else None
    return job.Bottleneck(direction.rate, largest, burst, direction.queue, red, cake, _discipline(direction))


def _cake(cake: Cake) -> job.Cake:
    return job.Cake(
        ack_filter=bool(cake.ack_filter),
        aggressive=cake.ack_filter == "aggressive",
        overhead=cake.overhead,
        mpu=cake.mpu,
        framing="" if cake.framing == "plain" else cake.framing,
        isolation="" if cake.isolation == "triple-isolate" else cake.isolation,
    )


# The kernel's own, twice the MTU for each packet of the limit, has no room for one of 576 bytes, which take 1280.
MEMORY = {"memory": 2**32 - 1}


def _discipline(direction: Direction) -> job.Discipline | None:
    for kind in DISCIPLINES:
        if rule := getattr(direction, kind):
            options = {"limit": direction.queue} | (MEMORY if kind == "dualpi2" else {}) | rule.model_dump()
            return job.Discipline(kind, options, bool(options.pop("ecn", False)))
    return None


def propagation(direction: Direction, extra: int = 0, slot_us: int = 0) -> job.Propagation:
    return job.Propagation(
        direction.delay + extra,
        direction.loss,
        direction.reorder,
        direction.duplicate,
        direction.jitter,
        direction.loss_burst or 0.0,
        direction.disorder,
        slot_us,
    )


def delays(direction: Direction, seed: int) -> job.Delays | job.Unshaped:
    """`seed`: of its losses."""
    if not (trace := direction.delay_trace):
        return job.Unshaped()
    file = opportunities.keep(trace.digest, trace.pack())
    return job.Delays(file, len(trace.parts), trace.period_ms, trace.longest_us, seed)


# --- trains --------------------------------------------------------------------------------


def train(queues: list[job.Bottleneck]) -> job.Train:
    """Packets to measure the slowest of several queues by: as large as each passes, at most what each holds.

    A bucket of B bytes lets B + R t through in time t, several the least of these. So the slowest
    spaces the packets once its own bucket is empty and every smaller one has been caught up with.
    A short queue that counts bytes holds too few of the largest, but enough of its usual ones.
    """
    sizes = [min(q.packet_bytes for q in queues), *(q.red.packet_bytes for q in queues if q.red)]
    trains = [_train_of(queues, size) for size in sorted(set(sizes), reverse=True) if size <= sizes[0]]
    return next((t for t in trains if t.packets), trains[0])


def _train_of(queues: list[job.Bottleneck], size: int) -> job.Train:
    def held(q: job.Bottleneck) -> int:
        if q.red:
            return q.red.limit_bytes // size + q.burst_bytes // size - 2
        return min(
            q.queue_packets,
            q.discipline.options.get("flow_limit", q.queue_packets) if q.discipline else q.queue_packets,
        )

    rates = [(q.passes_bps(size), q.burst_bytes) for q in queues]
    rate, burst = min(rates)
    passed = max(
        burst + rate * max(0, burst - its_burst) / (its_rate - rate) if its_rate > rate else burst
        for its_rate, its_burst in rates
    )
    skip = math.ceil(passed / size) + 2
    packets = min(skip + 26, *map(held, queues))
    dropped = any(  # its average would rise so far
        packets**2 * size >> q.red.weight_log + 1 > q.red.min_bytes for q in queues if q.red
    )
    return job.Train(packets if packets >= skip + 4 and not dropped else 0, size, skip, rate)
