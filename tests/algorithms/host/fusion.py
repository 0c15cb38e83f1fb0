# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Fusion at rest and at work, for the tests of its law and of its samples."""

from hypothesis import strategies as st

from .streams import MS, W_MAX

ONE = 1 << 20  # a packet, in the units of the windows
SLOW_START, INCREASE, STEADY, DECREASE = range(4)
DMIN = 4 * MS
B_MAX = 2**32 - 1

windows = st.integers(2 * ONE, W_MAX * ONE) | st.integers(2 * ONE, 40 * ONE)


def at_rest(fusion, w, params=None, base=40 * MS, rtt=None, reno=ONE, flight=1, **keys):
    """A connection in congestion avoidance with this window, amid a round, its window filled, no data left."""
    fusion.start(params, tx_start=0, **{k: keys.pop(k) for k in list(keys) if k in ("mss_cache", "snd_cwnd_clamp")})
    rtt = base if rtt is None else rtt
    state = {
        "app": 0, "snd_ssthresh": 2, "snd_cwnd": w >> 20, "ca__cwnd": w >> 20, "ca__w_q20": w, "ca__reno_q20": reno,
        "ca__rtt_min": base, "ca__rtt_last": rtt, "ca__rtt_q4": rtt << 4, "ca__round_end": 2**30,
        "ca__round_stamp": 0, "ca__ack_stamp": 0, "now": 0, "packets_out": flight, "snd_nxt": 1 + flight * 960,
    }  # fmt: skip
    fusion.poke(**state | keys)


def sending(fusion, w, params=None, **keys):
    """The same with full flight and unlimited data; the next ACK but `flight` ends a round."""
    at_rest(fusion, w, params, **keys)
    fusion.poke(packets_out=0, snd_nxt=1)
    fusion.send(app=2**32 - 1)
    fusion.poke(ca__round_end=fusion.state()["tp"]["snd_nxt"])


def own(fusion):
    return fusion.state()["ca"]


def w_of(fusion):
    return own(fusion)["w_q20"]


def phase_of(fusion, **keys):
    fusion.ack(**keys)
    return own(fusion)["phase"]


def per_second(mbit, size=1500):
    """A rate as B has it: packets/s << 8."""
    return mbit * 1_000_000 * 256 // (8 * size)
