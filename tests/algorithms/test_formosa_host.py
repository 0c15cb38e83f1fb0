# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Formosa's own source, compiled for the host with sanitizers: the sender's law against the paper's, toward its
receiver and toward any peer."""

import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.algorithms.host.driver import line
from tests.algorithms.host.formosa import (
    ALL,
    HELLO,
    NO_SSTHRESH,
    OPEN,
    SECOND,
    SEG,
    A,
    P,
    Receiver,
    answer,
    at_w,
    behind_a_gap,
    end_round,
    fields_of_data,
    room,
    transfer,
)  # fmt: skip
from tests.algorithms.host.streams import MS, RTT_MAX

FIBONACCI = [1, 2, 3, 5, 8, 13, 21, 34]


# --- a sender by rounds -----------------------------------------------------------------------


def test_slow_start_is_the_papers(formosa):
    """W packets a round; what is out is never more than two rounds'."""
    formosa.start(synack=HELLO, now=0)
    for w in FIBONACCI[1:]:
        assert end_round(formosa) == w
        state = formosa.state()
        assert state["tp"]["data_segs_out"] - state["wire"]["segs"] == w
        assert state["tp"]["packets_out"] == w + state["ca"]["w_last"] - 1
        assert state["tp"]["snd_cwnd"] <= w + state["ca"]["w_last"]


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("every", [1, 2, 100])
def test_both_ends_start_as_the_papers_example(pair, every, version):
    """Whatever ACKs the kernel would send: packets 1, 2, 4, 7 are flagged and their ACKs are the only ones."""
    sender, other = pair
    sent, came = transfer(sender, Receiver(other, every=every, version=version), 300 * MS, packet_us=10)
    flagged = [number for _, number, flags, _ in sent if flags & A]
    assert flagged == [1, 2, 4, 7, 12, 20, 33, 54]
    assert [ack for _, ack in came] == [1 + number * SEG for number in flagged[: len(came)]]
    counters = other.state()["counters"]
    assert len(came) == counters["acks_sent"] == 7
    assert counters["signals_sent"] == 0


def test_first_window(formosa):
    assert formosa.start()["cwnd"] == 1
    assert formosa.start({"init_cwnd": 0})["cwnd"] == 10
    assert formosa.start({"init_cwnd": 32}, snd_cwnd_clamp=7)["cwnd"] == 7
    assert formosa.start(snd_cwnd=40, data_segs_out=100)["cwnd"] == 40
    formosa.start(snd_cwnd=40, data_segs_out=100, snd_ssthresh=50, srtt_us=80 * MS)
    ca = formosa.state()["ca"]
    assert (ca["w"], ca["ssthresh"], ca["srtt_us"]) == (40, 50, 10 * MS)
    formosa.start(srtt_us=ALL)
    assert formosa.state()["ca"]["srtt_us"] == RTT_MAX


def test_a_round_without_signal_adds_one(formosa):
    at_w(formosa, 64)
    assert [end_round(formosa) for _ in range(5)] == [65, 66, 67, 68, 69]


@given(w=st.integers(2, 3000), delta=st.integers(1, 127))
@example(w=2, delta=127)
@example(w=3, delta=1)
@settings(max_examples=40)
def test_a_signal_takes_delta(formosa, w, delta):
    """Exactly: W has a part of a packet."""
    at_w(formosa, w, {"delta_q8": delta})
    left = max((w << 16) - ((w << 16) * delta >> 8), 2 << 16)
    assert end_round(formosa, 1) == left >> 16
    assert w_q16(formosa) == left
    assert formosa.state()["ca"]["ssthresh"] == left >> 16


def w_q16(sender):
    ca = sender.state()["ca"]
    return ca["w"] << 16 | ca["w_part"]


def test_small_windows_lose_the_same_share(formosa):
    """Five signals in rounds of 15 packets take what (7/8)^5 says; whole packets alone would take one each."""
    at_w(formosa, 15)
    assert [end_round(formosa, i) for i in range(1, 6)] == [int(15 * (7 / 8) ** i) for i in range(1, 6)]
    at_w(formosa, 15)
    whole = [end_round(formosa, signal) for signal in (1, 1, 2, 2)]
    assert whole == [13, 14, 12, 13], "13.125, 14.125, 12.36, 13.36: growth leaves the part as it is"


