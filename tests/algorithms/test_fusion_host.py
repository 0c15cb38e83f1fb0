# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Fusion's own source, compiled for the host with sanitizers: equations (1) to (5) by hand, and Fig. 1."""

from fractions import Fraction

import pytest

from tests.algorithms.host import rivals
from tests.algorithms.host.bottleneck import Link, run
from tests.algorithms.host.driver import line
from tests.algorithms.host.rivals import ONE, own
from tests.algorithms.host.streams import MS, W_MAX, recover

SLOW_START, INCREASE, STEADY, DECREASE = range(4)


def at_rest(fusion, w, params=None, rtt=40 * MS, flight=1, **keys):
    """A connection in congestion avoidance with this window and an RTTmin of 40 ms, amid a round, its window filled."""
    times = {"ca__rtt_min": 40 * MS, "ca__rtt_last": rtt, "ca__rtt_q4": rtt << 4}
    rivals.at_rest(
        fusion, int(w * ONE), params, flight, **{"ca__w_q20": int(w * ONE), "ca__reno_q20": ONE} | times | keys
    )


def w_of(fusion):
    return own(fusion)["w_q20"] / ONE


def per_second(mbit, size=1500):
    """A rate as B has it: packets/s << 8."""
    return mbit * 1_000_000 * 256 // (8 * size)


# 100 Mbit/s, 40 ms, 1500 bytes: Winc 8.33 packets a round trip; 433.3 packets have 12 ms of queue


@pytest.mark.parametrize("mbit", [1, 12, 100, 1200])
def test_winc_is_a_twelfth_of_b(fusion, mbit):
    """(3): B/12 Mbit/s packets a round trip, whatever B: so beta = 12 Mbit/s."""
    at_rest(fusion, 10_000, flight=10_000, ca__b_q8=per_second(mbit))
    fusion.ack(n=10_000)
    assert w_of(fusion) - 10_000 == pytest.approx(mbit / 12, rel=0.001)


@pytest.mark.parametrize("w, rtt, phase", [
    (433 + 1 / 3, 43_999, INCREASE), (433 + 1 / 3, 44_001, STEADY),  # alpha is cwnd Dmin / RTT, Dmin 4 ms
    (433 + 1 / 3, 51_999, STEADY), (433 + 1 / 3, 52_001, DECREASE),  # and the bound three times that
    (8, 45_714, INCREASE), (8, 45_715, STEADY), (8, 64_000, STEADY), (8, 64_001, DECREASE),  # one packet at least
])  # fmt: skip
def test_phases_end_at_alpha_and_three_alpha(fusion, w, rtt, phase):
    at_rest(fusion, w, rtt=rtt, ca__b_q8=per_second(100))
    fusion.ack()
    assert own(fusion)["phase"] == phase


def test_a_wait_that_the_window_has_not_followed_is_no_queue(fusion):
    """ACKs wait for 360 ms more than those before. The window follows by one packet for each of them."""
    at_rest(fusion, 100, flight=100, ca__ack_way=20 * MS)
    for i in range(1, 20):
        fusion.ack(now=10**6 + i * MS, rtt=400 * MS, rcv_tsval=1000 + i - 380)
        assert own(fusion)["phase"] == INCREASE
        assert own(fusion)["wait_q4"] >> 4 < 200 * MS
        assert i - 1 < w_of(fusion) - 100 < i + 1


def test_slow_start_adds_what_was_acknowledged_while_acks_wait(fusion):
    at_rest(fusion, 10, flight=1000, ssthresh=W_MAX, ca__ack_way=20 * MS)
    for i in range(1, 100):
        reply = fusion.ack(now=10**6 + i * MS, rtt=400 * MS, rcv_tsval=1000 + i - 380)
        assert reply["cwnd"] == int(w_of(fusion)) == 10 + i


def test_a_window_that_falls_with_the_wait_does_not_slow_start(fusion):
    at_rest(fusion, 100, flight=1000, ssthresh=100, ca__ack_way=20 * MS, ca__wait_q4=(400 * MS) << 4)
    for i in range(1, 20):
        fusion.ack(now=10**6 + i * MS, rtt=50 * MS, rcv_tsval=1000 + i - 20)
        assert own(fusion)["phase"] != SLOW_START
    assert w_of(fusion) < 30


