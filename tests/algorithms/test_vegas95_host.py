# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Vegas of 1995, its own source compiled for the host, against its law and numbers by hand."""

import pytest

from tests.algorithms.host.rivals import ONE, at_rest, count, own, sending, tp
from tests.algorithms.host.streams import MS, many_rtts, one_rtt

HOLD, DOUBLE, UP = range(3)


def decides(vegas95, w, rtt, params=None, base=40 * MS, phase=HOLD, ssthresh=2, n=1):
    """One ACK after a round trip with this mean RTT: what follows?"""
    at_rest(
        vegas95,
        w,
        params,
        flight=n,
        ssthresh=ssthresh,
        ca__w_q20=w,
        ca__over=1,
        ca__rtt_mean=rtt,
        ca__rtt_min=base,
        ca__phase=phase,
    )
    vegas95.ack(n=n)
    return own(vegas95)


def test_vegas95_doubles_in_every_other_round_trip(vegas95):
    vegas95.start({"init_cwnd": 2}, now=0)
    assert many_rtts(vegas95, 9) == [2, 4, 4, 8, 8, 16, 16, 32, 32]
    vegas95.start(now=0)
    assert many_rtts(vegas95, 7) == [1, 2, 2, 4, 4, 8, 8]


@pytest.mark.parametrize("stretch", [1, 2, 3])
def test_vegas95_knows_no_delayed_acks(vegas95, stretch):
    vegas95.start({"init_cwnd": 12}, now=0)
    assert many_rtts(vegas95, 5, stretch=stretch) == [12, 24, 24, 48, 48]


@pytest.mark.parametrize("rtt, w, over", [(42_666, 16, False), (42_667, 14, True), (80_000, 14, True)])
def test_vegas95_leaves_slow_start_beyond_gamma(vegas95, rtt, w, over):
    """16 packets, RTTmin 40 ms: one of them is in the queue at 42.667 ms; the eighth is 2."""
    ca = decides(vegas95, 16 * ONE, rtt, ssthresh=2**31 - 1, n=16)
    assert count(vegas95, "exits") == over
    assert ca["phase"] == (HOLD if over else DOUBLE)
    assert ca["w_q20"] == (w if over else 32) * ONE
    assert (tp(vegas95)["snd_ssthresh"] == 2) == over


@pytest.mark.parametrize("rtt, phase, w", [
    (40_000, UP, 20 + 1 / 20), (42_105, UP, 20 + 1 / 20), (42_106, HOLD, 20),
    (47_058, HOLD, 20), (47_059, HOLD, 19), (90_000, HOLD, 19),
])  # fmt: skip
def test_vegas95_keeps_one_to_three_packets_in_the_queue(vegas95, rtt, phase, w):
    """20 packets, RTTmin 40 ms: 1 of 20 at 42.1053 ms, 3 of 20 at 47.0588."""
    ca = decides(vegas95, 20 * ONE, rtt)
    assert ca["phase"] == phase
    assert ca["w_q20"] / ONE == pytest.approx(w, abs=1e-5)
    counted = [count(vegas95, name) for name in ("rounds", "increases", "decreases")]
    assert counted == [1, phase == UP, w == 19]


@pytest.mark.parametrize("stretch", [1, 2, 7, 50, 100])
def test_vegas95_grows_by_one_packet_a_round_trip(vegas95, stretch):
    sending(vegas95, 100 * ONE, ca__w_q20=100 * ONE, ca__phase=UP, ca__rtt_min=40 * MS)
    one_rtt(vegas95, 0, stretch=stretch)
    assert own(vegas95)["w_q20"] / ONE == pytest.approx(101, abs=0.01)
    trace = many_rtts(vegas95, 6, start=40 * MS, stretch=stretch)
    assert [b - a for a, b in zip(trace, trace[1:])] == [1] * 5


def test_vegas95_settles_between_its_bounds_and_stays(vegas95):
    """A link of one packet a millisecond, 40 ms: w packets have an RTT of max(w, 40) ms."""
    vegas95.start({"init_cwnd": 2}, now=0)
    now, w, trace = 0, 2, []
    for _ in range(80):
        rtt = max(w, 40) * MS
        w = one_rtt(vegas95, now, rtt)[-1]
        now += rtt
        trace.append(w)
    assert max(trace) <= 64 and set(trace[-30:]) <= {41, 42, 43}
    assert len(set(trace[-10:])) == 1


def test_vegas95_timeout(vegas95):
    """ssthresh is half; with the first ACK the window is 2; then it doubles in every other round trip to ssthresh."""
    sending(vegas95, 40 * ONE, ca__w_q20=40 * ONE, ca__rtt_min=40 * MS, timestamps=1)
    vegas95.rto(now=10**6)
    assert tp(vegas95)["snd_ssthresh"] == 20
    assert many_rtts(vegas95, 11, start=10**6) == [2, 2, 4, 4, 8, 8, 16, 16, 20, 21, 22]
