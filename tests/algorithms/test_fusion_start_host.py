# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Fusion's slow starts on the host: where they end, at the connection's start and after idle time."""

import pytest

from tests.algorithms.host.bottleneck import Link, run
from tests.algorithms.host.fusion import ONE, SLOW_START, at_rest, own, sending
from tests.algorithms.host.streams import MS, many_rtts

LINK = (120e-6, 3.2e-6, 0.04)  # 100 Mbit/s, 40 ms, 1500-byte packets
BDP = 0.0401232 / 120e-6


def after_idle(fusion, ssthresh, restart=10, reno=60):
    """reno_cwnd at the end of the slow start that follows, window 100 before it."""
    sending(fusion, 100 * ONE, {}, base=40 * MS, rtt=46 * MS, reno=reno * ONE, ca__reno_ssthresh=ssthresh)
    fusion.ack(n=100, now=MS, app=0)
    fusion.restart(cwnd=restart, now=9 * 10**6)
    fusion.send(app=2**32 - 1, now=9 * 10**6)
    many_rtts(fusion, 5, start=9 * 10**6, rtt=46 * MS)
    ca = own(fusion)
    assert ca["phase"] != SLOW_START
    return ca["reno_q20"] // ONE


@pytest.mark.parametrize("ssthresh, reached", [(20, 45), (44, 45), (50, 50)])
def test_after_idle_time_reno_refills_to_three_quarters(fusion, ssthresh, reached):
    """As the stack does with the window; not to the last loss's threshold, which it has long left behind."""
    assert reached <= after_idle(fusion, ssthresh) <= reached + 2


def test_idle_time_that_cuts_less_than_reno_leaves_it(fusion):
    assert 60 <= after_idle(fusion, 20, restart=70) <= 65
    assert own(fusion)["reno_ssthresh"] == 20


def test_a_window_that_the_application_let_decay_is_refilled_so(fusion):
    sending(fusion, 100 * ONE, {}, reno=60 * ONE, ca__reno_ssthresh=20)
    fusion.poke(snd_cwnd=30, snd_ssthresh=75)
    fusion.ack(now=MS)
    assert own(fusion)["reno_ssthresh"] == 45


@pytest.mark.parametrize("reno", [40, 80])
def test_a_timeout_keeps_the_threshold_of_its_loss(fusion, reno):
    sending(fusion, 100 * ONE, {}, base=40 * MS, rtt=48 * MS, reno=reno * ONE)
    fusion.rto(now=10**6)
    fusion.ack(now=10**6, rtt=-1)
    assert own(fusion)["reno_ssthresh"] == reno // 2


@pytest.mark.parametrize("ss_exit, rtt, leaves", [
    (3, 52_000, False), (3, 52_001, True), (1, 44_000, False), (1, 44_001, True), (16, 104_001, True),
    (0, 10**6, False),
])  # fmt: skip
def test_a_queue_ends_the_first_slow_start(fusion, ss_exit, rtt, leaves):
    """diff > ss_exit alpha is RTT > RTTmin + ss_exit Dmin; 1300 packets divide without rest at 52 ms."""
    at_rest(fusion, 1300 * ONE, {"ss_exit": ss_exit}, 40 * MS, rtt, reno=1300 * ONE, snd_ssthresh=2**31 - 1, flight=9)
    fusion.poke(max_packets_out=1300)
    fusion.ack()
    state = fusion.state()
    assert (state["tp"]["snd_ssthresh"] <= 1300, state["counters"]["early_exits"]) == (leaves, leaves)
    assert (state["ca"]["phase"] == SLOW_START) == (not leaves)
    assert state["ca"]["reno_q20"] / ONE == pytest.approx(650 if leaves else 1301, abs=0.01)


@pytest.mark.parametrize("ssthresh", [1300, 2000])
def test_a_slow_start_that_ssthresh_bounds_goes_up_to_it(fusion, ssthresh):
    """After a timeout the queue may be another's."""
    at_rest(fusion, 1300 * ONE, {"ss_exit": 1}, 40 * MS, 90 * MS, snd_ssthresh=ssthresh)
    fusion.ack()
    state = fusion.state()
    assert state["counters"]["early_exits"] == 0
    assert (state["ca"]["phase"] == SLOW_START) == (ssthresh == 2000)


@pytest.mark.parametrize("ss_exit, least, most", [(0, 3.9, 5), (3, 1.1, 2), (1, 1.0, 1.5)])
def test_the_first_overshoot(fusion, ss_exit, least, most):
    """In BDPs. It comes to rest at the same window, alpha above the BDP."""
    [trace] = run(Link(*LINK), [fusion], [{"ss_exit": ss_exit}], 3 if ss_exit else 0.4)
    assert least < max(w for _, w, _ in trace) / BDP < most
    if ss_exit:
        end = [w for at, w, _ in trace if at > 2.5]
        assert BDP * 1.08 < min(end) <= max(end) < BDP * 1.35
