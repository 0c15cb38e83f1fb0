# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Taichung's own source, compiled for the host with sanitizers, against equations (5) to (12) and Fig. 2."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.algorithms.host.bottleneck import Link, run
from tests.algorithms.host.driver import line
from tests.algorithms.host.streams import MS, one_rtt, recover
from tests.algorithms.host.taichung import ONE, at_rest, counted, own, sending

# Thresholds: (6) and (10)


def test_numbers_of_a_path(taichung):
    """10 Mbit/s, 90 ms, 552 bytes: 204.8 packets fill it; 170.7 of them when RTT is 108 ms."""
    at_rest(taichung, 10 * ONE, {}, 441_600, base=90 * MS, rtt=108 * MS)
    taichung.ack()
    ca = own(taichung)
    assert ca["ideal_q4"] / 16 == pytest.approx(204.8, abs=0.1)
    assert ca["net_q4"] / 16 == pytest.approx(170.7, abs=0.1)
    at_rest(taichung, 10 * ONE, {"net_mode": 1}, 441_600, base=90 * MS, rtt=108 * MS)
    taichung.ack()
    assert own(taichung)["net_q4"] / 16 == pytest.approx(204.8 + 0.83, abs=0.1)
    assert taichung.state()["tp"]["snd_ssthresh"] == 204  # nothing shrinks


# From own_q packets queued on the flow's own rate gives ideal


@pytest.mark.parametrize("own_q, rtt, ended", [(0, 80, 0), (4, 44, 0), (4, 45, 1), (4, 80, 1), (2, 42, 0), (1, 42, 1)])
def test_own_queue_ends_slow_start(taichung, own_q, rtt, ended):
    """The ACKs of a clump say 1001 packets. 20, 3.6, 4.4, 20, 1.9 and 1.9 of 40 packets are queued."""
    at_rest(taichung, 40 * ONE, {"own_q": own_q}, 40_000, rtt=rtt * MS, flight=40)
    taichung.ack()
    assert counted(taichung, "exponential_acks", "linear_acks") == (1 - ended, ended)
    taichung.ack(rtt=40 * MS)  # nothing is queued any more
    assert counted(taichung, "exponential_acks") == (2 - ended,)


# Growth: Fig. 2


