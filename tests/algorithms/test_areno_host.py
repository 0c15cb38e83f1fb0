# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""TCP Adaptive Reno, its own source compiled for the host, against its law and numbers by hand."""

import pytest

from tests.algorithms.host.driver import line
from tests.algorithms.host.rivals import ONE, at_rest, own, sending, tp
from tests.algorithms.host.streams import MS

C_ONE = 1 << 16
MSS = 1250  # 10000 bits


def per_second(mbit):
    """B of so much payload: packets/s << 8."""
    return mbit * 1_000_000 * 256 // (8 * MSS)


def level(areno, w, mbit=100, base=40 * MS, rtt=40 * MS, cong=80 * MS, probe=0, n=1, params=None, **keys):
    """A connection amid a round with this RTT and RTTcong."""
    at_rest(areno, w, params, flight=n, ca__base_q20=w - probe, ca__probe_q20=probe, ca__rtt_min=base,
            ca__rtt_max=max(base, rtt), ca__rtt_last=rtt, ca__rtt_q4=rtt << 4, ca__rtt_cong=cong,
            ca__b_q8=per_second(mbit), mss_cache=MSS, **keys)  # fmt: skip


@pytest.mark.parametrize("mbit, c, increase", [
    (100, 0, 8.00054), (100, 0.25, -0.67885), (100, 1, 0),
    (1000, 0, 80.00545), (1000, 0.1, 18.79239), (1000, 0.5, -9.32575), (1000, 1, 0),
    (10, 0, 0.80005), (10, 1, 0),
])  # fmt: skip
@pytest.mark.parametrize("at_1", [0, 1])
def test_areno_increase_by_hand(areno, mbit, c, increase, at_1):
    """Winc_max is 10 packets at 100 Mbit/s: 10 - 2 (1 - 0.6 / 22026) at c = 0, and 1 as printed."""
    rtt = 40 * MS + round(40 * MS * c)
    level(areno, 2000 * ONE, mbit, rtt=rtt, probe=1000 * ONE, n=2000, params={"winc_at_1": at_1})
    areno.ack(n=2000)
    assert own(areno)["c_q16"] == int(c * C_ONE)
    assert own(areno)["probe_q20"] / ONE - 1000 == pytest.approx(increase + at_1, abs=0.003 * mbit / 10)


def test_areno_mean_increase_over_all_levels_is_nothing(areno):
    """Beside Wbase's: what Reno gains on the way to a loss."""
    total = 0
    for i in range(400):
        level(areno, 2000 * ONE, 1000, rtt=40 * MS + i * 100 + 50, probe=1000 * ONE, n=2000)
        areno.ack(n=2000)
        total += own(areno)["probe_q20"] / ONE - 1000
    assert total / 400 == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize("stretch", [1, 2, 7, 50, 100])
def test_areno_round_trip_of_acks_moves_by_winc_and_one(areno, stretch):
    level(areno, 1000 * ONE, 100, n=1000)
    areno.batch([line("ack", n=min(stretch, 1000 - i)) for i in range(0, 1000, stretch)])
    ca = own(areno)
    assert ca["probe_q20"] / ONE == pytest.approx(8, rel=0.01)
    assert ca["base_q20"] / ONE - 1000 == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("rtt, cong, rtt_max, c", [
    (40, 80, 80, 0), (50, 80, 80, 0.25), (80, 80, 80, 1), (200, 80, 200, 1),
    (41, 40, 90, 1), (40, 40, 90, 0), (45, 39, 90, 1),
    (50, 0, 80, 0.25), (80, 0, 80, 1), (40, 0, 40, 0),
])  # fmt: skip
def test_areno_congestion_level(areno, rtt, cong, rtt_max, c):
    """RTTmin 40; a RTTcong of 0: no loss yet."""
    level(areno, 100 * ONE, rtt=rtt * MS, cong=cong * MS)
    areno.poke(ca__rtt_max=rtt_max * MS)
    areno.ack()
    assert own(areno)["c_q16"] == c * C_ONE


@pytest.mark.parametrize("w, rtt, cong, left, new_cong", [
    (1000, 60, 80, 649, 77),  # 0.85 * 80 + 0.15 * 60; c = 20/37; 1000 / 1.5405
    (1000, 40, 80, 1000, 74),
    (1000, 80, 80, 500, 80),
    (1000, 120, 80, 500, 86),
    (1000, 50, 0, 500, 50),  # the first loss
    (1000, 40, 0, 1000, 40),
    (3, 80, 80, 2, 80),
])  # fmt: skip
def test_areno_loss_by_hand(areno, w, rtt, cong, left, new_cong):
    sending(
        areno,
        w * ONE,
        ca__base_q20=w * ONE,
        ca__rtt_min=40 * MS,
        ca__rtt_last=rtt * MS,
        ca__rtt_cong=cong * MS,
        ca__rtt_max=200 * MS,
    )
    areno.loss()
    assert (tp(areno)["snd_ssthresh"], own(areno)["rtt_cong"]) == (left, new_cong * MS)


@pytest.mark.parametrize("tick_us, now, rtt, told", [
    (4 * MS, 100 * MS, 40_030, 44 * MS),  # sent 30 us before a tick: eleven ticks lie between
    (4 * MS, 103 * MS, 40_030, 40 * MS),
    (4 * MS, 103 * MS, 39_900, 40 * MS), (4 * MS, 103 * MS, 38_999, 36 * MS),
    (4 * MS, 101 * MS, 900, 4 * MS),  # less than a tick counts as one
    (MS, 103_020, 40_030, 41 * MS), (MS, 103_900, 40_030, 40 * MS),
    (0, 100 * MS, 40_030, 40_030),
])  # fmt: skip
def test_areno_rtt_is_what_a_clock_of_ticks_tells(areno, tick_us, now, rtt, told):
    """The number of the tick of the ACK less that of the sending."""
    sending(areno, 100 * ONE, {"tick_us": tick_us}, ca__base_q20=100 * ONE)
    areno.ack(now=now, rtt=rtt)
    assert told == max(now // max(tick_us, 1) - (now - rtt) // max(tick_us, 1), 1) * max(tick_us, 1)
    assert [own(areno)[key] for key in ("rtt_last", "rtt_min", "rtt_max", "rtt_q4")] == [told, told, told, told << 4]


def test_areno_random_loss_on_a_queue_shorter_than_a_tick_costs_nothing(areno):
    """RTTmin 40 ms, a queue of 30 us at each loss: the paper's clock does not see it, one of microseconds halves."""
    for tick_us, left in ((4 * MS, 100), (0, 50)):
        sending(areno, 100 * ONE, {"tick_us": tick_us}, ca__base_q20=100 * ONE)
        areno.ack(now=103 * MS, rtt=40_000)
        areno.ack(now=103 * MS, rtt=40_030)
        areno.loss(now=104 * MS)
        assert tp(areno)["snd_ssthresh"] == left
