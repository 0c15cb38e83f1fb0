# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Vegas of 1995, its own source compiled for the host, against its law and numbers by hand."""

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.algorithms.host.driver import line
from tests.algorithms.host.rivals import ONE, at_rest, count, own, sending, tp, windows
from tests.algorithms.host.streams import MS, RTT_MAX, W_MAX, many_rtts, one_rtt, recover, reno_share, rtts

# --- Vegas of 1995 ------------------------------------------------------------------------

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


def test_vegas95_decides_after_a_round_trip_that_held(vegas95):
    ca = decides(vegas95, 16 * ONE, 80 * MS, phase=DOUBLE, ssthresh=2**31 - 1)
    assert (ca["phase"], ca["w_q20"], count(vegas95, "exits")) == (HOLD, 16 * ONE, 0)


def test_vegas95_doubles_to_ssthresh_only(vegas95):
    ca = decides(vegas95, 16 * ONE, 40 * MS, ssthresh=20, n=16)
    assert ca["w_q20"] == 20 * ONE


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


@given(
    w=windows, base=rtts, rtt=rtts, alpha=st.integers(0, 5) | st.integers(0, 65535),
    more=st.integers(0, 10) | st.just(40000), gamma=st.integers(0, 3) | st.integers(0, 65535), slow=st.booleans(),
)  # fmt: skip
@example(w=W_MAX * ONE, base=1, rtt=RTT_MAX, alpha=65535, more=0, gamma=65535, slow=False)
@example(w=W_MAX * ONE, base=1, rtt=RTT_MAX, alpha=1, more=2, gamma=1, slow=True)
@example(w=2 * ONE, base=40, rtt=RTT_MAX, alpha=0, more=0, gamma=0, slow=False)
def test_vegas95_law_is_exact(vegas95, w, base, rtt, alpha, more, gamma, slow):
    beta = min(alpha + more, 65535)
    ca = decides(
        vegas95, w, rtt, {"alpha": alpha, "beta": beta, "gamma": gamma}, base, ssthresh=2**31 - 1 if slow else 2
    )
    diff = Fraction(w, ONE) * Fraction(rtt - min(base, rtt), rtt)
    bounds = [gamma] if slow else [alpha, beta]
    if any(abs(diff - bound) < Fraction(1, 1000) for bound in bounds):
        return  # rounding may decide
    if slow:
        new = w - w // 8 if diff > gamma else w + ONE
    else:
        new = w + reno_share(w, 1) if diff < alpha else w - ONE if diff > beta else w
    assert ca["w_q20"] == min(max(new, 2 * ONE), W_MAX * ONE)


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


@pytest.mark.parametrize("sample", [40 * MS + 800, -1])
def test_vegas95_does_not_turn_to_reno_with_few_samples(vegas95, sample):
    """One ACK a round trip: at 40.8 ms two of 100 packets are in the queue, which is where it stays."""
    sending(vegas95, 100 * ONE, ca__w_q20=100 * ONE, ca__rtt_min=40 * MS)
    assert many_rtts(vegas95, 20, stretch=100, sample=sample) == [100] * 20
    assert (count(vegas95, "increases"), count(vegas95, "decreases")) == (0, 0)
    assert count(vegas95, "rounds" if sample > 0 else "blind_rounds") >= 18


def test_vegas95_never_goes_below_two(vegas95):
    sending(vegas95, 6 * ONE, {"beta": 0, "alpha": 0}, ca__w_q20=6 * ONE, ca__rtt_min=40 * MS)
    trace = many_rtts(vegas95, 12, rtt=400 * MS)
    assert trace[-6:] == [2] * 6 and own(vegas95)["w_q20"] == 2 * ONE
    assert all(a - b <= 1 for a, b in zip(trace, trace[1:]))


def test_vegas95_takes_the_mean_of_a_round_trip(vegas95):
    """The ACK that ends a round trip belongs to the next."""
    sending(vegas95, 3 * ONE, ca__w_q20=3 * ONE, ca__rtt_min=30 * MS)
    vegas95.batch([line("ack", rtt=rtt, now=40 * MS + i) for i, rtt in enumerate([40 * MS, 41 * MS, 48 * MS])])
    vegas95.ack(rtt=99 * MS, now=80 * MS)
    ca = own(vegas95)
    assert (ca["rtt_mean"], ca["rtt_sum"], ca["rtt_count"]) == (43 * MS, 99 * MS, 1)


@pytest.mark.parametrize("w, left", [(100, 75), (101, 75), (4, 3), (3, 2), (2, 2)])
def test_vegas95_loses_a_quarter(vegas95, w, left):
    sending(vegas95, w * ONE, ca__w_q20=w * ONE, ca__rtt_min=40 * MS)
    vegas95.loss()
    assert tp(vegas95)["snd_ssthresh"] == left
    recover(vegas95)
    assert tp(vegas95)["snd_cwnd"] == left


def test_vegas95_timeout(vegas95):
    """ssthresh is half; with the first ACK the window is 2; then it doubles in every other round trip to ssthresh."""
    sending(vegas95, 40 * ONE, ca__w_q20=40 * ONE, ca__rtt_min=40 * MS, timestamps=1)
    vegas95.rto(now=10**6)
    assert tp(vegas95)["snd_ssthresh"] == 20
    assert many_rtts(vegas95, 11, start=10**6) == [2, 2, 4, 4, 8, 8, 16, 16, 20, 21, 22]


def test_vegas95_undone_timeout_leaves_no_trace(vegas95):
    sending(vegas95, 40 * ONE, ca__w_q20=40 * ONE, ca__rtt_min=40 * MS)
    vegas95.rto(now=10**6)
    assert vegas95.undo()["cwnd"] == 40
    assert own(vegas95)["timed_out"] == 0


def test_vegas95_shrinking_is_no_reason_for_slow_start(vegas95):
    ca = decides(vegas95, 30 * ONE, 80 * MS, ssthresh=30)
    assert (ca["w_q20"], tp(vegas95)["snd_ssthresh"]) == (29 * ONE, 2)
