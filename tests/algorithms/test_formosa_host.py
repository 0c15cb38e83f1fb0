# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Formosa's own source, compiled for the host with sanitizers: both ends, against the paper's laws and a peer that lies."""

import subprocess
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from host.driver import Driver, build, line
from host.formosa import (
    ACK,
    CALL,
    COOKIE,
    CURRENT_MSS,
    ECE,
    FIN,
    HELLO,
    PARSE,
    PSH,
    RST,
    SEG,
    SYN,
    WRITE,
    A,
    F,
    P,
    Receiver,
    T,
    answer,
    data,
    fields_of_answer,
    fields_of_data,
    ip_packet,
    signed,
    transfer,
)  # fmt: skip
from host.nack import blocks_of, gaps_of
from host.streams import MS, RTT_MAX

ALL = 2**32 - 1
NO_SSTHRESH = 2**31 - 1
SECOND = 10**6
FIBONACCI = [1, 2, 3, 5, 8, 13, 21, 34]
OPEN, DISORDER, CWR, RECOVERY, LOSS = range(5)


@pytest.fixture(scope="session")
def binary():
    return build("formosa")


@pytest.fixture(scope="session")
def formosa(binary):
    driver = Driver(binary)
    yield driver
    assert driver.close() == 0, driver.process.stderr.read()


@pytest.fixture(scope="session")
def pair(binary, formosa):
    other = Driver(binary)
    yield formosa, other
    assert other.close() == 0


# --- a sender by rounds -----------------------------------------------------------------------


def end_round(sender, signal=None, number=None, rtt=40 * MS, **keys):
    """The receiver answers the first packet of the round: all up to it is acknowledged. W after it."""
    ca, tp, wire = (sender.state()[part] for part in ("ca", "tp", "wire"))
    n = (ca["round_end"] - tp["snd_una"]) % 2**32 // SEG + 1
    now = tp["now"] + rtt
    signal = wire["signal_seen"] if signal is None else signal
    sender.read(
        options=answer(wire["round"] if number is None else number, signal, F),
        ack=(tp["snd_una"] + n * SEG) % 2**32,
        now=now,
    )
    sender.ack(n=n, rtt=rtt, **keys)
    return sender.state()["ca"]["w"]


