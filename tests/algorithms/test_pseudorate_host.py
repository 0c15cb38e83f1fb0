# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Pseudo-rate TCP's own source, compiled for the host with sanitizers: Table 1 and equation (1) by hand."""

import pytest
from hypothesis import strategies as st

from tests.algorithms.host.bottleneck import Link, run
from tests.algorithms.host.driver import Driver, build
from tests.algorithms.host.streams import MS, W_MAX, many_rtts, one_rtt, recover

Q4 = 16
N_QUEUE = 3
NONE = W_MAX * Q4  # Bound before the first cycle
PAPER = {"init_cwnd": 1}


def sending(pr, window, params=None, offset=1, bound=None, **keys):
    """A connection under way with this window, full flight, unlimited data; a cycle ends with the next ACK."""
    new = {"now": 0, "seg": 1, "mss_cache": 1, "tx_start": 0, "data_segs_out": 1, "snd_ssthresh": 2, "snd_cwnd": window}
    pr.start(
        params, **new | {key: keys.pop(key) for key in [*keys] if key in {*new, "snd_cwnd_clamp", "seg", "mss_cache"}}
    )
    state = {"ca__base": window - offset, "ca__offset": offset, "ca__bound_q4": bound * Q4 if bound else NONE}
    pr.poke(**state | keys)


def split(pr):
    ca = pr.state()["ca"]
    return ca["base"], ca["offset"]


def bound(pr):
    return pr.state()["ca"]["bound_q4"] / Q4


def end_of_cycle(pr, n, t, period, window, shortest=None, params=None, **keys):
    """One ACK ends a cycle in which n packets were acknowledged within `period` us. State thereafter."""
    measured = {"ca__rtt_min": t, "ca__cycle_rtt": shortest or period, "ca__delivered": (1 - n) % 2**32}
    sending(pr, window, params, **measured | keys)
    pr.ack(now=period)
    return pr.state()


windows = st.integers(1, W_MAX) | st.integers(1, 100)


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


@pytest.mark.parametrize("tx_start", [0, 1])
@pytest.mark.parametrize("k", [3, 4])
def test_table_1(pr, k, tx_start):
    pr.start(PAPER, now=0, tx_start=tx_start)
    full = 2**k
    assert split(pr) == (0, 1)
    rows = [(0, 1, 1), *cycles(pr, 2 * k, forced=full)]
    assert rows == [(0, 2**i, 2**i) for i in range(k + 1)] + [(full - 1, 1, full)] * k
    assert cycles(pr, 3, 10**6, forced=2 * full) == [
        (full - 1, 2, full + 1),
        (full - 1, 4, full + 3),
        (full - 1, 8, full + 7),
    ]


def test_fig_1(pr):
    pr.start(PAPER, now=0)
    got = [1, *(w for _, _, w in cycles(pr, 8, forced=8) + cycles(pr, 5, 10**6, forced=24))]
    assert got == [1, 2, 4, 8, 8, 8, 8, 8, 8, 9, 11, 15, 23, 24]


@pytest.mark.parametrize("stretch", [2, 3, 7, 1000])
def test_delayed_and_stretch_acks_double_as_fast(pr, stretch):
    traces = []
    for n in (1, stretch):
        pr.start({"init_cwnd": 4}, now=0)
        traces.append(cycles(pr, 8, forced=700, stretch=n))
    assert traces[0] == traces[1]
    assert [w for _, _, w in traces[0]] == [8, 16, 32, 64, 128, 256, 512, 700]


# Equation (1)


def test_equation_1_in_round_numbers(pr):
    def bounds(**params):
        return [
            end_of_cycle(pr, n, t, 50 * MS, 100, params=params)["ca"]["bound_q4"]
            for n, t in ((100, 40 * MS), (100, 25 * MS))
        ]

    assert bounds() == [83 * Q4, 53 * Q4]
    assert bounds(n_queue=1) == [81 * Q4, 51 * Q4]
    assert bounds(n_queue=1024) == [1104 * Q4, 1074 * Q4]


# Start and limits


@pytest.mark.parametrize("tx_start", [0, 1])
@pytest.mark.parametrize("thought", [0, 700 * MS])
def test_start_from_ten_doubles_all_ten(pr, thought, tx_start):
    """Nor does the time before the first packet count for a cycle's."""
    pr.start(now=10**9, tx_start=tx_start, app=0)
    pr.send(now=10**9 + thought, app=2**32 - 1)
    one_rtt(pr, 10**9 + thought)
    assert split(pr) == (0, 20)
    assert pr.state()["ca"]["bound_q4"] >= 20 * Q4


# Loss


def test_bound_of_a_loss_holds_until_a_whole_cycle_after_recovery(pr):
    sending(pr, 100, ca__rtt_min=40 * MS)
    pr.loss(now=0)
    for i in range(40):
        pr.ack(n=0, sack=1, now=i * MS, rtt=40 * MS)
    recover(pr, now=40 * MS, rtt=40 * MS)
    assert pr.state()["tp"]["state"] == 0
    got = []
    for i in range(1, 4):
        got.append((one_rtt(pr, i * 40 * MS)[-1], bound(pr)))
    # One cycle at 50, that gives 100; a second that fills.
    assert got == [(51, 100), (53, 102), (57, 106)]


