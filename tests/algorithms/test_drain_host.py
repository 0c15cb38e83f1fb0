# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`rtt_min_win_s` on the host: a flow drains its own queue before it measures RTTmin anew."""

import pytest

from tests.algorithms.host.driver import line
from tests.algorithms.host.streams import MS

AGE = 8  # seconds: the first drain begins after six
STEP = 10 * MS


@pytest.fixture(params=["fast", "fusion", "taichung", "pseudorate"])
def sender(of, request):
    return of(request.param)


def steady(driver, until, rtt=lambda now: 60, age=AGE):
    """A sixth of the window is acknowledged each 10 ms from 1 s on; the first RTT is 40 ms. (ms, cwnd)"""
    own = {"alpha": 20} if driver.binary.name == "fast" else {}
    driver.start(
        {"init_cwnd": 100, "rtt_min_win_s": age} | own, now=0, snd_cwnd=100, snd_ssthresh=2, srtt_us=60 * MS << 3
    )
    times = range(1000 * MS, until * MS, STEP)
    told = driver.batch(
        [
            line("ack", n=17, now=now, rtt=(rtt(now // MS) if i else 40) * MS, srtt_us=60 * MS << 3)
            for i, now in enumerate(times)
        ]
    )
    return [(now // MS, one["cwnd"]) for now, one in zip(times, told, strict=True)]


def test_each_age_begins_with_a_drain(sender):
    """Half of the window for two round trips: 120 ms, so 200."""
    windows = dict(steady(sender, 16_000))
    for begins in (7000, 15_000):
        before = windows[begins - 10]
        half = [windows[now] for now in range(begins, begins + 200, 10)]
        assert max(before // 2, 4) <= min(half) and max(half) <= before * 0.7 + 2
        assert before <= windows[begins + 200] <= before * 1.4 + 3
        assert windows[begins - 10] <= windows[begins + 400]


def test_without_an_age_nothing_drains(sender):
    assert min(window for _, window in steady(sender, 16_000, age=0)) > 4


def test_rtt_min_is_what_the_drained_queue_told(sender):
    """The route became longer: 50 ms without a queue, 60 with it."""
    steady(sender, 7500, rtt=lambda now: 50 if 7100 < now < 7200 else 60)
    assert sender.state()["ca"]["rtt_min"] == 50 * MS


def test_a_queue_that_was_not_drained_tells_no_rtt_min(sender):
    """A recovery holds the window: its queue would become RTTmin, and no loss would cut."""
    steady(sender, 6900)
    sender.loss(now=6900 * MS)
    for now in range(6910, 7400, 100):
        sender.ack(n=1, now=now * MS, rtt=60 * MS, srtt_us=60 * MS << 3)
    assert sender.state()["ca"]["rtt_min"] == 40 * MS


def test_a_loss_in_a_drain_leaves_no_more_than_the_window(sender):
    """PRR sends by the ratio of ssthresh to the window."""
    steady(sender, 7100)
    window = sender.state()["tp"]["snd_cwnd"]
    sender.loss(now=7100 * MS)
    assert sender.state()["tp"]["snd_ssthresh"] <= window
