# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Traces of links that nobody measured: random, and the same from the same seed on any machine.

lte     Sprout's model of a cellular link (Winstein et al., NSDI 2013, section 3): opportunities are a Poisson process,
        whose rate walks at random, by 40 % of its mean in a second. At 0 it stays for a second on average: an outage.
radio   lte without outages: its rate stays above a quarter of its first one.
leo     A satellite's beam changes each 15 s (Mohan et al., WWW 2024): nothing passes for 40 to 160 ms, then the link
        has another rate, half to one and a half of the mean. Within the 15 s the rate is steady. beams(): with it comes
        another delay, up to 30 ms more, and for its first 200 ms packets are lost.
wifi    The medium is shared: a station gets it each 2 to 10 ms and then sends all that it may at once, an aggregate of
        at most 64 packets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Literal, get_args

import numpy as np

from . import delays, opportunities
from .delays import Delays
from .opportunities import BYTES, Opportunities

Kind = Literal["lte", "radio", "leo", "wifi"]
KINDS: tuple[str, ...] = get_args(Kind)
STEP_MS = 20  # of the random walk
RADIO_LEAST = 0.25  # of the first rate
BEAM_MS, SILENT_MS = 15_000, (40, 160)
FARTHER_US, HANDOVER_MS, HANDOVER_LOSS = 30_000, 200, 0.05
ACCESS_MS, AGGREGATE_MAX = (2, 10), 64


def of_kind(kind: str, rate_bps: int, length_ms: int, seed: int) -> Opportunities:
    """`rate_bps`: of IP packets. All rates of a trace are scaled to this mean."""
    return _made(kind, rate_bps, length_ms, seed)


@cache
def _made(kind: str, rate_bps: int, length_ms: int, seed: int) -> Opportunities:
    per_ms = rate_bps / (8e3 * BYTES)
    rng = Random(f"{kind} {seed}")
    counts = {"lte": _lte, "radio": _radio, "leo": _leo, "wifi": _wifi}[kind](rng, per_ms, length_ms)
    times = {ms: count for ms, count in counts if count}
    times.setdefault(length_ms, 1)  # the last time is the length
    ms = sorted(times)
    return opportunities.of(np.array(ms, "<u4"), np.array([times[t] for t in ms], "<u4"))


def _poisson(rng: Random, mean: float) -> int:
    """Knuth's: multiplications until the product is below e^-mean, for means of some hundreds at most."""
    count, product, end = 0, rng.random(), math.exp(-min(mean, 500.0))
    while product > end:
        count, product = count + 1, product * rng.random()
    return count


def _normal(rng: Random) -> float:
    """Twelve even draws: no function of a library, whose last bit may differ."""
    return sum(rng.random() for _ in range(12)) - 6


def _lte(rng: Random, per_ms: float, length_ms: int, least: float = 0.0) -> Iterator[tuple[int, int]]:
    """Each of 20 ms has one rate."""
    rate, step_s, rates = 1.0, STEP_MS / 1e3, []
    for _ in range(1, length_ms, STEP_MS):
        step = 0.4 * math.sqrt(step_s) * _normal(rng)
        if rate > 0:
            rate = min(max(rate + step, least), 2.0)
        elif rng.random() < step_s:  # out of an outage, once a second
            rate = abs(step)
        rates.append(rate)
    scale = per_ms * len(rates) / sum(rates)
    for ms in range(1, length_ms):
        yield ms, _poisson(rng, scale * rates[(ms - 1) // STEP_MS])


def _radio(rng: Random, per_ms: float, length_ms: int) -> Iterator[tuple[int, int]]:
    return _lte(rng, per_ms, length_ms, RADIO_LEAST)


def _leo(rng: Random, per_ms: float, length_ms: int) -> Iterator[tuple[int, int]]:
    sent, shares = [], []
    for begin in range(0, length_ms, BEAM_MS):
        sent.append(range(max(begin + rng.randint(*SILENT_MS), 1), min(begin + BEAM_MS, length_ms)))
        shares.append(0.5 + rng.random())
    scale = per_ms * length_ms / sum(share * len(beam) for share, beam in zip(shares, sent))
    for share, beam in zip(shares, sent):
        credit = 0.0
        for ms in beam:
            credit += scale * share
            yield ms, int(credit)
            credit -= int(credit)


def beams(length_ms: int, seed: int) -> Delays:
    """The delays and losses that may go with `leo`."""
    rng, parts = Random(f"leo delay {seed}"), list[tuple[int, int, int]]()
    for begin in range(0, length_ms, BEAM_MS):
        delay_us = rng.randint(0, FARTHER_US)
        parts += [(begin, delay_us, delays.lost_of(HANDOVER_LOSS)), (begin + HANDOVER_MS, delay_us, 0)]
    parts = [part for part in parts if part[0] < length_ms]
    return delays.of(*zip(*parts, (length_ms, 0, 0)))


def _wifi(rng: Random, per_ms: float, length_ms: int) -> Iterator[tuple[int, int]]:
    ms, credit = 0, 0.0
    while (wait := rng.randint(*ACCESS_MS)) and (ms := ms + wait) < length_ms:
        credit += per_ms * wait
        count = min(int(credit), AGGREGATE_MAX)
        credit = min(credit - count, AGGREGATE_MAX)
        yield ms, count