@pytest.mark.parametrize("tx_start", [0, 1])
def test_timeout_refills_by_doubling_to_half(pr, tx_start):
    sending(pr, 128, tx_start=tx_start, offset=30, ca__rtt_min=40 * MS)
    pr.poke(sacked_out=127)
    assert pr.rto(now=10**6)["cwnd"] == 1
    state = pr.state()
    assert (state["tp"]["snd_ssthresh"], bound(pr)) == (64, 64)
    assert (state["counters"]["losses"], state["counters"]["timeouts"]) == (1, 1)
    assert pr.rto(now=2 * 10**6)["cwnd"] == 1  # no ACK between: the same loss
    assert pr.state()["counters"]["losses"] == 1
    recover(pr, now=3 * 10**6, rtt=-1)
    assert split(pr) == (0, 2)
    assert [w for _, _, w in cycles(pr, 7, 4 * 10**6)] == [4, 8, 16, 32, 64, 64, 64]
    assert bound(pr) == 64


@pytest.mark.parametrize("stretch", [1, 2, 1000])
@pytest.mark.parametrize("lost", [8, 100])
def test_bound_of_a_timeout_holds_until_a_whole_cycle_after_recovery(pr, lost, stretch):
    sending(pr, lost, timestamps=1, ca__rtt_min=40 * MS)
    pr.rto(now=10**6)
    for i in range(1, 20):
        for _ in range(-(-pr.state()["tp"]["snd_cwnd"] // stretch)):
            flight = pr.state()["tp"]["snd_cwnd"]
            pr.ack(n=min(stretch, flight), now=10**6 + i * 40 * MS, rtt=40 * MS)
            state = pr.state()
            if state["tp"]["state"] == 0:
                assert (state["counters"]["cycles"], bound(pr)) == (0, lost // 2)
                many_rtts(pr, 3, 10**6 + i * 40 * MS)
                assert pr.state()["counters"]["cycles"] > 0 and bound(pr) > lost // 2
                return
    raise AssertionError("no recovery")


# A path of 10 Mbit/s and 20 ms, packets of 552 bytes


PACKET_S = 552 * 8 / 10e6
ACK_S = 40 * 8 / 10e6
DELAY_S = 0.02
BDP = (DELAY_S + PACKET_S + ACK_S) / PACKET_S


def per_cycle(trace, seconds, period=DELAY_S + PACKET_S + ACK_S):
    """The largest window of each round trip up to `seconds`."""
    return [max(w for at, w, _ in trace if i <= at / period + 0.01 < i + 1) for i in range(1, int(seconds / period))]


def test_windows_double_to_the_path_and_rest_with_2_to_3_packets_queued(pr):
    [trace] = run(Link(PACKET_S, ACK_S, DELAY_S), [pr], [PAPER], 4)
    ramp = per_cycle(trace, 0.15)
    assert ramp[:6] == [2, 4, 8, 16, 32, 64]
    end = [w for at, w, _ in trace if at > 1]
    assert BDP + 2 - 1 <= min(end) <= max(end) <= BDP + 3
    assert len(end) / 3 == pytest.approx(1 / PACKET_S, rel=0.01)


@pytest.mark.parametrize("early, least, most", [(0, 113, 114), (3, 3, 9), (10, 10, 30)])
def test_the_first_overshoot(pr, early, least, most):
    """10, 20, 40, 80, 160 on a path of 46: the end of a cycle tells late. With `early` no more than its threefold."""
    [trace] = run(Link(PACKET_S, ACK_S, DELAY_S), [pr], [{"early": early}], 4)
    assert least <= max(w for _, w, _ in trace) - BDP <= most
    end = [w for at, w, _ in trace if at > 1]
    assert BDP + 2 - 1 <= min(end) <= max(end) <= BDP + 3
    assert next(at for at, w, _ in trace if w >= BDP) < 0.3  # early or not


@pytest.mark.parametrize("n_queue", [3, 10, 20])
def test_n_queue_packets_are_queued(pr, n_queue):
    [trace] = run(Link(PACKET_S, ACK_S, DELAY_S), [pr], [{"n_queue": n_queue, "bound_mode": 0} | PAPER], 6)
    end = [w for at, w, _ in trace if at > 4]
    assert BDP + n_queue - 2 <= min(end) <= max(end) <= BDP + n_queue


def test_equation_1_as_it_stands_rises_by_n_queue_a_cycle(pr):
    [trace] = run(Link(PACKET_S, ACK_S, DELAY_S), [pr], [{"bound_mode": 0} | PAPER], 2)
    ramp = per_cycle(trace, 1.8)
    assert ramp == sorted(ramp)
    assert max(b - a for a, b in zip(ramp, ramp[1:])) <= N_QUEUE
    assert ramp[8] < 32 and ramp[-1] > BDP


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
