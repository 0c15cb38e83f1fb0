# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What holds for each rival, on the host."""

import pytest

from tests.algorithms.host.driver import line
from tests.algorithms.host.rivals import EVER, count, repaired, tp
from tests.algorithms.host.streams import MS, one_rtt


@pytest.fixture(params=["nreno", "vegas95", "ctcp", "areno"])
def rival(request):
    return request.getfixturevalue(request.param)


# --- what holds for each ------------------------------------------------------------------


def settled(driver, w=100):
    """Out of slow start, the whole of its window in flight."""
    driver.start({"init_cwnd": w}, now=0, snd_cwnd=w, snd_ssthresh=2)
    driver.batch([line("ack", rtt=40 * MS, now=40 * MS + i) for i in range(3)])
    return tp(driver)["snd_cwnd"]


def test_a_loss_then_its_undo(rival):
    w = settled(rival)
    rival.loss(now=90 * MS)
    cut = tp(rival)["snd_ssthresh"]
    assert w // 2 <= cut < w or rival.binary.name == "areno"
    assert rival.undo(now=91 * MS)["cwnd"] == w
    rival.ack(rtt=40 * MS, now=92 * MS)
    assert tp(rival)["snd_cwnd"] in (w, w + 1)
    assert (count(rival, "losses"), count(rival, "undos"), count(rival, "timeouts")) == (1, 1, 0)


def test_recovery_ends_with_the_reduced_window(rival):
    settled(rival)
    rival.loss(now=90 * MS)
    cut = tp(rival)["snd_ssthresh"]
    repaired(rival, now=130 * MS)
    assert tp(rival)["snd_cwnd"] == cut
    assert count(rival, "reloads") >= 1


def test_a_timeout_starts_slowly_again(rival):
    settled(rival)
    assert rival.rto(now=10**6)["cwnd"] == 1
    assert count(rival, "timeouts") == 1
    ssthresh = tp(rival)["snd_ssthresh"]
    assert ssthresh >= 50
    got = rival.ack(now=2 * 10**6, rtt=-1)["cwnd"]
    assert got == 2


def test_ecn_reduces_as_a_loss_does(rival):
    settled(rival)
    rival.loss(now=90 * MS)
    cut = tp(rival)["snd_ssthresh"]
    settled(rival)
    rival.cwr(now=90 * MS)
    assert tp(rival)["snd_ssthresh"] == cut
    assert count(rival, "losses") == 1


def test_no_growth_while_the_application_limits(rival):
    rival.start({"init_cwnd": 20}, now=0, snd_cwnd=20, app=2, snd_ssthresh=2)
    trace = [rival.ack(n=2, rtt=40 * MS, now=40 * MS * i)["cwnd"] for i in range(1, 60)]
    assert trace == [20] * 59
    assert count(rival, "limited_acks") >= 50 or rival.binary.name == "vegas95"  # in round trips that would grow only
    assert count(rival, "limited_acks") > 0


def test_after_idle_the_stack_says_how_much(rival):
    settled(rival, 50)
    rival.ack(n=EVER, app=0, rtt=40 * MS, now=100 * MS)
    rival.restart(cwnd=10, now=5 * 10**6)
    rival.send(app=EVER, now=5 * 10**6)
    assert rival.ack(rtt=40 * MS, now=5 * 10**6 + 40 * MS)["cwnd"] in (10, 11)


def test_nothing_is_saved_up_under_a_clamp(rival):
    """Ten round trips that would have added a packet each, then the limit goes."""
    rival.start({"init_cwnd": 20}, now=0, snd_cwnd=20, snd_cwnd_clamp=20, snd_ssthresh=2)
    for i in range(10):
        assert set(one_rtt(rival, i * 40 * MS)) == {20}
    rival.poke(snd_cwnd_clamp=1000)
    assert rival.ack(rtt=40 * MS, now=440 * MS)["cwnd"] in (20, 21)
