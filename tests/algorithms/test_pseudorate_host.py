# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Pseudo-rate TCP's own source, compiled for the host with sanitizers: Table 1 and equation (1) by hand."""

import pytest

from tests.algorithms.host.bottleneck import Link, run
from tests.algorithms.host.driver import Driver, build
from tests.algorithms.host.streams import MS, one_rtt, recover

Q4 = 16
N_QUEUE = 3
PAPER = {"init_cwnd": 1}


def sending(pr, window, params=None, offset=1, **keys):
    """A connection under way with this window, full flight, unlimited data; a cycle ends with the next ACK."""
    pr.start(params, now=0, seg=1, mss_cache=1, tx_start=0, data_segs_out=1, snd_ssthresh=2, snd_cwnd=window)
    pr.poke(ca__base=window - offset, ca__offset=offset, **keys)


def split(pr):
    ca = pr.state()["ca"]
    return ca["base"], ca["offset"]


def bound(pr):
    return pr.state()["ca"]["bound_q4"] / Q4


@pytest.fixture(scope="session")
def pr(pseudorate):
    return pseudorate


@pytest.fixture(scope="session")
def five(pseudorate):
    others = [Driver(build("pseudorate")) for _ in range(4)]
    yield [pseudorate, *others]
    assert not any(driver.close() for driver in others)


def cycles(pr, count, start=0, forced=None, **keys):
    """(Base, Offset, window) after each of so many round trips, none of which gives a Bound."""
    rows = []
    if forced:
        pr.poke(ca__bound_q4=forced * Q4)
    for i in range(count):
        window = one_rtt(pr, start + i * 40 * MS, sample=-1, **keys)[-1]
        rows.append((*split(pr), window))
        assert sum(rows[-1][:2]) == window
    return rows


# Table 1 and Fig. 1


@pytest.mark.parametrize("stretch", [1, 3, 1000])
def test_table_1(pr, stretch):
    """However many packets an ACK covers."""
    pr.start(PAPER, now=0)
    assert split(pr) == (0, 1)
    rows = cycles(pr, 6, forced=8, stretch=stretch)
    assert rows == [(0, 2, 2), (0, 4, 4)] + [(0, 8, 8)] + [(7, 1, 8)] * 3
    assert cycles(pr, 3, 10**6, forced=16, stretch=stretch) == [(7, 2, 9), (7, 4, 11), (7, 8, 15)]


def test_fig_1(pr):
    pr.start(PAPER, now=0)
    got = [1, *(w for _, _, w in cycles(pr, 8, forced=8) + cycles(pr, 5, 10**6, forced=24))]
    assert got == [1, 2, 4, 8, 8, 8, 8, 8, 8, 9, 11, 15, 23, 24]


# Equation (1)


@pytest.mark.parametrize("least, n_queue, left", [(40, 3, 83), (25, 3, 53), (40, 1, 81), (25, 1024, 1074)])
def test_equation_1_in_round_numbers(pr, least, n_queue, left):
    """A hundred packets in a cycle of 50 ms."""
    measured = {"ca__rtt_min": least * MS, "ca__cycle_rtt": 50 * MS, "ca__delivered": (1 - 100) % 2**32}
    sending(pr, 100, {"n_queue": n_queue}, **measured)
    pr.ack(now=50 * MS)
    assert bound(pr) == left


@pytest.mark.parametrize("thought", [0, 700 * MS])
def test_start_from_ten_doubles_all_ten(pr, thought):
    """Nor does the time before the first packet count for a cycle's."""
    pr.start(now=10**9, tx_start=0, app=0)
    pr.send(now=10**9 + thought, app=2**32 - 1)
    one_rtt(pr, 10**9 + thought)
    assert split(pr) == (0, 20) and bound(pr) >= 20


# Loss


