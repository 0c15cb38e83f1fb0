# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Fusion's own source, compiled for the host with sanitizers: equations (1) to (5) by hand, and Fig. 1."""

from fractions import Fraction

import pytest

from tests.algorithms.host import rivals
from tests.algorithms.host.bottleneck import Link, run
from tests.algorithms.host.driver import line
from tests.algorithms.host.rivals import ONE, own
from tests.algorithms.host.streams import MS, W_MAX, many_rtts, one_rtt, recover

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


# The three phases


@pytest.mark.parametrize("base, rtt, phase", [
    (36, 36_000, INCREASE), (44, 47_999, INCREASE), (44, 48_000, STEADY),
    (36, 48_000, STEADY), (36, 48_001, DECREASE), (36, 90_000, DECREASE),
])  # fmt: skip
def test_phases_end_at_alpha_and_three_alpha(fusion, base, rtt, phase):
    """diff - alpha = cwnd (RTT - RTTmin - Dmin) / RTT: bounds of 4 and 12 ms, and 1200 packets divide without rest."""
    at_rest(fusion, 1200 * ONE, {}, base * MS, rtt, ca__b_q8=per_second(100))
    assert phase_of(fusion) == phase
    counters = fusion.state()["counters"]
    assert [counters[name] for name in ("increases", "steadies", "decreases")] == [
        phase == p for p in (INCREASE, STEADY, DECREASE)
    ]
    assert (w_of(fusion) > 1200 * ONE, w_of(fusion) < 1200 * ONE) == (phase == INCREASE, phase == DECREASE)


@pytest.mark.parametrize("rtt, phase", [(45_714, INCREASE), (45_715, STEADY), (64_000, STEADY), (64_001, DECREASE)])
def test_alpha_is_one_packet_at_least(fusion, rtt, phase):
    """4 of 40 ms are less than one of 8 packets: bounds at diff = 1 and 3."""
    at_rest(fusion, 8 * ONE, {}, 40 * MS, rtt, ca__b_q8=per_second(100))
    assert phase_of(fusion) == phase
    assert own(fusion)["alpha_q8"] == 256


