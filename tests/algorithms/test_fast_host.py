# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""FAST's own source, compiled for the host with sanitizers, against laws (1) and (2) and Theorem 1."""

from fractions import Fraction

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.algorithms.host.bottleneck import Link, run
from tests.algorithms.host.driver import Driver, build, line
from tests.algorithms.host.streams import MS, RTT_MAX, W_MAX, any_stream, many_rtts, one_rtt, packets, rtts

Q8 = 256
ALPHA = 1000

windows = st.integers(Q8, W_MAX * Q8) | st.integers(Q8, 4 * Q8)


@pytest.fixture(scope="session")
def binary(request):
    return build("fast")


@pytest.fixture(scope="session")
def fast(binary):
    driver = Driver(binary)
    yield driver
    assert driver.close() == 0, driver.process.stderr.read()


@pytest.fixture(scope="session")
def pair(binary, fast):
    other = Driver(binary)
    yield fast, other
    assert other.close() == 0


def at_rest(fast, w_q8, params=None, base=40 * MS, avg_q16=None, w_old_q8=None, flight=1, **keys):
    """A connection with this window, at the end of a round: the next ACK updates it."""
    first = {"app": 0, "tx_start": 0} | {k: keys.pop(k) for k in list(keys) if k in ("mss_cache", "snd_cwnd_clamp")}
    fast.start({"alpha": ALPHA} | (params or {}), **first)
    state = {
        "snd_cwnd": w_q8 >> 8, "ca__cwnd": w_q8 >> 8,
        "ca__w_q8": w_q8, "ca__step_from_q8": w_q8, "ca__step_to_q8": w_q8,
        "ca__w_round_q8": w_q8 if w_old_q8 is None else w_old_q8,
        "ca__rtt_min": base, "ca__rtt_avg_q16": base << 16 if avg_q16 is None else avg_q16,
        "ca__cwnd_limited": 1, "ca__round_end": 1, "packets_out": flight, "snd_nxt": 1 + flight * 960,
    }  # fmt: skip
    fast.poke(**state | keys)


def sending(fast, w_q8, params=None, **keys):
    """A connection with this window, full flight, unlimited data."""
    at_rest(fast, w_q8, params, **keys)
    fast.poke(packets_out=0, snd_nxt=1)
    fast.send(app=2**32 - 1)
    fast.poke(ca__round_end=fast.state()["tp"]["snd_nxt"])


def target(fast, **keys):
    """What one update leads to."""
    before = fast.state()["counters"]["updates"]
    fast.ack(**keys)
    state = fast.state()
    assert state["counters"]["updates"] == before + 1
    return state["ca"]["step_to_q8"]


