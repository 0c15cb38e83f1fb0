# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Taichung's own source, compiled for the host with sanitizers: (5) to (12), Fig. 2 and its samples by hand."""

import pytest

from tests.algorithms.host import rivals
from tests.algorithms.host.bottleneck import Link, run
from tests.algorithms.host.driver import line
from tests.algorithms.host.rivals import ONE, own
from tests.algorithms.host.streams import MS, one_rtt, recover


def at_rest(taichung, w, params=None, inter=0, least=None, base=40 * MS, rtt=None, flight=1, **keys):
    """A connection with this window and InterACK (ns), amid a round, its window filled, no data left."""
    state = {
        "now": 10**6, "ca__w_q20": w * ONE, "ca__ack_stamp": 10**6, "ca__mark": 0, "ca__fresh": inter > 0,
        "ca__rtt_min": base, "ca__rtt_last": base if rtt is None else rtt, "ca__inter_ack_ns": inter,
        "ca__inter_min_ns": inter if least is None else least,
    }  # fmt: skip
    rivals.at_rest(taichung, w * ONE, params, flight, 2**31 - 1, **state | keys)


def counted(taichung, *names):
    counters = taichung.state()["counters"]
    return tuple(counters[name] for name in names)


# Thresholds: (6) and (10)


def test_numbers_of_a_path(taichung):
    """10 Mbit/s, 90 ms, 552 bytes: 204.8 packets fill it; 170.7 when RTT is 108 ms, by Fig. 2's sum 205.6."""
    for mode, net in ((0, 170.7), (1, 204.8 + 0.83)):
        at_rest(taichung, 10, {"net_mode": mode}, 441_600, base=90 * MS, rtt=108 * MS)
        taichung.ack()
        assert own(taichung)["ideal_q4"] / 16 == pytest.approx(204.8, abs=0.1)
        assert own(taichung)["net_q4"] / 16 == pytest.approx(net, abs=0.1)
    assert taichung.state()["tp"]["snd_ssthresh"] == 204  # nothing shrinks


# Noise parts the ACKs of the first windows


def rounds(taichung, rtts, now=0):
    """The window at the end of each round, whose ACKs come each 2 ms, as from a path of 21 packets; the time."""
    windows = []
    for rtt in rtts:
        windows.append(one_rtt(taichung, now, rtt * MS, gap=2 * MS)[-1])
        now += rtt * MS + 2 * MS * windows[-1]
    return windows, now


@pytest.mark.parametrize("params, rtts, doubles", [
    ({}, [40, 46, 40], True),
    ({}, [40, 42, 40], False),  # a sixteenth of 40 ms is more
    ({}, [40, 46, 52, 58], False),
    ({"noise_start": 0}, [40, 46, 40], False),
    ({}, [40] * 31 + [46, 40], False),
])  # fmt: skip
def test_noise_begins_another_start(taichung, params, rtts, doubles):
    """The first ACK of a round that comes much earlier than that of the last is noise, so InterACK ends no start."""
    taichung.start(params, now=0, tx_start=0)
    windows, _ = rounds(taichung, [*rtts, rtts[-1]])
    assert (windows[-1] > 1.5 * windows[-2]) == doubles, windows


def test_an_idle_time_is_no_noise(taichung):
    """The queue of what was sent before it is gone."""
    taichung.start({}, now=0, tx_start=0)
    _, now = rounds(taichung, [40, 46])
    windows, _ = rounds(taichung, [40, 40], now + 10**6)
    assert windows[-1] < 1.5 * windows[-2]


def test_noise_after_a_loss_begins_none(taichung):
    taichung.start({}, now=0, tx_start=0)
    (*_, window), now = rounds(taichung, [40, 46])
    taichung.batch([line("loss", n=1, now=now)])
    recover(taichung, now=now + 46 * MS, rtt=46 * MS)
    windows, _ = rounds(taichung, [40, 40], now + 100 * MS)
    assert windows[-1] < 1.5 * window


# From own_q packets queued on the flow's own rate gives ideal


@pytest.mark.parametrize("own_q, rtt, ended", [(0, 80, 0), (4, 44, 0), (4, 45, 1), (4, 80, 1), (2, 42, 0), (1, 42, 1)])
def test_own_queue_ends_slow_start(taichung, own_q, rtt, ended):
    """The ACKs of a clump say 1001 packets. 20, 3.6, 4.4, 20, 1.9 and 1.9 of 40 packets are queued."""
    at_rest(taichung, 40, {"own_q": own_q}, 40_000, rtt=rtt * MS, flight=40)
    taichung.ack()
    assert counted(taichung, "exponential_acks", "linear_acks") == (1 - ended, ended)


