# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The law of `asymcc uplink --down` behind a fluid: is the far end's queue short, and the line in use?"""

import pytest

from tests.algorithms.test_uplink_law_host import between, fluid, p95, used

RATE = 100e6


@pytest.fixture(scope="module")
def law(tmp_path_factory):
    run = fluid(tmp_path_factory, "downlink")
    return lambda changes, seconds=40, rtt_ms=50, room_ms=250, senders=4: run(
        changes, seconds, rtt_ms, room_ms, senders
    )


@pytest.mark.parametrize("rate", [20e6, 100e6, 1e9])
@pytest.mark.parametrize("rtt_ms", [20, 50, 100])
def test_the_queue_stands_at_the_shaper(law, rtt_ms, rate):
    ticks = law([f"0 {rate}"], rtt_ms=rtt_ms)
    assert used(ticks, 20, 40, rate) > 0.97 and p95(ticks, 10, 40) < 35


def test_a_long_way(law):
    ticks = law([f"0 {RATE}"], 60, 300)
    assert p95(ticks, 10, 60) < 35


@pytest.mark.parametrize("rtt_ms", [20, 50, 100])
def test_half_the_rate_is_followed_and_twice(law, rtt_ms):
    ticks = law([f"0 {RATE}", f"20 {RATE / 2}", f"40 {RATE}"], 60, rtt_ms)
    assert used(ticks, 22, 40, RATE / 2) > 0.95 and p95(ticks, 22, 40) < 35
    assert min(tick.s for tick in between(ticks, 40, 60) if tick.rate > 0.9 * RATE) < 46


@pytest.mark.parametrize("rtt_ms", [50, 100])
def test_a_line_whose_rate_fell_once_is_used(law, rtt_ms):
    ticks = law([f"0 {RATE}", f"20 {RATE / 2}"], 120, rtt_ms)
    assert used(ticks, 80, 120, RATE / 2) > 0.97