def test_a_cut_may_have_a_least(formosa):
    """cut_least packets, but never more than half of W; where delta W is more, that."""
    for w, least, left in ((16, 4, 12), (6, 4, 3), (64, 4, 56), (33, 64, 16)):
        at_w(formosa, w, {"cut_least": least})
        assert end_round(formosa, 1) == left


def test_a_loss_and_its_undo_keep_the_part(formosa):
    at_w(formosa, 15)
    end_round(formosa, 1)
    assert w_q16(formosa) == 13.125 * 2**16
    formosa.loss(n=1, sack=3)
    assert w_q16(formosa) == 13.125 / 2 * 2**16
    formosa.undo()
    assert w_q16(formosa) == 13.125 * 2**16
    formosa.rto(now=10**6)
    assert w_q16(formosa) == 1 << 16


@pytest.mark.parametrize("queue_us, cut", [(0, 1), (640, 2), (2496, 4), (4992, 8), (10**6, 8)])
def test_a_signal_may_take_the_queue(formosa, queue_us, cut):
    """W q / srtt packets wait. No more than delta, and in slow start, which is far too high, all of it."""
    for mode, starting, takes in ((1, False, cut), (0, False, 8), (1, True, 8)):
        at_w(formosa, 64, {"cut_mode": mode}, ssthresh=NO_SSTHRESH if starting else None)
        tp = formosa.state()["tp"]
        formosa.poke(ca__srtt_us=40 * MS)
        formosa.read(options=answer(0, 1, 0, queue_us), ack=tp["snd_una"])
        n = (formosa.state()["ca"]["round_end"] - tp["snd_una"]) // SEG + 1
        formosa.ack(n=n)
        assert formosa.state()["ca"]["w"] == 64 - takes


def test_a_signal_counts_once_and_once_a_round(formosa):
    at_w(formosa, 64)
    for signal in (1, 2, 3, 2):
        formosa.read(options=answer(0, signal))
    formosa.ack(n=3)
    assert formosa.state()["ca"]["w"] == 64  # at the end of the round
    assert end_round(formosa) == 56
    formosa.read(options=answer(0, 3))  # said before
    assert end_round(formosa) == 57
    assert w_q16(formosa) == 57 << 16
    assert end_round(formosa, 4) == int(57 * 7 / 8)
    assert formosa.state()["counters"]["signals"] == formosa.state()["ca"]["peer_signals"] == 2


@pytest.mark.parametrize(
    "seen, number, counts", [(0, 1, True), (0, 7, True), (0, 8, False), (0, 15, False), (15, 0, True), (14, 13, False)]
)
def test_numbers_of_signals_wrap_and_never_go_back(formosa, seen, number, counts):
    at_w(formosa, 64)
    formosa.poke(wire__signal_seen=seen)
    assert end_round(formosa, number) == (56 if counts else 65)
    assert formosa.state()["wire"]["signal_seen"] == (number if counts else seen)


@pytest.mark.parametrize("hold, expected", [(0, [56, 49, 42, 37]), (1, [56, 56, 49, 49]), (2, [56, 56, 56, 49])])
def test_a_signal_about_packets_from_before_the_cut_is_old(formosa, hold, expected):
    at_w(formosa, 64, {"signal_hold": hold})
    assert [end_round(formosa, i) for i in range(1, 5)] == expected
    counters = formosa.state()["counters"]
    assert counters["signals"] + counters["old_signals"] == 4


def test_a_round_without_signal_ends_the_hold(formosa):
    at_w(formosa, 64, {"signal_hold": 1})
    assert [end_round(formosa, i) for i in (1, 1, 2)] == [56, 57, 49]


def test_the_cut_that_ends_slow_start_holds_nothing(formosa):
    at_w(formosa, 64, {"signal_hold": 1}, ssthresh=NO_SSTHRESH)
    assert [end_round(formosa, i) for i in range(1, 5)] == [56, 49, 49, 42]


def test_slow_start_ends_at_a_signal(formosa):
    at_w(formosa, 64, ssthresh=NO_SSTHRESH)
    assert [end_round(formosa, 1), end_round(formosa)] == [56, 57]


def test_slow_start_ends_at_ssthresh(formosa):
    at_w(formosa, 10, ssthresh=17)
    assert [end_round(formosa) for _ in range(3)] == [17, 18, 19]


def test_clamp_limits_w(formosa):
    at_w(formosa, 64, ssthresh=NO_SSTHRESH, snd_cwnd_clamp=70)
    assert [end_round(formosa) for _ in range(3)] == [70, 70, 70]


