# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Pseudo-rate TCP's own source, compiled for the host with sanitizers, against Table 1 and equation (1)."""

from fractions import Fraction

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.algorithms.host.bottleneck import Link, run
from tests.algorithms.host.driver import Driver, build, line
from tests.algorithms.host.pseudorate import N_QUEUE, NONE, PAPER, Q4, bound, end_of_cycle, sending, split
from tests.algorithms.host.streams import MS, RTT_MAX, W_MAX, any_stream, many_rtts, one_rtt, packets, recover, rtts

windows = st.integers(1, W_MAX) | st.integers(1, 100)


@pytest.fixture(scope="session")
def binary():
    return build("pseudorate")


@pytest.fixture(scope="session")
def pr(binary):
    driver = Driver(binary)
    yield driver
    assert driver.close() == 0, driver.process.stderr.read()


@pytest.fixture(scope="session")
def five(binary, pr):
    others = [Driver(binary) for _ in range(4)]
    yield [pr, *others]
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


def test_no_window_of_one_packet_more_after_a_rise(pr):
    sending(pr, 8, bound=8)
    assert cycles(pr, 3) == [(7, 1, 8)] * 3
    assert cycles(pr, 2, 10**6, forced=9) == [(7, 2, 9), (8, 1, 9)]


@pytest.mark.parametrize("stretch", [2, 3, 7, 1000])
def test_delayed_and_stretch_acks_double_as_fast(pr, stretch):
    traces = []
    for n in (1, stretch):
        pr.start({"init_cwnd": 4}, now=0)
        traces.append(cycles(pr, 8, forced=700, stretch=n))
    assert traces[0] == traces[1]
    assert [w for _, _, w in traces[0]] == [8, 16, 32, 64, 128, 256, 512, 700]