@pytest.mark.parametrize("rtt, threshold", [(40, 101), (80, 50)])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_growth_stops_exactly_at_the_threshold(taichung, rtt, threshold, n):
    """RTTmin / InterACK + 1 = 101, and half of it at twice the RTT."""
    at_rest(taichung, 40 * ONE, {}, 400_000, rtt=rtt * MS, flight=200)
    trace = [taichung.ack(n=n)["cwnd"] for _ in range(200 // n)]
    up = [w for w in trace if w < threshold]
    assert up == [40 + n * i for i in range(1, len(up) + 1)]
    assert trace[len(up)] == threshold
    beyond = len(trace) * n - (threshold - 40)
    assert trace[-1] == threshold + int(beyond / (threshold + beyond / threshold / 2))  # a packet a window
    assert taichung.state()["tp"]["snd_ssthresh"] == threshold


@pytest.mark.parametrize("w", [2, 3, 8, 9, 100])
def test_linear_growth_takes_a_packet_after_exactly_a_window_as_linuxs_reno(taichung, w):
    """Three windows on end. By parts of the window, 8 + 1/2 packets would be needed at 8."""
    at_rest(taichung, w * ONE, {}, flight=3 * w + 3, snd_ssthresh=2)
    for more in range(3):
        taichung.batch([line("ack")] * (w + more - 1))
        assert own(taichung)["w_q20"] >> 20 == w + more
        assert taichung.ack()["cwnd"] == w + more + 1


# Loss: (11) and (12)


@settings(max_examples=40)
@given(
    lost=st.lists(st.booleans(), min_size=1, max_size=6),
    w=st.integers(4, 60),
    inter=st.sampled_from([0, 400_000]),
    gap=st.sampled_from([1, 400]),
)
def test_false_losses_at_a_flat_rtt_neither_slow_it_nor_let_it_beyond_an_undisturbed_one(taichung, lost, w, inter, gap):
    """Duplicate ACKs that somebody forges: (11) cuts what was queued, and nothing was."""
    windows = []
    for disturbed in (False, True):
        sending(taichung, w * ONE, {}, inter=inter, rtt=40 * MS)
        windows.append([])
        for i, loss in enumerate(lost):
            now = 10**6 + 40 * MS * (i + 1)
            before = taichung.state()["tp"]["snd_cwnd"]
            if disturbed and loss:
                taichung.loss(now=now)
                assert taichung.state()["tp"]["snd_ssthresh"] == before
                recover(taichung, now=now + 1, rtt=40 * MS)
            else:
                one_rtt(taichung, now - 40 * MS, gap=gap)
            windows[-1].append(taichung.state()["tp"]["snd_cwnd"])
            assert windows[-1][-1] >= before
    assert all(b <= a for a, b in zip(*windows))


@pytest.mark.parametrize("undone", [False, True])
def test_after_a_bounded_cut_growth_is_renos_till_a_loss_with_a_queue(taichung, undone):
    """1001 packets fill the path, says InterACK. At a flat RTT 90 % are left, at twice RTTmin (11) is less."""
    sending(taichung, 100 * ONE, {"loss_beta_percent": 90}, inter=40_000, rtt=40 * MS, now=10**6)
    taichung.loss(now=10**6 + 1)
    assert taichung.state()["tp"]["snd_ssthresh"] == 90
    if undone:
        taichung.undo(now=10**6 + 2)
    now = 10**6 + 40 * MS
    recover(taichung, now=now, rtt=40 * MS)
    for i in range(1, 4):
        one_rtt(taichung, now + 40 * MS * (i - 1), rtt=40 * MS, gap=40)
    assert own(taichung)["w_q20"] >> 20 == (1001 if undone else 94) and own(taichung)["fresh"] == undone
    now += 400 * MS
    one_rtt(taichung, now - 80 * MS, rtt=80 * MS, gap=40)
    taichung.loss(now=now + 10 * MS)
    recover(taichung, now=now + 80 * MS, rtt=80 * MS)
    one_rtt(taichung, now + 80 * MS, rtt=40 * MS, gap=40)
    assert own(taichung)["fresh"] == 1 and counted(taichung, "bounded") == (1,)


@pytest.mark.parametrize("percent, left", [(100, 1001), (90, 484), (50, 30)])
def test_forged_duplicates_at_a_flat_rtt_cut_as_the_bound_says(taichung, percent, left):
    """In each fourth of twenty round trips. By InterACK 1001 packets fill the path: 800 in flight at the first."""
    sending(taichung, 100 * ONE, {"loss_beta_percent": percent}, inter=40_000, rtt=40 * MS, now=10**6)
    for i in range(1, 21):
        now = 10**6 + 40 * MS * i
        if i % 4:
            one_rtt(taichung, now - 40 * MS, rtt=40 * MS, gap=40)
        else:
            taichung.loss(now=now)
            recover(taichung, now=now + 1, rtt=40 * MS)
    assert taichung.state()["tp"]["snd_cwnd"] == pytest.approx(left, rel=0.02)


def test_least_sample_goes_with_rtt_min(taichung):
    """A path that changed: what was the least time between ACKs there is no measure here."""
    drained = {"ca__drain_ms": 1000, "ca__rtt_drained": 60 * MS, "ca__rtt_min": 40 * MS}
    at_rest(taichung, 10 * ONE, {"rtt_min_win_s": 10}, 400_000, least=1000, flight=100, **drained)
    taichung.ack(now=2 * 10**6, rtt=70 * MS)
    assert own(taichung)["rtt_min"] == 60 * MS
    assert own(taichung)["inter_min_ns"] == 0


# A path: 10 Mbit/s, 90 ms, 552-byte packets


PACKET_S = 441.6e-6
BDP = 0.09 / PACKET_S


def slow_start_exit(taichung, seconds=2, every=1, **params):
    """The window at the first ACK that does not raise it by what it acknowledges; InterACK at the end."""
    [trace] = run(Link(PACKET_S, 32e-6, 0.09), [taichung], [params], seconds, every=every)
    windows = [params.get("init_cwnd", 10), *(w for _, w, _ in trace)]
    return next(a for a, b in zip(windows, windows[1:]) if b < a + every), own(taichung)["inter_ack_ns"] / 1000


@pytest.mark.parametrize("initial, every", [(1, 1), (2, 1), (4, 1), (10, 1), (2, 2), (4, 2), (10, 2)])
def test_slow_start_ends_where_the_path_is_full(taichung, initial, every):
    left, inter = slow_start_exit(taichung, every=every, init_cwnd=initial)
    assert 0.85 * BDP <= left <= 1.2 * BDP
    assert inter == pytest.approx(441.6, rel=0.005)


@pytest.mark.parametrize("initial", [1, 2, 4, 10])
def test_what_ends_slow_start_early(taichung, initial):
    """The gaps between the first flights: the skip keeps them out, the filter most of them from 2 packets on."""
    kept, _ = slow_start_exit(taichung, init_cwnd=initial)
    for mode in (0, 2):  # then nothing is left for a filter
        assert slow_start_exit(taichung, init_cwnd=initial, filter_mode=mode)[0] == kept
    filtered, inter = slow_start_exit(taichung, init_cwnd=initial, skip_first_gap=0)
    assert filtered == 2 if initial == 1 else 0.75 * BDP <= filtered <= 0.9 * BDP
    assert inter == pytest.approx(441.6, rel=0.005) and counted(taichung, "rejected") > (0,)
    left, inter = slow_start_exit(taichung, init_cwnd=initial, skip_first_gap=0, filter_mode=0)
    assert left <= 0.1 * BDP and inter == pytest.approx(441.6, rel=0.005)  # it recovers in the end
    left, inter = slow_start_exit(taichung, init_cwnd=initial, skip_first_gap=0, filter_mode=2)
    assert left <= 0.1 * BDP and inter > 100 * 441.6  # the good samples are what it rejects: there it stays
    assert taichung.state()["tp"]["snd_cwnd"] <= 0.25 * BDP


def test_the_sum_of_fig_2_shrinks_nothing(taichung):
    assert slow_start_exit(taichung, net_mode=1)[0] == 205
