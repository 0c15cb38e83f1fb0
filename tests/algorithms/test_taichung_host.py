# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Taichung's own source, compiled for the host with sanitizers: (5) to (12), Fig. 2 and its samples by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.algorithms.host import rivals
from tests.algorithms.host.bottleneck import Link, run
from tests.algorithms.host.driver import line
from tests.algorithms.host.rivals import ONE, own
from tests.algorithms.host.streams import MS, W_MAX, one_rtt, recover

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


# --- Samples ---


# Samples


def test_average_keeps_seven_eighths(taichung):
    at_rest(taichung, 10 * ONE, {}, 800_000, base=1)
    sample(taichung, 400)
    assert own(taichung)["inter_ack_ns"] == 750_000


# Window 10, smallest 400 us. (filter, average, sample, accepted)
@pytest.mark.parametrize("mode, average, us, taken", [
    (0, 500, 10**6, True),
    (1, 500, 3999, True), (1, 500, 4000, False), (1, 500, 4001, False),  # sample < cwnd InterACK_min
    (1, 5000, 4999, True), (1, 5000, 5000, False),                       # or sample < average
    (1, 5000, 4000, True), (1, 4000, 4000, False),
    (2, 3999, 400, True), (2, 4000, 400, False),                         # average < cwnd InterACK_min
    (2, 4000, 4001, True), (2, 4000, 4000, False), (2, 4000, 3999, False),  # or sample > average
])  # fmt: skip
def test_filter(taichung, mode, average, us, taken):
    at_rest(taichung, 10 * ONE, {"filter_mode": mode}, average * 1000, 400_000, base=1)
    assert sample(taichung, us) == (taken, not taken)
    assert own(taichung)["inter_ack_ns"] == ((7 * average + us) * 1000 // 8 if taken else average * 1000)


# The span of a sample


@pytest.mark.parametrize("coalesce, base, span", [
    (200, 40 * MS, 200), (200, 51_456, 201), (0, 40 * MS, 156), (0, 255, 1), (5000, 40 * MS, 5000), (200, 10**6, 3906),
])  # fmt: skip
def test_least_span(taichung, coalesce, base, span):
    for us in (span - 1, span):
        at_rest(taichung, 10 * ONE, {"coalesce_us": coalesce}, base=base)
        assert sample(taichung, us) == (us == span, 0)


def clumps(taichung, size, count, period, n=1, apart=1, **params):
    """Packets each `period` us, their ACKs in clumps of `size`, `apart` us. InterACK and the smallest sample, us."""
    at_rest(taichung, 500 * ONE, params, base=90 * MS, flight=size * count * n)
    lines = [
        line("ack", n=n, now=2 * 10**6 + i * size * n * period + j * apart) for i in range(count) for j in range(size)
    ]
    taichung.batch(lines)
    ca = own(taichung)
    return ca["inter_ack_ns"] / 1000, ca["inter_min_ns"] / 1000


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 45])
def test_clumps_of_acks_measure_the_bottleneck(taichung, size):
    """10 Mbit/s, 552 bytes; without the least span the gaps of 1 us pass for packets."""
    assert clumps(taichung, size, 40, 442) == (pytest.approx(442, rel=0.02), pytest.approx(442, rel=0.02))
    if size > 2:
        assert clumps(taichung, size, 40, 442, coalesce_us=0)[1] == pytest.approx(442, rel=0.02)  # RTTmin / 256
        at_rest(taichung, 500 * ONE, {"coalesce_us": 0}, base=255, flight=1000)
        taichung.batch([line("ack", now=2 * 10**6 + i * size * 442 + j) for i in range(40) for j in range(size)])
        assert own(taichung)["inter_min_ns"] <= 1000


@pytest.mark.parametrize("size", [64, 128])
def test_acks_that_the_other_direction_presses_together(taichung, size):
    """Behind a packet of data they leave a queue at its rate, 32 us each. A span of RTTmin / 16 has the gap in it."""
    assert clumps(taichung, size, 40, 442, apart=32)[0] < 0.9 * 442
    inter, least = clumps(taichung, size, 40, 442, apart=32, span_q8=16)
    assert inter == pytest.approx(442, rel=0.1) and least >= 0.5 * 442


@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_delayed_acks_measure_the_same(taichung, n):
    assert clumps(taichung, 1, 40, 442, n) == (442, 442)


def test_selectively_acknowledged_packets_count(taichung):
    at_rest(taichung, 100 * ONE, {}, base=40 * MS, flight=20)
    for i in range(11):
        taichung.ack(n=0, sack=1, now=2 * 10**6 + i * 442)
    assert own(taichung)["inter_ack_ns"] == 442_000 and counted(taichung, "samples") == (10,)
    taichung.ack(n=12, now=2 * 10**6 + 11 * 442)  # one more, and eleven that counted before
    assert own(taichung)["inter_ack_ns"] == 442_000 and counted(taichung, "samples") == (11,)


# The first gap of a round


@pytest.mark.parametrize("initial, stretch", [(1, 1), (2, 1), (2, 2), (10, 1), (10, 2)])
def test_no_gap_between_flights_becomes_a_sample(taichung, initial, stretch):
    taichung.start({"init_cwnd": initial}, now=0)
    seen = set()
    for i in range(4):
        one_rtt(taichung, i * 90 * MS, rtt=90 * MS, gap=442 * stretch, stretch=stretch)
        seen.add(own(taichung)["inter_ack_ns"])
    assert seen - {0} == {442_000}
    assert own(taichung)["inter_min_ns"] == 442_000 and counted(taichung, "rejected") == (0,)
    assert own(taichung)["w_q20"] == initial * ONE << 4


@pytest.mark.parametrize("ends", ["", "growth", "loss"])
def test_the_gap_between_flights_becomes_a_sample_once_slow_start_has_ended(taichung, ends):
    taichung.start({"init_cwnd": 10, "skip_first_gap": 2, "filter_mode": 2}, now=0)
    one_rtt(taichung, 0, rtt=90 * MS, gap=442)
    if ends == "growth":
        taichung.poke(ca__fresh=0, snd_ssthresh=2)
    elif ends == "loss":
        taichung.loss()
        recover(taichung, now=100 * MS, rtt=-1)
    slowest = 0
    for i in range(2, 5):
        one_rtt(taichung, i * 90 * MS, rtt=90 * MS, gap=442)
        slowest = max(slowest, own(taichung)["inter_ack_ns"])
    assert own(taichung)["left"] == bool(ends) and (slowest > 450_000) == bool(ends)


def test_a_round_begins_with_the_ack_of_what_the_last_let_go(taichung):
    """Its first ACK only sets the mark; all gaps within it are samples."""
    sending(taichung, 8 * ONE, {}, inter=442_000, snd_ssthresh=2, ca__fresh=0)
    counts, marks = [], []
    for i in range(24):
        taichung.ack(now=10**6 + 40 * MS * (i // 8 + 1) + 442 * (i % 8), rtt=40 * MS)
        counts.append(counted(taichung, "samples")[0])
        marks.append(own(taichung)["mark"])
    gained = [b - a for a, b in zip([0, *counts], counts)]
    assert gained[:8] == gained[8:16] == [0] + [1] * 7
    assert marks[8] == 10**6 + 80 * MS


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
    assert own(taichung)["inter_min_ns"] == 442_000
    assert own(taichung)["inter_ack_ns"] == pytest.approx(442_000, rel=0.02)
    assert counted(taichung, "rejected") == (0,)