@given(base=st.integers(0, 500), offset=st.integers(1, 500), full=st.integers(2, 2000), n=st.integers(1, 1000))
@example(base=0, offset=500, full=2000, n=1)
@example(base=0, offset=500, full=2000, n=1000)
def test_a_cycle_doubles_offset_up_to_bound(pr, base, offset, full, n):
    window = base + offset
    assume(window >= n)
    sending(pr, window, offset=offset, bound=full)
    for i in range(1, min(window // n, 30) + 1):
        pr.ack(n=n, now=MS)
        ca = pr.state()["ca"]
        if window >= full:  # direct drop
            assert (ca["base"], ca["offset"], ca["offset_bound"]) == (full - 1, 1, 0)
        else:
            grown = min(i * n, offset, full - window)
            assert (ca["base"], ca["offset"], ca["offset_bound"]) == (base, offset + grown, 2 * grown)


def test_growth_goes_up_to_bound_and_not_beyond(pr):
    sending(pr, 100, offset=100, bound=130)
    trace = [pr.ack(now=1)["cwnd"] for _ in range(100)]
    assert trace == [*range(101, 131)] + [130] * 70
    assert cycles(pr, 1) == [(129, 1, 130)]


# Equation (1)


def law(n, t, period, window, shortest, n_queue=N_QUEUE, mode=1, noise=0):
    """Bound, exactly, and whether doubling held."""
    t = min(t + noise, shortest)
    exact = Fraction(n * t, period) + n_queue
    queued = Fraction(n * (shortest - t), shortest)
    doubled = mode and queued < 1 and exact < 2 * window
    return (2 * window if doubled else exact), doubled


@given(n=packets, t=rtts, period=st.integers(1, 2**40) | rtts, window=windows, shortest=rtts,
       n_queue=st.integers(1, 1024), mode=st.integers(0, 1), noise=st.just(0) | st.integers(0, 10**6))  # fmt: skip
@example(n=W_MAX, t=RTT_MAX, period=1, window=W_MAX, shortest=RTT_MAX, n_queue=1024, mode=1, noise=10**6)
@example(n=W_MAX, t=1, period=2**40, window=1, shortest=RTT_MAX, n_queue=1, mode=0, noise=0)
@example(n=100, t=40 * MS, period=80 * MS, window=100, shortest=80 * MS, n_queue=3, mode=1, noise=0)
@example(n=7, t=3, period=11, window=2, shortest=3, n_queue=1, mode=0, noise=0)
def test_equation_1_is_exact(pr, n, t, period, window, shortest, n_queue, mode, noise):
    params = {"n_queue": n_queue, "bound_mode": mode, "noise_us": noise}
    state = end_of_cycle(pr, n, t, period, window, shortest, params)
    exact, doubled = law(n, t, period, window, shortest, n_queue, mode, noise)
    exact = min(max(exact, 2), W_MAX)
    got = Fraction(state["ca"]["bound_q4"], Q4)
    assert 0 <= exact - got < Fraction(1, Q4)  # rounded down
    counters = state["counters"]
    assert (counters["cycles"], counters["doublings"], counters["skipped"]) == (1, bool(doubled), 0)
    assert counters["drops"] == (window > got // 1)
    # At or above it the window is dropped to it at once; below, this ACK's packet makes one step.
    full = int(got)
    expected = (full - 1, 1) if window >= full else (window - 1, 2)
    assert (state["ca"]["base"], state["ca"]["offset"]) == expected
    assert state["tp"]["snd_cwnd"] == sum(expected)


def test_equation_1_in_round_numbers(pr):
    def bounds(**params):
        return [
            end_of_cycle(pr, n, t, 50 * MS, 100, params=params)["ca"]["bound_q4"]
            for n, t in ((100, 40 * MS), (100, 25 * MS))
        ]

    assert bounds() == [83 * Q4, 53 * Q4]
    assert bounds(n_queue=1) == [81 * Q4, 51 * Q4]
    assert bounds(n_queue=1024) == [1104 * Q4, 1074 * Q4]


@pytest.mark.parametrize("queued, doubles", [(0, True), (99, True), (100, False), (101, False)])
def test_bound_doubles_while_less_than_one_packet_is_queued(pr, queued, doubles):
    """Of 100 packets in 10 ms one takes 100 us."""
    for mode in (0, 1):
        ca = end_of_cycle(pr, 100, 10 * MS - queued, 10 * MS, 100, params={"bound_mode": mode})["ca"]
        assert ca["bound_q4"] == (200 * Q4 if doubles and mode else (100 * (10 * MS - queued) * Q4 // (10 * MS)) + 48)


def test_jitter_is_no_queue(pr):
    """The smallest RTT of the cycle decides, not its length."""
    assert end_of_cycle(pr, 100, 10 * MS, 20 * MS, 100, shortest=10 * MS)["ca"]["bound_q4"] == 200 * Q4
    assert end_of_cycle(pr, 100, 10 * MS, 20 * MS, 100, shortest=20 * MS)["ca"]["bound_q4"] == 53 * Q4


@pytest.mark.parametrize("above, doubles", [(0, True), (500, True), (599, True), (600, False)])
def test_noise_is_no_queue(pr, above, doubles):
    """Of 100 packets in 10 ms one takes 100 us: a queue of one packet begins beyond the noise of 500 us."""
    ca = end_of_cycle(pr, 100, 10 * MS - above, 10 * MS, 100, params={"noise_us": 500})["ca"]
    assert ca["bound_q4"] == (200 * Q4 if doubles else 102 * Q4)


@pytest.mark.parametrize("params, rtt, grows", [
    ({"early": 3}, 41_237, True), ({"early": 3}, 41_238, False), ({"early": 1}, 41_237, False), ({}, 400_000, True),
    ({"early": 3, "noise_us": 500}, 41_752, True), ({"early": 3, "noise_us": 500}, 41_754, False),
])  # fmt: skip
def test_own_packets_queued_end_the_doubling_of_a_cycle(pr, params, rtt, grows):
    """Of 100 packets 3 are queued at 40 ms * 100/97. The latest RTT decides: a shorter one lets the cycle go on."""
    sending(pr, 100, params, offset=50, bound=1000, ca__rtt_min=40 * MS, ca__round_end=10**6)
    assert pr.ack(now=1, rtt=rtt)["cwnd"] == 100 + grows
    assert pr.ack(now=2, rtt=40 * MS)["cwnd"] == 101 + grows
    pr.ack(now=3, rtt=400 * MS)
    assert pr.ack(now=4, rtt=-1)["cwnd"] == 101 + grows + 2 * (not params)  # no sample: the latest one holds


def test_doubling_never_lowers_bound(pr):
    assert end_of_cycle(pr, 300, 10 * MS, 10 * MS, 100)["ca"]["bound_q4"] == 303 * Q4


def test_smallest_rtt_of_the_cycle(pr):
    def shortest():
        return pr.state()["ca"]["cycle_rtt"]

    sending(pr, 10, ca__rtt_min=10 * MS)
    pr.ack(now=1, rtt=99 * MS)  # still the cycle before
    got = [shortest()]
    for rtt in (30, 20, -1, 40):
        pr.ack(now=2, rtt=rtt * MS)
        got.append(shortest() // MS)
    assert got == [0, 30, 20, 20, 20]


def test_packets_of_a_cycle_are_counted_by_what_arrived(pr):
    """Selectively acknowledged ones too, whatever the size of the ACKs; the count may wrap."""
    for delivered in (0, 2**32 - 5):
        sending(pr, 10, {"bound_mode": 0}, delivered=delivered)
        pr.ack(now=0, rtt=40 * MS)
        pr.ack(n=0, sack=6, now=20 * MS, rtt=40 * MS)
        pr.ack(n=2, now=30 * MS, rtt=40 * MS)
        pr.ack(n=8, now=80 * MS, rtt=80 * MS)  # its last packet left with the first ACK
        assert (pr.state()["counters"]["cycles"], bound(pr)) == (1, 10 * 40 / 80 + 3)


@pytest.mark.parametrize(
    "n, period, spoilt", [(0, 10, {}), (10, 0, {}), (10, 10, {"ca__spoilt": 1}), (10, 10, {"ca__cycle_rtt": 0})]
)
def test_a_cycle_that_tells_nothing_changes_no_bound(pr, n, period, spoilt):
    state = end_of_cycle(pr, n, 10 * MS, period * MS, 100, 10 * MS, **{"ca__bound_q4": 777} | spoilt)
    assert state["ca"]["bound_q4"] == 777
    assert (state["counters"]["cycles"], state["counters"]["skipped"]) == (0, 1)
    assert (state["ca"]["base"], state["ca"]["offset"]) == (777 // Q4 - 1, 1)  # but an old one may be reached


@given(n=packets, t=rtts, period=rtts, longer=rtts, window=windows, n_queue=st.integers(1, 1024))
def test_larger_rtt_never_gives_larger_bound(pr, n, t, period, longer, window, n_queue):
    got = [end_of_cycle(pr, n, t, at, window, params={"bound_mode": 0, "n_queue": n_queue})["ca"]["bound_q4"]
           for at in sorted((period, longer))]  # fmt: skip
    assert got[0] >= got[1]


@given(n=packets, more=packets, t=rtts, period=rtts, window=windows, mode=st.integers(0, 1))
def test_more_packets_or_a_longer_base_never_give_a_smaller_bound(pr, n, more, t, period, window, mode):
    def of(n, t, mode):
        return end_of_cycle(pr, n, t, period, window, params={"bound_mode": mode})["ca"]["bound_q4"]

    assert of(min(n, more), t, 0) <= of(max(n, more), t, 0)
    assert of(n, t // 2 + 1, mode) <= of(n, max(t, t // 2 + 1), mode)
    assert of(n, t, 0) <= of(n, t, 1)


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


def test_start(pr):
    assert pr.start(PAPER)["cwnd"] == 1
    state = pr.state()
    assert (state["ca"]["base"], state["ca"]["offset"], state["ca"]["bound_q4"]) == (0, 1, NONE)
    assert state["tp"]["snd_ssthresh"] == 2  # never Reno's slow start
    assert pr.start()["cwnd"] == 10  # the stack's
    assert split(pr) == (0, 10)
    assert pr.start({"init_cwnd": 32})["cwnd"] == 32
    assert split(pr) == (0, 32)
    assert pr.start({"init_cwnd": 32}, snd_cwnd_clamp=7)["cwnd"] == 7
    assert pr.start(snd_cwnd=40, data_segs_out=100)["cwnd"] == 40  # a connection that changes its controller
    assert pr.start({"init_cwnd": 32}, snd_cwnd=1)["cwnd"] == 1  # its SYN was lost


@pytest.mark.parametrize("tx_start", [0, 1])
def test_first_cycles_double(pr, tx_start):
    pr.start(PAPER, now=0, tx_start=tx_start)
    assert many_rtts(pr, 8) == [2, 4, 8, 16, 32, 64, 128, 256]


@pytest.mark.parametrize("clamp", [1, 2, 50])
def test_clamp_is_honoured(pr, clamp):
    pr.start({}, now=0, snd_cwnd_clamp=clamp)
    trace = many_rtts(pr, 12)
    assert max(trace) == clamp and trace[-3:] == [clamp] * 3
    assert sum(split(pr)) == clamp


def test_clamp_set_under_way(pr):
    sending(pr, 100, bound=200)
    assert pr.ack(now=1, snd_cwnd_clamp=30)["cwnd"] == 30


def test_bound_is_two_at_least(pr):
    state = end_of_cycle(pr, 1, 1, RTT_MAX, 9, params={"n_queue": 1, "bound_mode": 0})
    assert (state["ca"]["bound_q4"], state["tp"]["snd_cwnd"]) == (2 * Q4, 2)
    assert cycles(pr, 3, 10**8) == [(1, 1, 2)] * 3


def test_largest_window(pr):
    ca = end_of_cycle(pr, W_MAX, RTT_MAX, RTT_MAX, W_MAX)["ca"]
    assert (ca["base"], ca["offset"], ca["bound_q4"]) == (W_MAX - 1, 1, NONE)
    pr.poke(snd_cwnd=2**31)
    assert pr.ack(n=W_MAX, now=2 * RTT_MAX, rtt=RTT_MAX)["cwnd"] == W_MAX
    assert pr.start(snd_cwnd=2**31, data_segs_out=1, app=10)["cwnd"] == 2**31
    assert split(pr) == (0, W_MAX)


# RTT samples


@pytest.mark.parametrize("rtt", [-1, 0, -(2**31)])
def test_no_sample_changes_nothing(pr, rtt):
    sending(pr, 100, ca__rtt_min=40 * MS, ca__cycle_rtt=50 * MS, ca__round_end=100)
    pr.ack(rtt=rtt)
    ca = pr.state()["ca"]
    assert (ca["rtt_min"], ca["cycle_rtt"]) == (40 * MS, 50 * MS)


@pytest.mark.parametrize("rtt, counted", [(1, 1), (RTT_MAX, RTT_MAX), (RTT_MAX + 1, RTT_MAX), (2**31 - 1, RTT_MAX)])
def test_limits_of_a_sample(pr, rtt, counted):
    sending(pr, 100, ca__round_end=100)
    pr.ack(rtt=rtt)
    ca = pr.state()["ca"]
    assert (ca["rtt_min"], ca["cycle_rtt"]) == (counted, counted)


def test_an_aged_base_above_the_cycles_rtt_counts_as_that(pr):
    ca = end_of_cycle(pr, 100, 50 * MS, 40 * MS, 100, 40 * MS, {"bound_mode": 0})["ca"]
    assert ca["bound_q4"] == 103 * Q4


# The application, idle, and windows the stack set


def test_application_limited_cycle_changes_no_bound_and_grows_nothing(pr):
    sending(pr, 100, bound=150, ca__rtt_min=40 * MS)
    pr.poke(app=20)
    pr.ack(n=81, now=MS)  # what the last full flight earned
    many_rtts(pr, 2, MS)
    held, before = split(pr), pr.state()["counters"]
    assert many_rtts(pr, 10, 81 * MS) == [sum(held)] * 10
    state = pr.state()
    assert (split(pr), state["ca"]["bound_q4"]) == (held, 150 * Q4)
    delta = {key: state["counters"][key] - before[key] for key in before}
    assert delta["skipped"] == 10 and delta["limited_acks"] == 200 and not delta["cycles"]


def test_one_limited_ack_spoils_its_cycle_alone(pr):
    sending(pr, 100, bound=100)
    one_rtt(pr, 0)
    before = pr.state()["counters"]
    pr.poke(ca__spoilt=1)
    one_rtt(pr, 40 * MS)
    one_rtt(pr, 80 * MS)
    counters = pr.state()["counters"]
    assert (counters["skipped"] - before["skipped"], counters["cycles"] - before["cycles"]) == (1, 1)


@pytest.mark.parametrize("tx_start", [0, 1])
@pytest.mark.parametrize("restarted", [False, True])
def test_idle_drops_the_cycle_and_keeps_base_and_bound(pr, restarted, tx_start):
    sending(pr, 100, bound=120, offset=40, tx_start=tx_start, ca__rtt_min=40 * MS)
    window = pr.ack(n=100, now=40 * MS, app=0)["cwnd"]
    assert window == 120
    pr.poke(ca__bound_q4=200 * Q4)
    counters = pr.state()["counters"]
    if restarted:
        assert pr.restart(cwnd=10, now=9 * 10**6)["cwnd"] == 10
        window = 10
    pr.send(app=2**32 - 1, now=9 * 10**6)
    pr.ack(now=9 * 10**6 + 40 * MS, rtt=40 * MS)
    state = pr.state()
    assert split(pr) == (window - 1, 2)  # and the first ACK's packet
    assert (state["ca"]["bound_q4"], state["ca"]["rtt_min"]) == (200 * Q4, 40 * MS)
    assert state["ca"]["round_stamp"] == 9 * 10**6 + 40 * MS
    assert [state["counters"][key] - counters[key] for key in ("cycles", "skipped", "reloads")] == [0, 0, 1]


def test_single_packets_are_no_idle(pr):
    """Each is sent when the one before is acknowledged."""
    sending(pr, 100, tx_start=1, offset=3, bound=100, app=1)
    pr.ack(n=100, now=40 * MS, rtt=40 * MS)
    held = split(pr)
    for i in range(1, 5):
        pr.ack(now=(i + 1) * 40 * MS, rtt=40 * MS)
    assert split(pr) == held and pr.state()["counters"]["reloads"] == 0


@pytest.mark.parametrize("cwnd", [1, 40, 99, 102, 130])
def test_window_of_the_stack_is_taken_over(pr, cwnd):
    sending(pr, 100, offset=30, bound=500)
    pr.ack(now=1)
    pr.poke(snd_cwnd=cwnd)
    assert pr.ack(now=2 * MS)["cwnd"] == cwnd + 1
    state = pr.state()
    assert (split(pr), state["counters"]["reloads"]) == ((cwnd - 1, 2), 1)
    assert (state["ca"]["round_stamp"], state["ca"]["delivered"]) == (2 * MS, state["tp"]["delivered"])


# Loss


@pytest.mark.parametrize("w, half", [(100, 50), (101, 50), (5, 2), (3, 2), (2, 2)])
@pytest.mark.parametrize("congestion", ["loss", "cwr"])
def test_reduction_halves_and_bound_is_that_half(pr, w, half, congestion):
    sending(pr, w, offset=2)
    pr.do(congestion)
    assert (pr.state()["tp"]["snd_ssthresh"], bound(pr)) == (half, half)
    recover(pr, now=40 * MS, rtt=40 * MS)
    if congestion == "cwr":  # ends beyond the mark
        assert pr.state()["tp"]["state"] == 2
        recover(pr, now=41 * MS, rtt=40 * MS)
    state = pr.state()
    assert (state["tp"]["state"], state["tp"]["snd_cwnd"], split(pr), bound(pr)) == (0, half, (half - 1, 1), half)
    assert (state["counters"]["losses"], state["counters"]["cycles"]) == (1, 0)


@pytest.mark.parametrize("window, then", [(100, 50), (53, 50), (40, 40)])
def test_a_loss_of_what_a_larger_window_sent_takes_half_of_that(pr, window, then):
    """The end of a cycle has dropped the window before the loss is known."""
    sending(pr, 100)
    pr.poke(snd_cwnd=window, ca__cwnd=window, ca__base=window - 1, ca__offset=1)
    pr.loss(now=0)
    assert (pr.state()["tp"]["snd_ssthresh"], bound(pr)) == (then, then)


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


def test_base_and_offset_rest_during_recovery(pr):
    sending(pr, 100, offset=30)
    pr.loss()
    pr.batch([line("ack", n=0, sack=1, rtt=40 * MS)] * 50)
    pr.ack(n=5, rtt=40 * MS)
    assert pr.state()["tp"]["state"] == 3 and split(pr) == (70, 30)


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


@given(base=st.integers(0, 900), offset=st.integers(1, 900), full=st.integers(1, W_MAX), acks=st.integers(0, 30),
       timeout=st.booleans(), recovered=st.booleans())  # fmt: skip
def test_undo_restores_base_offset_and_bound(pr, base, offset, full, acks, timeout, recovered):
    assume(base + offset >= 4 and full >= base + offset)
    sending(pr, base + offset, offset=offset, bound=full)
    pr.do("rto" if timeout else "loss")
    if timeout:
        pr.ack(n=1)
    elif recovered:
        recover(pr, rtt=40 * MS)
    else:
        pr.batch([line("ack", n=0, sack=1)] * acks)
    assert bound(pr) == (base + offset) // 2
    assert pr.undo(now=10**6)["cwnd"] == base + offset
    assert (split(pr), bound(pr)) == ((base, offset), full)
    reloads = int(timeout or recovered)  # before the undo, none after it
    pr.ack(now=2 * 10**6)
    state = pr.state()
    assert (state["counters"]["reloads"], state["counters"]["undos"]) == (reloads, 1)
    assert (state["ca"]["bound_q4"], state["ca"]["base"]) == (full * Q4, base)


def test_undo_starts_a_cycle(pr):
    sending(pr, 100)
    pr.loss()
    pr.poke(ca__round_end=2**30, ca__offset_bound=50, ca__spoilt=1, ca__cycle_rtt=1)
    pr.undo(now=77 * MS)
    state = pr.state()
    ca, tp = state["ca"], state["tp"]
    assert ca["round_end"] <= tp["snd_nxt"]
    assert [ca[key] for key in ("round_stamp", "delivered", "offset_bound", "spoilt", "cycle_rtt")] == [
        77 * MS,
        tp["delivered"],
        0,
        0,
        0,
    ]


def test_undo_never_lowers(pr):
    sending(pr, 100)
    pr.loss()
    recover(pr, rtt=40 * MS)
    pr.poke(snd_cwnd=300)
    assert pr.undo()["cwnd"] == 300
    pr.ack(now=1)
    assert sum(split(pr)) == 301  # taken over


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


# Everything at random


@settings(max_examples=300)
@given(data=st.data())
def test_any_stream_keeps_the_window_in_bounds(pr, data):
    _, clamp, played = any_stream(data, pr, clamps=(1, 2, 3, 50, W_MAX, 2**32 - 1))
    for answer, state in played:
        ca = state["ca"]
        assert 1 <= ca["base"] + ca["offset"] <= W_MAX and 2 * Q4 <= ca["bound_q4"] <= NONE
        assert ca["offset"] >= 1 and ca["rtt_min"] <= RTT_MAX and ca["cycle_rtt"] <= RTT_MAX
        if answer["cwnd"] == ca["cwnd"]:  # the stack did not touch it
            assert min(ca["base"] + ca["offset"], clamp) == answer["cwnd"]


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(st.integers(1, 64), st.integers(30 * MS, 80 * MS), st.integers(0, 10 * MS)), min_size=1, max_size=150
    )
)
def test_growth_never_exceeds_what_was_acknowledged_nor_bound(pr, acks):
    pr.start(now=0)
    before, now, lines = pr.state(), 0, []
    for n, rtt, dt in acks:
        now += dt
        lines += [line("ack", n=n, rtt=rtt, now=now), "state"]
    for state in pr.batch(lines)[1::2]:
        cwnd, last = state["tp"]["snd_cwnd"], before["tp"]["snd_cwnd"]
        assert cwnd - last <= state["tp"]["delivered"] - before["tp"]["delivered"]
        assert cwnd <= state["ca"]["bound_q4"] // Q4
        before = state