def law(w, w_old, base, avg_q16, alpha=ALPHA, gamma=128):
    rtt = max(avg_q16 >> 16, 1)
    goal = w_old * min(base, rtt) // rtt + alpha * Q8
    return min(2 * w, ((256 - gamma) * w + gamma * goal) // 256)


# Law (1)


@given(
    w=windows, w_old=windows, base=rtts, avg=st.integers(1 << 16, RTT_MAX << 16) | rtts.map(lambda us: us << 16),
    alpha=st.integers(1, 65536), gamma=st.integers(1, 256),
)  # fmt: skip
@example(w=W_MAX * Q8, w_old=W_MAX * Q8, base=10**7, avg=10**7 << 16, alpha=65536, gamma=256)
@example(w=W_MAX * Q8, w_old=W_MAX * Q8, base=RTT_MAX, avg=RTT_MAX << 16, alpha=65536, gamma=1)
@example(w=W_MAX * Q8, w_old=W_MAX * Q8, base=1, avg=RTT_MAX << 16, alpha=1, gamma=256)
@example(w=2 * Q8, w_old=2 * Q8, base=1, avg=1 << 16, alpha=1, gamma=128)
def test_law_is_exact(fast, w, w_old, base, avg, alpha, gamma):
    at_rest(fast, w, {"alpha": alpha, "gamma_q8": gamma}, base, avg, w_old)
    got = target(fast)
    assert got == min(max(law(w, w_old, base, avg, alpha, gamma), 2 * Q8), W_MAX * Q8)
    # The integers against the equation: two roundings down, and an RTT in whole us.
    g = Fraction(gamma, 256)
    exact = (1 - g) * w + g * (w_old * min(Fraction(base << 16, avg), 1) + alpha * Q8)
    exact = min(max(min(2 * w, exact), 2 * Q8), W_MAX * Q8)
    assert -2 < got - exact <= g * Fraction(w_old, avg >> 16)


def test_the_product_takes_the_window_of_one_rtt_ago(fast):
    at_rest(fast, 200 * Q8, {"alpha": 10}, 40 * MS, 80 * MS << 16, w_old_q8=100 * Q8)
    assert target(fast) == (100 + (50 + 10) // 2) * Q8


def test_w_old_is_the_window_when_the_round_began(fast):
    sending(fast, 100 * Q8, {"alpha": 10})
    state, at_mark, last, flight = fast.state(), 100 * Q8, 0, 100
    gaps = []
    for i in range(500):
        fast.ack(rtt=40 * MS)
        before, state = state, fast.state()
        if state["counters"]["updates"] > before["counters"]["updates"]:
            ca = state["ca"]
            assert ca["step_to_q8"] == law(ca["w_q8"], at_mark, 40 * MS, 40 * MS << 16, 10)
            gaps.append((i - last) / flight)
            at_mark, last, flight = ca["w_q8"], i, state["tp"]["packets_out"]
    assert len(gaps) == 4 and all(0.98 <= gap <= 1 for gap in gaps)  # an update each RTT


@pytest.mark.parametrize("tx_start", [0, 1])
def test_start_at_2_doubles_each_rtt(fast, tx_start):
    fast.start({"alpha": ALPHA}, now=0, snd_una=1, snd_nxt=1, tx_start=tx_start)
    got = many_rtts(fast, 8)  # then the other branch of min{2w, .} is the smaller
    first = got[0]
    assert first in (2, 3)  # 3 when the first ACK, not that of the first flight, ends a round
    assert got[:7] == [first << i for i in range(7)]
    assert got == pytest.approx([first << i for i in range(8)], rel=0.01)


def test_start_leaves_reno_slow_start_out(fast):
    fast.start()
    assert fast.state()["tp"]["snd_ssthresh"] == 2
    assert fast.start({"init_cwnd": 0})["cwnd"] == 10
    assert fast.start({"init_cwnd": 32})["cwnd"] == 32
    assert fast.start({"init_cwnd": 32}, snd_cwnd_clamp=7)["cwnd"] == 7
    assert fast.start(snd_cwnd=40, data_segs_out=100)["cwnd"] == 40  # a connection that changes to FAST
    assert fast.start({"init_cwnd": 32}, snd_cwnd=1)["cwnd"] == 1  # its SYN was lost


def test_pacing_leaves_the_rate_to_the_stack(fast):
    assert [fast.start(params) and fast.state()["tp"]["pacing_rate"] for params in ({}, {"pacing": 1})] == [
        0,
        2**64 - 1,
    ]


@pytest.mark.parametrize("mbit, alpha", [(0.4, 4), (1, 4), (4, 8), (25, 20), (100, 40), (2500, 200), (160_000, 1600)])
def test_alpha_by_rate(fast, mbit, alpha):
    w = round(mbit * 40 * MS / 8 / 1000)  # packets of 1000 bytes
    at_rest(fast, w * Q8, {"alpha": 0}, mss_cache=1000)
    assert abs(target(fast) - law(w * Q8, w * Q8, 1, 1 << 16, alpha)) <= 1


def test_alpha_by_rate_at_the_limits(fast):
    at_rest(fast, 100 * Q8, {"alpha": 0}, mss_cache=0)
    assert target(fast) == 102 * Q8
    at_rest(fast, W_MAX * Q8, {"alpha": 0}, 1, 1 << 16, mss_cache=65535, flight=W_MAX)
    assert target(fast) == W_MAX * Q8


@pytest.mark.parametrize("queue_us, doubles", [(0, True), (749, True), (750, False)])
def test_mi_mode(fast, queue_us, doubles):
    at_rest(fast, 100 * Q8, {"alpha": 10, "mi_thresh_us": 750}, avg_q16=40 * MS + queue_us << 16)
    assert target(fast) == (200 * Q8 if doubles else law(100 * Q8, 100 * Q8, 40 * MS, 40 * MS + queue_us << 16, 10))


@given(w=windows, w_old=windows, base=rtts, avg=rtts, longer=rtts, gamma=st.integers(1, 256))
def test_larger_rtt_never_gives_larger_window(fast, w, w_old, base, avg, longer, gamma):
    got = []
    for rtt in sorted((avg, longer)):
        at_rest(fast, w, {"gamma_q8": gamma}, base, rtt << 16, w_old)
        got.append(target(fast))
    assert got[0] >= got[1]


@given(w=windows, base=rtts, samples=st.tuples(rtts, rtts), n=packets)
def test_larger_sample_never_gives_larger_window(fast, w, base, samples, n):
    got = []
    for rtt in sorted(samples):
        at_rest(fast, w, {}, base, base << 16, flight=n)
        got.append(target(fast, n=n, rtt=max(rtt, base)))
    assert got[0] >= got[1]


# Law (2) and baseRTT


@given(
    w=windows.filter(lambda w: w < 3 << 24),
    avg=rtts,
    rtt=rtts,
    n=packets,
    eta_max=st.sampled_from([16384, 256, 65536, 1]),
)
@example(w=769 * Q8, avg=40 * MS, rtt=80 * MS, n=1, eta_max=16384)
@example(w=100_000 * Q8, avg=40 * MS, rtt=80 * MS, n=1, eta_max=16384)
def test_average_rtt_is_exact(fast, w, avg, rtt, n, eta_max):
    at_rest(fast, w, {"eta_max_q16": eta_max}, 1, avg << 16, flight=n)
    fast.ack(n=n, rtt=rtt)
    got = fast.state()["ca"]["rtt_avg_q16"]
    eta = min(3 * 65536 * n // (w >> 8), eta_max)
    assert got == ((65536 - eta) * (avg << 16) + eta * (rtt << 16)) >> 16
    weight = min(Fraction(3 * n, w >> 8), Fraction(eta_max, 65536))
    exact = ((1 - weight) * avg + weight * rtt) * 65536
    assert abs(got - exact) <= abs(rtt - avg) + 1  # the weight to 2^-16


def weight(fast, w, n=1, **params):
    at_rest(fast, w * Q8, params, 1, 65536 << 16, flight=n)
    fast.ack(n=n, rtt=2 * 65536)
    return Fraction(fast.state()["ca"]["rtt_avg_q16"] - (65536 << 16), 65536 << 16)


def test_weight_of_a_sample(fast):
    assert [weight(fast, w) for w in (2, 12, 24, 1024)] == [
        Fraction(1, 4),
        Fraction(1, 4),
        Fraction(1, 8),
        Fraction(3, 1024),
    ]
    assert weight(fast, 16384) > 0
    assert weight(fast, 1024, n=16) == Fraction(48, 1024)
    assert weight(fast, 1024, n=1024) == Fraction(1, 4)
    assert weight(fast, 24, eta_max_q16=256) == weight(fast, 768, eta_max_q16=256) == Fraction(1, 256)
    assert weight(fast, 1536, eta_max_q16=256) == Fraction(1, 512)


def test_weight_of_a_sample_at_the_largest_window(fast):
    assert weight(fast, W_MAX) > 0


@pytest.mark.parametrize("rtt", [-1, 0, -(2**31)])
def test_no_sample_changes_nothing(fast, rtt):
    at_rest(fast, 100 * Q8, {})
    before = fast.state()["ca"]
    fast.ack(rtt=rtt)
    after = fast.state()["ca"]
    assert all(after[key] == before[key] for key in ("rtt_avg_q16", "rtt_min"))


def test_no_update_without_any_sample(fast):
    fast.start(now=0)
    assert many_rtts(fast, 5, sample=-1) == [2] * 5
    assert fast.state()["counters"]["updates"] == 0


@pytest.mark.parametrize("rtt, counted", [(1, 1), (RTT_MAX, RTT_MAX), (RTT_MAX + 1, RTT_MAX), (2**31 - 1, RTT_MAX)])
def test_first_sample_and_its_limits(fast, rtt, counted):
    fast.start(tx_start=0)
    fast.ack(rtt=rtt)
    ca = fast.state()["ca"]
    assert (ca["rtt_min"], ca["rtt_avg_q16"]) == (counted, counted << 16)
    fast.ack(rtt=rtt)
    assert target(fast, rtt=rtt) <= 2 * fast.state()["ca"]["w_q8"]


def test_base_is_the_minimum_and_never_ages(fast):
    def bases(params, samples):
        fast.start(params, now=0, app=100, tx_start=0)
        out = []
        for now, rtt in samples:
            fast.ack(now=now, rtt=rtt * MS)
            out.append(fast.state()["ca"]["rtt_min"] // MS)
        return out

    second = 10**6
    assert bases({}, [(0, 50), (1, 40), (2, 60), (86400 * second, 60)]) == [50, 40, 40, 40]


# When to update


def test_update_every_second_rtt(fast):
    sending(fast, 100 * Q8, {"update_rtts": 2, "alpha": 10})
    counts = []
    for i in range(8):
        one_rtt(fast, i * 40 * MS)
        counts.append(fast.state()["counters"]["updates"])
    assert counts == [0, 0, 1, 1, 2, 2, 3, 3]  # a round ends with the first ACK of the next flight


def test_update_at_fixed_intervals(fast):
    at_rest(fast, 100 * Q8, {"update_us": 10 * MS, "alpha": 10}, flight=100, ca__update_stamp=0, ca__round_end=10**6)
    counts = []
    for now in range(1 * MS, 36 * MS, MS):
        fast.ack(now=now)
        counts.append(fast.state()["counters"]["updates"])
    assert counts == [now // 10 for now in range(1, 36)]


# A step is spread over one RTT


@settings(max_examples=40)
@given(w=st.integers(2 * Q8, 800 * Q8), to=st.integers(2 * Q8, 1600 * Q8), n=st.integers(1, 20))
@example(w=100 * Q8 + 255, to=200 * Q8 + 255, n=1)
@example(w=700 * Q8, to=2 * Q8, n=1)
def test_step_is_spread_over_one_window(fast, w, to, n):
    assume(to <= 2 * w)
    whole, count = w >> 8, -(-(w >> 8) // n)
    at_rest(fast, w, {}, flight=(count + 1) * n)
    fast.poke(ca__step_to_q8=to, ca__round_end=2**30)
    last, moved, share = w, [], -(-abs(to - w) // whole)
    answers = []
    for _ in range(min(count + 1, 40)):  # the first ACKs one by one, then all at once
        answers.append(fast.ack(n=n))
        now = fast.state()["ca"]["w_q8"]
        assert min(last, to) <= now <= max(last, to)
        moved.append(abs(now - last))
        last = now
    assert max(moved) <= share * n + 1
    answers += fast.batch([line("ack", n=n)] * (count + 1 - len(answers)))
    assert fast.state()["ca"]["w_q8"] == to
    cwnds = [answer["cwnd"] for answer in answers]
    assert cwnds == sorted(cwnds, reverse=to < w)
    assert cwnds[-1] == to >> 8
    # Not early either: half of the packets make half of the step.
    half = cwnds[: count // 2]
    if half and abs(to - w) > 4 * whole:
        assert abs(half[-1] - (w >> 8)) <= (abs(to - w) * (len(half) * n) // whole + len(half)) // Q8 + 1


def test_stretch_acks_grow_as_fast(fast):
    traces = []
    for stretch in (1, 2, 8):
        sending(fast, 64 * Q8, {"alpha": 20})
        traces.append(many_rtts(fast, 6, stretch=stretch))
    assert (
        max(abs(a - b) for t in traces for a, b in zip(t, traces[0])) <= 2
    )  # a round's first ACK is the larger the more it stands for


# Limits


def test_clamp_is_honoured(fast):
    fast.start({"alpha": ALPHA}, now=0, snd_cwnd_clamp=50)
    trace = many_rtts(fast, 10)
    assert max(trace) == 50 and trace[-3:] == [50, 50, 50]


def test_floor_is_two(fast):
    at_rest(fast, 2 * Q8, {"alpha": 1}, 1, RTT_MAX << 16)
    assert target(fast) == 2 * Q8
    at_rest(fast, 3 * Q8, {"alpha": 1, "gamma_q8": 256}, 1, RTT_MAX << 16)
    assert target(fast) == 2 * Q8


def test_largest_window(fast):
    at_rest(fast, W_MAX * Q8, {"alpha": 65536}, 10**7, flight=W_MAX)
    assert target(fast, n=1) == W_MAX * Q8
    assert fast.ack(n=W_MAX - 1, rtt=10**7)["cwnd"] == W_MAX
    fast.poke(snd_cwnd=2**31, packets_out=1)
    assert fast.ack()["cwnd"] == W_MAX


# The application, idle, and windows the stack set


def test_application_limited_round_never_raises(fast):
    at_rest(fast, 100 * Q8, {"alpha": 10})
    fast.poke(packets_out=0, snd_nxt=1, ca__cwnd_limited=0)
    fast.send(app=20)
    assert many_rtts(fast, 10, start=10**6) == [100] * 10
    counters = fast.state()["counters"]
    assert counters["limited_rounds"] == counters["updates"] > 0


def test_application_limited_round_may_lower(fast):
    at_rest(fast, 100 * Q8, {"alpha": 10}, 40 * MS, 160 * MS << 16)
    fast.poke(packets_out=0, snd_nxt=1, ca__cwnd_limited=0)
    fast.send(app=20)
    trace = many_rtts(fast, 20, start=10**6, sample=160 * MS)
    assert trace == sorted(trace, reverse=True) and 12 <= trace[-1] < 50


def test_limit_is_judged_anew_after_each_update(fast):
    sending(fast, 100 * Q8, {"alpha": 10})
    assert one_rtt(fast, 0)[-1] == 100
    fast.poke(app=20)
    many_rtts(fast, 4, start=40 * MS)
    held = fast.state()["ca"]["step_to_q8"]
    many_rtts(fast, 4, start=5 * 40 * MS)
    assert fast.state()["ca"]["step_to_q8"] == held
    assert fast.state()["counters"]["limited_rounds"] >= 4


@pytest.mark.parametrize("tx_start", [0, 1])
@pytest.mark.parametrize("restarted", [False, True])
def test_idle_drops_the_average_and_keeps_base(fast, restarted, tx_start):
    at_rest(fast, 100 * Q8 + 128, {}, avg_q16=90 * MS << 16)
    fast.poke(tx_start=tx_start)
    fast.ack(now=10**6)
    updates = fast.state()["counters"]["updates"]
    if restarted:
        assert fast.restart(cwnd=10, now=9 * 10**6)["cwnd"] == 10
    fast.send(app=2**32 - 1, now=9 * 10**6)
    fast.ack(rtt=50 * MS, now=9 * 10**6 + 50 * MS)
    state = fast.state()
    assert (state["ca"]["rtt_avg_q16"], state["ca"]["rtt_min"]) == (50 * MS << 16, 40 * MS)
    assert state["ca"]["w_q8"] >> 8 == (10 if restarted else 100)
    assert state["counters"]["updates"] == updates


@pytest.mark.parametrize("cwnd", [1, 40, 99, 101, 300])
def test_window_of_the_stack_is_taken_over(fast, cwnd):
    sending(fast, 100 * Q8 + 77, {}, avg_q16=60 * MS << 16)
    fast.poke(ca__step_to_q8=150 * Q8, ca__round_end=2**30, snd_cwnd=cwnd)
    assert fast.ack(rtt=60 * MS)["cwnd"] == cwnd
    state = fast.state()
    assert state["counters"]["reloads"] == 1
    assert {state["ca"][f] for f in ("w_q8", "step_from_q8", "w_round_q8")} == {cwnd * Q8}
    # and law (1) goes on from it at once: base 40 ms, average 60 ms, w_old = w
    w = cwnd * Q8
    assert state["ca"]["step_to_q8"] == min(2 * w, (w + (w * 40 // 60 + 1000 * Q8)) // 2)
    assert 961 <= state["ca"]["round_end"] <= state["tp"]["snd_nxt"]


# Loss


@pytest.mark.parametrize("w, half", [(100, 50), (101, 50), (5, 2), (3, 2), (2, 2)])
def test_loss_halves(fast, w, half):
    sending(fast, w * Q8 + 128, {})
    fast.loss()
    assert fast.state()["tp"]["snd_ssthresh"] == half
    high = fast.state()["tp"]["packets_out"]
    fast.ack(n=high, rtt=40 * MS)
    assert fast.state()["tp"]["state"] == 0
    assert fast.state()["tp"]["snd_cwnd"] == half
    assert fast.state()["ca"]["w_q8"] >> 8 == half
    assert fast.state()["counters"]["losses"] == 1


@pytest.mark.parametrize("alpha, kept", [(10, True), (24, True), (26, False), (1000, False)])
def test_one_loss_cuts_once(fast, alpha, kept):
    """The average of before the loss is twice the base: law (1) would take another quarter, but for alpha."""
    sending(fast, 100 * Q8, {"alpha": alpha}, avg_q16=80 * MS << 16)
    fast.loss()
    fast.ack(n=100, rtt=80 * MS)
    state = fast.state()
    assert (state["tp"]["state"], state["ca"]["w_q8"], state["counters"]["updates"]) == (0, 50 * Q8, 1)
    stale = law(50 * Q8, 50 * Q8, 40 * MS, 80 * MS << 16, alpha)
    assert (stale < 50 * Q8) == kept
    assert state["ca"]["step_to_q8"] == max(stale, 50 * Q8)
    one_rtt(fast, 80 * MS, rtt=80 * MS)  # the queue stands still: the update of a whole round may lower
    one_rtt(fast, 160 * MS, rtt=80 * MS)
    assert (fast.state()["ca"]["w_q8"] < 50 * Q8) == kept


def test_ecn_halves(fast):
    sending(fast, 100 * Q8, {})
    fast.cwr()
    fast.ack(n=100, rtt=40 * MS)
    fast.ack(n=1, rtt=40 * MS)
    assert fast.state()["ca"]["w_q8"] >> 8 == 50


def test_window_rests_during_recovery(fast):
    sending(fast, 100 * Q8 + 128, {})
    fast.loss()
    fast.batch([line("ack", n=0, sack=1, rtt=40 * MS)] * 50)
    assert fast.state()["ca"]["w_q8"] == 100 * Q8 + 128


def timed_out(fast, flight, **keys):
    sending(fast, flight * Q8, {"alpha": 1000})
    fast.poke(**keys)
    now = 10**6
    assert fast.rto(now=now)["cwnd"] == 1
    return many_rtts(fast, 16, start=now)


def test_timeout_restarts_from_one_packet(fast):
    sending(fast, 100 * Q8, {})
    assert fast.rto()["cwnd"] == 1
    state = fast.state()
    assert state["tp"]["snd_ssthresh"] == 50
    assert (state["counters"]["losses"], state["counters"]["timeouts"]) == (1, 1)
    assert fast.rto()["cwnd"] == 1  # no ACK between: the same loss
    assert fast.state()["counters"]["losses"] == 1
    fast.ack(n=100, rtt=40 * MS)
    assert fast.state()["ca"]["w_q8"] == Q8


def test_timeout_with_one_packet_lost_doubles(fast):
    """One packet lost, the others had arrived."""
    sending(fast, 100 * Q8, {})
    fast.poke(sacked_out=99)
    fast.rto(now=10**6)
    fast.ack(n=100, now=10**6 + 40 * MS, rtt=-1)
    assert many_rtts(fast, 8, start=10**6 + 40 * MS) == [2**i for i in range(1, 9)]


@pytest.mark.parametrize("flight", [16, 100, 1126])
def test_timeout_with_a_flight_lost_doubles(fast, flight):
    assert timed_out(fast, flight)[-1] >= min(256, flight)


def test_timeout_doubles_while_single_packets_start_anew(fast):
    sending(fast, 100 * Q8, {})
    fast.poke(sacked_out=99, tx_start=1)
    fast.rto(now=10**6)
    fast.ack(n=100, now=10**6 + 40 * MS, rtt=-1)
    assert many_rtts(fast, 10, start=2 * 10**6)[-1] >= 128


@pytest.mark.parametrize("stretch", [2, 1024])
def test_start_doubles_when_one_ack_covers_the_flight(fast, stretch):
    """A delayed ACK while the window is 2; offloads of the receiver later."""
    fast.start({"alpha": ALPHA}, now=0)
    assert many_rtts(fast, 12, stretch=stretch)[-1] >= 256


@given(w=st.integers(4 * Q8, 2000 * Q8), acks=st.integers(0, 30), timeout=st.booleans(), recovered=st.booleans())
def test_undo_restores_window_and_fraction(fast, w, acks, timeout, recovered):
    sending(fast, w, {})
    fast.do("rto" if timeout else "loss")
    if timeout:
        fast.ack(n=1)
    elif recovered:
        fast.ack(n=w >> 8, rtt=40 * MS)
    else:
        fast.batch([line("ack", n=0, sack=1)] * acks)
    lower = fast.state()["ca"]["w_q8"]
    assert lower < w if timeout or recovered else lower == w
    assert fast.undo()["cwnd"] == w >> 8
    assert fast.state()["ca"]["w_q8"] == w
    fast.ack(rtt=40 * MS)
    state = fast.state()
    reloads = int(timeout or recovered)  # before the undo, none after it
    assert (state["ca"]["w_q8"], state["counters"]["reloads"], state["counters"]["undos"]) == (w, reloads, 1)


def test_undo_starts_a_round(fast):
    sending(fast, 100 * Q8, {}, w_old_q8=50 * Q8)
    fast.loss()
    fast.poke(ca__round_end=2**30)
    fast.undo()
    ca = fast.state()["ca"]
    assert ca["round_end"] <= fast.state()["tp"]["snd_nxt"]
    assert ca["step_from_q8"] == ca["step_to_q8"] == ca["w_round_q8"] == 100 * Q8


def test_late_undo_restores_too(fast):
    sending(fast, 100 * Q8 + 77, {"alpha": 2})
    fast.loss()
    fast.ack(n=fast.state()["tp"]["packets_out"], rtt=40 * MS)
    many_rtts(fast, 2)
    assert fast.undo()["cwnd"] == 100
    assert fast.state()["ca"]["w_q8"] == 100 * Q8 + 77


def test_undo_never_lowers(fast):
    sending(fast, 100 * Q8 + 77, {})
    fast.loss()
    fast.ack(n=fast.state()["tp"]["packets_out"], rtt=40 * MS)
    many_rtts(fast, 4)
    cwnd, w = fast.state()["tp"]["snd_cwnd"], fast.state()["ca"]["w_q8"]
    assert cwnd > 100
    assert fast.undo()["cwnd"] == cwnd
    assert fast.state()["ca"]["w_q8"] == w


def test_undo_to_a_window_never_seen_reloads(fast):
    sending(fast, 100 * Q8 + 77, {})
    fast.poke(snd_cwnd=300)
    fast.loss()
    assert fast.undo()["cwnd"] == 300
    fast.ack(rtt=40 * MS)
    assert fast.state()["ca"]["w_q8"] == 300 * Q8


# Equilibrium: c_f = 100 Mbit/s, packets of 1000 bytes, ACKs of 40, 20 ms either way


PACKET_S = 80e-6
DELAY_S = 0.04


def settle(flows, params, k_f, seconds):
    """Windows, packets/s and RTTs of each flow over the last quarter."""
    link = Link(PACKET_S, PACKET_S * k_f, DELAY_S)
    out = []
    for trace in run(link, flows, [{"alpha": ALPHA} | own for own in params], seconds):
        end = [(w, rtt) for at, w, rtt in trace if seconds * 3 / 4 <= at < seconds]
        out.append(([w for w, _ in end], len(end) / seconds * 4, [rtt for _, rtt in end]))
    return out


@pytest.mark.parametrize(
    "k_f, window, seconds", [(0.04, 1500, 8), (0.4, 1501, 8), (1, 1502, 8), (4, 1126, 40), (40, 1013, 300)]
)
def test_theorem_1(fast, k_f, window, seconds):
    [(w, rate, rtt)] = settle([fast], [{}], k_f, seconds)
    assert window - 1 <= min(w) <= max(w) <= window + 1
    assert rate == pytest.approx(12500 / max(k_f, 1), rel=0.01)
    base = DELAY_S + PACKET_S * (1 + k_f)
    assert sum(rtt) / len(rtt) - base == pytest.approx(ALPHA * PACKET_S * max(k_f, 1), rel=0.01)


@pytest.mark.parametrize(
    "params", [{"gamma_q8": 32}, {"gamma_q8": 256}, {"eta_max_q16": 256}, {"update_rtts": 2}, {"update_us": 10 * MS}]
)
def test_equilibrium_knows_neither_gamma_nor_eta_nor_interval(fast, params):
    [(w, rate, _)] = settle([fast], [params], 4, 40)
    assert 1124 <= min(w) <= max(w) <= 1128
    assert rate == pytest.approx(3125, rel=0.01)


@pytest.mark.parametrize("alpha", [100, 500])
def test_alpha_packets_are_queued(fast, alpha):
    [(w, _, _)] = settle([fast], [{"alpha": alpha}], 4, 30)
    assert abs(w[-1] - (3125 * 0.0404 + alpha)) <= 1


def test_a_long_path_is_filled_from_the_start(fast):
    """By its rate a flow has a small alpha, but grows by a quarter a round trip until so many packets are queued."""
    delay, bdp = 0.6, 1500
    [trace] = run(Link(delay / bdp, delay / bdp / 100, delay), [fast], [{"alpha": 0}], 40)
    alpha = 17.5  # 2500 packets of 960 bytes a second: 19.2 Mbit/s
    assert next(at for at, w, _ in trace if w >= bdp) < 35 * delay  # by alpha alone 9 packets a round trip at most: 170
    assert max(w for _, w, _ in trace) < 2 * bdp  # a queue of one BDP holds it
    assert abs(trace[-1][1] - (bdp + alpha)) <= 15 and fast.state()["ca"]["started"]


def test_flows_whose_alpha_follows_the_rate_share_alike(pair):
    """Whatever their RTT. Steps would not: of 16 Mbit/s one flow is above 10, the other below."""
    link = Link(480e-6, 5e-6, 0.04)
    traces = run(link, pair, [{"alpha": 0}] * 2, 60, extra=[0, 0.04])
    first, second = (sum(45 <= at < 60 for at, _, _ in trace) for trace in traces)
    assert first / second == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("ends", ["queue", "loss"])
def test_the_start_ends_once(fast, ends):
    at_rest(fast, 100 * Q8, {"alpha": 0}, ca__rtt_round=40 * MS)
    assert target(fast, rtt=40 * MS) == 125 * Q8  # 19.2 Mbit/s, so alpha 17.5: by (1) 109
    at_rest(fast, 100 * Q8, {"alpha": 0}, avg_q16=50 * MS << 16, ca__rtt_round=50 * MS, flight=100)
    if ends == "queue":
        assert target(fast, rtt=50 * MS) // Q8 == 97  # 20 of 100 packets are queued, and alpha is 15.7
    else:
        fast.poke(ca__rtt_round=40 * MS)
        fast.loss()
    assert fast.state()["ca"]["started"]


def test_a_constant_alpha_has_no_start_of_its_own(fast):
    at_rest(fast, 100 * Q8, {"alpha": 20}, ca__rtt_round=40 * MS)
    assert target(fast, rtt=40 * MS) == 110 * Q8


@pytest.mark.parametrize("k_f, seconds", [(1, 16), (4, 60)])
def test_flows_share_by_alpha(pair, k_f, seconds):
    (_, big, _), (_, small, _) = settle(pair, [{"alpha": 1000}, {"alpha": 500}], k_f, seconds)
    assert big / small == pytest.approx(2, rel=0.05)
    assert big + small == pytest.approx(12500 / k_f, rel=0.01)


# Everything at random


@settings(max_examples=400)
@given(data=st.data())
def test_any_stream_keeps_the_window_in_bounds(fast, data):
    any_stream(data, fast)
    ca = fast.state()["ca"]
    assert Q8 <= ca["w_q8"] <= W_MAX * Q8
    assert min(ca["step_from_q8"], ca["step_to_q8"]) <= ca["w_q8"] <= max(ca["step_from_q8"], ca["step_to_q8"])
    assert ca["rtt_avg_q16"] <= RTT_MAX << 16 and ca["rtt_min"] <= RTT_MAX
