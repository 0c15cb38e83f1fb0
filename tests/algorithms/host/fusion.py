# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Fusion at rest and at work, for the tests of its law and of its samples."""

from . import rivals
from .rivals import ONE, own, windows  # noqa: F401
from .streams import MS

SLOW_START, INCREASE, STEADY, DECREASE = range(4)
DMIN = 4 * MS
B_MAX = 2**32 - 1


def at_rest(fusion, w, params=None, base=40 * MS, rtt=None, reno=ONE, flight=1, **keys):
    """A connection in congestion avoidance with this window, amid a round, its window filled, no data left."""
    rtt = base if rtt is None else rtt
    times = {"ca__rtt_min": base, "ca__rtt_last": rtt, "ca__rtt_q4": rtt << 4}
    rivals.at_rest(fusion, w, params, flight, **{"ca__w_q20": w, "ca__reno_q20": reno} | times | keys)


def sending(fusion, w, params=None, **keys):
    """The same with full flight and unlimited data; the next ACK but `flight` ends a round."""
    at_rest(fusion, w, params, **keys)
    rivals.go_on(fusion)


def w_of(fusion):
    return own(fusion)["w_q20"]


def phase_of(fusion, **keys):
    fusion.ack(**keys)
    return own(fusion)["phase"]


def per_second(mbit, size=1500):
    """A rate as B has it: packets/s << 8."""
    return mbit * 1_000_000 * 256 // (8 * size)