def at_w(sender, w, params=None, ssthresh=None, **keys):
    """A sender amid a transfer with this W, its first packet of the round answered."""
    sender.start(params, synack=HELLO, app=0, now=0, **keys)
    sender.poke(ca__w=w, ca__w_last=w, ca__ssthresh=ssthresh or w, snd_cwnd=w, ca__cwnd=w, wire__budget=w)
    sender.send(app=ALL)
    end_round(sender)
    sender.poke(ca__w=w, ca__w_last=w, wire__budget=w)


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
    at_w(formosa, w, {"delta_q8": delta})
    cut = max(w - max(w * delta // 256, 1), 2)
    assert end_round(formosa, 1) == cut
    assert formosa.state()["ca"]["ssthresh"] == cut


def test_a_signal_counts_once_and_once_a_round(formosa):
    at_w(formosa, 64)
    for signal in (1, 2, 3, 2):
        formosa.read(options=answer(0, signal))
    formosa.ack(n=3)
    assert formosa.state()["ca"]["w"] == 64  # at the end of the round
    assert end_round(formosa) == 56
    formosa.read(options=answer(0, 3))  # said before
    assert end_round(formosa) == 57
    assert end_round(formosa, 4) == 57 - 7
    assert formosa.state()["counters"]["signals"] == formosa.state()["ca"]["peer_signals"] == 2


@pytest.mark.parametrize(
    "seen, number, counts", [(0, 1, True), (0, 7, True), (0, 8, False), (0, 15, False), (15, 0, True), (14, 13, False)]
)
def test_numbers_of_signals_wrap_and_never_go_back(formosa, seen, number, counts):
    at_w(formosa, 64)
    formosa.poke(wire__signal_seen=seen)
    assert end_round(formosa, number) == (56 if counts else 65)
    assert formosa.state()["wire"]["signal_seen"] == (number if counts else seen)


@pytest.mark.parametrize("hold, expected", [(0, [56, 49, 43, 38]), (1, [56, 56, 49, 49]), (2, [56, 56, 56, 49])])
def test_a_signal_about_packets_from_before_the_cut_is_old(formosa, hold, expected):
    at_w(formosa, 64, {"signal_hold": hold})
    assert [end_round(formosa, i) for i in range(1, 5)] == expected
    counters = formosa.state()["counters"]
    assert counters["signals"] + counters["old_signals"] == 4


def test_a_round_without_signal_ends_the_hold(formosa):
    at_w(formosa, 64)
    assert [end_round(formosa, i) for i in (1, 1, 2)] == [56, 57, 50]


def test_the_cut_that_ends_slow_start_holds_nothing(formosa):
    at_w(formosa, 64, ssthresh=NO_SSTHRESH)
    assert [end_round(formosa, i) for i in range(1, 5)] == [56, 49, 49, 43]


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
    """What W allows again is not beyond it."""
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


@pytest.mark.parametrize("seconds, shift", [(0.9, 0), (1, 1), (2, 2), (100, 31), (10**6, 31)])
def test_idle_seconds_halve(formosa, seconds, shift):
    at_w(formosa, 100, ssthresh=50)
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


def test_the_first_packets_after_idle_are_answered(formosa):
    """The option of the first is written before the controller hears of it: the second has the new number."""
    at_w(formosa, 20)
    number = formosa.state()["wire"]["round"]
    _, got = silent_for(formosa, 10**6)
    rounds = [fields_of_data(bytes.fromhex(options))[1] for _, _, options in got["segments"]]
    assert rounds[1] == formosa.state()["wire"]["round"] != number and len({*rounds[1:]}) == 1


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


@pytest.mark.parametrize("short, grows", [(0, True), (10, True), (11, False)])
def test_a_round_has_to_carry_w_but_an_eighth_and_two(formosa, short, grows):
    at_w(formosa, 64)
    delivered = formosa.state()["ca"]["delivered_round"]
    formosa.poke(ca__delivered_round=(delivered + short) % 2**32)
    assert end_round(formosa) == 64 + grows


@given(srtt=st.integers(100, 2**26), w=st.integers(2, 2000), mss=st.sampled_from([536, 1448, 65535]))
@settings(max_examples=30)
def test_paces_w_over_the_rtt(formosa, srtt, w, mss):
    at_w(formosa, w)
    formosa.poke(ca__srtt_us=srtt, mss_cache=mss, ca__ssthresh=w)
    formosa.ack(n=0)
    assert formosa.state()["tp"]["pacing_rate"] == w * mss * SECOND // srtt


def test_the_ack_of_our_syn_sets_no_rate(formosa):
    """Where a route names the controller, the kernel handles it before `init`: on a state of zeros."""
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


def behind_a_gap(sender, w=64):
    """The first packet of the round is missing, the one behind it is there."""
    at_w(sender, w)
    sender.ack(n=w - 1, sack=1)
    return sender.state()


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


# --- what a sender writes ---------------------------------------------------------------------


def test_data_option(formosa):
    formosa.start(synack=HELLO, now=2**32 + 5, srtt_us=8 * 6400)
    formosa.ack(n=1, rtt=6400, now=2**32 + 7000)
    flags, number, srtt, stamp = fields_of_data(bytes.fromhex(formosa.write(len=SEG)["options"]))
    assert (number, srtt, stamp) == (2, 100, 7000)
    for srtt_us, field in ((10**9, 65535), (63, 0), (4194240, 65535), (4194239, 65534)):
        formosa.poke(wire__srtt_us=srtt_us)
        assert fields_of_data(bytes.fromhex(formosa.write(len=SEG)["options"]))[2] == field


def test_flags_of_a_round(formosa):
    """A: its first. P: beyond W. T: no full segment follows, for want of data or of the peer's window."""
    at_w(formosa, 5)
    next_seq = formosa.state()["tp"]["snd_nxt"]
    formosa.poke(data_segs_out=100, wire__segs=100, write_seq=10**6)
    flags = []
    for i in range(8):
        formosa.poke(data_segs_out=100 + i)
        flags.append(fields_of_data(bytes.fromhex(formosa.write(seq=next_seq + i * SEG, len=SEG)["options"]))[0])
    assert flags == [A, 0, 0, 0, 0, P, P, P]
    formosa.poke(data_segs_out=101)
    assert fields_of_data(bytes.fromhex(formosa.write(seq=10**6 - SEG, len=SEG)["options"]))[0] == T
    assert fields_of_data(bytes.fromhex(formosa.write(seq=10**6 - 2 * SEG + 1, len=SEG)["options"]))[0] == T
    assert fields_of_data(bytes.fromhex(formosa.write(seq=10**6 - 2 * SEG, len=SEG)["options"]))[0] == 0
    una = formosa.state()["tp"]["snd_una"]
    formosa.poke(snd_wnd=next_seq + 3 * SEG - una)
    flags = [
        fields_of_data(bytes.fromhex(formosa.write(seq=next_seq + i * SEG, len=SEG)["options"]))[0] for i in range(3)
    ]
    assert flags == [0, 0, T]
    formosa.poke(snd_wnd=next_seq + 4 * SEG - 1 - una)
    assert fields_of_data(bytes.fromhex(formosa.write(seq=next_seq + 2 * SEG, len=SEG)["options"]))[0] == T


def test_a_round_sends_its_first_packet_whatever_is_in_flight(formosa):
    """What is in flight has no flag: without a new one no ACK would come."""
    at_w(formosa, 9)
    tp = formosa.state()["tp"]
    formosa.poke(ca__w_last=9, packets_out=18 + 1, snd_nxt=tp["snd_una"] + 19 * SEG)
    formosa.cwr()  # W and W_last 4
    state = formosa.state()
    got = formosa.ack(
        n=state["tp"]["packets_out"] - 8 if state["tp"]["packets_out"] > 8 else 1,
        rtt=40 * MS,
        now=state["tp"]["now"] + 40 * MS,
    )
    after = formosa.state()
    assert after["wire"]["round"] != state["wire"]["round"] and got["sent"] + got["again"] >= 1
    assert after["tp"]["data_segs_out"] > after["wire"]["segs"], "each round has its flag"


def test_a_repair_that_begins_a_round_is_a_probe(formosa):
    for command in ("loss", "rto"):
        at_w(formosa, 20)
        got = formosa.do(command, now=10**6)
        flags = [fields_of_data(bytes.fromhex(options))[0] for _, _, options in got["segments"]]
        assert flags[0] == A | P and not any(flags[1:])


def test_last_packet_of_the_data_is_marked(formosa):
    got = formosa.start({"init_cwnd": 10}, synack=HELLO, app=4)
    assert [fields_of_data(bytes.fromhex(options))[0] for _, _, options in got["segments"]] == [A, 0, 0, T]


def test_numbers_of_rounds_wrap(formosa):
    formosa.start(synack=HELLO, now=0)
    formosa.poke(wire__round=255)
    assert end_round(formosa) == 2
    assert fields_of_data(bytes.fromhex(formosa.write(len=SEG)["options"]))[1] == 0


def room(driver, **keys):
    return driver.write(mode=CURRENT_MSS, **keys)["reserved"]


def test_options_are_reserved_before_there_is_a_segment(formosa):
    """Else the stack's MSS is too large."""
    formosa.start(synack=HELLO)
    assert (room(formosa), formosa.write(len=SEG)["reserved"], formosa.write(len=0)["reserved"]) == (12, 12, 0)
    formosa.read(options=data(1), len=SEG)
    assert (room(formosa), formosa.write(len=SEG)["reserved"], formosa.write(len=0)["reserved"]) == (20, 20, 8)
    both = bytes.fromhex(formosa.write(len=SEG)["options"])
    fields_of_data(both[:12]), fields_of_answer(both[12:])


@pytest.mark.parametrize("space, got", [(40, 8), (8, 8), (4, 0), (0, 0)])
def test_an_answer_without_room_is_left_out(formosa, space, got):
    formosa.start(synack=HELLO)
    formosa.read(options=data(1), len=SEG)
    assert formosa.write(len=0, room=space)["reserved"] == got


def test_answer_option(formosa):
    formosa.start(syn=HELLO)
    formosa.read(options=data(7), len=SEG)
    formosa.poke(wire__signal=0x2A, wire__last_round=7)
    assert fields_of_answer(bytes.fromhex(formosa.write()["options"])) == (F | 0xA, 7, 0)
    formosa.poke(wire__due=0)
    assert fields_of_answer(bytes.fromhex(formosa.write()["options"]))[0] == 0xA


# --- who speaks it ----------------------------------------------------------------------------


def test_hello(formosa):
    """In the SYN of a connection that sends by this controller, but not in one sent a third time; in the answer to one, but not of a SYN cookie."""
    formosa.start()
    assert formosa.write(flags=SYN)["options"] == ""  # nobody asked for callbacks
    formosa.call(op=CALL["connect"])
    formosa.call(op=CALL["syn"], full=0)  # of one that has come
    assert formosa.state()["tp"]["cb_flags"] == 0
    formosa.call(op=CALL["syn"])
    assert formosa.state()["tp"]["cb_flags"] == WRITE
    assert bytes.fromhex(formosa.write(flags=SYN)["options"]) == HELLO
    formosa.poke(icsk_retransmits=1)
    assert bytes.fromhex(formosa.write(flags=SYN)["options"]) == HELLO
    formosa.poke(icsk_retransmits=2)
    assert formosa.write(flags=SYN)["options"] == ""
    for keys, got in (
        ({"syn": HELLO}, HELLO), ({"syn": b""}, b""), ({}, b""), ({"syn": HELLO, "mode": COOKIE}, b""),
        ({"syn": bytes.fromhex("02040218") + b"\x01" + HELLO}, HELLO), ({"syn": bytes.fromhex("fd06f0a00000")}, b""),
        ({"syn": HELLO[:2]}, b""), ({"syn": b"\x00" + HELLO}, b""), ({"syn": HELLO, "room": 0}, b""),
    ):  # fmt: skip
        assert bytes.fromhex(formosa.write(flags=SYN | ACK, full=0, **keys)["options"]) == got


@pytest.mark.parametrize("hello, other, chosen, says", [
    (0, 0, 0, True), (0, 0, 1, True), (0, 1, 0, False), (0, 1, 1, False), (1, 0, 1, True), (1, 1, 0, True), (1, 1, 1, False),
])  # fmt: skip
def test_who_says_hello(formosa, hello, other, chosen, says):
    """Loading changes no connection: others do when they are asked to, unless somebody chose their controller. Not asked, they hear none."""
    formosa.start({"hello": hello}, other=other, chosen=chosen)
    formosa.call(op=CALL["connect"])
    formosa.call(op=CALL["syn"])
    assert formosa.state()["tp"]["cb_flags"] == WRITE * says
    formosa.poke(cb_flags=WRITE)  # another program's doing
    assert (bytes.fromhex(formosa.write(flags=SYN)["options"]) == HELLO) == says
    formosa.start({"hello": hello}, other=other, chosen=chosen, synack=HELLO)
    state = formosa.state()
    assert state["tp"]["exists"] == (says or not other) and state["counters"]["peers"] == says


@pytest.mark.parametrize("side", ["syn", "synack"])
@pytest.mark.parametrize("raw, speaks", [
    (HELLO, 1), (b"\x01\x01" + HELLO, 1), (b"", 0), (b"\x00" + HELLO, 0), (HELLO[:3], 0), (bytes.fromhex("fd05f0a000"), 0),
    (bytes.fromhex("fd04f0a1"), 0), (bytes.fromhex("fe04f0a0"), 0), (bytes.fromhex("fd00f0a0"), 0),
])  # fmt: skip
def test_established(formosa, side, raw, speaks):
    """What comes from a peer that says no hello is not looked at; flags of other programs stay."""
    formosa.start(cb_flags=1, **{side: raw})
    state = formosa.state()
    assert state["wire"]["peer"] == state["counters"]["peers"] == speaks
    assert state["tp"]["cb_flags"] == 1 | WRITE | PARSE * speaks
    assert state["wire"]["sender"] == 1
    assert room(formosa) == 12 * speaks


def test_the_room_of_another_program_stays_its(formosa):
    formosa.start(other=1, cb_flags=WRITE)
    for keys in ({"flags": SYN}, {"flags": SYN | ACK, "full": 0, "syn": bytes.fromhex("fd04f0a3")}):
        assert formosa.write(others=4, **keys)["options"] == "01010101"


def test_flags_are_never_cleared(formosa):
    """Whoever else set them: also before us, and on connections that are none of ours."""
    for keys in (
        {"syn": b""},
        {"synack": b""},
        {"syn": HELLO},
        {"syn": HELLO, "other": 1},
        {"synack": b"", "other": 1},
        {"syn": HELLO, "fails": 1},
    ):
        formosa.start(cb_flags=0x7F, **keys)
        for op in CALL.values():
            formosa.call(op=op)
        assert formosa.state()["tp"]["cb_flags"] == 0x7F


@pytest.mark.parametrize("other, chosen, listens", [(0, 0, True), (1, 0, True), (0, 1, True), (1, 1, False)])
def test_a_listener_keeps_the_syns(formosa, other, chosen, listens):
    """Not one for which another controller was chosen: it does not answer a hello."""
    formosa.start(other=other, chosen=chosen)
    got = formosa.call(op=CALL["listen"])
    assert got.get("option") == ([6, 27, 1] if listens else None)
    assert formosa.state()["tp"]["cb_flags"] == WRITE * listens


def test_a_listener_that_keeps_its_syns_keeps_them_its_way(formosa):
    formosa.start(keeps_syn=2)
    assert "option" not in formosa.call(op=CALL["listen"]) and formosa.state()["tp"]["cb_flags"] == WRITE


def test_a_receiver_changes_to_this_controller(formosa):
    formosa.start(syn=HELLO, other=1, rcv_nxt=1)
    got = formosa.read(options=data(1), len=SEG, seq=1)
    assert got["controller"].startswith("formosa")
    assert formosa.state()["wire"]["sender"] == 1
    assert "controller" not in formosa.read(options=data(2), len=SEG, seq=1)
    formosa.start(syn=HELLO)
    assert "controller" not in formosa.read(options=data(1), len=SEG)


@pytest.mark.parametrize("params", [None, {"init_cwnd": 1024}])
@pytest.mark.parametrize("cwnd, ssthresh, sent", [(10, NO_SSTHRESH, 0), (3, 7, 0), (40, 20, 100)])
def test_to_receive_changes_no_window(formosa, params, cwnd, ssthresh, sent):
    formosa.start(params, syn=HELLO, other=1, snd_cwnd=cwnd, snd_ssthresh=ssthresh, data_segs_out=sent)
    formosa.read(options=data(1), len=SEG)
    state = formosa.state()
    assert not state["tp"]["other"] and (state["tp"]["snd_cwnd"], state["tp"]["snd_ssthresh"]) == (cwnd, ssthresh)
    assert (state["ca"]["w"], state["ca"]["ssthresh"]) == (cwnd, ssthresh), "and where it sends, it goes on with it"


@pytest.mark.parametrize("since", ["listen", "accept"])
@pytest.mark.parametrize("why", ["chosen", "locked"])
def test_another_controller_that_was_chosen_stays(formosa, since, why):
    """By the application, `use --cgroup` or a locked route: no ACK is forced or dropped, and no answer written, so that the sender falls back."""
    formosa.start(syn=HELLO, other=1, **({why: 1} if since == "listen" else {}))
    formosa.poke(**{why: 1}, cb_flags=WRITE | PARSE)
    for i in range(3):
        assert "controller" not in formosa.read(
            options=data(1 + i, A | T | P), len=SEG, seq=1 + i * SEG, rcv_nxt=1 + i * SEG
        )
        formosa.ack(n=0)
    state = formosa.state()
    assert state["tp"]["other"] and not state["tp"]["pending"] and state["counters"]["flows"] == 0
    assert state["wire"]["receiving"] == state["wire"]["thin"] == room(formosa) == 0
    assert passes(formosa, 1 + 3 * SEG)
    formosa.start(syn=HELLO, chosen=1)  # it was ours
    formosa.read(options=data(1), len=SEG)
    assert formosa.state()["wire"]["receiving"] == 1


# --- the estimator ----------------------------------------------------------------------------


def measure(driver, samples, params=None, srtt=40 * MS, offset=0, begin=0):
    """
    A receiver takes (time, forward delay, round); the sender's clock is `offset` behind. Its state after each. The
    first byte of a packet is the one expected.
    """
    driver.start(params, syn=HELLO, other=1)
    lines = []
    for i, (now, d, number) in enumerate(samples):
        option = data(number, srtt_us=srtt, stamp=begin + now - d - offset)
        lines += [line("read", now=begin + now, rcv_nxt=1 + i * SEG, len=SEG, options=option), "state"]
    states = driver.batch(lines)[1::2]
    return [{k: signed(v) if k.endswith(("q16", "q8")) else v for k, v in s["wire"].items()} for s in states]


@st.composite
def deliveries(draw, spread=st.integers(0, 200 * MS)):
    """Rounds of a few packets, 0 to 900 ms apart or more than a second."""
    now, samples = 0, []
    for number in range(1, draw(st.integers(2, 6))):
        for _ in range(draw(st.integers(1, 8))):
            now += draw(st.integers(0, 900 * MS) | st.integers(0, MS) | st.sampled_from([10**6, 10**6 + 1]))
            samples.append((now, draw(spread), number))
    return samples


@given(
    samples=deliveries(), eta=st.sampled_from([1, 128, 255]) | st.integers(1, 255), norm=st.integers(0, 1), mode=st.integers(0, 2),
    cathresh=st.sampled_from([1, 2, 5, 1024]), srtt=st.sampled_from([64, 6400, 40 * MS, 4 * SECOND]) | st.integers(64, 4 * SECOND),
)  # fmt: skip
def test_estimator_is_exact(formosa, samples, eta, norm, mode, cathresh, srtt):
    """(4) and (5) in fractions. The integers round: sftt and L to 2^-16 us and 2^-8 packets."""
    params = {"eta_q8": eta, "ftt_norm": norm, "q_mode": mode, "cathresh": cathresh}
    got = measure(formosa, samples, params, srtt)
    share, srtt = Fraction(eta, 256), srtt // 64 * 64
    ulp = Fraction(1, 1 << 16)
    wide = ulp / 2 / (1 - share)  # how far roundings take sftt
    zero = samples[0][1]
    sftt = var = q = slack = Fraction(0)
    last_round = last_now = None
    packets = signals = 0
    for (now, d, number), state in zip(samples, got):
        if last_now is None or now - last_now > SECOND:
            sftt, var, packets = Fraction(d - zero), Fraction(0), 0
        last_now = now
        sftt = share * sftt + (1 - share) * (d - zero)
        var += d - zero - sftt
        packets += 1
        assert abs(state["in.sftt_q16"] * ulp - sftt) <= wide
        if number == last_round:
            assert abs(state["in.var_q16"] * ulp - var) <= wide * packets
            assert state["in.packets"] == packets
            continue
        last_round = number
        added = var * packets / srtt
        error = (wide * packets + Fraction(1, 256)) * packets / srtt + Fraction(1, 256)
        if norm:
            added *= (1 - share) / share
            error = error * (1 - share) / share + Fraction(1, 256)
        q = {0: q + added, 1: q + max(added, 0), 2: max(q + added, Fraction(0))}[mode]
        slack += error
        var, packets = Fraction(0), 0
        assert (state["in.var_q16"], state["in.packets"]) == (0, 0)
        signal = (state["signal"] - signals) % 256
        if q > cathresh + slack or q <= cathresh - slack:
            assert signal == (q > cathresh)
        if signal:
            signals, q, slack = state["signal"], Fraction(0), Fraction(0)
        assert abs(Fraction(state["in.q_q8"], 256) - q) <= slack


@given(
    rise=st.integers(0, 100 * MS), steps=st.lists(st.integers(0, 100), min_size=1, max_size=8), srtt=st.integers(100, 65000).map(lambda n: n * 64),
    eta=st.sampled_from([64, 128, 192]),
)  # fmt: skip
def test_a_rise_adds_itself_times_the_rate(formosa, rise, steps, srtt, eta):
    """By whatever steps the delay rises: x in a round adds x * packets / srtt. Gain 1."""
    levels = [rise * sum(steps[: i + 1]) // max(sum(steps), 1) for i in range(len(steps))] if sum(steps) else [0]
    rise = levels[-1]
    delays = [0, 0, *levels, *[rise] * 60]
    samples = [(i * MS, d, 2) for i, d in enumerate(delays)]
    first = [(0, 0, 1)]
    number = len(samples)
    got = measure(formosa, first + samples + [(number * MS, rise, 3)], {"cathresh": 1024, "eta_q8": eta}, srtt)
    packets = number  # those after the first of round 2, and the first of round 3
    added = Fraction(got[-1]["in.q_q8"], 256)
    assert got[-1]["signal"] or abs(added - Fraction(rise * packets, srtt)) <= Fraction(
        rise * packets, srtt
    ) / 1000 + Fraction(1, 64)


def test_literal_sum_without_norm(formosa):
    """eta / (1 - eta) times the rise."""
    samples = [(0, 0, 1), (1, 0, 2), *[(2 + i, 10 * MS, 2) for i in range(63)], (90, 10 * MS, 3)]
    full, literal = (
        measure(formosa, samples, {"eta_q8": 192, "ftt_norm": norm, "cathresh": 1024})[-1]["in.q_q8"] for norm in (1, 0)
    )
    assert full == pytest.approx(64 * 10 / 40 * 256, abs=2)
    assert literal == pytest.approx(3 * full, abs=8)


@pytest.mark.parametrize("mode, expected", [(0, [0, 4, 2, 6]), (1, [0, 4, 4, 8]), (2, [0, 4, 2, 6])])
def test_q_modes(formosa, mode, expected):
    """Up by 4 packets, down by 2, up by 4."""
    got = by_rounds(formosa, [0, 10, 5, 15], {"q_mode": mode, "cathresh": 1024})
    assert [round(q / 256) for q in got] == expected


def test_only_the_net_sum_goes_below_zero(formosa):
    assert [[round(q / 256) for q in by_rounds(formosa, [20, 0, 5], {"q_mode": mode, "cathresh": 1024})] for mode in range(3)] == [
        [0, -8, -6], [0, 0, 2], [0, 0, 2],
    ]  # fmt: skip


def by_rounds(driver, delays, params):
    """Q after each round of 16 packets with that delay, ms. The first packet of a round ends the one before."""
    samples = [(0, delays[0] * MS, 1)]
    for number, delay in enumerate(delays, 1):
        samples += [(len(samples) + i, delay * MS, number + (i == 15)) for i in range(16)]
    return [state["in.q_q8"] for state in measure(driver, samples, params)[16::16]]


def test_a_signal_says_that_the_queue_grew_by_two(formosa):
    got = measure(
        formosa,
        [(0, 0, 1), *[(i, 5 * MS, 1) for i in range(1, 17)], (17, 5 * MS, 2)],
        {"cathresh": 2},
        srtt=34 * 64 * 16,
    )
    assert got[-1]["signal"] == 1 and got[-1]["in.q_q8"] == 0
    got = measure(
        formosa, [(0, 0, 1), *[(i, 5 * MS, 1) for i in range(1, 17)], (17, 5 * MS, 2)], {"cathresh": 2}, srtt=48 * MS
    )
    assert got[-1]["signal"] == 0 and 0 < got[-1]["in.q_q8"] <= 512


@given(
    samples=deliveries(st.integers(0, 100 * MS)),
    offset=st.integers(0, 2**32),
    begin=st.sampled_from([0, 2**32 - 10 * MS, 2**32 - 10**6, 2**40]),
)
@example(samples=[(0, 5, 1), (10, 4, 1), (20 * MS, 9, 2)], offset=2**32 - 5, begin=2**32 - 10 * MS)
def test_clocks_may_differ_and_wrap(formosa, samples, offset, begin):
    keys = ("in.sftt_q16", "in.var_q16", "in.q_q8", "signal", "in.packets")
    plain, other = (measure(formosa, samples, None, 40 * MS, *clock) for clock in ((0, 0), (offset, begin)))
    assert [[s[k] for k in keys] for s in plain] == [[s[k] for k in keys] for s in other]


def test_without_srtt_a_round_adds_nothing(formosa):
    samples = [(0, 0, 1), *[(i, 90 * MS, 1) for i in range(1, 20)], (20, 90 * MS, 2)]
    got = measure(formosa, samples, None, srtt=63)
    assert got[-1]["in.q_q8"] == got[-1]["signal"] == 0
    assert measure(formosa, samples, None, srtt=64)[-1]["signal"] == 1


def test_two_packets_in_one_segment_count_twice(formosa):
    formosa.start(syn=HELLO, rcv_mss=500)
    formosa.read(options=data(1), len=SEG)
    for seq, (length, packets) in enumerate(((500, 1), (501, 2), (1000, 2), (1, 1))):
        before = formosa.state()["wire"]["in.packets"]
        formosa.read(options=data(1), len=length, seq=10_000 * (seq + 1), rcv_nxt=10_000 * (seq + 1))
        assert formosa.state()["wire"]["in.packets"] - before == packets


@given(st.lists(st.tuples(st.integers(0, 2**33), st.integers(0, 2**32 - 1), st.integers(0, 255), st.integers(0, 65535)), min_size=1, max_size=60),
       st.integers(1, 255), st.integers(0, 1), st.integers(0, 2))  # fmt: skip
def test_wild_stamps_do_no_harm(formosa, samples, eta, norm, mode):
    """Sanitizers watch; Q stays in its bounds."""
    formosa.start({"eta_q8": eta, "ftt_norm": norm, "q_mode": mode}, syn=HELLO, other=1, rcv_mss=1)
    now = 0
    for i, (gap, stamp, number, srtt) in enumerate(samples):
        now += gap >> (stamp % 33)
        formosa.read(now=now, rcv_nxt=1, len=65000, options=data(number, 0, srtt * 64, stamp))
        wire = formosa.state()["wire"]
        assert -(1 << 40) <= signed(wire["in.q_q8"]) <= 1024 << 8
        assert abs(signed(wire["in.sftt_q16"])) <= 1 << 42
        assert wire["in.packets"] <= 65535 + 65000


def test_queue_is_the_delay_above_the_smallest(formosa):
    """Of the last ten to twenty seconds: clocks drift."""

    def queue(samples):
        measure(formosa, samples)
        return fields_of_answer(bytes.fromhex(formosa.write()["options"]))[2] * 64

    low = [(i * 100 * MS, 3 * MS, 1) for i in range(20)]
    assert queue(low) == 0
    high = [(2 * SECOND + i * 100 * MS, 13 * MS, 1) for i in range(250)]
    assert queue(low + high[:80]) == pytest.approx(10 * MS, abs=64)
    assert queue(low + high) == 0


# --- the receiver: what is answered -----------------------------------------------------------


class Stream:
    """Packets by number to a receiver; tells which of them were answered on the wire."""

    def __init__(self, driver, params=None, every=1, **keys):
        self.receiver, self.now, self.driver = Receiver(driver, params, every, **keys), 0, driver

    def __call__(self, *packets, number=1, flags=0, gap=MS):
        answered = []
        for packet in packets:
            self.now += gap
            acks = self.receiver.take(self.now, 1 + packet * SEG, data(number, flags, stamp=self.now))
            answered += [packet] * len(acks)
        return answered


@pytest.fixture
def stream(formosa):
    return lambda *args, **keys: Stream(formosa, *args, **keys)


@pytest.mark.parametrize("every", [1, 2, 10**6])
def test_the_first_packet_of_a_round_is_answered_and_no_other(stream, every):
    send = stream(every=every)
    assert send(0, number=1, flags=A) == [0]
    assert send(1, 2, number=2, flags=A) == [1]
    assert send(*range(3, 50), number=3) == [3]  # its flag was lost: the number tells
    assert send(*range(50, 60), number=3, flags=A) == []
    assert send(60, 61, number=4) == [60]


def test_an_answer_covers_the_flagged_packet(stream, formosa):
    send = stream(every=10**6)
    send(0)
    send(1, 2, number=2)
    ((number, blocks, option),) = send.receiver.take(10 * MS, 1 + 3 * SEG, data(3, A))
    assert (number, blocks) == (1 + 4 * SEG, [])
    assert fields_of_answer(option)[:2] == (F, 3)


def test_marked_packets_are_answered(stream):
    """A probe twice: an ACK before it, one with it."""
    send = stream(every=10**6)
    assert send(0, 1, 2) == [0]
    assert send(3, 4, flags=T) == [3, 4]
    assert send(5, 6) == []
    assert send(7, 8, flags=P) == [7, 7, 8, 8]
    assert send(9, flags=P | T) == [9, 9]
    assert send(10, number=2, flags=P | A) == [10, 10]
    assert [number for number, _, _ in send.receiver.take(SECOND, 1 + 11 * SEG, data(2, P))] == [
        1 + 11 * SEG,
        1 + 12 * SEG,
    ]
    assert send(12, number=2) == []


def test_what_came_before_is_answered_twice(stream):
    """The sender has not heard of it, so that an ACK was lost."""
    send = stream(every=10**6)
    assert send(*range(10)) == [0]
    assert send(3, 9) == [3, 3, 9, 9]
    samples = send.driver.state()["wire"]["in.packets"]
    send(3)
    assert send.driver.state()["wire"]["in.packets"] == samples  # and measures nothing
    assert send(10) == []


@pytest.mark.parametrize("times", [1, 3, 16])
def test_a_new_gap_is_reported_so_often(stream, times):
    send = stream({"nack_dup": times})
    send(0, 1, 2)
    assert send(*range(4, 40)) == [*range(4, 4 + times)]
    assert send(*range(41, 80)) == [*range(41, 41 + times)]
    counters = send.driver.state()["counters"]
    assert counters["nacks"] == 2 * times
    assert counters["acks_sent"] == 1 + 2 * times
    assert counters["acks_suppressed"] == 2 + 36 + 39 - 2 * times


def test_the_closing_of_the_last_gap_is_answered(stream):
    send = stream({"nack_dup": 1})
    assert send(0, 1, 3, 4, 6, 7, 9) == [0, 3, 6, 9]
    assert send(5, 2) == []
    assert send(8) == [8]
    assert send(10, 11) == []


def test_numbers_of_the_past_begin_no_round(stream):
    send = stream()
    assert send(0, number=250) == [0]
    assert send(1, number=255) == [1]
    assert send(2, number=254, flags=A) == []
    assert send(3, number=255) == []
    assert send(4, number=3) == [4]  # 255 -> 3
    assert send(5, number=250) == []
    assert send(6, number=3 + 127) == [6]
    assert send(7, number=(3 + 127 + 128) % 256) == []


def test_the_first_number_may_be_any(stream):
    for number in (0, 1, 128, 255):
        assert stream()(0, number=number) == [0]


def quiet(driver, **keys):
    """A receiver that has just answered, and its next ACK."""
    send = Stream(driver, every=10**6, **keys)
    send(0, 1, 2)
    return send.receiver, 3 * MS


def test_data_without_options_is_acknowledged(formosa):
    receiver, now = quiet(formosa)
    assert not receiver.acknowledge(now)
    receiver.next += SEG
    assert receiver.acknowledge(now)
    receiver.next += SEG
    assert receiver.acknowledge(now)


def test_an_ack_said_before_passes(formosa):
    """Keep-alives and zero-window probes ask for it, also if it did not pass before."""
    receiver, now = quiet(formosa)
    assert not receiver.acknowledge(now + 1)
    assert receiver.acknowledge(now + 2)
    assert receiver.acknowledge(now + 3)
    assert not receiver.acknowledge(now + 4, rcv_wnd=2**20 - 1)


@pytest.mark.parametrize("timestamps", [b"", b"\x01\x01\x08\x0a" + bytes(8)])
@pytest.mark.parametrize("version", [4, 6])
def test_a_report_of_a_duplicate_passes(formosa, version, timestamps):
    """A SACK block below the ACK."""
    send = Stream(formosa, {"nack_dup": 1})
    send(0, 1, 2, 4, 5, 6)
    ack = send.receiver.next

    def passes_with(left, right, kind=5):
        sack = b"\x01\x01" + bytes([kind, 10]) + left.to_bytes(4, "big") + right.to_bytes(4, "big")
        return passes(formosa, ack, options=timestamps + sack, version=version)

    assert not passes_with(ack + SEG, ack + 4 * SEG)
    assert not passes_with(ack, ack + SEG)
    assert passes_with(1, SEG)
    assert not passes_with(1, SEG, kind=254)
    assert not passes_with(ack + SEG, ack + 4 * SEG)


@pytest.mark.parametrize(
    "window, grows, passes",
    [(1000, 1, True), (1000, 0, False), (5 * SEG, 1, False), (4 * SEG - 1, 1, True), (4 * SEG, 1, False)],
)
def test_a_window_that_reopens_is_told(formosa, window, grows, passes):
    """If the one that the sender knows has less than two packets of room."""
    receiver, now = quiet(formosa, rcv_wnd=window)  # told with the first packet: at 1 + SEG + window
    edge = 1 + SEG + window
    assert bool(receiver.acknowledge(now, rcv_wnd=edge - receiver.next + grows)) == passes


@pytest.mark.parametrize("srtt, limit", [(40 * MS, 500 * MS), (240 * MS, 500 * MS), (800 * MS, 1600 * MS)])
def test_silence_has_an_end(formosa, srtt, limit):
    receiver = Receiver(formosa, every=10**6)
    assert receiver.take(0, 1, data(1, A, srtt))
    receiver.take(1, 1 + SEG, data(1, 0, srtt))
    assert not receiver.acknowledge(limit)
    assert receiver.acknowledge(limit + 1)
    receiver.take(limit + 2, 1 + 2 * SEG, data(1, 0, srtt))
    assert not receiver.acknowledge(limit + 3)


def passes(driver, *args, **keys):
    owned = keys.pop("owned", 1)
    return driver.egress(packet=ip_packet(*args, **keys), owned=owned)["pass"]


@pytest.mark.parametrize("version", [4, 6])
def test_only_pure_acks_are_dropped(formosa, version):
    receiver, _ = quiet(formosa)
    before = formosa.state()
    for flags in (FIN | ACK, SYN | ACK, RST, RST | ACK):
        assert passes(formosa, receiver.next, flags=flags, version=version)
    for payload in (b"x", bytes(100)):
        assert passes(formosa, receiver.next, payload=payload, version=version)
    assert passes(formosa, receiver.next, owned=0, version=version)
    assert formosa.state() == before
    for i, (flags, options) in enumerate(((ACK, b""), (ACK | PSH, b""), (ACK, bytes(40)), (ACK, bytes(12)))):
        formosa.poke(rcv_wnd=2**20 - SEG - i)  # else it was said before
        assert not passes(formosa, receiver.next, flags=flags, options=options, version=version)
    assert passes(formosa, receiver.next, flags=ACK | ECE, version=version)


@pytest.mark.parametrize("version", [4, 6])
def test_cut_packets_pass(formosa, version):
    receiver, _ = quiet(formosa)
    whole = ip_packet(receiver.next, version=version)
    for length in range(len(whole)):
        assert formosa.egress(packet=whole[:length])["pass"]
    for at, value in ((0, 0x75), (9 if version == 4 else 6, 17)):
        assert formosa.egress(packet=whole[:at] + bytes([value]) + whole[at + 1 :])["pass"]
    assert not formosa.egress(packet=whole)["pass"]


def test_nothing_is_dropped_before_the_kernel_answers_flagged_packets(formosa):
    """in_ack_event shows that this controller runs; without it nobody forces ACKs."""
    formosa.start(syn=HELLO, rcv_nxt=1)
    for i in range(5):
        formosa.read(now=i, options=data(1), len=SEG, seq=1 + i * SEG, rcv_nxt=1 + i * SEG)
        assert passes(formosa, 1 + i * SEG)
    formosa.ack(n=0)
    assert passes(formosa, 1 + 4 * SEG)  # due
    formosa.read(now=5, options=data(1), len=SEG, seq=1 + 5 * SEG, rcv_nxt=1 + 5 * SEG)
    formosa.ack(n=0)
    assert not passes(formosa, 1 + 6 * SEG - 1)


def test_data_without_an_option_behind_a_gap_is_acknowledged(formosa):
    """A repair whose option found no room moves the ACK, below the end of what came with one."""
    receiver, _ = quiet(formosa)
    first = receiver.next
    for i in (2, 3):
        receiver.take(SECOND, first + i * SEG, data(1))
    assert not passes(formosa, first)
    assert passes(formosa, first + SEG)


def test_a_keepalive_passes(formosa):
    """It looks like a pure ACK, of a byte that was acknowledged long ago."""
    receiver, _ = quiet(formosa)
    una = formosa.state()["tp"]["snd_una"]
    assert not formosa.egress(packet=ip_packet(receiver.next, seq=una))["pass"]
    assert formosa.egress(packet=ip_packet(receiver.next, seq=una - 1))["pass"]


def test_another_controller_forces_and_drops_no_acks(formosa):
    receiver, _ = quiet(formosa)
    assert not passes(formosa, receiver.next) and room(formosa) == 20
    formosa.release()
    assert passes(formosa, receiver.next - 1) and room(formosa) == 8


def test_nothing_is_dropped_of_an_ordinary_connection(formosa):
    for keys in ({"syn": HELLO}, {"syn": b""}, {}, {"syn": HELLO, "fails": 1}):
        formosa.start(**keys)
        formosa.ack(n=0)
        assert all(passes(formosa, ack) for ack in (1, 1, 961, 500))
        assert formosa.state()["tp"]["pending"] == 0
        assert formosa.state()["counters"]["acks_sent"] == 0


def test_packets_come_in_any_order(pair):
    """Losses, copies, late packets, lost ACKs: all is heard of in the end, with fewer ACKs than half the packets."""
    sender, other = pair
    for lost, acks, copies, late in (
        ((), (), (), ()), ((30,), (), (), ()), ((1, 2, 40), (), (), ()), ((), (3, 6), (), ()), ((), (), (9, 41), ()),
        ((), (), (), (25, 60)), ((20, 33, 34), (9, 14), (50,), (70,)),
    ):  # fmt: skip
        receiver = Receiver(other, every=2)
        sent, came = transfer(sender, receiver, SECOND, lost=lost, lost_acks=acks, copies=copies, late=late)
        assert receiver.next > 100 * SEG and not receiver.blocks
        assert len(came) < len(sent) / 2
        assert max(ack for _, ack in came) > 90 * SEG
        assert sender.state()["counters"]["fallbacks"] == 0


# --- a peer that lies -------------------------------------------------------------------------


BAD = [
    bytes.fromhex("fd04f0a2"),
    bytes.fromhex("fd07f0a2000000"),
    bytes.fromhex("fd09f0a20f05000000"),
    bytes.fromhex("fd0cf0a20f05000000000000"),
]


@pytest.mark.parametrize("raw", BAD)
def test_an_answer_of_a_wrong_length_is_nothing(formosa, raw):
    at_w(formosa, 64)
    before = formosa.state()
    formosa.read(options=raw)
    after = formosa.state()
    assert after["counters"].pop("options_bad") == before["counters"].pop("options_bad") + 1
    assert after == before


@pytest.mark.parametrize(
    "raw", [bytes.fromhex("fd04f0a1"), bytes.fromhex("fd0bf0a180050000000000"), data(5, A) + b"\x01"]
)
def test_a_data_option_of_a_wrong_length_is_nothing(formosa, raw):
    receiver, now = quiet(formosa)
    raw = raw if len(raw) < 12 else bytes([raw[0], 13]) + raw[2:]
    before = formosa.state()
    formosa.read(options=raw, len=SEG, seq=receiver.next)
    after = formosa.state()
    assert after["counters"].pop("options_bad") == before["counters"].pop("options_bad") + 1
    assert after == before


@pytest.mark.parametrize("raw", [
    b"\x00" + answer(1, 3), answer(1, 3)[:4], b"\xfd\x01" + answer(1, 3), b"\x13\x12" + answer(1, 3), b"\xfd", HELLO, b"\xfe" + answer(1, 3)[1:],
])  # fmt: skip
def test_options_that_cannot_be_read_are_nothing(formosa, raw):
    at_w(formosa, 64)
    before = formosa.state()
    formosa.read(options=raw, len=SEG)
    assert formosa.state() == before


@pytest.mark.parametrize("cut", range(9, 29))
def test_a_header_that_is_cut(formosa, cut):
    at_w(formosa, 64)
    before = formosa.state()
    formosa.read(options=answer(1, 3), cut=cut)
    assert formosa.state() == before


@pytest.mark.parametrize(
    "off, counts", [(-1, False), (0, True), (1, True), (127 * SEG, True), (127 * SEG + 1, False), (2**31, False)]
)
def test_an_old_ack_and_one_of_the_future_tell_nothing(formosa, off, counts):
    at_w(formosa, 64)
    tp = formosa.state()["tp"]
    assert tp["packets_out"] == 127
    formosa.read(options=answer(200, 3, queue_us=640), ack=tp["snd_una"] + off)
    wire = formosa.state()["wire"]
    assert (wire["signalled"], wire["heard"], wire["echo"], wire["queue_us"]) == (
        (1, 1, 200, 640) if counts else (0, 0, wire["echo"], wire["queue_us"])
    )
    assert counts or wire["echo"] != 200


UNACCEPTABLE = [
    {"ack": -1},
    {"ack": -(2**30)},
    {"ack": 1},
    {"ack": 2**31},
    {"ack": 2**31 - 1},
    {"flags": 0},
    {"flags": PSH},
]


@pytest.mark.parametrize("forged", UNACCEPTABLE)
def test_a_segment_that_is_not_accepted_does_nothing(formosa, forged):
    """Whoever is off the path may hit the window by its place, but not the ACK: no switch, no count, no ACK let through or held back."""

    def read_forged():
        before = formosa.state()
        keys = forged | (
            {"ack": (before["tp"]["snd_nxt" if forged["ack"] > 0 else "snd_una"] + forged["ack"]) % 2**32}
            if "ack" in forged
            else {}
        )
        for raw in (data(1, A), data(9, P | T), data(9) + answer(1, 3), b"\xfd\x06\xf0\xa1" + bytes(4)):
            for place in (0, SEG, -SEG, 40 * SEG):
                got = formosa.read(options=raw, len=SEG, seq=(before["tp"]["rcv_nxt"] + place) % 2**32, **keys)
                assert "controller" not in got and formosa.state() == before

    formosa.start(syn=HELLO, other=1)
    read_forged()
    quiet(formosa)
    read_forged()
    at_w(formosa, 64)
    read_forged()


def test_options_of_who_said_no_hello_are_nothing(formosa):
    formosa.start()
    formosa.poke(cb_flags=0x60)
    before = formosa.state()
    formosa.read(options=data(1, A), len=SEG)
    formosa.read(options=answer(1, 3))
    assert formosa.state() == before


def test_reordered_data_with_an_old_ack_stalls_nothing(formosa):
    """Both ends send, and data that another packet overtook has an ACK from before: it is acknowledged as if without an option."""
    receiver, now = quiet(formosa)
    gap, late = receiver.next + SEG, receiver.next
    assert receiver.take(now, gap, data(1)), "a gap is told"
    state = formosa.state()
    formosa.read(options=data(1), seq=late, len=SEG, ack=0)
    assert formosa.state() == state
    receiver.queue(late, SEG)
    assert receiver.acknowledge(now), "all is here"
    receiver.take(now, receiver.next, data(1))
    receiver.acknowledge(now)  # tells that the gap has closed
    assert not receiver.take(now, receiver.next, data(1)) and not receiver.acknowledge(now)
    receiver.next += SEG  # such data alone
    assert receiver.acknowledge(now)
    assert not receiver.take(now, receiver.next, data(1)) and not receiver.acknowledge(now)
    assert formosa.state()["wire"]["gaps"] == 0


def test_nothing_outside_the_storage_changes(formosa):
    at_w(formosa, 64)
    before = formosa.state()
    for i in range(256):
        formosa.read(options=answer(i, i % 16, i % 16 << 4, 64 * i) + data(i, i, i * 64, i << 24), len=i % 3)
    after = formosa.state()
    assert (after["tp"], after["ca"]) == (before["tp"], before["ca"])


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 15)), max_size=5), min_size=1, max_size=12),
    st.integers(2, 200),
)
@settings(max_examples=60)
def test_a_liar_moves_w_no_faster_than_an_honest_peer(formosa, rounds, w):
    """One cut of delta or one packet more a round."""
    at_w(formosa, w)
    last = w
    for lies in rounds:
        for number, signal in lies:
            formosa.read(options=answer(number, signal))
            formosa.ack(n=0)
        now = end_round(formosa)
        assert max(last - max(last // 8, 1), 2) <= now <= last + 1
        last = now


def test_echoes_behind_a_gap_bring_no_growth(formosa):
    """Each ends a round, of a packet only."""
    behind_a_gap(formosa)
    for _ in range(60):
        formosa.read(options=answer(formosa.state()["wire"]["round"]))
        formosa.ack(n=0, sack=1)
        assert formosa.state()["ca"]["w"] <= 65  # the first carried all of W


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


def test_a_clock_that_jumps_overflows_nothing(formosa, binary):
    """A peer of 10-ms ticks that are taken for true, then stamps as far from the last as they can be: half a million ACKs."""

    def lines(n):
        now = tsval = 0
        for i in range(n):
            now += 10 * MS
            tsval += 1 if i < 300 else 2**31 - 1
            yield line("ack", now=now, rcv_tsval=tsval % 2**32, rcv_tsecr=(i + 1 if i < 300 else -tsval) % 2**32)

    begin = [line("set", init_cwnd=2), line("new", now=0, saw_tstamp=1, snd_ssthresh=2, app=1)]
    done = subprocess.run([binary], input="\n".join([*begin, *lines(500_000)]) + "\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    formosa.batch(["reset", *begin, *lines(10**4)])
    wire = formosa.state()["wire"]
    assert wire["stamps.tick_us"] == 10_000 and wire["stamps.x_us"] == 1 << 40, "the bound that the code names"


# --- NACK and SACK ----------------------------------------------------------------------------


@given(
    st.lists(st.integers(1, 50), min_size=2, max_size=12), st.integers(0, 2**32 - 1), st.randoms(use_true_random=False)
)
def test_gaps_and_blocks_are_complements(lengths, ack, rnd):
    """k blocks, k gaps, in the same order; and back."""
    edges = [(ack + sum(lengths[:i])) % 2**32 for i in range(len(lengths) // 2 * 2 + 1)]
    gaps = list(zip(edges[::2], edges[1::2]))
    blocks = list(zip(edges[1::2], edges[2::2]))
    order = rnd.sample(range(len(blocks)), len(blocks))
    gaps, blocks = [gaps[i] for i in order], [blocks[i] for i in order]
    assert gaps_of(ack, blocks) == gaps
    assert blocks_of(gaps, edges[len(blocks) * 2]) == (ack, blocks)
    assert gaps_of(ack, []) == [] and blocks_of([], ack) == (ack, [])


@given(st.sets(st.integers(0, 30), max_size=25), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_an_ack_of_the_receiver_names_what_is_missing(formosa, arrived, rnd):
    receiver = Receiver(formosa, every=10**6)
    order = rnd.sample(sorted(arrived), len(arrived))
    for i, packet in enumerate(order):
        receiver.take(i, 1 + packet * SEG, data(1, T))
        here = {1 + p * SEG for p in order[: i + 1]}
        missing = {seq for seq in range(1, max(here), SEG)} - here
        named = {seq for a, b in gaps_of(receiver.next, receiver.blocks) for seq in range(a, b, SEG)}
        assert named == missing
        assert blocks_of(gaps_of(receiver.next, receiver.blocks), max(here) + SEG) == (receiver.next, receiver.blocks)