@pytest.mark.parametrize("beta", [64, 128, 224, 255])
def test_a_loss_takes_half_of_w(formosa, beta):
    """W, not of snd_cwnd; the first repair waits for nothing, and W stands until all is repaired."""
    at_w(formosa, 64, {"loss_beta_q8": beta})
    w = 64 * beta // 256
    assert formosa.loss(n=1, sack=3)["again"] == 1
    state = formosa.state()
    assert (state["ca"]["w"], state["ca"]["ssthresh"], state["tp"]["snd_ssthresh"]) == (w, w, w)
    for signal in (1, 2):
        formosa.read(options=answer(state["wire"]["round"], signal))
        formosa.ack(n=0, sack=10, now=10**6 * signal)
        assert formosa.state()["ca"]["w"] == w
    assert formosa.state()["counters"]["rounds"] >= 3
    formosa.ack(n=formosa.state()["tp"]["packets_out"], now=3 * 10**6)
    assert formosa.state()["tp"]["state"] == OPEN
    before = formosa.state()["ca"]["w"]  # all of a window came at once: one step at most
    assert before in (w, w + 1)
    assert formosa.state()["counters"]["losses"] == 1 and formosa.state()["counters"]["signals"] == 0


def test_losses_found_by_the_timer_are_repaired_within_w(formosa):
    """No ACK comes: what set_state leaves is the window."""
    at_w(formosa, 64)
    assert formosa.loss(n=50, timer=1)["again"] == 1


def test_rounds_of_a_recovery_are_not_deaf(formosa):
    """SACK may leave no room for the answer."""
    at_w(formosa, 64)
    formosa.loss(n=1, sack=3)
    rounds = formosa.state()["counters"]["rounds"]
    for i in range(6):
        formosa.ack(n=0, sack=5, now=(i + 2) * SECOND)
    state = formosa.state()
    assert state["counters"]["rounds"] == rounds + 6 and state["wire"]["deaf_rounds"] == state["wire"]["silent"] == 0


def test_repairs_leave_at_once(formosa):
    """A new round begins with the fast retransmit: W more leave as soon as so much has been delivered."""
    at_w(formosa, 64)
    end_round(formosa)
    formosa.loss(n=1, sack=3)
    state = formosa.state()
    assert state["wire"]["segs"] + 1 == state["tp"]["data_segs_out"] and state["wire"]["budget"] == 32
    assert formosa.ack(n=0, sack=100)["sent"] > 0


def test_ecn_takes_half_without_a_pause(formosa):
    at_w(formosa, 64)
    formosa.cwr()
    assert formosa.state()["ca"]["w"] == 32
    assert end_round(formosa, 1) == 32  # the stack reduces: no signal, no growth


def test_w_never_below_2_but_1_after_a_timeout(formosa):
    at_w(formosa, 2)
    assert [end_round(formosa, i) for i in (1, 2)] == [2, 2]
    formosa.loss(n=1)
    assert formosa.state()["ca"]["w"] == 2
    at_w(formosa, 64)
    formosa.rto(now=10**6)
    state = formosa.state()
    assert (state["ca"]["w"], state["ca"]["ssthresh"], state["tp"]["snd_cwnd"], state["counters"]["timeouts"]) == (
        1,
        32,
        1,
        1,
    )


def test_a_timeout_begins_a_slow_start_to_half(formosa):
    at_w(formosa, 64)
    got = formosa.rto(now=10**6)
    assert got["again"] == 1
    assert [end_round(formosa) for _ in range(8)] == [2, 3, 5, 8, 13, 21, 32, 33]


@pytest.mark.parametrize("hold, expected", [(0, [1, 2, 3, 5]), (1, [1, 2, 3, 5])])
def test_a_signal_from_before_a_timeout_does_not_end_the_slow_start(formosa, hold, expected):
    """The repair's answer tells of the queue that the timeout has ended."""
    at_w(formosa, 64, {"signal_hold": hold})
    formosa.rto(now=10**6)
    assert [end_round(formosa, 1) for _ in range(4)] == expected
    assert formosa.state()["ca"]["ssthresh"] == 32


