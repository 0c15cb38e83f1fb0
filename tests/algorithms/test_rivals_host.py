# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The rivals' own sources, compiled for the host with sanitizers: numbers by hand (models: models/rivals.py)."""

import pytest

from tests.algorithms.host.driver import line
from tests.algorithms.host.rivals import EVER, ONE, at_rest, count, own, repaired, sending, tp
from tests.algorithms.host.streams import MS, W_MAX, many_rtts, one_rtt, recover, reno_share

# --- NewReno of ns-2 ---


@pytest.mark.parametrize(
    "stretch, trace", [(1, [20, 40, 80]), (2, [15, 23, 35]), (4, [13, 17, 22]), (10, [11, 13, 15])]
)
def test_nreno_slow_start_counts_acks(nreno, stretch, trace):
    nreno.start({"init_cwnd": 10}, now=0)
    assert many_rtts(nreno, 3, stretch=stretch) == trace


@pytest.mark.parametrize("stretch, gained", [(1, 1), (2, 0.5), (4, 0.25), (50, 0.02)])
def test_nreno_gains_less_where_acks_are_few(nreno, stretch, gained):
    """A round trip of 100 packets."""
    at_rest(nreno, 100 * ONE, flight=100, ca__w_q20=100 * ONE)
    nreno.batch([line("ack", n=stretch) for _ in range(100 // stretch)])
    assert own(nreno)["w_q20"] / ONE - 100 == pytest.approx(gained, rel=0.01)


def test_nreno_after_a_timeout(nreno):
    sending(nreno, 16 * ONE, ca__w_q20=16 * ONE)
    nreno.rto()
    trace = [nreno.ack(rtt=-1)["cwnd"] for _ in range(15)]
    assert trace[:7] == [2, 3, 4, 5, 6, 7, 8]  # ssthresh
    assert trace[7:15] == [8] * 8
    assert own(nreno)["w_q20"] / ONE == pytest.approx(9, abs=0.06)  # eight ACKs of 1/8 to 1/9


# --- Vegas of 1995 ---


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


# --- Compound TCP ---


def round_ends(ctcp, cwnd, dwnd, srtt=40 * MS, base=40 * MS, params=None, ssthresh=2, n=1, **keys):
    """One ACK that ends a round: both windows after it."""
    at_rest(ctcp, cwnd + dwnd, params, flight=n, ssthresh=ssthresh, ca__cwnd_q20=cwnd, ca__dwnd_q20=dwnd,
            ca__rtt_min=base, ca__round_end=0, srtt_us=srtt << 3, **keys)  # fmt: skip
    ctcp.ack(n=n)
    ca = own(ctcp)
    return ca["cwnd_q20"], ca["dwnd_q20"]


@pytest.mark.parametrize("w, gained", [
    (39, 0.95075), (100, 2.95285), (256, 7), (1000, 21.22849), (4096, 63), (10_000, 124), (65_536, 511),
    (W_MAX // 2, 2434.5),
])  # fmt: skip
def test_ctcp_grows_by_an_eighth_of_the_window_to_three_quarters(ctcp, w, gained):
    """win^0.75 / 8 - 1: 256^0.75 = 64, 4096^0.75 = 512, 10000^0.75 = 1000, 65536^0.75 = 4096."""
    _, dwnd = round_ends(ctcp, w * ONE, 0)
    assert dwnd / ONE == pytest.approx(gained, abs=5e-5, rel=1e-4)
    assert count(ctcp, "increases") == 1


@pytest.mark.parametrize("w, grows", [(38, False), (39, True)])
def test_ctcp_is_reno_up_to_low_window(ctcp, w, grows):
    cwnd, dwnd = round_ends(ctcp, w * ONE, 0)
    assert (dwnd > 0) == grows
    assert cwnd == w * ONE + reno_share(w * ONE + dwnd, 1)


@pytest.mark.parametrize(
    "srtt, moved", [(40_000, 2.95285), (57_142, 2.95285), (57_143, -30), (80_000, -50), (160_000, -60)]
)
def test_ctcp_retreats_from_gamma_on(ctcp, srtt, moved):
    """100 packets, RTTmin 40 ms: 30 of them are in the queue at 57.143 ms, 50 at 80, 75 at 160; dwnd has 60."""
    _, dwnd = round_ends(ctcp, 40 * ONE, 60 * ONE, srtt=srtt)
    assert dwnd / ONE - 60 == pytest.approx(moved, abs=1e-3)
    assert (count(ctcp, "increases"), count(ctcp, "retreats")) == (moved > 0, moved < 0)


def test_ctcp_over_round_trips(ctcp):
    """100 packets, no queue: 1 of (2) in each, and 3, 3, 3.1, ... of (3) with the first ACK of each but the first."""
    sending(ctcp, 100 * ONE, ca__cwnd_q20=100 * ONE, ca__rtt_min=40 * MS, srtt_us=40 * MS << 3)
    cwnd, dwnd, expected = 100 * ONE, 0.0, []
    for i in range(8):
        acks = int(cwnd + dwnd) // ONE
        dwnd += (acks**0.75 / 8 - 1) * ONE if i else 0
        for _ in range(acks):
            cwnd += reno_share(cwnd + int(dwnd), 1)
        expected.append(int(cwnd + dwnd) // ONE)
    assert many_rtts(ctcp, 8) == expected
    ca = own(ctcp)
    assert (ca["cwnd_q20"] / ONE, ca["dwnd_q20"] / ONE) == pytest.approx((cwnd / ONE, dwnd / ONE), abs=0.01)


@pytest.mark.parametrize("cwnd, dwnd", [(60, 40), (100, 0), (20, 80), (30, 30), (10, 13)])
def test_ctcp_halves_both(ctcp, cwnd, dwnd):
    """Below 38 packets too: 60 becomes 30, not 15."""
    sending(ctcp, (cwnd + dwnd) * ONE, ca__cwnd_q20=cwnd * ONE, ca__dwnd_q20=dwnd * ONE, ca__rtt_min=40 * MS)
    ctcp.loss()
    assert tp(ctcp)["snd_ssthresh"] == (cwnd + dwnd) // 2
    repaired(ctcp)
    ca = own(ctcp)
    assert ca["dwnd_q20"] == dwnd * ONE // 2
    assert ca["cwnd_q20"] / ONE == pytest.approx((cwnd + dwnd) // 2 - dwnd / 2, abs=0.1)
    assert tp(ctcp)["snd_cwnd"] == (cwnd + dwnd) // 2


# --- TCP Adaptive Reno ---


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


def test_areno_retreat_is_no_reason_for_slow_start(areno):
    level(areno, 2000 * ONE, 1000, rtt=60 * MS, probe=1000 * ONE, n=2000)
    areno.poke(snd_ssthresh=2000)
    areno.ack(n=2000)
    assert own(areno)["probe_q20"] < 1000 * ONE
    assert tp(areno)["snd_ssthresh"] == tp(areno)["snd_cwnd"] < 2000


# --- CUBIC of RFC 9438 ---


C = 0.4


def after_a_loss(cubic, window, app=EVER, **params):
    """Recovered from one loss of a full window, with all of 0.7 of it in flight again."""
    cubic.start(params, now=0, tx_start=0, snd_cwnd=window, snd_ssthresh=window, srtt_us=320 * MS)
    cubic.loss(n=1, sack=window - 1, now=1)
    recover(cubic, now=2, rtt=-1)
    cubic.send(now=2, app=app)


def curve(t, w_max, w_epoch):
    k = ((w_max - w_epoch) / C) ** (1 / 3)
    return C * (t - k) ** 3 + w_max


@pytest.mark.parametrize("window", [100, 500, 3000])
@pytest.mark.parametrize("rtt", [20, 100])
def test_the_window_follows_the_curve(cubic, window, rtt):
    """(1) and (2), or (4) where that is more; the smoothed RTT makes some 120 ms of play."""
    after_a_loss(cubic, window)
    assert cubic.state()["tp"]["snd_ssthresh"] == window * 7 // 10
    w = est = epoch = window * 7 // 10
    began, now = None, 3
    for _ in range(3 * 10**3 // rtt):
        flight = cubic.state()["tp"]["packets_out"]
        at = [now + i * rtt * MS // flight for i in range(flight)]
        for t, answer in zip(at, cubic.batch([line("ack", rtt=rtt * MS, now=t) for t in at])):
            began = began or t
            est += (9 / 17 if est < window else 1) / w
            s, w = (t - began) / 1e6, answer["cwnd"]
            early, late = curve(s - 0.12, window, epoch), curve(s + 0.12, window, epoch)
            assert max(early, est) - 2 <= w <= max(late, est) + 2
        now = at[-1] + rtt * MS // flight


@pytest.mark.parametrize("params, second, w_max", [({}, 60, 51), ({}, 120, 120), ({"fast_convergence": 0}, 60, 60)])
def test_fast_convergence(cubic, params, second, w_max):
    """A window lost below W_max, of 100, lowers W_max to 0.85 of it."""
    after_a_loss(cubic, 100, **params)
    cubic.poke(snd_cwnd=second)
    cubic.loss(n=1, sack=3, now=10 * MS)
    assert cubic.state()["ca"]["now.wmax_q20"] / ONE == pytest.approx(w_max, abs=0.01)
