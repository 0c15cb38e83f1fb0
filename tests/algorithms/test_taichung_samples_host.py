# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Taichung's measures, on the host: InterACK, its filter, and which gaps are samples."""

import pytest

from tests.algorithms.host.driver import line
from tests.algorithms.host.streams import MS, one_rtt, recover
from tests.algorithms.host.taichung import ONE, at_rest, counted, own, sample, sending

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