def test_numbers_of_the_paper(fusion):
    """100 Mbit/s, 40 ms, 1500 bytes: Winc 8.33 packets a round trip, alpha 33.3 packets, the upper bound 100."""
    w = 100_000_000 * 40 * ONE // (12_000 * 1000)
    at_rest(fusion, w, {}, 40 * MS, 40 * MS, flight=400, ca__b_q8=per_second(100))
    fusion.ack(n=400)
    assert Fraction(w_of(fusion) - w, ONE) == pytest.approx(8.33, abs=0.01)
    assert Fraction(own(fusion)["alpha_q8"], 256) == pytest.approx(33.3, abs=0.1)
    # B/12 Mbit/s whatever B: so beta = 12 Mbit/s
    for mbit in (1, 12, 120, 1200):
        at_rest(fusion, 10_000 * ONE, {}, 40 * MS, 40 * MS, flight=10_000, ca__b_q8=per_second(mbit))
        fusion.ack(n=10_000)
        assert Fraction(w_of(fusion), ONE) - 10_000 == pytest.approx(mbit / 12, rel=0.001)
    # 433.3 packets at 100 Mbit/s: 12 ms of queue, 100 packets of 433.3; alpha 4/52 of them
    at_rest(fusion, 433 * ONE + ONE // 3, {}, 40 * MS, 51_999)
    assert phase_of(fusion) == STEADY
    at_rest(fusion, 433 * ONE + ONE // 3, {}, 40 * MS, 52_001)
    assert phase_of(fusion) == DECREASE
    assert Fraction(own(fusion)["diff_q8"], 256) == pytest.approx(100, abs=0.1)
    assert Fraction(own(fusion)["alpha_q8"], 256) == pytest.approx(33.3, abs=0.1)


@pytest.mark.parametrize("stretch", [1, 2, 7, 50, 100])
def test_a_round_trip_of_acks_moves_by_winc(fusion, stretch):
    at_rest(fusion, 100 * ONE, {}, flight=100, ca__b_q8=per_second(100))
    fusion.batch([line("ack", n=min(stretch, 100 - i)) for i in range(0, 100, stretch)])
    assert 8.33 * 100 / 109 <= w_of(fusion) / ONE - 100 <= 8.34


@pytest.mark.parametrize("stretch", [1, 2, 7, 50, 100])
@pytest.mark.parametrize("rtt", [56 * MS, 80 * MS, 400 * MS])
def test_a_round_trip_of_acks_takes_away_the_queue_but_alpha(fusion, rtt, stretch):
    """RTT falls with the queue: cwnd goes to what leaves alpha packets there."""
    at_rest(fusion, 1000 * ONE, {}, 40 * MS, rtt, flight=1000)
    bandwidth_delay = 1000 * 40 * MS / rtt
    alpha = 1000 * 4 * MS / rtt
    before = 1000 - bandwidth_delay - alpha
    fusion.batch([line("ack", n=min(stretch, 1000 - i)) for i in range(0, 1000, stretch)])
    moved = 1000 - w_of(fusion) / ONE
    assert moved == pytest.approx(before, rel=0.01)


# reno_cwnd


def test_reno_carries_the_window_where_the_queue_is_anothers(fusion):
    sending(fusion, 100 * ONE, {}, base=40 * MS, rtt=80 * MS, reno=95 * ONE)
    trace = many_rtts(fusion, 20, rtt=80 * MS)
    assert trace[0] in (95, 96)
    assert [b - a for a, b in zip(trace, trace[1:])].count(1) >= 18  # Reno
    assert own(fusion)["w_q20"] == own(fusion)["reno_q20"]
    assert fusion.state()["counters"]["reno_wins"] > 1000


# Slow start


def test_slow_start_ends_at_the_largest_window(fusion):
    """Whatever ssthresh is: beyond, the products of (1) to (4) would not fit 64 bits."""
    fusion.start(mss_cache=1, seg=1, snd_cwnd=2**31 - 1, now=0)
    fusion.cwr(now=1)
    assert fusion.state()["tp"]["snd_ssthresh"] > W_MAX
    fusion.ack(n=2**31 - 1, rtt=1, now=2)
    assert fusion.state()["ca"]["w_q20"] <= W_MAX * ONE
    assert fusion.ack(n=2**31 - 1, rtt=40 * MS, now=3)["cwnd"] <= W_MAX


# Loss: (5)


@pytest.mark.parametrize("ratio", [Fraction(i, 10) for i in range(10, 41)])
def test_reduction_by_rtt_is_that_of_fig_1(fusion, ratio):
    sending(fusion, 1000 * ONE, {}, base=40 * MS, rtt=48 * MS, ca__rtt_last=40 * MS * ratio)
    fusion.loss()
    assert fusion.state()["tp"]["snd_ssthresh"] == max(int(1000 / ratio), 500)
    recover(fusion)
    assert fusion.state()["tp"]["snd_cwnd"] == w_of(fusion) >> 20 == max(int(1000 / ratio), 500)


# B: the rate of a round


def rounds(fusion, lengths, params=None, limited=(), **keys):
    """One ACK a round, (packets, us) each. B and its predecessor after each round."""
    at_rest(fusion, 1000 * ONE, params, rtt=46 * MS, flight=10**6, now=10**6, ca__round_stamp=10**6, **keys)
    now, una, out = 10**6, 1, []
    for i, (n, us) in enumerate(lengths):
        now += us
        fusion.ack(n=n, now=now, ca__round_end=una, ca__limited=i in limited, ca__ack_stamp=now)
        una += n * 960
        ca = own(fusion)
        assert ca["round_stamp"] == now
        out.append((ca["b_q8"], ca["b_last_q8"]))
    return out


def test_largest_b_ages(fusion):
    got = [max(pair) for pair in rounds(fusion, [(100, 10**4)] + [(10, 10**4)] * 10, {"b_mode": 1})]
    assert got == [10**4 * 256] * 9 + [10**3 * 256] * 2


def test_a_round_is_a_round_trip(fusion):
    sending(fusion, 100 * ONE, {}, base=40 * MS, rtt=46 * MS)
    many_rtts(fusion, 2, rtt=46 * MS)
    fusion.poke(ca__b_q8=0)
    for i in range(2, 5):
        one_rtt(fusion, i * 46 * MS, rtt=46 * MS)
        assert own(fusion)["b_q8"] == 100 * 256 * 10**6 // (46 * MS)


# The end of slow start


def after_idle(fusion, ssthresh):
    """reno_cwnd at the end of the slow start that follows, window 100 before it."""
    sending(fusion, 100 * ONE, {}, base=40 * MS, rtt=46 * MS, reno=60 * ONE, ca__reno_ssthresh=ssthresh)
    fusion.ack(n=100, now=MS, app=0)
    fusion.restart(cwnd=10, now=9 * 10**6)
    fusion.send(app=2**32 - 1, now=9 * 10**6)
    many_rtts(fusion, 5, start=9 * 10**6, rtt=46 * MS)
    ca = own(fusion)
    assert ca["phase"] != SLOW_START
    return ca["reno_q20"] // ONE


@pytest.mark.parametrize("ssthresh, reached", [(20, 45), (44, 45), (50, 50)])
def test_after_idle_time_reno_refills_to_three_quarters(fusion, ssthresh, reached):
    """The stack does so with the window; the last loss's threshold is long left behind."""
    assert reached <= after_idle(fusion, ssthresh) <= reached + 2


@pytest.mark.parametrize("ss_exit, rtt, leaves", [
    (3, 52_000, False), (3, 52_001, True), (1, 44_000, False), (1, 44_001, True), (16, 104_001, True),
    (0, 10**6, False),
])  # fmt: skip
def test_a_queue_ends_the_first_slow_start(fusion, ss_exit, rtt, leaves):
    """diff > ss_exit alpha is RTT > RTTmin + ss_exit Dmin; 1300 packets divide without rest at 52 ms."""
    at_rest(fusion, 1300 * ONE, {"ss_exit": ss_exit}, 40 * MS, rtt, reno=1300 * ONE, snd_ssthresh=2**31 - 1, flight=9)
    fusion.poke(max_packets_out=1300)
    fusion.ack()
    state = fusion.state()
    assert (state["tp"]["snd_ssthresh"] <= 1300, state["counters"]["early_exits"]) == (leaves, leaves)
    assert (state["ca"]["phase"] == SLOW_START) == (not leaves)
    assert state["ca"]["reno_q20"] / ONE == pytest.approx(650 if leaves else 1301, abs=0.01)


# A path: 100 Mbit/s, 40 ms, 1500-byte packets


LINK = (120e-6, 3.2e-6, 0.04)
BDP = 0.0401232 / 120e-6


def test_alone_it_keeps_alpha_packets_in_the_queue(fusion):
    """Winc a round trip until alpha = cwnd Dmin / RTT are queued, and there it stays."""
    [trace] = run(Link(*LINK), [fusion], [{}], 4, snd_ssthresh=100)
    end = [w for at, w, _ in trace if at > 3]
    assert min(end) == max(end)
    assert BDP * 1.1 - 1 <= end[0] <= BDP * 1.1 + 10
    per_rtt = [next(w for at, w, _ in trace if at >= 0.0402 * i) for i in range(6, 90)]
    rises = [b - a for a, b in zip(per_rtt, per_rtt[1:])]
    assert max(rises) in (7, 8, 9)  # Winc = B/12 Mbit/s, 8.33 when B is 100


@pytest.mark.parametrize("ss_exit, least, most", [(0, 3.9, 5), (3, 1.1, 2), (1, 1.0, 1.5)])
def test_the_first_overshoot(fusion, ss_exit, least, most):
    """In BDPs. It comes to rest at the same window, alpha above the BDP."""
    [trace] = run(Link(*LINK), [fusion], [{"ss_exit": ss_exit}], 3 if ss_exit else 0.4)
    assert least < max(w for _, w, _ in trace) / BDP < most
    if ss_exit:
        end = [w for at, w, _ in trace if at > 2.5]
        assert BDP * 1.08 < min(end) <= max(end) < BDP * 1.35