def test_undo_brings_w_back(formosa):
    for event in ({"do": "loss"}, {"do": "rto"}):
        at_w(formosa, 64, ssthresh=100)
        cwnd = formosa.state()["tp"]["snd_cwnd"]
        formosa.do(event["do"])
        assert formosa.state()["ca"]["ssthresh"] == 32
        assert formosa.undo()["cwnd"] >= cwnd
        ca = formosa.state()["ca"]
        assert (ca["w"], ca["ssthresh"]) == (64, 100)
        assert formosa.state()["counters"]["undos"] == 1


def test_no_probes_after_an_undo(formosa):
    """Packets that W allows again are not beyond it."""
    at_w(formosa, 64)
    formosa.loss(n=1, sack=3)
    got = [formosa.undo(), *formosa.batch([line("ack")] * 70)]
    flags = [
        fields_of_data(bytes.fromhex(options))[0] for answer in got for _, _, options in answer.get("segments", [])
    ]
    assert len(flags) > 32 and not any(flag & P for flag in flags)


def silent_for(sender, us):
    """All is acknowledged, and after so long the application sends again."""
    tp = sender.state()["tp"]
    sender.ack(n=tp["packets_out"], app=0, now=tp["now"] + 40 * MS, rtt=40 * MS)
    w = sender.state()["ca"]["w"]
    return w, sender.send(app=ALL, now=tp["now"] + 40 * MS + us)


