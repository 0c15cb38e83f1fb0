# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The rivals' own sources, compiled for the host with sanitizers: numbers by hand (models: models/rivals.py)."""

import pytest

from tests.algorithms.host.driver import line
from tests.algorithms.host.rivals import ONE, at_rest, count, own, repaired, sending, tp
from tests.algorithms.host.streams import MS, W_MAX, many_rtts, one_rtt, recover

# --- NewReno of ns-2 ---


@pytest.mark.parametrize("stretch, trace", [(1, [20, 40, 80]), (2, [15, 23, 35]), (10, [11, 13, 15])])
def test_nreno_slow_start_counts_acks(nreno, stretch, trace):
    nreno.start({"init_cwnd": 10}, now=0)
    assert many_rtts(nreno, 3, stretch=stretch) == trace


@pytest.mark.parametrize("stretch, gained", [(1, 1), (2, 0.5), (50, 0.02)])
def test_nreno_gains_less_where_acks_are_few(nreno, stretch, gained):
    """A round trip of 100 packets."""
    at_rest(nreno, 100 * ONE, flight=100, ca__w_q20=100 * ONE)
    nreno.batch([line("ack", n=stretch) for _ in range(100 // stretch)])
    assert own(nreno)["w_q20"] / ONE - 100 == pytest.approx(gained, rel=0.01)


# --- Vegas of 1995 ---


HOLD, DOUBLE, UP = range(3)


@pytest.mark.parametrize("stretch", [1, 3])
def test_vegas95_doubles_in_every_other_round_trip(vegas95, stretch):
    vegas95.start({"init_cwnd": 12}, now=0)
    assert many_rtts(vegas95, 5, stretch=stretch) == [12, 24, 24, 48, 48]


@pytest.mark.parametrize("w, rtt, ssthresh, phase, left", [
    (16, 42_666, 2**31 - 1, DOUBLE, 17), (16, 42_667, 2**31 - 1, HOLD, 14),  # from gamma, 1 packet, on an eighth less
    (20, 42_105, 2, UP, 20 + 1 / 20), (20, 42_106, 2, HOLD, 20),  # alpha, 1 packet
    (20, 47_058, 2, HOLD, 20), (20, 47_059, 2, HOLD, 19),  # beta, 3 packets
])  # fmt: skip
def test_vegas95_judges_the_packets_in_the_queue(vegas95, w, rtt, ssthresh, phase, left):
    """RTTmin 40 ms: 1 of 16 packets is in the queue at 42.667 ms, of 20 at 42.1053, 3 of 20 at 47.0588."""
    judged = {"ca__over": 1, "ca__rtt_mean": rtt, "ca__rtt_min": 40 * MS, "ca__phase": HOLD}
    at_rest(vegas95, w * ONE, ssthresh=ssthresh, ca__w_q20=w * ONE, **judged)
    vegas95.ack()
    assert own(vegas95)["phase"] == phase and own(vegas95)["w_q20"] / ONE == pytest.approx(left, abs=1e-5)
    assert count(vegas95, "exits") == (left == 14)


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
    assert many_rtts(vegas95, 11, start=10**6) == [2, 2, 4, 4, 8, 8, 16, 16, 20, 21, 22]


# --- Compound TCP ---


def round_ends(ctcp, cwnd, dwnd, srtt=40 * MS):
    """One ACK ends a round on a path of 40 ms: dwnd after it."""
    at_rest(ctcp, (cwnd + dwnd) * ONE, ca__cwnd_q20=cwnd * ONE, ca__dwnd_q20=dwnd * ONE, ca__rtt_min=40 * MS,
            ca__round_end=0, srtt_us=srtt << 3)  # fmt: skip
    ctcp.ack()
    return own(ctcp)["dwnd_q20"] / ONE


@pytest.mark.parametrize(
    "w, gained", [(38, 0), (39, 0.95075), (256, 7), (4096, 63), (65_536, 511), (W_MAX // 2, 2434.5)]
)
def test_ctcp_grows_by_an_eighth_of_the_window_to_three_quarters(ctcp, w, gained):
    """win^0.75 / 8 - 1: 256^0.75 = 64, 4096^0.75 = 512, 65536^0.75 = 4096. Up to low_window, 38, it is Reno."""
    assert round_ends(ctcp, w, 0) == pytest.approx(gained, abs=5e-5, rel=1e-4)


@pytest.mark.parametrize("srtt, moved", [(57_142, 2.95285), (57_143, -30), (80_000, -50), (160_000, -60)])
def test_ctcp_retreats_from_gamma_on(ctcp, srtt, moved):
    """100 packets, RTTmin 40 ms: 30 of them are in the queue at 57.143 ms, 50 at 80, 75 at 160; dwnd has 60."""
    assert round_ends(ctcp, 40, 60, srtt) - 60 == pytest.approx(moved, abs=1e-3)


@pytest.mark.parametrize("cwnd, dwnd", [(60, 40), (100, 0), (10, 13)])
def test_ctcp_halves_both(ctcp, cwnd, dwnd):
    """Below 38 packets too: 60 becomes 30, not 15."""
    sending(ctcp, (cwnd + dwnd) * ONE, ca__cwnd_q20=cwnd * ONE, ca__dwnd_q20=dwnd * ONE, ca__rtt_min=40 * MS)
    ctcp.loss()
    assert tp(ctcp)["snd_ssthresh"] == (cwnd + dwnd) // 2
    repaired(ctcp)
    assert own(ctcp)["dwnd_q20"] == dwnd * ONE // 2 and tp(ctcp)["snd_cwnd"] == (cwnd + dwnd) // 2


# --- TCP Adaptive Reno ---


C_ONE = 1 << 16
MSS = 1250  # 10000 bits


def level(areno, w, mbit=100, rtt=40 * MS, cong=80 * MS, probe=0, n=1, params=None, **keys):
    """A connection amid a round with this RTT and RTTcong, RTTmin 40 ms."""
    at_rest(areno, w * ONE, params, flight=n, ca__base_q20=(w - probe) * ONE, ca__probe_q20=probe * ONE,
            ca__rtt_min=40 * MS, ca__rtt_max=max(40 * MS, rtt), ca__rtt_last=rtt, ca__rtt_q4=rtt << 4,
            ca__rtt_cong=cong, ca__b_q8=mbit * 1_000_000 * 256 // (8 * MSS), mss_cache=MSS, **keys)  # fmt: skip


@pytest.mark.parametrize("mbit, c, increase", [
    (100, 0, 8.00054), (100, 0.25, -0.67885), (1000, 0, 80.00545), (1000, 0.1, 18.79239), (1000, 0.5, -9.32575),
    (1000, 1, 0),
])  # fmt: skip
@pytest.mark.parametrize("at_1", [0, 1])
def test_areno_increase_by_hand(areno, mbit, c, increase, at_1):
    """Winc_max is 10 packets at 100 Mbit/s: 10 - 2 (1 - 0.6 / 22026) at c = 0, and 1 as printed."""
    level(areno, 2000, mbit, 40 * MS + round(40 * MS * c), probe=1000, n=2000, params={"winc_at_1": at_1})
    areno.ack(n=2000)
    assert own(areno)["c_q16"] == int(c * C_ONE)
    assert own(areno)["probe_q20"] / ONE - 1000 == pytest.approx(increase + at_1, abs=0.003 * mbit / 10)


@pytest.mark.parametrize("rtt, cong, rtt_max, c", [
    (40, 80, 80, 0), (50, 80, 80, 0.25), (80, 80, 80, 1), (200, 80, 200, 1), (41, 40, 90, 1), (50, 0, 80, 0.25),
])  # fmt: skip
def test_areno_congestion_level(areno, rtt, cong, rtt_max, c):
    """RTTmin 40; a RTTcong of 0: no loss yet."""
    level(areno, 100, rtt=rtt * MS, cong=cong * MS)
    areno.poke(ca__rtt_max=rtt_max * MS)
    areno.ack()
    assert own(areno)["c_q16"] == c * C_ONE


@pytest.mark.parametrize("rtt, cong, left, new_cong", [
    (60, 80, 649, 77),  # 0.85 * 80 + 0.15 * 60; c = 20/37; 1000 / 1.5405
    (40, 80, 1000, 74), (120, 80, 500, 86), (50, 0, 500, 50),  # the first loss
])  # fmt: skip
def test_areno_loss_by_hand(areno, rtt, cong, left, new_cong):
    level(areno, 1000, rtt=rtt * MS, cong=cong * MS, n=1000)
    areno.poke(ca__rtt_max=200 * MS)
    areno.loss()
    assert (tp(areno)["snd_ssthresh"], own(areno)["rtt_cong"]) == (left, new_cong * MS)


def test_areno_random_loss_on_a_queue_shorter_than_a_tick_costs_nothing(areno):
    """RTTmin 40 ms, a queue of 30 us at each loss: the paper's clock does not see it, one of microseconds halves."""
    for tick_us, left in ((4 * MS, 100), (0, 50)):
        sending(areno, 100 * ONE, {"tick_us": tick_us}, ca__base_q20=100 * ONE)
        areno.ack(now=103 * MS, rtt=40_000)
        areno.ack(now=103 * MS, rtt=40_030)
        areno.loss(now=104 * MS)
        assert tp(areno)["snd_ssthresh"] == left


def test_areno_retreat_is_no_reason_for_slow_start(areno):
    level(areno, 2000, 1000, rtt=60 * MS, probe=1000, n=2000)
    areno.poke(snd_ssthresh=2000)
    areno.ack(n=2000)
    assert own(areno)["probe_q20"] < 1000 * ONE
    assert tp(areno)["snd_ssthresh"] == tp(areno)["snd_cwnd"] < 2000


# --- CUBIC of RFC 9438 ---


C = 0.4


def after_a_loss(cubic, window, **params):
    """Recovered from one loss of a full window, with all of 0.7 of it in flight again."""
    cubic.start(params, now=0, tx_start=0, snd_cwnd=window, snd_ssthresh=window, srtt_us=320 * MS)
    cubic.loss(n=1, sack=window - 1, now=1)
    recover(cubic, now=2, rtt=-1)


def curve(t, w_max, w_epoch):
    k = ((w_max - w_epoch) / C) ** (1 / 3)
    return C * (t - k) ** 3 + w_max


@pytest.mark.parametrize("window, rtt", [(100, 20), (500, 100), (3000, 100)])
def test_the_window_of_cubic_follows_the_curve(cubic, window, rtt):
    """(1) and (2), or (4) where that is more; the smoothed RTT makes some 120 ms of play."""
    after_a_loss(cubic, window)
    w = est = epoch = window * 7 // 10
    began, now = None, 3
    for _ in range(3 * 10**3 // rtt):
        flight = tp(cubic)["packets_out"]
        at = [now + i * rtt * MS // flight for i in range(flight)]
        for t, answer in zip(at, cubic.batch([line("ack", rtt=rtt * MS, now=t) for t in at])):
            began = began or t
            est += (9 / 17 if est < window else 1) / w
            s, w = (t - began) / 1e6, answer["cwnd"]
            early, late = curve(s - 0.12, window, epoch), curve(s + 0.12, window, epoch)
            assert max(early, est) - 2 <= w <= max(late, est) + 2
        now = at[-1] + rtt * MS // flight


@pytest.mark.parametrize("params, second, w_max", [({}, 60, 51), ({}, 120, 120), ({"fast_convergence": 0}, 60, 60)])
def test_fast_convergence_of_cubic(cubic, params, second, w_max):
    """A window lost below W_max, of 100, lowers W_max to 0.85 of it."""
    after_a_loss(cubic, 100, **params)
    cubic.poke(snd_cwnd=second)
    cubic.loss(n=1, sack=3, now=10 * MS)
    assert own(cubic)["now.wmax_q20"] / ONE == pytest.approx(w_max, abs=0.01)
