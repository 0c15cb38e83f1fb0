# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""CUBIC of RFC 9438, its own source compiled for the host, against the RFC's equations in floating point."""

import pytest

from tests.algorithms.host.driver import line
from tests.algorithms.host.rivals import EVER, ONE
from tests.algorithms.host.streams import MS, recover

C = 0.4


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
