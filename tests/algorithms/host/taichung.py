# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Taichung at rest and at work, for the tests of its law and of its samples."""

from hypothesis import strategies as st

from . import rivals
from .rivals import FAR, ONE, own  # noqa: F401
from .streams import MS, W_MAX

GAP_MAX = 4 * 10**9
NO_SSTHRESH = 0x7FFFFFFF

windows = st.integers(ONE, W_MAX * ONE) | st.integers(ONE, 40 * ONE)
gaps = st.integers(1, GAP_MAX) | st.integers(1, 10**6)


def at_rest(taichung, w, params=None, inter=0, least=None, base=40 * MS, rtt=None, flight=1, **keys):
    """A connection with this window and InterACK (ns), amid a round, its window filled, no data left."""
    state = {
        "now": 10**6, "ca__w_q20": w, "ca__ack_stamp": 10**6, "ca__mark": 0, "ca__fresh": inter > 0,
        "ca__rtt_min": base, "ca__rtt_last": base if rtt is None else rtt, "ca__inter_ack_ns": inter,
        "ca__inter_min_ns": inter if least is None else least,
    }  # fmt: skip
    rivals.at_rest(taichung, w, params, flight, NO_SSTHRESH, **state | keys)


def sending(taichung, w, params=None, **keys):
    """The same with full flight and unlimited data; the next ACK but `flight` begins a round."""
    at_rest(taichung, w, params, **keys)
    rivals.go_on(taichung)


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
