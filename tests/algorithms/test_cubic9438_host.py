# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""CUBIC of RFC 9438, its own source compiled for the host, against the RFC's equations in floating point."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.host.driver import Driver, build, line
from tests.algorithms.host.rivals import EVER, ONE
from tests.algorithms.host.streams import MS, any_stream, many_rtts, recover

C = 0.4


@pytest.fixture(scope="module")
def cubic():
    driver = Driver(build("cubic9438"))
    yield driver
    assert driver.close() == 0


def after_a_loss(cubic, window, app=EVER, **params):
    """Recovered from one loss of a full window, with all of 0.7 of it in flight again."""
    cubic.start(params, now=0, tx_start=0, snd_cwnd=window, snd_ssthresh=window, srtt_us=320 * MS)
    cubic.loss(n=1, sack=window - 1, now=1)
    recover(cubic, now=2, rtt=-1)
    cubic.send(now=2, app=app)


def curve(t, w_max, w_epoch):
    k = ((w_max - w_epoch) / C) ** (1 / 3)
    return C * (t - k) ** 3 + w_max


@pytest.mark.parametrize("window", [100, 500, 3000])
@pytest.mark.parametrize("rtt", [20, 100])
def test_the_window_follows_the_curve(cubic, window, rtt):
    """(1) and (2), or (4) where that is more; the smoothed RTT makes some 120 ms of play."""
    after_a_loss(cubic, window)
    assert cubic.state()["tp"]["snd_ssthresh"] == window * 7 // 10
    w = est = epoch = window * 7 // 10
    began, now = None, 3
    for _ in range(3 * 10**3 // rtt):
        flight = cubic.state()["tp"]["packets_out"]
        at = [now + i * rtt * MS // flight for i in range(flight)]
        for t, answer in zip(at, cubic.batch([line("ack", rtt=rtt * MS, now=t) for t in at])):
            began = began or t
            est += (9 / 17 if est < window else 1) / w
            s, w = (t - began) / 1e6, answer["cwnd"]
            early, late = curve(s - 0.12, window, epoch), curve(s + 0.12, window, epoch)
            assert max(early, est) - 2 <= w <= max(late, est) + 2
        now = at[-1] + rtt * MS // flight


@pytest.mark.parametrize("params, second, w_max", [({}, 60, 51), ({}, 120, 120), ({"fast_convergence": 0}, 60, 60)])
def test_fast_convergence(cubic, params, second, w_max):
    """A window lost below W_max, of 100, lowers W_max to 0.85 of it."""
    after_a_loss(cubic, 100, **params)
    cubic.poke(snd_cwnd=second)
    cubic.loss(n=1, sack=3, now=10 * MS)
    assert cubic.state()["ca"]["now.wmax_q20"] / ONE == pytest.approx(w_max, abs=0.01)


def test_an_undo_gives_w_max_back(cubic):
    after_a_loss(cubic, 100)
    before = cubic.state()["ca"]["now.wmax_q20"]
    cubic.loss(n=1, sack=3, now=10 * MS)
    cubic.undo()
    assert cubic.state()["ca"]["now.wmax_q20"] == before


def test_after_a_timeout_there_is_no_w_max(cubic):
    after_a_loss(cubic, 100)
    cubic.rto(now=10**6)
    assert cubic.state()["ca"]["now.wmax_q20"] == 0


def test_an_idle_time_is_no_time_of_growth(cubic):
    after_a_loss(cubic, 1000)
    many_rtts(cubic, 3, start=MS)
    before, now = cubic.state()["ca"], cubic.state()["tp"]["now"]
    recover(cubic, now=now + 40 * MS, rtt=40 * MS, app=0)
    cubic.send(app=EVER, now=now + 5 * 10**6)
    cubic.ack(now=now + 5 * 10**6 + 40 * MS, rtt=40 * MS)
    after = cubic.state()["ca"]
    assert after["now.stamp"] - before["now.stamp"] == pytest.approx(5 * 10**6, abs=MS)
    assert after["w_q20"] < before["w_q20"] + 40 * ONE


def test_slow_start_doubles_and_ends_at_ssthresh(cubic):
    cubic.start(now=0, snd_ssthresh=60)
    assert many_rtts(cubic, 3) == [20, 40, 60]


@given(data=st.data())
def test_any_stream_keeps_the_window_in_bounds(cubic, data):
    _, most, _ = any_stream(data, cubic)
    assert ONE <= cubic.state()["ca"]["w_q20"] <= most * ONE
