# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What Taichung measures, on the host: InterACK, its filter, and which gaps are samples."""

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.algorithms.host.driver import line
from tests.algorithms.host.streams import MS, RTT_MAX, W_MAX, one_rtt, packets, recover
from tests.algorithms.host.taichung import GAP_MAX, ONE, at_rest, counted, gaps, own, sample, sending

# Samples


@given(us=st.integers(200, 10**7), n=packets)
@example(us=2**33, n=1)
@example(us=200, n=W_MAX)
@example(us=2**32 - 1, n=1)
def test_first_sample_seeds(taichung, us, n):
    at_rest(taichung, 10 * ONE, {}, base=1, flight=n)
    assert sample(taichung, us, n) == (1, 0)
    ca = own(taichung)
    assert ca["inter_ack_ns"] == ca["inter_min_ns"] == max(min(min(us, 2**32 - 1) * 1000 // n, GAP_MAX), 1)
    assert ca["fresh"] == 1
    assert (ca["mark"], ca["mark_delivered"]) == (10**6 + us, taichung.state()["tp"]["delivered"])


def test_a_sample_of_no_time_is_one_nanosecond(taichung):
    at_rest(taichung, 10 * ONE, {"coalesce_us": 0}, base=1, flight=W_MAX)
    assert sample(taichung, 1, W_MAX) == (1, 0)
    assert own(taichung)["inter_ack_ns"] == 1
    at_rest(taichung, 10 * ONE, {"coalesce_us": 0}, base=1)
    assert sample(taichung, 0) == (0, 0)


@given(
    average=gaps,
    us=st.integers(200, 5 * 10**6) | st.integers(200, 3000),
    n=st.integers(1, 1000),
    weight=st.integers(0, 255) | st.just(224),
)
@example(average=GAP_MAX, us=2**32, n=1, weight=255)
@example(average=1, us=200, n=W_MAX, weight=255)
def test_average_is_exact(taichung, average, us, n, weight):
    at_rest(taichung, 10 * ONE, {"avg_weight_q8": weight, "filter_mode": 0}, average, base=1, flight=n)
    assert sample(taichung, us, n) == (1, 0)
    one = max(min(min(us, 2**32 - 1) * 1000 // n, GAP_MAX), 1)
    ca = own(taichung)
    assert ca["inter_ack_ns"] == max((weight * average + (256 - weight) * one) >> 8, 1)
    assert ca["inter_min_ns"] == min(average, one)
    exact = Fraction(weight, 256) * average + Fraction(256 - weight, 256) * one
    assert 0 <= exact - ca["inter_ack_ns"] < 1 or ca["inter_ack_ns"] == 1


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


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_first_sample_passes_any_filter(taichung, mode):
    at_rest(taichung, ONE, {"filter_mode": mode}, base=1)
    assert sample(taichung, 10**6) == (1, 0)


@given(w=packets, average=gaps, share=st.fractions(0, 1), us=st.integers(200, 5 * 10**6), mode=st.integers(0, 2))
def test_filter_is_that_of_fig_2(taichung, w, average, share, us, mode):
    least = max(int(average * share), 1)
    at_rest(taichung, w * ONE, {"filter_mode": mode}, average, least, base=1)
    one = min(us * 1000, GAP_MAX)
    small = min(least, one)
    new, old = (one, average) if mode == 1 else (average, one)
    assert sample(taichung, us)[0] == (mode == 0 or Fraction(new, small) < w or old > new)


def test_window_of_the_filter_is_the_socket_s(taichung):
    at_rest(taichung, 10 * ONE, {}, 500_000, 400_000, base=1, snd_cwnd=20)
    assert sample(taichung, 7999) == (1, 0)
    at_rest(taichung, 10 * ONE, {}, 500_000, 400_000, base=1, snd_cwnd=20)
    assert sample(taichung, 8000) == (0, 1)


def test_a_rejected_sample_changes_nothing(taichung):
    for fresh in (0, 1):
        at_rest(taichung, 10 * ONE, {}, 500_000, 400_000, snd_ssthresh=30, ca__fresh=fresh)
        before = own(taichung)
        assert sample(taichung, 4000) == (0, 1)
        state = taichung.state()
        assert all(state["ca"][key] == before[key] for key in ("inter_ack_ns", "inter_min_ns", "fresh"))
        assert state["ca"]["mark"] == state["tp"]["tcp_mstamp"]  # the next begins here
        assert state["tp"]["snd_ssthresh"] == (81 if fresh else 30)


# What a sample spans


@pytest.mark.parametrize("coalesce, base, span", [
    (200, 40 * MS, 200), (200, 51_456, 201), (0, 40 * MS, 156), (0, 255, 1), (5000, 40 * MS, 5000), (200, 10**6, 3906),
])  # fmt: skip
def test_least_span(taichung, coalesce, base, span):
    for us in (span - 1, span):
        at_rest(taichung, 10 * ONE, {"coalesce_us": coalesce}, base=base)
        assert sample(taichung, us) == (us == span, 0)


@given(base=st.integers(1, RTT_MAX), share=st.integers(1, 256))
@example(base=RTT_MAX, share=256)
def test_least_span_is_a_share_of_rtt_min(taichung, base, share):
    span = max(base * share // 256, 200)
    for us in (span - 1, span):
        at_rest(taichung, 10 * ONE, {"span_q8": share}, base=base)
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


def test_ack_of_nothing_new_ends_no_sample(taichung):
    at_rest(taichung, 100 * ONE, {}, base=40 * MS)
    assert sample(taichung, 1000, n=0) == (0, 0)
    assert sample(taichung, 1000) == (1, 0)


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


@pytest.mark.parametrize("initial", [1, 2, 10])
def test_the_gap_between_flights_is_a_sample_if_so_asked(taichung, initial):
    taichung.start({"init_cwnd": initial, "skip_first_gap": 0, "filter_mode": 0}, now=0)
    worst = 0
    for i in range(4):
        one_rtt(taichung, i * 90 * MS, rtt=90 * MS, gap=442)
        worst = max(worst, own(taichung)["inter_ack_ns"])
    assert worst > 10**6


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
