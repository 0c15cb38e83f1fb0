# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Taichung at rest and at work, for the tests of its law and of its samples."""

from hypothesis import strategies as st

from .streams import MS, W_MAX

ONE = 1 << 20  # a packet, in the units of the window
GAP_MAX = 4 * 10**9
NO_SSTHRESH = 0x7FFFFFFF
FAR = 2**30  # a sequence number that no round of these tests reaches

windows = st.integers(ONE, W_MAX * ONE) | st.integers(ONE, 40 * ONE)
gaps = st.integers(1, GAP_MAX) | st.integers(1, 10**6)


def at_rest(taichung, w, params=None, inter=0, least=None, base=40 * MS, rtt=None, flight=1, **keys):
    """A connection with this window and InterACK (ns), amid a round, its window filled, no data left."""
    taichung.start(params, tx_start=0, **{k: keys.pop(k) for k in list(keys) if k in ("mss_cache", "snd_cwnd_clamp")})
    state = {
        "app": 0, "now": 10**6, "snd_ssthresh": NO_SSTHRESH, "snd_cwnd": w >> 20, "ca__cwnd": w >> 20, "ca__w_q20": w,
        "ca__rtt_min": base, "ca__rtt_last": base if rtt is None else rtt, "ca__inter_ack_ns": inter,
        "ca__inter_min_ns": inter if least is None else least, "ca__fresh": inter > 0, "ca__mark": 0,
        "ca__round_end": FAR, "ca__ack_stamp": 10**6, "packets_out": flight, "snd_nxt": 1 + flight * 960,
    }  # fmt: skip
    taichung.poke(**state | keys)


def sending(taichung, w, params=None, **keys):
    """The same with full flight and unlimited data; the next ACK but `flight` begins a round."""
    at_rest(taichung, w, params, **keys)
    taichung.poke(packets_out=0, snd_nxt=1)
    taichung.send(app=2**32 - 1)
    taichung.poke(ca__round_end=taichung.state()["tp"]["snd_nxt"])


def own(taichung):
    return taichung.state()["ca"]


def counted(taichung, *names):
    counters = taichung.state()["counters"]
    return tuple(counters[name] for name in names)


def sample(taichung, us, n=1, **keys):
    """`n` packets acknowledged `us` after the last sample. Counts of those accepted and rejected."""
    now = taichung.state()["tp"]["tcp_mstamp"]
    delivered = taichung.state()["tp"]["delivered"]
    before = counted(taichung, "samples", "rejected")
    taichung.ack(n=n, now=now + us, ca__mark=now, ca__mark_delivered=delivered, **keys)
    return tuple(b - a for a, b in zip(before, counted(taichung, "samples", "rejected")))
