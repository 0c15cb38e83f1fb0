# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The metrics against values worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asymlab.guest.job import Background, Bottleneck, ChangePath, End, Link, NewShape, Unshaped
from asymlab.report.judged import interval
from asymlab.results import metrics
from tests.shared import some_flow, some_hop, some_job

QUEUE = Bottleneck(10**6, 1000, 2000, 10)


@settings(deadline=None, derandomize=True)
@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=50))
def test_jain_lies_between_one_over_n_and_one(x):
    assert 1 / len(x) - 1e-9 <= metrics.jain(x) <= 1 + 1e-9


def test_jain_by_hand():
    assert metrics.jain([1, 1, 1]) == 1
    assert metrics.jain([1, 0, 0, 0]) == 0.25
    assert metrics.jain([1, 3]) == pytest.approx(16 / 20)


def rows(dtype, *values):
    return np.array(list(values), dtype)


def test_goodput_bins():
    goodput = rows(
        [("flow", "i4"), ("t", "f8"), ("bytes", "u8")],
        (0, -0.1, 999),
        (0, 0.0, 1000),
        (0, 0.3, 500),
        (1, 0.3, 7),
        (0, 0.4, 9),
    )
    assert list(metrics.goodput_bins(goodput, 0, 0.4, 0.1)) == pytest.approx([80000, 0, 0, 40000])


def test_link_metrics():
    links = rows(
        [
            ("dev", "U16"),
            ("t", "f8"),
            ("packets", "u4"),
            ("bytes", "u8"),
            ("pure_acks", "u4"),
            ("qlen_max", "u4"),
            ("qlen_sum", "u8"),
            ("drops", "u4"),
        ],
        ("a", 0.9, 1000, 10**6, 0, 99, 9, 1),
        ("a", 1.0, 100, 100 * 1014, 40, 9, 400, 3),
        ("a", 1.1, 100, 100 * 1014, 60, 12, 600, 5),
        ("b", 1.0, 7, 7, 7, 7, 7, 7),
    )
    m = metrics.link_metrics(metrics.link_window(links, "a", 1.0, 1.2), rate_bps=16e6, span_s=0.2)
    assert m["utilisation"] == pytest.approx(200 * 1000 * 8 / (16e6 * 0.2))
    assert m["packets"] == 200 and m["pure_acks"] == 100
    assert m["queue_mean"] == 5 and m["queue_max"] == 12
    assert m["queue_delay_mean_s"] == pytest.approx(5 * 1000 * 8 / 16e6)


@pytest.mark.parametrize("saved, utilisation", [(0, 1.25), (1000, 1.125), (2000, 1.0), (5000, 1.0)])
def test_a_link_has_time_for_no_more_than_its_rate(saved, utilisation):
    """Ten packets leave in the time of eight: up to the bucket they are of the time before."""
    links = rows(
        [(name, "u8") for name in ("packets", "bytes", "pure_acks", "qlen_max", "qlen_sum")], (10, 10140, 0, 1, 9)
    )
    assert metrics.link_metrics(links, 64e3, 1.0, saved)["utilisation"] == pytest.approx(utilisation)


def test_a_bucket_is_full_again_with_each_new_rate():
    link = Link(End("a", "a-b", "10.77.1.1", "", QUEUE), End("b", "b-a", "10.77.1.2", "", Unshaped()), 1500)
    changes = [
        ChangePath(at, [NewShape("a", "a-b", replace(QUEUE, burst_bytes=burst))]) for at, burst in ((0.5, 7), (3, 90))
    ]
    hop = some_hop(1e6, devs=("a-b", "b-a"))
    for changed, saved in (([], 2000), (changes[:1], 7), (changes, 97)):
        job = some_job(measure_from_s=1.0, links=[link], changes=changed)
        assert metrics.saved_bytes(hop.forward, job) == saved and metrics.saved_bytes(hop.reverse, job) == 0