@pytest.mark.parametrize("tx_start", [0, 1])  # Linux from 7.1 on, and before
@pytest.mark.parametrize("seconds, shift", [(0.9, 0), (1, 1), (2, 2), (100, 31), (10**6, 31)])
def test_idle_seconds_halve(formosa, seconds, shift, tx_start):
    at_w(formosa, 100, ssthresh=50)
    formosa.poke(tx_start=tx_start)
    w, got = silent_for(formosa, int(seconds * 10**6))
    ca = formosa.state()["ca"]
    assert (ca["w"], got["sent"]) == (max(w >> shift, 10), ca["w"])
    assert ca["ssthresh"] == (max(50, w - w // 4) if shift else 50)
    assert ca["w_last"] == ca["w"]
    assert formosa.state()["counters"]["idle_restarts"] == 1


def test_idle_leaves_a_small_window(formosa):
    at_w(formosa, 9)
    w, got = silent_for(formosa, 10**7)
    assert formosa.state()["ca"]["w"] == w == got["sent"]


def test_the_first_packet_after_idle_is_answered(formosa):
    """It belongs to the new round, as those behind it do."""
    at_w(formosa, 20)
    number = formosa.state()["wire"]["round"]
    _, got = silent_for(formosa, 10**6)
    rounds = [fields_of_data(bytes.fromhex(options))[1] for _, _, options in got["segments"]]
    assert {*rounds} == {formosa.state()["wire"]["round"]} != {number}


def test_an_idle_time_is_told_once_where_the_peers_window_is_closed(formosa):
    """The application writes five times in five seconds, and nothing may leave: a halving a second, not fifteen."""
    at_w(formosa, 2000)
    tp = formosa.state()["tp"]
    formosa.ack(n=tp["packets_out"], app=0, now=tp["now"] + 40 * MS, rtt=40 * MS)
    w = formosa.state()["ca"]["w"]
    formosa.poke(shut=1)
    for i in range(1, 6):
        assert formosa.send(app=ALL, now=tp["now"] + 40 * MS + i * 1000 * MS)["sent"] == 0
    formosa.poke(shut=0)
    assert formosa.send(app=ALL, now=tp["now"] + 40 * MS + 5001 * MS)["sent"] == w >> 5


def test_no_growth_while_the_application_limits(formosa):
    at_w(formosa, 64)
    formosa.poke(app=20)
    for _ in range(3):
        end_round(formosa)
    before = formosa.state()
    for _ in range(10):
        tp = formosa.state()["tp"]
        formosa.read(options=answer(0), now=tp["now"] + 40 * MS)
        formosa.ack(n=tp["packets_out"], rtt=40 * MS)
    after = formosa.state()
    assert after["ca"]["w"] == before["ca"]["w"]
    assert after["counters"]["limited_rounds"] >= before["counters"]["limited_rounds"] + 10


@pytest.mark.parametrize("data, room, more", [(0, 0, True), (-1, 0, False), (0, -1, False)])
@pytest.mark.parametrize("short", [0, 10, 11, 60])
def test_a_round_has_to_carry_w_but_an_eighth_and_two(formosa, short, data, room, more):
    """Unless a full segment waits and the peer has room for it: then the RTT has become shorter."""
    at_w(formosa, 64)
    ca, tp = (formosa.state()[part] for part in ("ca", "tp"))
    next_end = tp["snd_nxt"] + tp["mss_cache"]
    formosa.poke(
        ca__delivered_round=(ca["delivered_round"] + short) % 2**32,
        write_seq=next_end + data,
        snd_wnd=next_end - (ca["round_end"] + SEG) + room,
    )
    assert end_round(formosa) == 64 + (short < 11 or more)


@given(
    w=st.integers(2, 2**20),
    then=st.integers(100, 2**24),
    now=st.integers(100, 2**24),
    queues=st.tuples(st.integers(0, 65535), st.integers(0, 65535)),
)
@example(w=64, then=40 * MS, now=45 * MS, queues=(0, 0))  # an eighth
@example(w=64, then=40 * MS, now=46 * MS, queues=(0, 0))
@example(w=64, then=40 * MS, now=35 * MS - 1, queues=(0, 0))
@example(w=64, then=40 * MS, now=400 * MS, queues=(0, 0))  # doubled, and the rest later
@example(w=64, then=40 * MS, now=60 * MS, queues=(0, 20 * MS // 64))  # the forward queue's
@example(w=64, then=60 * MS, now=40 * MS, queues=(20 * MS // 64, 0))
@example(w=64, then=40 * MS, now=40 * MS, queues=(30 * MS // 64, 0))  # its smallest was forgotten
@example(w=64, then=40 * MS, now=60 * MS, queues=(30 * MS // 64, 0))
@example(w=64, then=60 * MS, now=40 * MS, queues=(0, 30 * MS // 64))
@example(w=2, then=2**24, now=100, queues=(0, 0))
@settings(max_examples=60, deadline=None)
def test_w_follows_the_time_that_acks_take(formosa, w, then, now, queues):
    """Against the rule written anew: by what the forward queue does not explain, if that is more than an eighth."""
    before, after = (64 * q for q in queues)
    at_w(formosa, 64, params={"fit_rtt": 1})
    formosa.poke(ca__w=w, ca__w_last=2, ca__ssthresh=2, ca__srtt_us=now)
    formosa.poke(wire__fitted_srtt=then, wire__fitted_queue=before, wire__squeue_us=after)
    change, moved = now - then, after - before
    if change * moved > 0:
        change = 0 if abs(moved) >= abs(change) else change - moved
    far = abs(change) > then // 8
    fitted = min(then + change, 2 * then)
    wanted = max(2, min(-(-(w + 1) * fitted // then), 2**20)) if far else min(w + 1, 2**20)
    assert end_round(formosa, rtt=now, queue_us=after) == wanted
    wire, ca = (formosa.state()[part] for part in ("wire", "ca"))
    assert wire["fitted_srtt"] == (then if not far else now if then + change <= 2 * then else 2 * then)
    assert wire["fitted_queue"] == (after if far else before)
    assert ca["ssthresh"] <= ca["w"]


def test_the_queue_is_smoothed_as_the_rtt_is(formosa):
    """Else the queue that slow start fills, and its end, look like changes of the ACKs' way."""
    at_w(formosa, 64, params={"fit_rtt": 1})
    for rtt, queue in ((120 * MS, 80 * MS), (40 * MS, 0)):
        for _ in range(30):
            end_round(formosa, rtt=rtt, queue_us=queue)
            wire, ca = (formosa.state()[part] for part in ("wire", "ca"))
            assert ca["srtt_us"] - wire["squeue_us"] == pytest.approx(40 * MS, abs=100)
    assert ca["w"] == 64 + 60


@pytest.mark.parametrize(
    "keys, limited, after",
    [({"params": {}}, {}, 65), ({"ssthresh": 1000}, {}, 128), ({}, {"snd_wnd": 0, "ca__w_last": 1000}, 64)],
)
def test_w_follows_no_rtt_in_slow_start_or_while_limited_or_if_told_so(formosa, keys, limited, after):
    at_w(formosa, 64, **{"params": {"fit_rtt": 1}} | keys)
    formosa.poke(wire__fitted_srtt=80 * MS, **limited)
    assert end_round(formosa) == after
    assert formosa.state()["wire"]["fitted_srtt"] == 40 * MS


@given(srtt=st.integers(100, 2**26), w=st.integers(2, 2000), mss=st.sampled_from([536, 1448, 65535]))
@settings(max_examples=30)
def test_paces_w_over_the_rtt(formosa, srtt, w, mss):
    at_w(formosa, w)
    formosa.poke(ca__srtt_us=srtt, mss_cache=mss, ca__ssthresh=w)
    formosa.ack(n=0)
    assert formosa.state()["tp"]["pacing_rate"] == w * mss * SECOND // srtt


def test_the_ack_of_our_syn_sets_no_rate(formosa):
    """If a route names the controller, the kernel handles it before `init`: on a state of zeros."""
    formosa.start(now=0)
    formosa.poke(**{"ca.w": 0, "ca.w_last": 0, "pacing_rate": 10**9, "now": 40 * MS})
    formosa.ack(n=1, rtt=40 * MS)
    assert formosa.state()["tp"]["pacing_rate"] == 10**9


def test_srtt_is_that_of_the_newest_packet(formosa):
    formosa.start(synack=HELLO, now=0, srtt_us=8 * 100 * MS)
    assert formosa.state()["ca"]["srtt_us"] == 100 * MS
    end_round(formosa, rtt=60 * MS)
    assert formosa.state()["ca"]["srtt_us"] == 60 * MS  # the handshake's may be of a lost SYN
    end_round(formosa, rtt=80 * MS)
    assert formosa.state()["ca"]["srtt_us"] == formosa.state()["wire"]["srtt_us"] == 62_500
    formosa.start(now=0)
    formosa.ack(n=1, rtt=30 * MS)
    assert formosa.state()["ca"]["srtt_us"] == 30 * MS


def srtt_after(sender, **ack):
    sender.ack(rtt=100 * MS, **ack)
    return sender.state()["ca"]["srtt_us"]


def test_how_long_a_gap_or_a_stall_lasted_is_no_rtt(formosa):
    at_w(formosa, 64)
    assert srtt_after(formosa, n=1) == 47_500
    formosa.poke(data_segs_out=formosa.state()["wire"]["segs"] + 65)  # a probe is out
    assert srtt_after(formosa, n=1) == 47_500
    assert srtt_after(formosa, n=formosa.state()["tp"]["packets_out"], app=0) > 47_500  # and is covered
    at_w(formosa, 64)
    formosa.loss(n=1, sack=3)
    assert srtt_after(formosa, n=0, sack=3) == 40 * MS
    formosa.start({"init_cwnd": 64}, now=0)
    formosa.loss(n=1, sack=3)
    assert srtt_after(formosa, n=0, sack=3) == 100 * MS  # any peer's ACKs come without a wait


# --- rounds behind a gap


def test_a_round_ends_behind_a_gap_when_its_number_is_echoed(formosa):
    state = behind_a_gap(formosa)
    rounds, number = state["counters"]["rounds"], state["wire"]["round"]
    formosa.read(options=answer(number - 1))
    formosa.ack(n=0, sack=1)
    assert formosa.state()["counters"]["rounds"] == rounds
    formosa.read(options=answer(number))
    formosa.ack(n=0, sack=0)  # nothing new... of this ACK, but of the round
    assert formosa.state()["counters"]["rounds"] == rounds + 1
    formosa.read(options=answer(number + 1))
    formosa.ack(n=0, sack=0)  # nothing of this round yet
    assert formosa.state()["counters"]["rounds"] == rounds + 1


def test_a_round_ends_behind_a_gap_by_time(formosa):
    state = behind_a_gap(formosa)
    rounds, stamp, srtt = state["counters"]["rounds"], state["ca"]["round_stamp"], state["ca"]["srtt_us"]
    formosa.ack(n=0, sack=1, now=stamp + srtt * 5 // 4)
    assert formosa.state()["counters"]["rounds"] == rounds
    formosa.ack(n=0, sack=1, now=stamp + srtt * 5 // 4 + 1)
    assert formosa.state()["counters"]["rounds"] == rounds + 1


def test_without_a_gap_only_the_first_packets_ack_ends_a_round(formosa):
    """However often a liar names the round, and however late it is."""
    at_w(formosa, 64)
    rounds = formosa.state()["counters"]["rounds"]
    for i in range(63):
        formosa.read(options=answer(formosa.state()["wire"]["round"], i), now=10**7 + i)
        formosa.ack(n=1)
    assert formosa.state()["counters"]["rounds"] == rounds
    formosa.ack(n=1)
    assert formosa.state()["counters"]["rounds"] == rounds + 1


# --- a peer without the receiver half ---------------------------------------------------------


def test_a_peer_that_never_answers(formosa):
    """After 4 rounds the window clocks the ACKs, and no more options are sent."""
    at_w(formosa, 64)
    for i in range(4):
        assert formosa.state()["counters"]["fallbacks"] == formosa.state()["wire"]["silent"] == 0
        tp, ca = formosa.state()["tp"], formosa.state()["ca"]
        got = formosa.ack(n=(ca["round_end"] - tp["snd_una"]) // SEG + 1, rtt=40 * MS, now=tp["now"] + 40 * MS)
        assert "segments" in got or i == 3
    state = formosa.state()
    assert state["counters"]["fallbacks"] == state["wire"]["silent"] == 1
    formosa.ack(n=1)
    w = formosa.state()["ca"]["w"]
    assert formosa.state()["tp"]["snd_cwnd"] == w
    assert room(formosa) == formosa.write(len=SEG)["reserved"] == 0
    formosa.read(options=answer(0, 5))
    formosa.ack(n=2)
    assert formosa.state()["ca"]["w"] in (w, w + 1) and formosa.state()["wire"]["silent"] == 1


def test_an_answer_in_time_keeps_the_rounds(formosa):
    at_w(formosa, 64)
    for i in range(12):
        tp, ca = formosa.state()["tp"], formosa.state()["ca"]
        if i % 4 == 3:
            formosa.read(options=answer(0))
        formosa.ack(n=(ca["round_end"] - tp["snd_una"]) // SEG + 1, rtt=40 * MS, now=tp["now"] + 40 * MS)
    assert formosa.state()["counters"]["fallbacks"] == 0


@pytest.mark.parametrize("moves", [False, True])
def test_timeouts_and_answers_to_no_new_round(formosa, moves):
    """A middlebox takes flags and rounds away: the receiver answers, but not what it is asked."""
    at_w(formosa, 64)
    for i in range(6):
        formosa.read(options=answer(i if moves else 0))
        formosa.rto(now=(i + 2) * SECOND)
        if i == 2:
            assert formosa.state()["counters"]["fallbacks"] == 0
    state = formosa.state()
    assert state["counters"]["fallbacks"] == state["wire"]["silent"] == (not moves)


@pytest.mark.parametrize("keys", [{}, {"synack": b""}, {"synack": HELLO, "fails": 1}])
def test_toward_any_peer_it_is_aimd(formosa, keys):
    """Also where no storage can be had."""
    formosa.start({"init_cwnd": 4}, now=0, **keys)
    assert formosa.state()["tp"]["exists"] == (not keys.get("fails"))
    for w in (8, 16, 32):
        acks = formosa.batch([line("ack", rtt=40 * MS, now=40 * MS * w)] * (w // 2))
        assert (acks[-1]["cwnd"], formosa.state()["ca"]["w"]) == (w, w)
    assert formosa.state()["tp"]["pacing_rate"] == 2 * 32 * 960 * SECOND // (40 * MS)
    formosa.loss(n=1, sack=3)
    state = formosa.state()
    assert state["ca"]["w"] == state["tp"]["snd_ssthresh"] == 16
    formosa.ack(n=0, sack=10)
    assert formosa.state()["ca"]["w"] == 16
    formosa.ack(n=32, now=SECOND)
    for i in range(1, 4):
        formosa.batch([line("ack", rtt=40 * MS, now=SECOND + i * 40 * MS)] * formosa.state()["tp"]["packets_out"])
        w = formosa.state()["ca"]["w"]
        assert w in (16 + i - 1, 16 + i, 16 + i + 1)
    assert formosa.state()["tp"]["snd_cwnd"] == w
    assert formosa.state()["tp"]["pacing_rate"] == w * 960 * 10000 * 120 // (40 * MS)


def test_toward_any_peer_the_application_limits(formosa):
    formosa.start({"init_cwnd": 10}, now=0, app=5)
    formosa.poke(ca__ssthresh=10)
    for i in range(10):
        formosa.ack(n=5, rtt=40 * MS, now=(i + 1) * 40 * MS)
    assert formosa.state()["ca"]["w"] == 10
    assert formosa.state()["counters"]["limited_rounds"] > 5


def test_toward_any_peer_idle_seconds_halve(formosa):
    formosa.start({"init_cwnd": 64}, now=0)
    _, got = silent_for(formosa, 3 * SECOND)
    assert formosa.state()["ca"]["w"] == got["cwnd"] == got["sent"] == 16


def test_toward_any_peer_the_first_repair_leaves(formosa):
    formosa.start({"init_cwnd": 64}, now=0)
    assert formosa.loss(n=1, sack=3)["again"] == 1


def forward_signals(
    driver,
    forward,
    back=lambda t: 20 * MS,
    tick=1000,
    own=1000,
    stamps=1,
    until=5 * SECOND,
    offset=12345678,
    w=32,
    **keys,
):
    """Times of the signals of a sender whose peer only stamps; delays by time of leaving, us."""
    driver.start({"init_cwnd": w}, now=0, snd_ssthresh=w, saw_tstamp=stamps, usec_ts=own == 1, **keys)
    sent, now, signals, seen = [MS * i * 40 // w for i in range(w)], 0, [], 0
    while now < until:
        lines = []
        for left in sent:
            arrived = left + forward(left)
            now = max(now, arrived + back(arrived))
            stamp = (arrived + offset) // tick % 2**32
            lines.append(line("ack", now=now, rtt=now - left, rcv_tsval=stamp, rcv_tsecr=(left + 10**9) // own % 2**32))
            lines.append("state")
        answers, sent = driver.batch(lines), []
        for ack, state in zip(answers[::2], answers[1::2]):
            sent += [state["tp"]["now"]] * ack["sent"]
            if state["counters"]["signals"] > seen:
                seen = state["counters"]["signals"]
                signals.append(state["tp"]["now"])
    return signals


def ramp(t):
    """20 ms until 3 s, then a queue that grows by 100 ms a second."""
    return 20 * MS + max(0, t - 3 * SECOND) // 10


CLOCKS = [(1000, 1000), (4000, 1000), (10_000, 1000), (1, 1), (1000, 1), (1, 1000)]  # the peer's tick and our own, us


@pytest.mark.parametrize("tick, own", CLOCKS)
@pytest.mark.parametrize("offset", [12345678, 2**42 - 10**6])
def test_timestamps_tell_the_forward_delay(formosa, tick, own, offset):
    signals = forward_signals(formosa, ramp, tick=tick, own=own, offset=offset * (tick if offset > 2**40 else 1) // 1)
    assert len(signals) >= 3 and min(signals) > 3 * SECOND
    assert formosa.state()["wire"]["stamps.tick_us"] == tick


@pytest.mark.parametrize("tick, own", CLOCKS)
def test_timestamps_tell_nothing_of_the_way_back(formosa, tick, own):
    assert forward_signals(formosa, lambda t: 20 * MS, ramp, tick=tick, own=own) == []


@pytest.mark.parametrize("tick", [1000, 4000, 10_000])
@pytest.mark.parametrize("w", [2, 3, 8])
def test_a_coarse_clock_is_no_queue(formosa, tick, w):
    """However the ticks fall on few ACKs."""
    assert forward_signals(formosa, lambda t: 20 * MS, lambda t: 23_700, tick=tick, w=w) == []


@pytest.mark.parametrize("keys", [{"stamps": 0}, {"tick": 50_000}, {"synack": b"", "fails": 1}])
def test_without_a_clock_only_losses_tell(formosa, keys):
    assert forward_signals(formosa, ramp, **keys) == []


def test_a_clock_that_jumps_overflows_nothing(formosa):
    """A peer of 10-ms ticks that are taken for true, then stamps as far from the last as they can be: half a million
    ACKs."""

    def lines(n):
        now = tsval = 0
        for i in range(n):
            now += 10 * MS
            tsval += 1 if i < 300 else 2**31 - 1
            yield line("ack", now=now, rcv_tsval=tsval % 2**32, rcv_tsecr=(i + 1 if i < 300 else -tsval) % 2**32)

    begin = [line("set", init_cwnd=2), line("new", now=0, saw_tstamp=1, snd_ssthresh=2, app=1)]
    done = subprocess.run(
        [formosa.binary], input="\n".join([*begin, *lines(500_000)]) + "\n", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    formosa.batch(["reset", *begin, *lines(10**4)])
    wire = formosa.state()["wire"]
    assert wire["stamps.tick_us"] == 10_000 and wire["stamps.x_us"] == 1 << 40, "the bound that the code names"