# Growth: Fig. 2


@pytest.mark.parametrize("rtt, threshold", [(40, 101), (80, 50)])
@pytest.mark.parametrize("n", [1, 5])
def test_growth_stops_exactly_at_the_threshold(taichung, rtt, threshold, n):
    """RTTmin / InterACK + 1 = 101, and half of it at twice the RTT."""
    at_rest(taichung, 40, {"own_q": 0}, 400_000, rtt=rtt * MS, flight=200)
    trace = [taichung.ack(n=n)["cwnd"] for _ in range(200 // n)]
    up = [w for w in trace if w < threshold]
    assert up == [40 + n * i for i in range(1, len(up) + 1)]
    assert trace[len(up)] == threshold
    beyond = len(trace) * n - (threshold - 40)
    assert trace[-1] == threshold + int(beyond / (threshold + beyond / threshold / 2))  # a packet a window
    assert taichung.state()["tp"]["snd_ssthresh"] == threshold


# Loss: (11) and (12)


@pytest.mark.parametrize("percent, left", [(100, 1001), (90, 484), (50, 30)])
def test_forged_duplicates_at_a_flat_rtt_cut_as_the_bound_says(taichung, percent, left):
    """In each fourth of twenty round trips. By InterACK 1001 packets fill the path: 800 in flight at the first."""
    at_rest(taichung, 100, {"loss_beta_percent": percent}, inter=40_000)
    rivals.go_on(taichung)
    for i in range(1, 21):
        now = 10**6 + 40 * MS * i
        if i % 4:
            one_rtt(taichung, now - 40 * MS, gap=40)
        else:
            taichung.loss(now=now)
            recover(taichung, now=now + 1, rtt=40 * MS)
    assert taichung.state()["tp"]["snd_cwnd"] == pytest.approx(left, rel=0.02)


def left_by_a_loss(taichung, params=None, inter=40_000, lost=20, delivered=500, **state):
    """A loss, after so many others at a flat RTT, leaves this part of 40 packets. By InterACK the path holds 1001."""
    own = {f"ca__{name}": value for name, value in state.items()}
    at_rest(taichung, 40, params, inter, flight=40, lost=lost, delivered=delivered, **own)
    taichung.loss()
    return taichung.state()["tp"]["snd_ssthresh"] / 40


@pytest.mark.parametrize(
    "left, case",
    [
        (0.5, {}),  # 20 of 520
        (1, {"delivered": 1500}),
        (1, {"lost": 14, "delivered": 200}),
        (1, {"inter": 600_000}),  # 67 packets fill the path
        (1, {"params": {"own_q": 0}}),
        (1, {"params": {"ecn_beta_percent": 0}}),
        (0.5, {"crowded": 1, "delivered": 1500}),
        (1, {"crowded": 1, "delivered": 2500}),
        (0.5, {"crowded": 1, "lost": 0}),
    ],
)
def test_losses_of_many_packets_are_congestion_where_the_flow_has_a_small_part(taichung, left, case):
    assert left_by_a_loss(taichung, **case) == left
    assert own(taichung)["held"] == (left < 1)


@pytest.mark.parametrize("left, air, percent, rtt", [(1, 1, 10, 40), (0.5, 0, 20, 40), (0.5, 0, 10, 50)])
def test_losses_that_a_smaller_window_does_not_lower_are_of_the_air(taichung, left, air, percent, rtt):
    """A tenth is lost; at the larger window so much was, and RTTmin was so long."""
    case = {"crowded": 1, "percent_then": percent, "rtt_then": rtt * MS}
    assert left_by_a_loss(taichung, lost=100, delivered=900, **case) == left
    assert own(taichung)["air"] == air


@pytest.mark.parametrize("rtt, held", [(40, 0), (51, 0), (54, 1)])
def test_after_a_loss_with_a_quarter_queued_growth_is_renos(taichung, rtt, held):
    at_rest(taichung, 40, inter=40_000, rtt=rtt * MS, flight=40)
    taichung.loss()
    assert own(taichung)["held"] == 2 * held


@pytest.mark.parametrize("wait, fresh", [(0, 0), (5 * MS, 1)])
def test_where_acks_wait_the_window_follows_the_rtt_after_such_a_loss(taichung, wait, fresh):
    at_rest(taichung, 40, inter=40_000, flight=40, ca__held=2, ca__wait=wait, ca__fresh=0, ca__mark=10**6)
    taichung.ack(n=8, now=10**6 + wait + 8 * MS)
    assert own(taichung)["fresh"] == fresh


@pytest.mark.parametrize("began, ended, inter", [(0, 30, 10), (30, 0, 70), (20, 20, 40), (0, 35, 0), (50, 0, 90)])
def test_the_wait_of_acks_is_no_time_between_them(taichung, began, ended, inter):
    """40 ms between ACKs that waited so long, ms; a packet is covered. If it waited, less than 8 ms tells nothing."""
    at_rest(taichung, 40, rtt=200 * MS, flight=40, ca__mark=10**6 - began * MS, ca__wait=ended * MS)
    taichung.ack(now=10**6 + 40 * MS)
    assert own(taichung)["inter_ack_ns"] == inter * 10**6


def test_least_sample_goes_with_rtt_min(taichung):
    """A path that changed: what was the least time between ACKs there is no measure here."""
    drained = {"ca__drain_ms": 1000, "ca__rtt_drained": 60 * MS, "ca__rtt_min": 40 * MS}
    at_rest(taichung, 10, {"rtt_min_win_s": 10}, 400_000, least=1000, flight=100, **drained)
    taichung.ack(now=2 * 10**6, rtt=70 * MS)
    assert own(taichung)["rtt_min"] == 60 * MS
    assert own(taichung)["inter_min_ns"] == 0


# A path: 10 Mbit/s, 90 ms, 552-byte packets


PACKET_S = 441.6e-6
BDP = 0.09 / PACKET_S


def slow_start_exit(taichung, seconds=2, every=1, **params):
    """The window at the first ACK that does not raise it by what it acknowledges; InterACK at the end."""
    [trace] = run(Link(PACKET_S, 32e-6, 0.09), [taichung], [{"own_q": 0} | params], seconds, every=every)
    windows = [params.get("init_cwnd", 10), *(w for _, w, _ in trace)]
    return next(a for a, b in zip(windows, windows[1:]) if b < a + every), own(taichung)["inter_ack_ns"] / 1000


@pytest.mark.parametrize("initial, every", [(1, 1), (4, 1), (10, 1), (2, 2), (10, 2)])
def test_slow_start_ends_where_the_path_is_full(taichung, initial, every):
    left, inter = slow_start_exit(taichung, every=every, init_cwnd=initial)
    assert 0.85 * BDP <= left <= 1.2 * BDP
    assert inter == pytest.approx(441.6, rel=0.005)


@pytest.mark.parametrize("initial", [1, 10])
def test_what_ends_slow_start_early(taichung, initial):
    """The gaps between the first flights: the skip keeps them out, the filter most of them from 2 packets on."""
    kept, _ = slow_start_exit(taichung, init_cwnd=initial)
    assert slow_start_exit(taichung, init_cwnd=initial, filter_mode=0)[0] == kept  # nothing is left for a filter
    filtered, inter = slow_start_exit(taichung, init_cwnd=initial, skip_first_gap=0)
    assert filtered == 2 if initial == 1 else 0.75 * BDP <= filtered <= 0.9 * BDP
    assert inter == pytest.approx(441.6, rel=0.005) and counted(taichung, "rejected") > (0,)
    left, inter = slow_start_exit(taichung, init_cwnd=initial, skip_first_gap=0, filter_mode=0)
    assert left <= 0.1 * BDP and inter == pytest.approx(441.6, rel=0.005)  # it recovers in the end
    left, inter = slow_start_exit(taichung, init_cwnd=initial, skip_first_gap=0, filter_mode=2)
    assert left <= 0.1 * BDP and inter > 100 * 441.6  # the good samples are what it rejects: there it stays
    assert taichung.state()["tp"]["snd_cwnd"] <= 0.25 * BDP


# Samples: (5)


# Window 10, smallest 400 us. (filter, average, sample, accepted)
@pytest.mark.parametrize("mode, average, us, taken", [
    (0, 500, 10**6, True),
    (1, 500, 3999, True), (1, 500, 4000, False),  # sample < cwnd InterACK_min
    (1, 5000, 4999, True), (1, 5000, 5000, False),  # or sample < average
    (2, 3999, 400, True), (2, 4000, 400, False),  # average < cwnd InterACK_min
    (2, 4000, 4001, True), (2, 4000, 4000, False),  # or sample > average
])  # fmt: skip
def test_filter_and_average(taichung, mode, average, us, taken):
    """Seven eighths of the average are kept."""
    at_rest(taichung, 10, {"filter_mode": mode}, average * 1000, 400_000, base=1)
    taichung.ack(now=10**6 + us, ca__mark=10**6, ca__mark_delivered=taichung.state()["tp"]["delivered"])
    assert counted(taichung, "samples", "rejected") == (taken, not taken)
    assert own(taichung)["inter_ack_ns"] == ((7 * average + us) * 1000 // 8 if taken else average * 1000)


def clumps(taichung, size, n=1, apart=1, **params):
    """Packets each 442 us, their ACKs in clumps of `size`, `apart` us. InterACK and the smallest sample, us."""
    at_rest(taichung, 500, params, base=90 * MS, flight=size * 40 * n)
    taichung.batch([
        line("ack", n=n, now=2 * 10**6 + i * size * n * 442 + j * apart) for i in range(40) for j in range(size)
    ])  # fmt: skip
    return own(taichung)["inter_ack_ns"] / 1000, own(taichung)["inter_min_ns"] / 1000


@pytest.mark.parametrize("size, n", [(1, 1), (1, 2), (1, 10), (2, 1), (8, 1), (45, 1)])
def test_clumps_of_acks_and_delayed_ones_measure_the_bottleneck(taichung, size, n):
    """10 Mbit/s, 552 bytes. A sample spans at least coalesce_us, or RTTmin / 256."""
    assert clumps(taichung, size, n) == (pytest.approx(442, rel=0.02), pytest.approx(442, rel=0.02))
    assert clumps(taichung, size, n, coalesce_us=0)[1] == pytest.approx(442, rel=0.02)


@pytest.mark.parametrize("size", [64, 128])
def test_acks_that_the_other_direction_presses_together(taichung, size):
    """Behind a packet of data they leave a queue at its rate, 32 us each. A span of RTTmin / 16 has the gap in it."""
    assert clumps(taichung, size, apart=32)[0] < 0.9 * 442
    inter, least = clumps(taichung, size, apart=32, span_q8=16)
    assert inter == pytest.approx(442, rel=0.1) and least >= 0.5 * 442


# The first gap of a round


@pytest.mark.parametrize("initial, stretch", [(1, 1), (2, 2), (10, 1)])
def test_no_gap_between_flights_becomes_a_sample(taichung, initial, stretch):
    taichung.start({"init_cwnd": initial}, now=0)
    for i in range(4):
        one_rtt(taichung, i * 90 * MS, rtt=90 * MS, gap=442 * stretch, stretch=stretch)
        assert own(taichung)["inter_ack_ns"] in (0, 442_000)
    assert own(taichung)["inter_min_ns"] == 442_000 and counted(taichung, "rejected") == (0,)
    assert own(taichung)["w_q20"] == initial * ONE << 4


def test_a_long_time_limited_by_the_application_ends_the_round(taichung):
    """More than 2^31 bytes later the sequence numbers of that round seem to lie ahead."""
    taichung.start({}, snd_cwnd=16000, snd_ssthresh=100, seg=65535, mss_cache=65535, app=10000, now=10**6)
    now = 10**6
    for _ in range(4):
        now += 90 * MS
        taichung.ack(n=10000, now=now, rtt=90 * MS)
    assert taichung.state()["cwnd_limited"] == 0
    taichung.poke(snd_cwnd=10, ca__cwnd=10, ca__w_q20=10 * ONE)
    taichung.ack(n=taichung.state()["tp"]["packets_out"], now=now + 1, rtt=90 * MS)
    taichung.send(app=2**32 - 1, now=now + 2)
    for i in range(4):
        one_rtt(taichung, now + i * 90 * MS, rtt=90 * MS, gap=442)
    assert own(taichung)["inter_min_ns"] == 442_000 and counted(taichung, "rejected") == (0,)
    assert own(taichung)["inter_ack_ns"] == pytest.approx(442_000, rel=0.02)