def test_a_rate_has_a_mean_over_any_time():
    rates = [(0.0, 8.0), (2.0, 4.0), (3.0, 16.0)]
    assert metrics.mean_rate(rates[:1], 5, 6) == 8
    times = ((0, 2), 8), ((1, 3), 6), ((2, 3), 4), ((1, 4), 28 / 3), ((5, 7), 16), ((0, 4), 9)
    for (start, end), mean in times:
        assert metrics.mean_rate(rates, start, end) == pytest.approx(mean)


def test_of_a_chain_the_busiest_hop_stands_for_the_path():
    watch = [some_hop(1e6, 1e6, (f"forward{k}", f"reverse{k}"), f"hop {k}") for k in (1, 2, 3)]
    loads = [
        Background(k, f"cbr{k}", f"void{k}", "10.77.4.1", "10.77.5.1", payload, 10**6, 0.0, None, hops)
        for k, payload, hops in ((0, 972, ["hop 1", "hop 2"]), (1, 97, ["hop 3"]))
    ]
    job = some_job(duration_s=2.0, watch=watch, flows=[some_flow(0, "reno")], background=loads)
    devs = [way.dev for hop in watch for way in (hop.forward, hop.reverse)]
    marks = {
        mark: {
            "tcp": {"src0": {"TcpExtTCPTimeouts": n}},
            "qdisc": {dev: {"drops": n * k} for k, dev in enumerate(devs)},
            "udp": {
                "void0": {"UdpInDatagrams": n, "UdpInErrors": 2 * n},
                "void1": {"UdpInDatagrams": n, "UdpInErrors": 0},
            },
        }
        for mark, n in (("measure", 2), ("end", 5))
    }
    links = rows(
        [
            ("dev", "U16"),
            ("t", "f8"),
            ("packets", "u4"),
            ("bytes", "u8"),
            ("pure_acks", "u4"),
            ("qlen_max", "u4"),
            ("qlen_sum", "u8"),
        ],
        *((f"forward{k}", 1.5, n, n * 1014, 0, 5, 3 * n) for k, n in ((1, 50), (2, 100), (3, 20))),
        *((f"reverse{k}", 1.5, n, n * 54, n, 1, n) for k, n in ((1, 1000), (2, 25), (3, 10))),
    )
    acks = np.zeros(0, [(c, "i8") for c in ("flow", "t", "retrans", "rtt_us", "cwnd")])
    goodput = np.zeros(0, [("flow", "i4"), ("t", "f8"), ("bytes", "u8")])
    m = metrics.of_run(job, {"marks": marks}, acks, goodput, links)
    assert [hop["name"] for hop in m["hops"]] == ["hop 1", "hop 2", "hop 3"] and m["busiest"] == "hop 2"
    assert [hop["forward"]["utilisation"] for hop in m["hops"]] == pytest.approx([0.4, 0.8, 0.16])
    assert [hop["reverse"]["drops"] for hop in m["hops"]] == [3, 9, 15]
    assert m["forward"] == m["hops"][1]["forward"] and m["reverse"] == m["hops"][1]["reverse"]
    assert m["background_bps"] == [9 * 1000 * 8, 3 * 125 * 8]
    assert m["utilisation"] == pytest.approx(0.8) and m["reverse_utilisation"] == pytest.approx(25 * 40 * 8 / 1e6)
    assert m["acks_per_data_packet"] == pytest.approx(
        25 / (100 + 25 - 25 - 9)
    )  # without the load that crosses this hop


def test_trend_is_relative_to_the_mean():
    assert metrics.trend([1, 2, 3]) == pytest.approx(1)
    assert metrics.trend([5, 5, 5, 5]) == pytest.approx(0)


def test_jain_over_time():
    flows = np.array([[1.0] * 10 + [1.0] * 10, [1.0] * 10 + [0.0] * 10])
    assert list(metrics.jain_over_time(flows, 0.1)) == pytest.approx([1, 0.5])


def test_confidence_interval():
    assert interval([3.0]) == (3, 3, 3)
    mean, low, high = interval([1.0, 2.0, 3.0])
    assert mean == 2 and high - mean == pytest.approx(4.303 / 3**0.5) and mean - low == pytest.approx(high - mean)
