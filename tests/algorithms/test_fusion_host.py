# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Fusion's own source, compiled for the host with sanitizers, against equations (1) to (5) and Fig. 1."""

from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.algorithms.host.bottleneck import Link, run
from tests.algorithms.host.driver import line
from tests.algorithms.host.fusion import (
    B_MAX,
    DECREASE,
    DMIN,
    INCREASE,
    ONE,
    SLOW_START,
    STEADY,
    at_rest,
    own,
    per_second,
    phase_of,
    sending,
    w_of,
    windows,
)
from tests.algorithms.host.streams import (
    MS,
    RTT_MAX,
    W_MAX,
    any_stream,
    lines_of,
    many_rtts,
    one_rtt,
    packets,
    recover,
    reno_share,
    rtts,
    steps,
)


def law(w, reno, base, rtt, b, n, dmin=DMIN, dmin_winc=1 * MS, upper=3):
    """(4) in the integers of the source: phase, window, reno_cwnd."""
    reno += reno_share(w, n)
    diff = ((w >> 4) * (rtt - min(base, rtt)) // rtt) << 4
    alpha = max(min(((w >> 4) * dmin // rtt) << 4, W_MAX * ONE), ONE)
    whole, phase = w >> 20, STEADY
    if diff < alpha:
        most = min(((b << 8) * dmin_winc // 10**6) << 4, w)
        phase, w = INCREASE, w + min(most * n // whole, most)
    elif diff > upper * alpha:
        most = diff - alpha
        phase, w = DECREASE, max(w - min(most * n // whole, most), 2 * ONE)
    w = max(w, reno)
    return phase, min(w, W_MAX * ONE), min(reno, W_MAX * ONE)


def equations(w, reno, base, rtt, b, n, dmin, dmin_winc, upper):
    """(1) to (4) as the paper has them, in packets; a round trip's amount at most, alpha one packet at least."""
    w, us = Fraction(w, ONE), Fraction(1, 10**6)
    diff = w * Fraction(max(rtt - base, 0), rtt)
    alpha = min(max(w * Fraction(dmin, rtt), 1), W_MAX)
    share = min(Fraction(n) / w, 1)
    new = w
    if diff < alpha:
        new += min(Fraction(b, 256) * dmin_winc * us, w) * share
    elif diff > upper * alpha:
        new += (alpha - diff) * share
    near = min(abs(diff - alpha), abs(diff - upper * alpha)) < Fraction(1, 1000)  # rounding may decide
    return min(max(new, 2, Fraction(reno, ONE) + Fraction(n, int(w))), W_MAX), abs(new - w), near


# The three phases


@given(
    w=windows, reno=st.integers(ONE, W_MAX * ONE) | st.just(ONE), base=rtts, rtt=rtts | st.just(44 * MS),
    b=st.integers(0, B_MAX) | st.integers(0, 10**7), n=packets, dmin=st.integers(100, 10**6),
    winc=st.integers(100, 10**6), upper=st.integers(1, 16),
)  # fmt: skip
@example(w=W_MAX * ONE, reno=ONE, base=1, rtt=RTT_MAX, b=B_MAX, n=W_MAX, dmin=100, winc=10**6, upper=16)
@example(w=W_MAX * ONE, reno=ONE, base=1, rtt=1, b=B_MAX, n=W_MAX, dmin=10**6, winc=10**6, upper=16)
@example(w=2 * ONE, reno=ONE, base=1, rtt=RTT_MAX, b=B_MAX, n=1, dmin=10**6, winc=100, upper=1)
@example(w=2 * ONE, reno=2 * ONE, base=RTT_MAX, rtt=RTT_MAX, b=B_MAX, n=W_MAX, dmin=10**6, winc=10**6, upper=1)
@example(w=100 * ONE, reno=ONE, base=40 * MS, rtt=60 * MS, b=10**6, n=3, dmin=DMIN, winc=MS, upper=3)
def test_law_is_exact(fusion, w, reno, base, rtt, b, n, dmin, winc, upper):
    reno = min(reno, w)
    at_rest(
        fusion, w, {"dmin_alpha_us": dmin, "dmin_winc_us": winc, "upper_mult": upper}, base, rtt, reno, n, ca__b_q8=b
    )
    got = fusion.ack(n=n)
    ca = own(fusion)
    assert (ca["phase"], ca["w_q20"], ca["reno_q20"]) == law(w, reno, base, rtt, b, n, dmin, winc, upper)
    assert got["cwnd"] == ca["w_q20"] >> 20
    exact, moved, near = equations(w, reno, base, rtt, b, n, dmin, winc, upper)
    if not near:  # the integers against the equations: the divisor in whole packets, 2^-16 packets of diff and alpha
        assert abs(Fraction(ca["w_q20"], ONE) - exact) <= moved / (w >> 20) + Fraction(2, 2**16)


@pytest.mark.parametrize("base, rtt, phase", [
    (36, 36_000, INCREASE), (44, 47_999, INCREASE), (44, 48_000, STEADY),
    (36, 48_000, STEADY), (36, 48_001, DECREASE), (36, 90_000, DECREASE),
])  # fmt: skip
def test_phases_end_at_alpha_and_three_alpha(fusion, base, rtt, phase):
    """diff - alpha = cwnd (RTT - RTTmin - Dmin) / RTT: bounds of 4 and 12 ms, and 1200 packets divide without rest."""
    at_rest(fusion, 1200 * ONE, {}, base * MS, rtt, ca__b_q8=per_second(100))
    assert phase_of(fusion) == phase
    counters = fusion.state()["counters"]
    assert [counters[name] for name in ("increases", "steadies", "decreases")] == [
        phase == p for p in (INCREASE, STEADY, DECREASE)
    ]
    assert (w_of(fusion) > 1200 * ONE, w_of(fusion) < 1200 * ONE) == (phase == INCREASE, phase == DECREASE)


@pytest.mark.parametrize("params, queue, phase", [
    ({"dmin_alpha_us": 10_000}, 9_999, INCREASE), ({"dmin_alpha_us": 10_000}, 10_000, STEADY),
    ({"dmin_alpha_us": 10_000}, 29_900, STEADY), ({"dmin_alpha_us": 10_000}, 30_100, DECREASE),
    ({"upper_mult": 1}, 3_900, INCREASE), ({"upper_mult": 1}, 4_100, DECREASE),
    ({"upper_mult": 16}, 63_900, STEADY), ({"upper_mult": 16}, 64_100, DECREASE),
    ({"dmin_winc_us": 10_000}, 3_999, INCREASE), ({"dmin_winc_us": 10_000}, 4_000, STEADY),
])  # fmt: skip
def test_parameters_move_the_bounds(fusion, params, queue, phase):
    at_rest(fusion, 1000 * ONE, params, 40 * MS, 40 * MS + queue)
    assert phase_of(fusion) == phase


@pytest.mark.parametrize("rtt, phase", [(45_714, INCREASE), (45_715, STEADY), (64_000, STEADY), (64_001, DECREASE)])
def test_alpha_is_one_packet_at_least(fusion, rtt, phase):
    """4 of 40 ms are less than one of 8 packets: bounds at diff = 1 and 3."""
    at_rest(fusion, 8 * ONE, {}, 40 * MS, rtt, ca__b_q8=per_second(100))
    assert phase_of(fusion) == phase
    assert own(fusion)["alpha_q8"] == 256


def test_numbers_of_the_paper(fusion):
    """100 Mbit/s, 40 ms, 1500 bytes: Winc 8.33 packets a round trip, alpha 33.3 packets, the upper bound 100."""
    w = 100_000_000 * 40 * ONE // (12_000 * 1000)
    at_rest(fusion, w, {}, 40 * MS, 40 * MS, flight=400, ca__b_q8=per_second(100))
    fusion.ack(n=400)
    assert Fraction(w_of(fusion) - w, ONE) == pytest.approx(8.33, abs=0.01)
    assert Fraction(own(fusion)["alpha_q8"], 256) == pytest.approx(33.3, abs=0.1)
    # B/12 Mbit/s whatever B: so beta = 12 Mbit/s
    for mbit in (1, 12, 120, 1200):
        at_rest(fusion, 10_000 * ONE, {}, 40 * MS, 40 * MS, flight=10_000, ca__b_q8=per_second(mbit))
        fusion.ack(n=10_000)
        assert Fraction(w_of(fusion), ONE) - 10_000 == pytest.approx(mbit / 12, rel=0.001)
    # 433.3 packets at 100 Mbit/s: 12 ms of queue, 100 packets of 433.3; alpha 4/52 of them
    at_rest(fusion, 433 * ONE + ONE // 3, {}, 40 * MS, 51_999)
    assert phase_of(fusion) == STEADY
    at_rest(fusion, 433 * ONE + ONE // 3, {}, 40 * MS, 52_001)
    assert phase_of(fusion) == DECREASE
    assert Fraction(own(fusion)["diff_q8"], 256) == pytest.approx(100, abs=0.1)
    assert Fraction(own(fusion)["alpha_q8"], 256) == pytest.approx(33.3, abs=0.1)


@pytest.mark.parametrize("stretch", [1, 2, 7, 50, 100])
def test_a_round_trip_of_acks_moves_by_winc(fusion, stretch):
    at_rest(fusion, 100 * ONE, {}, flight=100, ca__b_q8=per_second(100))
    fusion.batch([line("ack", n=min(stretch, 100 - i)) for i in range(0, 100, stretch)])
    assert 8.33 * 100 / 109 <= w_of(fusion) / ONE - 100 <= 8.34


@pytest.mark.parametrize("stretch", [1, 2, 7, 50, 100])
@pytest.mark.parametrize("rtt", [56 * MS, 80 * MS, 400 * MS])
def test_a_round_trip_of_acks_takes_away_the_queue_but_alpha(fusion, rtt, stretch):
    """As RTT falls with the queue, from cwnd to what leaves alpha packets there."""
    at_rest(fusion, 1000 * ONE, {}, 40 * MS, rtt, flight=1000)
    bandwidth_delay = 1000 * 40 * MS / rtt
    alpha = 1000 * 4 * MS / rtt
    before = 1000 - bandwidth_delay - alpha
    fusion.batch([line("ack", n=min(stretch, 1000 - i)) for i in range(0, 1000, stretch)])
    moved = 1000 - w_of(fusion) / ONE
    assert moved == pytest.approx(before, rel=0.01)


@given(w=windows, rtt=st.integers(1, 10**6), b=st.integers(0, 10**8), n=packets)
def test_one_ack_moves_no_more_than_a_round_trip(fusion, w, rtt, b, n):
    """However many packets it acknowledges; reno_cwnd apart."""
    base = min(rtt, 40 * MS)
    at_rest(fusion, w, {}, base, rtt, flight=W_MAX, ca__b_q8=b)
    fusion.ack(n=n)
    ca, winc = own(fusion), b * MS * ONE // (256 * 10**6)
    assert w * base // rtt - 32 <= ca["w_q20"] <= max(w + winc, ca["reno_q20"])


@given(w=windows, base=st.integers(1, 10**6), samples=st.tuples(rtts, rtts), b=st.integers(0, 10**8), n=packets)
def test_larger_rtt_never_gives_larger_window(fusion, w, base, samples, b, n):
    """In one phase a longer RTT lowers alpha - diff, and the phases follow each other."""
    got = []
    for rtt in sorted(max(base, rtt) for rtt in samples):
        at_rest(fusion, w, {}, base, rtt, flight=n, ca__b_q8=b)
        fusion.ack(n=n)
        got.append(w_of(fusion))
    assert got[1] <= got[0] + 64  # diff and alpha each round down to 2^-16 packets


# reno_cwnd


@pytest.mark.parametrize("w, rtt", [(100, 40), (100, 48), (1000, 48), (37, 48), (2, 48)])
@pytest.mark.parametrize("stretch", [1, 3])
def test_reno_grows_by_one_packet_a_round_trip_whatever_the_window(fusion, w, rtt, stretch):
    at_rest(fusion, w * ONE, {}, 40 * MS, rtt * MS, reno=ONE, flight=w)
    fusion.batch([line("ack", n=min(stretch, w - i)) for i in range(0, w, stretch)])
    assert own(fusion)["reno_q20"] / ONE == pytest.approx(2, abs=0.001 if w > 2 else 0.2)


def test_reno_carries_the_window_where_the_queue_is_anothers(fusion):
    sending(fusion, 100 * ONE, {}, base=40 * MS, rtt=80 * MS, reno=95 * ONE)
    trace = many_rtts(fusion, 20, rtt=80 * MS)
    assert trace[0] in (95, 96)
    assert [b - a for a, b in zip(trace, trace[1:])].count(1) >= 18  # Reno
    assert own(fusion)["w_q20"] == own(fusion)["reno_q20"]
    assert fusion.state()["counters"]["reno_wins"] > 1000


@given(w=windows, rtt=st.integers(40 * MS, 10**6), share=st.fractions(0, 1), b=st.integers(0, 10**8), n=packets)
def test_window_is_never_less_than_reno(fusion, w, rtt, share, b, n):
    at_rest(fusion, w, {}, 40 * MS, rtt, reno=max(int(w * share), ONE), flight=n, ca__b_q8=b)
    fusion.ack(n=n)
    ca = own(fusion)
    assert ca["w_q20"] >= ca["reno_q20"]
    assert fusion.state()["counters"]["reno_wins"] == (ca["w_q20"] == ca["reno_q20"])


def test_loss_halves_reno_and_its_threshold(fusion):
    sending(fusion, 200 * ONE, {}, reno=120 * ONE + 8)
    fusion.loss()
    ca = own(fusion)
    assert (ca["reno_q20"], ca["reno_ssthresh"]) == (60 * ONE + 4, 60)
    at_rest(fusion, 200 * ONE, {}, reno=3 * ONE)
    fusion.loss()
    assert (own(fusion)["reno_q20"], own(fusion)["reno_ssthresh"]) == (2 * ONE, 2)


# Slow start


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_slow_start_ends_at_ssthresh_and_the_rest_avoids_congestion(fusion, n):
    b = per_second(100)
    at_rest(fusion, 97 * ONE, {}, reno=97 * ONE, flight=20, snd_ssthresh=100, ca__b_q8=b)
    w = 97 * ONE
    left = 20
    while left:
        acked = min(n, left)
        left -= acked
        fusion.ack(n=acked)
        up = min(acked, max(100 - (w >> 20), 0))
        w += up * ONE
        if acked - up:
            w = law(w, ONE, 40 * MS, 40 * MS, b, acked - up)[1]
        assert w_of(fusion) == w
    assert w > 100 * ONE


def test_slow_start_ends_at_the_largest_window(fusion):
    """Whatever ssthresh is: beyond, the products of (1) to (4) would not fit 64 bits."""
    fusion.start(mss_cache=1, seg=1, snd_cwnd=2**31 - 1, now=0)
    fusion.cwr(now=1)
    assert fusion.state()["tp"]["snd_ssthresh"] > W_MAX
    fusion.ack(n=2**31 - 1, rtt=1, now=2)
    assert fusion.state()["ca"]["w_q20"] <= W_MAX * ONE
    assert fusion.ack(n=2**31 - 1, rtt=40 * MS, now=3)["cwnd"] <= W_MAX


def test_slow_start_doubles_and_reno_follows(fusion):
    fusion.start(now=0)
    for i in range(1, 8):
        assert one_rtt(fusion, i * 40 * MS)[-1] == 10 << i
        ca = own(fusion)
        assert (ca["w_q20"], ca["reno_q20"], ca["phase"]) == ((10 << i) * ONE, (10 << i) * ONE, SLOW_START)


@pytest.mark.parametrize("stretch", [1, 2, 16])
def test_slow_start_knows_no_delayed_acks(fusion, stretch):
    fusion.start(now=0)
    assert many_rtts(fusion, 5, stretch=stretch) == [20, 40, 80, 160, 320]


def test_after_a_timeout_reno_follows_to_half_its_former_value(fusion):
    sending(fusion, 100 * ONE, {}, base=40 * MS, rtt=48 * MS, reno=40 * ONE, ca__rtt_last=50 * MS)
    assert fusion.rto(now=10**6)["cwnd"] == 1
    state = fusion.state()
    assert (state["tp"]["snd_ssthresh"], state["ca"]["reno_ssthresh"]) == (80, 20)
    assert (state["counters"]["losses"], state["counters"]["timeouts"]) == (1, 1)
    seen = []
    for i in range(200):
        fusion.ack(now=10**6 + i, rtt=-1)
        ca = own(fusion)
        seen.append((ca["w_q20"] / ONE, ca["reno_q20"] / ONE))
        if ca["w_q20"] >> 20 >= 80:
            break
    assert seen[0] == (2, 2)
    assert all(reno == min(w, 20) for w, reno in seen)
    assert seen[-1] == (80, 20)
    fusion.ack(now=2 * 10**6, rtt=-1)
    assert own(fusion)["reno_q20"] == 20 * ONE + reno_share(80 * ONE, 1)


def test_second_timeout_without_an_ack_is_the_same_loss(fusion):
    sending(fusion, 100 * ONE, {}, reno=80 * ONE)
    fusion.rto()
    fusion.rto()
    assert own(fusion)["reno_ssthresh"] == 40 and fusion.state()["counters"]["losses"] == 1


def test_first_window(fusion):
    assert fusion.start()["cwnd"] == 10
    assert fusion.start({"init_cwnd": 32})["cwnd"] == 32
    assert own(fusion)["w_q20"] == own(fusion)["reno_q20"] == 32 * ONE
    assert fusion.start({"init_cwnd": 32}, snd_cwnd_clamp=7)["cwnd"] == 7
    assert fusion.start({"init_cwnd": 32}, snd_cwnd=40, data_segs_out=100)["cwnd"] == 40  # under way
    assert fusion.start({"init_cwnd": 32}, snd_cwnd=1)["cwnd"] == 1  # its SYN was lost


def test_a_connection_under_way_goes_on_from_its_window(fusion):
    fusion.start(snd_cwnd=100, snd_ssthresh=50, data_segs_out=1000, now=0)
    assert own(fusion)["reno_q20"] == 100 * ONE
    assert many_rtts(fusion, 3, sample=-1) == [101, 102, 103]


# Loss: (5)


@pytest.mark.parametrize("ratio", [Fraction(i, 10) for i in range(10, 41)])
def test_reduction_by_rtt_is_that_of_fig_1(fusion, ratio):
    sending(fusion, 1000 * ONE, {}, base=40 * MS, rtt=48 * MS, ca__rtt_last=40 * MS * ratio)
    fusion.loss()
    assert fusion.state()["tp"]["snd_ssthresh"] == max(int(1000 / ratio), 500)
    recover(fusion)
    assert fusion.state()["tp"]["snd_cwnd"] == w_of(fusion) >> 20 == max(int(1000 / ratio), 500)


@given(
    w=packets,
    base=rtts,
    last=st.integers(0, RTT_MAX) | st.integers(0, 1000),
    averaged=rtts,
    command=st.sampled_from(["loss", "rto", "cwr"]),
)
@example(w=W_MAX, base=RTT_MAX, last=RTT_MAX, averaged=1, command="loss")
@example(w=101, base=50, last=40, averaged=1, command="loss")  # RTTmin has just aged
@example(w=1, base=40, last=40, averaged=1, command="rto")
def test_reduction_is_exact(fusion, w, base, last, averaged, command):
    at_rest(fusion, w * ONE, {}, base, averaged, ca__rtt_last=last)
    fusion.do(command)
    half = max(w // 2, 2)
    assert fusion.state()["tp"]["snd_ssthresh"] == (max(half, min(w * base // last, w)) if last else half)


@given(w=packets, base=rtts, samples=st.tuples(rtts, rtts))
def test_larger_last_rtt_never_gives_larger_window_after_loss(fusion, w, base, samples):
    got = []
    for rtt in sorted(samples):
        at_rest(fusion, w * ONE, {}, base, ca__rtt_last=rtt)
        fusion.loss()
        got.append(fusion.state()["tp"]["snd_ssthresh"])
    assert got[0] >= got[1]


def test_rtt_of_the_reduction_is_the_last_one_before_the_loss(fusion):
    sending(fusion, 100 * ONE, {}, base=40 * MS)
    fusion.ack(rtt=50 * MS)
    fusion.ack(rtt=-1)
    fusion.loss()
    assert fusion.state()["tp"]["snd_ssthresh"] == 80


@pytest.mark.parametrize("percent, after", [(None, 50), (80, 80), (100, 100), (0, 90)])
@pytest.mark.parametrize("lost", [False, True])
def test_a_mark_leaves_a_share_of_the_window(fusion, percent, after, lost):
    """RTTmin/RTT is 0.9. A loss that the marked ACK tells of as well is no random one."""
    sending(fusion, 100 * ONE, {} if percent is None else {"ecn_beta_percent": percent}, base=45 * MS, reno=60 * ONE)
    fusion.poke(ca__rtt_last=50 * MS)
    fusion.do("loss" if lost else "ack", ece=1, now=1)
    state = fusion.state()
    assert (state["tp"]["snd_ssthresh"], state["ca"]["reno_q20"]) == (after, 30 * ONE)
    assert (state["counters"]["losses"], state["counters"]["marks"]) == (1, percent != 0)
    recover(fusion, now=2)
    fusion.ack(n=1, now=3)
    assert abs((w_of(fusion) >> 20) - after) <= 1


def test_a_mark_leaves_two_packets(fusion):
    sending(fusion, 3 * ONE, {})
    fusion.ack(ece=1, now=1)
    assert fusion.state()["tp"]["snd_ssthresh"] == 2


@pytest.mark.parametrize("command, keys", [("loss", {}), ("loss", {"timer": 1}), ("rto", {}), ("cwr", {})])
def test_an_old_mark_is_none(fusion, command, keys):
    """One that tells of nothing in flight cuts nothing; what follows has RTTmin/RTT, 0.9."""
    sending(fusion, 100 * ONE, {}, base=45 * MS, reno=60 * ONE)
    fusion.poke(packets_out=0, now=1)
    fusion.ack(ece=1, now=1)
    fusion.poke(packets_out=100, ca__rtt_last=50 * MS, now=2)
    fusion.do(command, **keys)
    assert fusion.state()["tp"]["snd_ssthresh"] == 90 and fusion.state()["counters"]["marks"] == 0


def test_windows_rest_during_recovery(fusion):
    sending(fusion, 100 * ONE + 128, {}, reno=60 * ONE)
    fusion.loss()
    fusion.batch([line("ack", n=0, sack=1, rtt=40 * MS)] * 50)
    assert (w_of(fusion), own(fusion)["reno_q20"]) == (100 * ONE + 128, 30 * ONE)


@given(
    w=st.integers(6, 2000),
    share=st.fractions(0, 1),
    acks=st.integers(0, 30),
    timeout=st.booleans(),
    recovered=st.booleans(),
)
def test_undo_restores_both_windows(fusion, w, share, acks, timeout, recovered):
    reno = max(int(w * share), 6)  # half of it does not grow back before the undo
    sending(fusion, w * ONE, {}, base=40 * MS, rtt=46 * MS, reno=reno * ONE, ca__reno_ssthresh=777)
    fusion.do("rto" if timeout else "loss")
    if timeout:
        fusion.ack(n=1)
    elif recovered:
        recover(fusion)
    else:
        fusion.batch([line("ack", n=0, sack=1)] * acks)
    assert fusion.undo()["cwnd"] == w
    fusion.ack()
    ca = own(fusion)
    grown = ca["reno_q20"] - reno * ONE
    assert grown in (0, reno_share(w * ONE, 1))  # by this ACK, if the window limits
    assert ca["w_q20"] == max(w * ONE, ca["reno_q20"])
    assert ca["reno_ssthresh"] == max(777, reno // 2)
    assert fusion.state()["counters"]["undos"] == 1


def outgrown(fusion):
    """A loss of 10 packets, and round trips enough that both windows are larger again."""
    sending(fusion, 10 * ONE, {}, base=40 * MS, rtt=80 * MS, reno=10 * ONE)
    fusion.loss()
    recover(fusion)
    many_rtts(fusion, 12, rtt=80 * MS)
    return own(fusion)


def test_late_undo_never_lowers_the_window(fusion):
    before = outgrown(fusion)
    assert before["cwnd"] > 12
    assert fusion.undo()["cwnd"] == before["cwnd"]


def test_late_undo_never_lowers_reno(fusion):
    before = outgrown(fusion)["reno_q20"]
    assert before > 12 * ONE
    fusion.undo()
    fusion.ack()
    assert own(fusion)["reno_q20"] >= before - ONE  # its fraction may go


# No RTT sample


@settings(max_examples=100)
@given(stream=st.lists(steps(st.just(-1)).filter(lambda step: step[0] != "cwr"), min_size=1, max_size=40))
def test_without_an_rtt_it_is_reno(fusion, stream):
    fusion.start({}, now=0, tx_start=0, snd_ssthresh=20)
    before, w = fusion.state(), None
    for command in lines_of(stream):
        fusion.batch([command])
        state = fusion.state()
        ca, tp, old = state["ca"], state["tp"], before["tp"]
        assert ca["rtt_last"] == 0
        if state["counters"]["losses"] > before["counters"]["losses"]:
            assert tp["snd_ssthresh"] == max(old["snd_cwnd"] // 2, 2)
        elif command.startswith("ack") and before["ca"]["cwnd"] == old["snd_cwnd"] and tp["state"] == old["state"] == 0:
            acked, w = tp["delivered"] - old["delivered"], before["ca"]["w_q20"]
            whole = w >> 20
            grow = before["cwnd_limited"] or whole < old["snd_ssthresh"] and whole < 2 * old["max_packets_out"]
            if tp["snd_una"] != old["snd_una"] and grow:
                start = min(acked, max(old["snd_ssthresh"] - whole, 0))
                w += start * ONE
                w += reno_share(w, acked - start)
            assert ca["w_q20"] == w
        assert ca["w_q20"] == ca["reno_q20"] or tp["snd_cwnd"] != ca["cwnd"]
        before = state


# The application, idle, windows of the stack, limits


@pytest.mark.parametrize("rtt, lower", [(40, False), (46, False), (80, True)])
def test_application_limited_never_raises_and_may_lower(fusion, rtt, lower):
    sending(fusion, 100 * ONE, {}, base=40 * MS, rtt=rtt * MS, reno=20 * ONE, ca__b_q8=per_second(100))
    fusion.poke(app=20)
    many_rtts(fusion, 2, rtt=rtt * MS)
    start = own(fusion)
    many_rtts(fusion, 10, start=2 * rtt * MS, rtt=rtt * MS)
    end = own(fusion)
    assert end["reno_q20"] == start["reno_q20"]
    assert end["w_q20"] < start["w_q20"] if lower else end["w_q20"] == start["w_q20"]
    assert end["w_q20"] >= end["reno_q20"]
    assert fusion.state()["counters"]["limited_acks"] >= 200


def test_application_limited_slow_start_stops_at_twice_the_flight(fusion):
    fusion.start({}, now=0, app=20)
    many_rtts(fusion, 10)
    assert own(fusion)["w_q20"] == own(fusion)["reno_q20"] == 40 * ONE


# 200: more than the window
@pytest.mark.parametrize("restart, tx_start", [(None, 0), (None, 1), (10, 1), (10, 0), (200, 0)])
def test_idle_keeps_rtt_min_and_b_and_begins_a_round(fusion, restart, tx_start):
    at_rest(fusion, 100 * ONE + 128, {}, rtt=44 * MS, reno=60 * ONE, ca__b_q8=10**6, ca__round_end=2, tx_start=tx_start)
    fusion.ack(now=10**6)
    assert fusion.state()["tp"]["packets_out"] == 0
    b = own(fusion)["b_q8"]
    if restart:
        assert fusion.restart(cwnd=restart, now=9 * 10**6)["cwnd"] == min(restart, 100)
    fusion.send(app=2**32 - 1, now=9 * 10**6)
    fusion.ack(rtt=44 * MS, now=9 * 10**6 + 44 * MS)
    ca = own(fusion)
    assert (ca["rtt_min"], ca["b_q8"], ca["round_stamp"]) == (40 * MS, b, 9 * 10**6 + 44 * MS)
    # Slow start after a restart
    assert (ca["w_q20"] >> 20, ca["reno_q20"] >> 20) == ((11, 11) if restart == 10 else (100, 60))
    assert fusion.state()["counters"]["reloads"] == 1


def test_decrease_goes_below_what_was_ssthresh(fusion):
    """After a loss the window is at ssthresh: a decrease from there is not followed by slow start."""
    sending(fusion, 240 * ONE, {}, rtt=60 * MS, reno=100 * ONE, snd_ssthresh=240)
    phases = set()
    for i in range(8):
        many_rtts(fusion, 1, i * 60 * MS, rtt=60 * MS)
        phases.add(own(fusion)["phase"])
    assert SLOW_START not in phases
    assert w_of(fusion) < 150 * ONE
    assert fusion.state()["tp"]["snd_ssthresh"] <= w_of(fusion) >> 20


@pytest.mark.parametrize("cwnd", [1, 40, 99, 101, 300])
def test_window_of_the_stack_is_taken_over(fusion, cwnd):
    sending(fusion, 100 * ONE + 77, {}, rtt=46 * MS, reno=60 * ONE)
    fusion.poke(snd_cwnd=cwnd, ca__b_q8=10**6, snd_ssthresh=1)
    fusion.ack(now=10**7)
    state = fusion.state()
    assert state["counters"]["reloads"] == 1
    after = tuple(state["ca"][key] for key in ("phase", "w_q20", "reno_q20"))
    assert after == law(cwnd * ONE, min(60, cwnd) * ONE, 40 * MS, 46 * MS, 10**6, 1)
    assert (state["ca"]["round_stamp"], state["ca"]["b_q8"]) == (10**7, 10**6)


@pytest.mark.parametrize("rtt", [40, 80])
def test_clamp_is_honoured_by_both_windows(fusion, rtt):
    fusion.start({}, now=0, snd_cwnd_clamp=50, snd_ssthresh=30)
    trace = many_rtts(fusion, 40, rtt=rtt * MS)
    assert max(trace) == 50 and trace[-3:] == [50, 50, 50]
    assert own(fusion)["w_q20"] == 50 * ONE >= own(fusion)["reno_q20"]
    many_rtts(fusion, 20, start=10**8, rtt=rtt * MS)
    assert own(fusion)["reno_q20"] <= 50 * ONE


def test_floor_is_two(fusion):
    at_rest(fusion, 3 * ONE, {"dmin_alpha_us": 100, "upper_mult": 1}, 1, RTT_MAX, flight=1000)
    assert fusion.ack(n=1000)["cwnd"] >= 2
    at_rest(fusion, 2 * ONE, {}, 1, RTT_MAX)
    fusion.loss()
    assert fusion.state()["tp"]["snd_ssthresh"] == 2


def test_largest_window(fusion):
    at_rest(
        fusion,
        W_MAX * ONE,
        {"dmin_alpha_us": 10**6, "dmin_winc_us": 10**6},
        reno=W_MAX * ONE,
        flight=W_MAX,
        ca__b_q8=B_MAX,
    )
    assert fusion.ack(n=W_MAX)["cwnd"] == W_MAX
    fusion.poke(snd_cwnd=2**31, packets_out=1)
    assert fusion.ack()["cwnd"] == W_MAX


def test_sequence_numbers_wrap(fusion):
    traces = []
    for una in (1, 2**32 - 960 * 40, 2**32 - 960, 2**31 - 960 * 40):
        fusion.start({}, now=0, snd_una=una, snd_nxt=una, snd_ssthresh=40)
        traces.append((many_rtts(fusion, 8), own(fusion)["b_q8"]))
    assert all(trace == traces[0] for trace in traces)


# A path: 100 Mbit/s, 40 ms, 1500-byte packets


def test_alone_it_keeps_alpha_packets_in_the_queue(fusion):
    """Winc a round trip until alpha = cwnd Dmin / RTT are queued, and there it stays."""
    [trace] = run(Link(120e-6, 3.2e-6, 0.04), [fusion], [{}], 4, snd_ssthresh=100)
    bdp = 0.0401232 / 120e-6
    end = [w for at, w, _ in trace if at > 3]
    assert min(end) == max(end)
    assert bdp * 1.1 - 1 <= end[0] <= bdp * 1.1 + 10
    per_rtt = [next(w for at, w, _ in trace if at >= 0.0402 * i) for i in range(6, 90)]
    rises = [b - a for a, b in zip(per_rtt, per_rtt[1:])]
    assert max(rises) in (7, 8, 9)  # Winc = B/12 Mbit/s, 8.33 when B is 100


def test_after_a_timeout_on_a_path_it_finds_its_window_again(fusion):
    sending(fusion, 366 * ONE, {}, base=40 * MS, rtt=44 * MS, reno=50 * ONE, ca__b_q8=per_second(100))
    fusion.rto(now=10**6)
    trace = many_rtts(fusion, 14, start=10**6, rtt=44 * MS)
    assert trace[-1] >= 300
    assert own(fusion)["reno_q20"] <= 40 * ONE


# Everything at random


@settings(max_examples=400)
@given(data=st.data())
def test_any_stream_keeps_the_windows_in_bounds(fusion, data):
    _, most, _ = any_stream(data, fusion)
    ca = own(fusion)
    assert ONE <= ca["w_q20"] <= most * ONE
    assert ca["reno_q20"] <= W_MAX * ONE and ca["rtt_q4"] <= RTT_MAX << 4 and ca["rtt_min"] <= RTT_MAX
    fusion.ack()
    if fusion.state()["tp"]["state"] == 0 and fusion.state()["ca"]["cwnd"] == fusion.state()["tp"]["snd_cwnd"]:
        assert own(fusion)["reno_q20"] <= own(fusion)["w_q20"]
