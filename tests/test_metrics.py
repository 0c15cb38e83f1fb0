# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The metrics against values worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from asymlab import metrics, suite


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
    goodput = rows([("flow", "i4"), ("t", "f8"), ("bytes", "u8")], (0, -0.1, 999), (0, 0.0, 1000), (0, 0.3, 500), (1, 0.3, 7), (0, 0.4, 9))
    assert list(metrics.goodput_bins(goodput, 0, 0.4, 0.1)) == pytest.approx([80000, 0, 0, 40000])


def test_link_metrics():
    links = rows([("dev", "U16"), ("t", "f8"), ("packets", "u4"), ("bytes", "u8"), ("pure_acks", "u4"), ("qlen_max", "u4"),
                  ("qlen_sum", "u8"), ("drops", "u4")],
                 ("a", 0.9, 1000, 10**6, 0, 99, 9, 1),
                 ("a", 1.0, 100, 100 * 1014, 40, 9, 400, 3), ("a", 1.1, 100, 100 * 1014, 60, 12, 600, 5), ("b", 1.0, 7, 7, 7, 7, 7, 7))
    m = metrics.link_metrics(metrics.link_window(links, "a", 1.0, 1.2), rate_bps=16e6, span_s=0.2)
    assert m["utilisation"] == pytest.approx(200 * 1000 * 8 / (16e6 * 0.2))
    assert m["packets"] == 200 and m["pure_acks"] == 100
    assert m["queue_mean"] == 5 and m["queue_max"] == 12
    assert m["queue_delay_mean_s"] == pytest.approx(5 * 1000 * 8 / 16e6)


def test_trend_is_relative_to_the_mean():
    assert metrics.trend([1, 2, 3]) == pytest.approx(1)
    assert metrics.trend([5, 5, 5, 5]) == pytest.approx(0)


def test_jain_over_time():
    flows = np.array([[1.0] * 10 + [1.0] * 10, [1.0] * 10 + [0.0] * 10])
    assert list(metrics.jain_over_time(flows, 0.1)) == pytest.approx([1, 0.5])


def test_confidence_interval():
    assert suite.interval([3.0]) == (3, 3, 3)
    mean, low, high = suite.interval([1.0, 2.0, 3.0])
    assert mean == 2 and high - mean == pytest.approx(4.303 / 3 ** 0.5) and mean - low == pytest.approx(high - mean)
