# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The law of cake-autorate, a rival of `asymcc uplink`, by what its authors document."""

from __future__ import annotations

import pytest

from asymlab.guest.autorate import PINGERS, Law

BASE = 20e6
PACKET_S = 12000 / BASE


def a_law(way_s: float = 0.05, pings: int = 60) -> Law:
    """One that knows its baselines."""
    law = Law(BASE, 5e6, 35e6)
    for k in range(pings):
        law.answer(0, k % PINGERS, way_s)
    return law


def test_three_long_delays_of_six_lower_the_rate_by_their_mean():
    law = a_law()
    for k in range(2):
        law.answer(10, k, 0.2)
    assert law.rate == BASE
    law.answer(10, 2, 0.2)  # the mean of six is 75 ms: beyond 60 the fall is the largest
    assert law.rate == pytest.approx(0.75 * BASE) and law.cause == "queue"
    law.answer(10.2, 3, 0.2)  # it rests for 300 ms
    assert law.rate == pytest.approx(0.75 * BASE)
    law.answer(10.31, 4, 0.2)
    assert law.rate == pytest.approx(0.75**2 * BASE)


def test_a_mean_at_the_threshold_lowers_it_least():
    law = a_law()
    for k in range(6):
        law.answer(10, k, 0.05 + 0.03 + PACKET_S + 1e-4)
    assert law.rate == pytest.approx(0.99 * BASE, rel=2e-3)


@pytest.mark.parametrize("beyond_ms, share", [(0, 1.04), (20 + 1e3 * PACKET_S, 1.02)])
def test_a_high_load_raises_it_once_for_each_look_at_the_load(beyond_ms, share):
    law = a_law()
    for k in range(6):
        law.answer(10, k, 0.05 + beyond_ms / 1e3)
    law.sent(0.8 * BASE)
    law.answer(10.1, 0, 0.05 + beyond_ms / 1e3)
    law.answer(10.15, 1, 0.05 + beyond_ms / 1e3)
    assert law.rate == pytest.approx(share * BASE, rel=2e-3) and law.cause == "growth"


@pytest.mark.parametrize("rate, share", [(30e6, 0.99), (10e6, 1.01)])
def test_a_low_load_leads_it_to_its_base_each_second(rate, share):
    law = a_law()
    law.rate = rate
    law.answer(10, 0, 0.05)
    law.answer(10.5, 1, 0.05)
    assert law.rate == pytest.approx(share * rate)


def test_the_baseline_falls_at_once_and_hardly_rises():
    law = a_law()
    before = law.baselines[0]
    law.answer(10, 0, 0.03)
    assert law.baselines[0] == pytest.approx(0.032, abs=1e-3)
    law.answer(11, 0, 0.13)
    assert law.baselines[0] < before and law.last[-1][0] == pytest.approx(0.098, abs=1e-3)