@pytest.mark.parametrize("stretch", [1, 7, 100])
@pytest.mark.parametrize("rtt", [56 * MS, 400 * MS])
def test_a_round_trip_of_acks_takes_away_the_queue_but_alpha(fusion, rtt, stretch):
    """(4): RTT falls with the queue, and cwnd goes to what leaves alpha packets there."""
    at_rest(fusion, 1000, rtt=rtt, flight=1000)
    fusion.batch([line("ack", n=min(stretch, 1000 - i)) for i in range(0, 1000, stretch)])
    bandwidth_delay, alpha = 1000 * 40 * MS / rtt, 1000 * 4 * MS / rtt
    assert 1000 - w_of(fusion) == pytest.approx(1000 - bandwidth_delay - alpha, rel=0.01)


@pytest.mark.parametrize("ratio", [Fraction(i, 10) for i in (10, 11, 15, 20, 40)])
def test_reduction_by_rtt_is_that_of_fig_1(fusion, ratio):
    """(5)"""
    at_rest(fusion, 1000, rtt=48 * MS, flight=1000, ca__rtt_last=40 * MS * ratio)
    fusion.loss()
    recover(fusion)
    assert fusion.state()["tp"]["snd_cwnd"] == int(w_of(fusion)) == max(int(1000 / ratio), 500)


def test_slow_start_ends_at_the_largest_window(fusion):
    """Whatever ssthresh is: beyond, the products of (1) to (4) would not fit 64 bits."""
    fusion.start(mss_cache=1, seg=1, snd_cwnd=2**31 - 1, now=0)
    fusion.cwr(now=1)
    assert fusion.state()["tp"]["snd_ssthresh"] > W_MAX
    fusion.ack(n=2**31 - 1, rtt=1, now=2)
    assert fusion.state()["ca"]["w_q20"] <= W_MAX * ONE
    assert fusion.ack(n=2**31 - 1, rtt=40 * MS, now=3)["cwnd"] <= W_MAX


def test_largest_b_ages(fusion):
    """A hundred packets come in 10 ms once, then ten: five to ten rounds remember the first rate (b_mode)."""
    at_rest(fusion, 1000, {"b_mode": 1}, rtt=46 * MS, flight=10**6)
    most, una = [], 1
    for i, n in enumerate([100] + [10] * 10):
        fusion.ack(n=n, now=(i + 1) * 10 * MS, ca__round_end=una, ca__limited=0, ca__ack_stamp=(i + 1) * 10 * MS)
        una += n * 960
        most.append(max(own(fusion)["b_q8"], own(fusion)["b_last_q8"]))
    assert most == [10**4 * 256] * 9 + [10**3 * 256] * 2


# A path: 100 Mbit/s, 40 ms, 1500-byte packets


LINK = (120e-6, 3.2e-6, 0.04)
BDP = 0.0401232 / 120e-6


def test_alone_it_keeps_alpha_packets_in_the_queue(fusion):
    """Winc a round trip until alpha = cwnd Dmin / RTT are queued, and there it stays."""
    [trace] = run(Link(*LINK), [fusion], [{}], 4, snd_ssthresh=100)
    end = [w for at, w, _ in trace if at > 3]
    assert BDP * 1.1 - 1 <= min(end) == max(end) <= BDP * 1.1 + 10
    per_rtt = [next(w for at, w, _ in trace if at >= 0.0402 * i) for i in range(6, 90)]
    assert max(b - a for a, b in zip(per_rtt, per_rtt[1:])) in (7, 8, 9)


@pytest.mark.parametrize("ss_exit, least, most", [(0, 3.9, 5), (3, 1.1, 2), (1, 1.0, 1.5)])
def test_the_first_overshoot(fusion, ss_exit, least, most):
    """In BDPs. It comes to rest at the same window, alpha above the BDP."""
    [trace] = run(Link(*LINK), [fusion], [{"ss_exit": ss_exit}], 3 if ss_exit else 0.4)
    assert least < max(w for _, w, _ in trace) / BDP < most
    if ss_exit:
        end = [w for at, w, _ in trace if at > 2.5]
        assert BDP * 1.08 < min(end) <= max(end) < BDP * 1.35
