# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Taichung's own source, compiled for the host with sanitizers, against equations (5) to (12) and Fig. 2."""

from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.algorithms.host.bottleneck import Link, run
from tests.algorithms.host.driver import line
from tests.algorithms.host.streams import (
    MS,
    RTT_MAX,
    W_MAX,
    any_stream,
    many_rtts,
    one_rtt,
    packets,
    recover,
    reno_share,
    rtts,
)
from tests.algorithms.host.taichung import GAP_MAX, NO_SSTHRESH, ONE, at_rest, counted, gaps, own, sending, windows

# Thresholds: (6) and (10)


@given(base=rtts, rtt=rtts, inter=gaps, net_mode=st.integers(0, 1))
@example(base=RTT_MAX, rtt=RTT_MAX, inter=1, net_mode=0)
@example(base=RTT_MAX, rtt=1, inter=1, net_mode=1)  # RTTmin has just aged
@example(base=1, rtt=RTT_MAX, inter=GAP_MAX, net_mode=0)
def test_thresholds_are_exact(taichung, base, rtt, inter, net_mode):
    at_rest(taichung, 10 * ONE, {"net_mode": net_mode}, inter, base=base, rtt=rtt)
    taichung.ack()
    state = taichung.state()
    got = state["ca"]["ideal_q4"], state["ca"]["net_q4"]
    low = min(base, rtt)
    ideal = min(low * 16000 // inter + 16, W_MAX * 16)
    assert got == (ideal, ideal + low * 16 // rtt if net_mode else ideal * low // rtt)
    assert not got[1] or state["tp"]["snd_ssthresh"] == max(min(got) // 16, 2)
    # The integers against the equations: 1/16 packet each
    exact = min(Fraction(low * 1000, inter) + 1, W_MAX)
    assert 0 <= exact - Fraction(ideal, 16) < Fraction(1, 16)
    net = exact + Fraction(low, rtt) if net_mode else exact * Fraction(low, rtt)
    assert 0 <= net - Fraction(got[1], 16) < Fraction(2, 16)


def test_numbers_of_a_path(taichung):
    """10 Mbit/s, 90 ms, 552 bytes: 204.8 packets fill it; 170.7 of them when RTT is 108 ms."""
    at_rest(taichung, 10 * ONE, {}, 441_600, base=90 * MS, rtt=108 * MS)
    taichung.ack()
    ca = own(taichung)
    assert ca["ideal_q4"] / 16 == pytest.approx(204.8, abs=0.1)
    assert ca["net_q4"] / 16 == pytest.approx(170.7, abs=0.1)
    at_rest(taichung, 10 * ONE, {"net_mode": 1}, 441_600, base=90 * MS, rtt=108 * MS)
    taichung.ack()
    assert own(taichung)["net_q4"] / 16 == pytest.approx(204.8 + 0.83, abs=0.1)
    assert taichung.state()["tp"]["snd_ssthresh"] == 204  # nothing shrinks


@given(base=rtts, samples=st.tuples(rtts, rtts), inter=gaps, net_mode=st.integers(0, 1))
def test_larger_rtt_never_gives_larger_net(taichung, base, samples, inter, net_mode):
    got = []
    for rtt in sorted(max(rtt, base) for rtt in samples):
        at_rest(taichung, 10 * ONE, {"net_mode": net_mode}, inter, base=base, rtt=rtt)
        taichung.ack()
        got.append((own(taichung)["net_q4"], own(taichung)["ideal_q4"]))
    assert got[0][0] >= got[1][0] and got[0][1] == got[1][1]
    assert net_mode or all(net <= ideal for net, ideal in got)


@given(base=rtts, rtt=rtts, inter=st.tuples(gaps, gaps))
def test_larger_inter_ack_never_gives_larger_thresholds(taichung, base, rtt, inter):
    got = []
    for gap in sorted(inter):
        at_rest(taichung, 10 * ONE, {}, gap, base=base, rtt=rtt)
        taichung.ack()
        got.append((own(taichung)["ideal_q4"], own(taichung)["net_q4"]))
    assert got[0][0] >= got[1][0] and got[0][1] >= got[1][1]


@pytest.mark.parametrize("keys", [{"inter": 0}, {"inter": 441_600, "rtt": 0, "base": 0}])
def test_without_rtt_or_inter_ack_there_is_no_threshold(taichung, keys):
    at_rest(taichung, 100 * ONE, {}, **keys, snd_ssthresh=50)
    taichung.ack()
    state = taichung.state()
    assert (state["ca"]["ideal_q4"], state["ca"]["net_q4"], state["tp"]["snd_ssthresh"]) == (0, 0, 50)
    assert state["ca"]["w_q20"] == 100 * ONE + reno_share(100 * ONE, 1)


# From own_q packets queued on the flow's own rate gives ideal


@given(w=windows, base=rtts, rtt=rtts, inter=gaps, own_q=st.integers(0, 1024) | st.integers(1, 4))
@example(w=W_MAX * ONE, base=1, rtt=RTT_MAX, inter=1, own_q=1024)
@example(w=40 * ONE, base=36 * MS, rtt=40 * MS, inter=1, own_q=4)  # just so many
@example(w=40 * ONE, base=36 * MS + 1, rtt=40 * MS, inter=1, own_q=4)
def test_own_rate_is_exact(taichung, w, base, rtt, inter, own_q):
    at_rest(taichung, w, {"own_q": own_q}, inter, base=base, rtt=rtt)
    taichung.ack()
    ca = own(taichung)
    low, w_q4 = min(base, rtt), w >> 16
    rate = w_q4 * low // rtt
    ideal = rate if own_q and w_q4 - rate >= own_q * 16 else min(low * 16000 // inter + 16, W_MAX * 16)
    assert (ca["ideal_q4"], ca["net_q4"]) == (ideal, ideal * low // rtt)


@pytest.mark.parametrize("own_q, rtt, ended", [(0, 80, 0), (4, 44, 0), (4, 45, 1), (4, 80, 1), (2, 42, 0), (1, 42, 1)])
def test_own_queue_ends_slow_start(taichung, own_q, rtt, ended):
    """The ACKs of a clump say 1001 packets. Of 40 packets 20, 3.6, 4.4, 20, 1.9 and 1.9 are queued."""
    at_rest(taichung, 40 * ONE, {"own_q": own_q}, 40_000, rtt=rtt * MS, flight=40)
    taichung.ack()
    assert counted(taichung, "exponential_acks", "linear_acks") == (1 - ended, ended)
    taichung.ack(rtt=40 * MS)  # nothing is queued any more
    assert counted(taichung, "exponential_acks") == (2 - ended,)


def test_own_queue_counts_not_until_the_first_sample_after_a_loss(taichung):
    sending(taichung, 100 * ONE, {"own_q": 4}, inter=400_000, rtt=80 * MS)
    taichung.loss()
    recover(taichung)
    assert taichung.state()["tp"]["snd_ssthresh"] == 50 and own(taichung)["fresh"] == 0


# Growth: Fig. 2


@given(w=windows, ssthresh=packets | st.just(NO_SSTHRESH), n=packets)
@example(w=9 * ONE + 5, ssthresh=10, n=1)
@example(w=9 * ONE + 5, ssthresh=10, n=2)
@example(w=10 * ONE, ssthresh=10, n=1)
def test_growth_is_exponential_to_the_threshold_and_linear_beyond(taichung, w, ssthresh, n):
    ssthresh = max(ssthresh, 2)
    at_rest(taichung, w, {}, flight=n, snd_ssthresh=ssthresh)
    taichung.ack(n=n)
    up = min(n, max(ssthresh - (w >> 20), 0))
    grown = w + up * ONE
    linear = reno_share(grown, n - up) if n > up else 0
    assert own(taichung)["w_q20"] == min(grown + linear, W_MAX * ONE)
    assert counted(taichung, "exponential_acks", "linear_acks") == (up > 0, n > up)


@pytest.mark.parametrize("rtt, threshold", [(40, 101), (80, 50)])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_growth_stops_exactly_at_the_threshold(taichung, rtt, threshold, n):
    """RTTmin / InterACK + 1 = 101, and half of it at twice the RTT."""
    at_rest(taichung, 40 * ONE, {}, 400_000, rtt=rtt * MS, flight=200)
    trace = [taichung.ack(n=n)["cwnd"] for _ in range(200 // n)]
    up = [w for w in trace if w < threshold]
    assert up == [40 + n * i for i in range(1, len(up) + 1)]
    assert trace[len(up)] == threshold
    beyond = len(trace) * n - (threshold - 40)
    assert trace[-1] == threshold + int(beyond / (threshold + beyond / threshold / 2))  # a packet a window
    assert taichung.state()["tp"]["snd_ssthresh"] == threshold


def test_the_smaller_threshold_counts(taichung):
    for mode in (0, 1):
        at_rest(taichung, 90 * ONE, {"net_mode": mode}, 400_000, rtt=50 * MS)  # 101; 80.8 or 101.8
        taichung.ack()
        assert taichung.state()["tp"]["snd_ssthresh"] == (101 if mode else 80)
        assert counted(taichung, "exponential_acks", "linear_acks") == ((1, 0) if mode else (0, 1))


@pytest.mark.parametrize("w", [2, 3, 8, 9, 100])
def test_linear_growth_takes_a_packet_after_exactly_a_window_as_linuxs_reno(taichung, w):
    """Three windows on end. By parts of the window, 8 + 1/2 packets would be needed at 8."""
    at_rest(taichung, w * ONE, {}, flight=3 * w + 3, snd_ssthresh=2)
    for more in range(3):
        taichung.batch([line("ack")] * (w + more - 1))
        assert own(taichung)["w_q20"] >> 20 == w + more
        assert taichung.ack()["cwnd"] == w + more + 1


def test_linear_growth_is_one_packet_a_round_trip(taichung):
    for stretch in (1, 3, 100):
        at_rest(taichung, 100 * ONE, {}, flight=100, snd_ssthresh=50)
        taichung.batch([line("ack", n=min(stretch, 100 - i)) for i in range(0, 100, stretch)])
        assert own(taichung)["w_q20"] / ONE == pytest.approx(101, abs=0.01)


def test_slow_start_comes_back_when_the_path_has_room(taichung):
    at_rest(taichung, 100 * ONE, {}, 400_000, rtt=80 * MS, flight=10)
    taichung.ack()
    assert own(taichung)["w_q20"] < 101 * ONE
    taichung.ack(rtt=40 * MS)
    assert own(taichung)["w_q20"] == 101 * ONE + reno_share(100 * ONE, 1)


def test_threshold_is_two_at_least(taichung):
    at_rest(taichung, ONE, {}, GAP_MAX, base=1, rtt=RTT_MAX)
    taichung.ack()
    assert taichung.state()["tp"]["snd_ssthresh"] == 2


@pytest.mark.parametrize("stretch", [1, 2, 16])
def test_start_doubles_before_there_is_a_sample(taichung, stretch):
    taichung.start({"coalesce_us": 100_000}, now=0)
    assert many_rtts(taichung, 5, stretch=stretch) == [20, 40, 80, 160, 320]


def test_first_window(taichung):
    assert taichung.start()["cwnd"] == 10
    assert taichung.start({"init_cwnd": 32})["cwnd"] == 32
    assert own(taichung)["w_q20"] == 32 * ONE
    assert taichung.start({"init_cwnd": 32}, snd_cwnd_clamp=7)["cwnd"] == 7
    assert taichung.start({"init_cwnd": 32}, snd_cwnd=40, data_segs_out=100)["cwnd"] == 40  # under way
    assert taichung.start({"init_cwnd": 32}, snd_cwnd=1)["cwnd"] == 1  # its SYN was lost


# Loss: (11) and (12)


@given(
    w=packets,
    base=rtts,
    last=st.integers(0, RTT_MAX) | st.integers(0, 1000),
    command=st.sampled_from(["loss", "rto", "cwr"]),
)
@example(w=W_MAX, base=RTT_MAX, last=RTT_MAX, command="loss")
@example(w=101, base=50, last=40, command="loss")  # RTTmin has just aged
@example(w=1, base=40, last=40, command="rto")
def test_reduction_is_exact(taichung, w, base, last, command):
    at_rest(taichung, w * ONE, {}, base=base, rtt=last)
    taichung.do(command)
    assert taichung.state()["tp"]["snd_ssthresh"] == max(min(w * base // last, w) if last else w // 2, 2)
    assert counted(taichung, "losses", "timeouts") == (1, command == "rto")


@pytest.mark.parametrize("rtt, after", [(40, 1000), (50, 800), (80, 500), (400, 100)])
def test_reduction_takes_out_what_was_queued(taichung, rtt, after):
    sending(taichung, 1000 * ONE, {}, rtt=rtt * MS)
    taichung.loss()
    recover(taichung)
    assert taichung.state()["tp"]["snd_ssthresh"] == after
    assert after <= own(taichung)["w_q20"] / ONE <= after + 1000 / after  # by the last ACK of the recovery


@given(w=packets, base=rtts, samples=st.tuples(rtts, rtts))
def test_larger_last_rtt_never_gives_larger_window_after_loss(taichung, w, base, samples):
    got = []
    for rtt in sorted(samples):
        at_rest(taichung, w * ONE, {}, base=base, rtt=rtt)
        taichung.loss()
        got.append(taichung.state()["tp"]["snd_ssthresh"])
    assert got[0] >= got[1]


@settings(max_examples=40)
@given(
    lost=st.lists(st.booleans(), min_size=1, max_size=6),
    w=st.integers(4, 60),
    inter=st.sampled_from([0, 400_000]),
    gap=st.sampled_from([1, 400]),
)
def test_false_losses_at_a_flat_rtt_neither_slow_it_nor_let_it_beyond_an_undisturbed_one(taichung, lost, w, inter, gap):
    """Duplicate ACKs that somebody forges: (11) cuts what was queued, and nothing was."""
    windows = []
    for disturbed in (False, True):
        sending(taichung, w * ONE, {}, inter=inter, rtt=40 * MS)
        windows.append([])
        for i, loss in enumerate(lost):
            now = 10**6 + 40 * MS * (i + 1)
            before = taichung.state()["tp"]["snd_cwnd"]
            if disturbed and loss:
                taichung.loss(now=now)
                assert taichung.state()["tp"]["snd_ssthresh"] == before
                recover(taichung, now=now + 1, rtt=40 * MS)
            else:
                one_rtt(taichung, now - 40 * MS, gap=gap)
            windows[-1].append(taichung.state()["tp"]["snd_cwnd"])
            assert windows[-1][-1] >= before
    assert all(b <= a for a, b in zip(*windows))


@given(w=packets, base=rtts, last=rtts, percent=st.integers(1, 100), command=st.sampled_from(["loss", "rto", "cwr"]))
@example(w=W_MAX, base=RTT_MAX, last=RTT_MAX, percent=99, command="loss")
@example(w=100, base=90, last=100, percent=90, command="loss")  # both cut the same: (11)
def test_bound_of_what_a_loss_leaves_is_exact(taichung, w, base, last, percent, command):
    at_rest(taichung, w * ONE, {"loss_beta_percent": percent}, base=base, rtt=last)
    taichung.do(command)
    net, most = min(w * base // last, w), w * percent // 100
    assert taichung.state()["tp"]["snd_ssthresh"] == max(min(net, most), 2)
    assert counted(taichung, "losses", "bounded") == (1, net > most) and own(taichung)["held"] == (net > most)


@pytest.mark.parametrize("undone", [False, True])
def test_after_a_bounded_cut_growth_is_renos_till_a_loss_with_a_queue(taichung, undone):
    """1001 packets fill the path, says InterACK. At a flat RTT 90 % are left, at twice RTTmin (11) is less."""
    sending(taichung, 100 * ONE, {"loss_beta_percent": 90}, inter=40_000, rtt=40 * MS, now=10**6)
    taichung.loss(now=10**6 + 1)
    assert taichung.state()["tp"]["snd_ssthresh"] == 90
    if undone:
        taichung.undo(now=10**6 + 2)
    now = 10**6 + 40 * MS
    recover(taichung, now=now, rtt=40 * MS)
    for i in range(1, 4):
        one_rtt(taichung, now + 40 * MS * (i - 1), rtt=40 * MS, gap=40)
    assert own(taichung)["w_q20"] >> 20 == (1001 if undone else 94) and own(taichung)["fresh"] == undone
    now += 400 * MS
    one_rtt(taichung, now - 80 * MS, rtt=80 * MS, gap=40)
    taichung.loss(now=now + 10 * MS)
    recover(taichung, now=now + 80 * MS, rtt=80 * MS)
    one_rtt(taichung, now + 80 * MS, rtt=40 * MS, gap=40)
    assert own(taichung)["fresh"] == 1 and counted(taichung, "bounded") == (1,)


@pytest.mark.parametrize("percent, left", [(100, 1001), (90, 484), (50, 30)])
def test_forged_duplicates_at_a_flat_rtt_cut_as_the_bound_says(taichung, percent, left):
    """In each fourth of twenty round trips. By InterACK 1001 packets fill the path: 800 in flight at the first."""
    sending(taichung, 100 * ONE, {"loss_beta_percent": percent}, inter=40_000, rtt=40 * MS, now=10**6)
    for i in range(1, 21):
        now = 10**6 + 40 * MS * i
        if i % 4:
            one_rtt(taichung, now - 40 * MS, rtt=40 * MS, gap=40)
        else:
            taichung.loss(now=now)
            recover(taichung, now=now + 1, rtt=40 * MS)
    assert taichung.state()["tp"]["snd_cwnd"] == pytest.approx(left, rel=0.02)


def test_no_rtt_halves(taichung):
    taichung.start({}, now=0, snd_cwnd=100)
    taichung.loss()
    assert taichung.state()["tp"]["snd_ssthresh"] == 50
    taichung.start({}, now=0, snd_cwnd=3)
    taichung.rto()
    assert taichung.state()["tp"]["snd_ssthresh"] == 2


@pytest.mark.parametrize("percent, after", [(None, 50), (80, 80), (100, 100), (0, 90)])
@pytest.mark.parametrize("lost", [False, True])
def test_a_mark_leaves_a_share_of_the_window(taichung, percent, after, lost):
    """RTTmin/RTT is 0.9. A loss that the marked ACK tells of as well is no random one."""
    params = {} if percent is None else {"ecn_beta_percent": percent}
    sending(taichung, 100 * ONE, params, base=45 * MS, rtt=50 * MS, now=10**6)
    taichung.do("loss" if lost else "ack", ece=1, now=10**6 + 1)
    assert taichung.state()["tp"]["snd_ssthresh"] == after
    assert counted(taichung, "losses", "marks") == (1, percent != 0)
    recover(taichung, now=10**6 + 2)
    grown = own(taichung)["w_q20"] - after * ONE
    assert 0 <= grown <= reno_share(after * ONE, 100)  # by the last ACK of the recovery


def test_a_mark_leaves_two_packets(taichung):
    sending(taichung, 3 * ONE, {})
    taichung.ack(ece=1)
    assert taichung.state()["tp"]["snd_ssthresh"] == 2


@pytest.mark.parametrize("command, keys", [("loss", {}), ("loss", {"timer": 1}), ("rto", {}), ("cwr", {})])
def test_an_old_mark_is_none(taichung, command, keys):
    """One that tells of nothing in flight cuts nothing; what follows has RTTmin/RTT, 0.9."""
    sending(taichung, 100 * ONE, {}, base=45 * MS, rtt=50 * MS, now=10**6)
    taichung.poke(packets_out=0)
    taichung.ack(ece=1, now=10**6 + 1)
    taichung.poke(packets_out=100, now=10**6 + 2)
    taichung.do(command, **keys)
    assert taichung.state()["tp"]["snd_ssthresh"] == 90 and counted(taichung, "marks") == (0,)


@pytest.mark.parametrize("after, net", [(None, False), ("loss", True), ("undo", False)])
def test_net_holds_again_after_the_next_loss_only(taichung, after, net):
    """100 packets fill the path. After a mark at 100 samples change no threshold, until a loss that is one."""
    sending(taichung, 100 * ONE, {}, inter=400_000, rtt=40 * MS, now=10**6)
    taichung.ack(ece=1, now=10**6 + 1, rtt=40 * MS)
    now = 10**6 + 40 * MS
    recover(taichung, now=now, rtt=40 * MS)
    if after:
        taichung.loss(now=now + 1)
    if after == "undo":
        taichung.undo()
    elif after:
        recover(taichung, now=now + 2, rtt=40 * MS)
    before = counted(taichung, "samples")[0]
    one_rtt(taichung, now + 400, rtt=40 * MS, gap=400)
    assert counted(taichung, "samples")[0] > before
    assert (taichung.state()["tp"]["snd_ssthresh"] > 90) == (own(taichung)["fresh"] == 1) == net


@pytest.mark.parametrize("least, accepted_at", [(400_000, 2), (400, None)])
def test_value_holds_until_the_first_sample_after_recovery(taichung, least, accepted_at):
    """100 packets at twice RTTmin: 50. InterACK says 101 at RTTmin, but only when measured anew."""
    sending(taichung, 100 * ONE, {}, inter=400_000, least=least, rtt=80 * MS, now=10**6)
    now = 10**6 + 80 * MS
    taichung.ack(now=now - 1, rtt=80 * MS)
    assert taichung.state()["tp"]["snd_ssthresh"] == 50
    taichung.loss(now=now)
    samples = counted(taichung, "samples")
    for _ in range(50):
        now += 400
        taichung.ack(n=0, sack=1, rtt=40 * MS, now=now)
    assert own(taichung)["fresh"] == 0 and counted(taichung, "samples") == samples
    now += 400
    recover(taichung, rtt=40 * MS, now=now)
    assert taichung.state()["tp"]["state"] == 0
    seen = []
    for _ in range(6):
        now += 400 if accepted_at else 40_000  # an application's gap the filter rejects
        taichung.ack(rtt=40 * MS, now=now)
        seen.append(taichung.state()["tp"]["snd_ssthresh"])
    if accepted_at is None:
        assert seen == [50] * 6 and own(taichung)["fresh"] == 0
        return
    first = seen.index(101)
    assert seen == [50] * first + [101] * (6 - first) and 1 <= first <= 3
    assert counted(taichung, "samples")[0] == samples[0] + 6 - first


def test_timeout_restarts_from_one_packet(taichung):
    sending(taichung, 100 * ONE, {}, inter=400_000, rtt=50 * MS)
    samples = counted(taichung, "samples")
    assert taichung.rto(now=2 * 10**6)["cwnd"] == 1
    assert taichung.state()["tp"]["snd_ssthresh"] == 80
    assert taichung.rto(now=3 * 10**6)["cwnd"] == 1  # no ACK between: the same loss
    assert counted(taichung, "losses", "timeouts") == (1, 1)
    trace = many_rtts(taichung, 5, start=3 * 10**6, rtt=50 * MS, gap=400)
    assert trace == [2, 4, 8, 16, 32]
    state = taichung.state()
    assert (state["tp"]["state"], state["tp"]["snd_ssthresh"], state["ca"]["fresh"]) == (4, 80, 0)
    assert counted(taichung, "samples") == samples  # the repair's gaps are not the path's
    many_rtts(taichung, 5, start=4 * 10**6, rtt=50 * MS, gap=400)
    assert taichung.state()["tp"]["state"] == 0 and own(taichung)["fresh"] == 1


@given(
    w=st.integers(4, 2000),
    inter=st.sampled_from([0, 400_000]),
    acks=st.integers(0, 30),
    timeout=st.booleans(),
    recovered=st.booleans(),
)
def test_undo_restores_the_window(taichung, w, inter, acks, timeout, recovered):
    sending(taichung, w * ONE, {}, inter=inter, rtt=50 * MS)
    taichung.do("rto" if timeout else "loss")
    assert own(taichung)["fresh"] == 0
    if timeout:
        taichung.ack(n=1)
    elif recovered:
        recover(taichung)
    else:
        taichung.batch([line("ack", n=0, sack=1)] * acks)
    assert taichung.undo()["cwnd"] == w
    assert own(taichung)["fresh"] == (inter > 0)
    taichung.ack(rtt=50 * MS)
    state = taichung.state()
    assert w * ONE <= state["ca"]["w_q20"] <= (w + 1) * ONE
    if inter:
        assert state["tp"]["snd_ssthresh"] == 80  # of (10) again
    assert state["counters"]["undos"] == 1


def test_no_sample_across_a_loss_undone_at_once(taichung):
    at_rest(taichung, 100 * ONE, {}, 400_000, flight=100)
    taichung.ack(now=2 * 10**6)
    assert own(taichung)["mark"] == 2 * 10**6
    taichung.loss(now=2 * 10**6 + 100)
    taichung.undo(now=2 * 10**6 + 200)
    taichung.ack(now=2 * 10**6 + 300)
    assert counted(taichung, "samples") == (0,) and own(taichung)["mark"] == 2 * 10**6 + 300


def test_undo_never_lowers(taichung):
    sending(taichung, 10 * ONE, {}, rtt=80 * MS)
    taichung.loss()
    recover(taichung)
    many_rtts(taichung, 12, rtt=80 * MS)
    w = taichung.state()["tp"]["snd_cwnd"]
    assert w > 12
    assert taichung.undo()["cwnd"] == w


def test_window_rests_during_recovery(taichung):
    sending(taichung, 100 * ONE + 128, {}, inter=400_000)
    taichung.loss()
    taichung.batch([line("ack", n=0, sack=1, rtt=40 * MS)] * 50)
    assert own(taichung)["w_q20"] == 100 * ONE + 128


# The application, idle, windows of the stack, limits


def test_application_limited_neither_grows_nor_samples(taichung):
    sending(taichung, 100 * ONE, {}, inter=400_000)
    taichung.poke(app=20)
    many_rtts(taichung, 2, start=10**6, gap=400)
    before = taichung.state()
    many_rtts(taichung, 5, start=10**6 + 20 * MS, rtt=100 * MS, sample=40 * MS, gap=5000)
    after = taichung.state()
    assert all(before["ca"][key] == after["ca"][key] for key in ("w_q20", "inter_ack_ns", "inter_min_ns"))
    assert before["counters"]["samples"] == after["counters"]["samples"] and after["counters"]["rejected"] == 0
    assert after["counters"]["limited_acks"] >= 100 and after["ca"]["mark"] == 0
    taichung.send(app=2**32 - 1)
    many_rtts(taichung, 2, start=3 * 10**6, gap=400)
    assert own(taichung)["inter_ack_ns"] == 400_000 and counted(taichung, "rejected") == (
        0,
    )  # no sample across the change


def test_application_limited_slow_start_stops_at_twice_the_flight(taichung):
    taichung.start({"coalesce_us": 100_000}, now=0, app=20)
    many_rtts(taichung, 10)
    assert own(taichung)["w_q20"] == 40 * ONE


# 200: more than the window
@pytest.mark.parametrize("restart, tx_start", [(None, 0), (None, 1), (10, 1), (10, 0), (200, 0)])
@pytest.mark.parametrize("skip", [0, 1])
def test_no_sample_across_idle(taichung, restart, tx_start, skip):
    at_rest(taichung, 100 * ONE + 128, {"skip_first_gap": skip, "filter_mode": 0}, 400_000, flight=2, tx_start=tx_start)
    taichung.ack(now=10**6 + 400)
    taichung.ack(now=10**6 + 800)
    samples = counted(taichung, "samples")
    assert samples == (1,)
    if restart:
        assert taichung.restart(cwnd=restart, now=9 * 10**6)["cwnd"] in (restart, 101)
    taichung.send(app=2**32 - 1, now=9 * 10**6)
    taichung.ack(rtt=40 * MS, now=9 * 10**6 + 40 * MS)
    ca = own(taichung)
    assert (ca["inter_ack_ns"], ca["rtt_min"]) == (400_000, 40 * MS)
    assert counted(taichung, "samples", "reloads") == (*samples, 1)
    assert restart == 10 or ca["w_q20"] >> 20 == 101  # of 101 that the thresholds allow
    taichung.ack(rtt=40 * MS, now=9 * 10**6 + 40 * MS + 400)
    assert counted(taichung, "samples") == (samples[0] + 1,) and own(taichung)["inter_ack_ns"] == 400_000


@pytest.mark.parametrize("cwnd", [1, 40, 99, 101, 300])
def test_window_of_the_stack_is_taken_over(taichung, cwnd):
    sending(taichung, 100 * ONE + 77, {})
    taichung.poke(snd_cwnd=cwnd, snd_ssthresh=1)
    taichung.ack()
    assert own(taichung)["w_q20"] == cwnd * ONE + reno_share(cwnd * ONE, 1)
    assert counted(taichung, "reloads") == (1,)


def test_clamp_is_honoured(taichung):
    taichung.start({"coalesce_us": 100_000}, now=0, snd_cwnd_clamp=50)
    trace = many_rtts(taichung, 10)
    assert max(trace) == 50 and trace[-3:] == [50, 50, 50]
    assert own(taichung)["w_q20"] == 50 * ONE


def test_largest_window(taichung):
    at_rest(taichung, W_MAX * ONE, {}, flight=W_MAX)
    assert taichung.ack(n=W_MAX)["cwnd"] == W_MAX
    taichung.poke(snd_cwnd=2**31, packets_out=1)
    assert taichung.ack()["cwnd"] == W_MAX


@pytest.mark.parametrize(
    "rtt, counted_as", [(1, 1), (RTT_MAX, RTT_MAX), (RTT_MAX + 1, RTT_MAX), (2**31 - 1, RTT_MAX), (-1, 0), (0, 0)]
)
def test_limits_of_an_rtt_sample(taichung, rtt, counted_as):
    taichung.start(tx_start=0)
    taichung.ack(rtt=rtt)
    assert (own(taichung)["rtt_min"], own(taichung)["rtt_last"]) == (counted_as, counted_as)


def test_least_sample_goes_with_rtt_min(taichung):
    """A path that changed: what was the least time between ACKs there is no measure here."""
    drained = {"ca__drain_ms": 1000, "ca__rtt_drained": 60 * MS, "ca__rtt_min": 40 * MS}
    at_rest(taichung, 10 * ONE, {"rtt_min_win_s": 10}, 400_000, least=1000, flight=100, **drained)
    taichung.ack(now=2 * 10**6, rtt=70 * MS)
    assert own(taichung)["rtt_min"] == 60 * MS
    assert own(taichung)["inter_min_ns"] == 0


def test_sequence_numbers_wrap(taichung):
    traces = []
    for una in (1, 2**32 - 960 * 40, 2**32 - 960, 2**31 - 960 * 40):
        taichung.start({}, now=0, snd_una=una, snd_nxt=una)
        traces.append((many_rtts(taichung, 6, gap=400), own(taichung)["inter_ack_ns"]))
    assert all(trace == traces[0] for trace in traces)


# A path: 10 Mbit/s, 90 ms, 552-byte packets


PACKET_S = 441.6e-6
BDP = 0.09 / PACKET_S


def slow_start_exit(taichung, seconds=2, every=1, **params):
    """The window at the first ACK that does not raise it by what it acknowledges; InterACK at the end."""
    [trace] = run(Link(PACKET_S, 32e-6, 0.09), [taichung], [params], seconds, every=every)
    windows = [params.get("init_cwnd", 10), *(w for _, w, _ in trace)]
    return next(a for a, b in zip(windows, windows[1:]) if b < a + every), own(taichung)["inter_ack_ns"] / 1000


@pytest.mark.parametrize("initial, every", [(1, 1), (2, 1), (4, 1), (10, 1), (2, 2), (4, 2), (10, 2)])
def test_slow_start_ends_where_the_path_is_full(taichung, initial, every):
    left, inter = slow_start_exit(taichung, every=every, init_cwnd=initial)
    assert 0.85 * BDP <= left <= 1.2 * BDP
    assert inter == pytest.approx(441.6, rel=0.005)


@pytest.mark.parametrize("initial", [1, 2, 4, 10])
def test_what_ends_slow_start_early(taichung, initial):
    """The gaps between the first flights: the skip keeps them out, the filter most of them from 2 packets on."""
    kept, _ = slow_start_exit(taichung, init_cwnd=initial)
    for mode in (0, 2):  # then nothing is left for a filter
        assert slow_start_exit(taichung, init_cwnd=initial, filter_mode=mode)[0] == kept
    filtered, inter = slow_start_exit(taichung, init_cwnd=initial, skip_first_gap=0)
    assert filtered == 2 if initial == 1 else 0.75 * BDP <= filtered <= 0.9 * BDP
    assert inter == pytest.approx(441.6, rel=0.005) and counted(taichung, "rejected") > (0,)
    left, inter = slow_start_exit(taichung, init_cwnd=initial, skip_first_gap=0, filter_mode=0)
    assert left <= 0.1 * BDP and inter == pytest.approx(441.6, rel=0.005)  # it recovers in the end
    left, inter = slow_start_exit(taichung, init_cwnd=initial, skip_first_gap=0, filter_mode=2)
    assert left <= 0.1 * BDP and inter > 100 * 441.6  # the good samples are what it rejects: there it stays
    assert taichung.state()["tp"]["snd_cwnd"] <= 0.25 * BDP


def test_the_sum_of_fig_2_shrinks_nothing(taichung):
    assert slow_start_exit(taichung, net_mode=1)[0] == 205


# Everything at random


@settings(max_examples=400)
@given(data=st.data())
def test_any_stream_keeps_the_window_in_bounds(taichung, data):
    params, most, _ = any_stream(data, taichung)
    ca = own(taichung)
    assert ONE <= ca["w_q20"] <= most * ONE
    assert ca["ideal_q4"] <= W_MAX * 16 and ca["net_q4"] <= ca["ideal_q4"] + 16 * params["net_mode"]
    assert ca["inter_min_ns"] <= ca["inter_ack_ns"] <= GAP_MAX and ca["rtt_min"] <= RTT_MAX
    assert not ca["fresh"] or ca["inter_ack_ns"]