def test_bound_of_a_loss_holds_until_a_whole_cycle_after_recovery(pr):
    sending(pr, 100, ca__rtt_min=40 * MS)
    pr.loss(now=0)
    for i in range(40):
        pr.ack(n=0, sack=1, now=i * MS, rtt=40 * MS)
    recover(pr, now=40 * MS, rtt=40 * MS)
    # One cycle at 50, that gives 100; a second that fills.
    assert [(one_rtt(pr, i * 40 * MS)[-1], bound(pr)) for i in range(1, 4)] == [(51, 100), (53, 102), (57, 106)]


def test_timeout_refills_by_doubling_to_half(pr):
    sending(pr, 128, offset=30, ca__rtt_min=40 * MS)
    pr.poke(sacked_out=127)
    pr.rto(now=10**6)
    assert (pr.state()["tp"]["snd_ssthresh"], bound(pr)) == (64, 64)
    recover(pr, now=3 * 10**6, rtt=-1)
    assert [w for _, _, w in cycles(pr, 7, 4 * 10**6)] == [4, 8, 16, 32, 64, 64, 64]


# A path of 10 Mbit/s and 20 ms, packets of 552 bytes


PACKET_S = 552 * 8 / 10e6
ACK_S = 40 * 8 / 10e6
DELAY_S = 0.02
BDP = (DELAY_S + PACKET_S + ACK_S) / PACKET_S


def alone(pr, seconds, **params):
    """The largest window of each round trip, and those of the second half."""
    period = DELAY_S + PACKET_S + ACK_S
    [trace] = run(Link(PACKET_S, ACK_S, DELAY_S), [pr], [params], seconds)
    ramp = {}
    for at, w, _ in trace:
        ramp[int(at / period + 0.01)] = max(ramp.get(int(at / period + 0.01), 0), w)
    return [ramp[i] for i in range(1, int(seconds / period) - 1)], [w for at, w, _ in trace if at > seconds / 2]


@pytest.mark.parametrize("early, least, most", [(0, 113, 114), (3, 3, 9), (10, 10, 30)])
def test_windows_double_to_the_path_and_rest_with_2_to_3_packets_queued(pr, early, least, most):
    """10, 20, 40, 80, 160 on a path of 46: the end of a cycle tells late. With `early` no more than its threefold."""
    ramp, end = alone(pr, 4, early=early)
    assert early or ramp[:3] == [20, 40, 80]
    assert least <= max(ramp) - BDP <= most
    assert BDP + 2 - 1 <= min(end) <= max(end) <= BDP + 3
    assert len(end) / 2 == pytest.approx(1 / PACKET_S, rel=0.01)


@pytest.mark.parametrize("n_queue", [3, 20])
def test_equation_1_as_it_stands_rises_by_n_queue_a_cycle_and_queues_so_many(pr, n_queue):
    ramp, end = alone(pr, 6, n_queue=n_queue, bound_mode=0, **PAPER)
    first = [w for w in ramp if w < BDP]
    assert max(b - a for a, b in zip(first, first[1:])) <= n_queue
    assert BDP + n_queue - 2 <= min(end) <= max(end) <= BDP + n_queue


@pytest.mark.parametrize("mode", [0, 1])
def test_five_flows_of_different_rtts_share(five, mode):
    """20 to 60 ms; at rest each keeps as many packets queued, whatever its RTT."""
    extra = [i * 0.01 for i in range(5)]
    traces = run(Link(PACKET_S, ACK_S, DELAY_S), five, [{"bound_mode": mode}] * 5, 20, extra=extra)
    rates = [sum(at > 10 for at, _, _ in trace) / 10 for trace in traces]
    assert sum(rates) == pytest.approx(1 / PACKET_S, rel=0.01)
    assert sum(rates) ** 2 / 5 / sum(r * r for r in rates) > 0.97
    queued = [rtt - DELAY_S - more for trace, more in zip(traces, extra) for at, _, rtt in trace if at > 10]
    assert max(queued) <= (5 * N_QUEUE + 3) * PACKET_S
