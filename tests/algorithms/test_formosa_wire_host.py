# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Formosa's options on the host: what a sender writes, who speaks it, and a peer that lies."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.algorithms.host.formosa import (
    ACK,
    CALL,
    COOKIE,
    HELLO,
    PARSE,
    SEG,
    SYN,
    WRITE,
    A,
    F,
    P,
    T,
    answer,
    at_w,
    behind_a_gap,
    data,
    end_round,
    fields_of_answer,
    fields_of_data,
    quiet,
    room,
)  # fmt: skip
from tests.algorithms.host.streams import MS

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
    """Packets in flight have no flag: without a new one no ACK would come."""
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
    """In the SYN of a connection that sends by this controller, but not in one sent a third time; in the answer to
    one, but not of a SYN cookie."""
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


@pytest.mark.parametrize("syns", [1, 2, 6, 255])
def test_so_many_syns_say_hello(formosa, syns):
    formosa.start({"hello_syns": syns})
    formosa.call(op=CALL["connect"])
    formosa.call(op=CALL["syn"])
    for sent in (0, syns - 1, syns, 255):
        formosa.poke(icsk_retransmits=sent)
        assert formosa.write(flags=SYN)["options"] == (HELLO.hex() if sent < syns else "")


@pytest.mark.parametrize("hello, other, chosen, says", [
    (0, 0, 0, True), (0, 0, 1, True), (0, 1, 0, False), (0, 1, 1, False),
    (1, 0, 1, True), (1, 1, 0, True), (1, 1, 1, False),
])  # fmt: skip
def test_who_says_hello(formosa, hello, other, chosen, says):
    """Loading changes no connection: others do when they are asked to, unless somebody chose their controller. Not
    asked, they hear none."""
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
    (HELLO, 1), (b"\x01\x01" + HELLO, 1), (b"", 0), (b"\x00" + HELLO, 0), (HELLO[:3], 0),
    (bytes.fromhex("fd05f0a000"), 0), (bytes.fromhex("fd04f0a1"), 0),
    (bytes.fromhex("fe04f0a0"), 0), (bytes.fromhex("fd00f0a0"), 0),
])  # fmt: skip
def test_established(formosa, side, raw, speaks):
    """Nobody looks at what comes from a peer that says no hello; flags of other programs stay."""
    formosa.start(cb_flags=1, **{side: raw})
    state = formosa.state()
    assert state["wire"]["peer"] == state["counters"]["peers"] == speaks
    assert state["tp"]["cb_flags"] == 1 | WRITE | PARSE * speaks
    assert state["wire"]["sender"] == 1
    assert room(formosa) == 12 * speaks


def test_a_receiver_changes_to_this_controller(formosa):
    formosa.start(syn=HELLO, other=1, rcv_nxt=1)
    got = formosa.read(options=data(1), len=SEG, seq=1)
    assert got["controller"].startswith("formosa")
    assert formosa.state()["wire"]["sender"] == 1
    assert "controller" not in formosa.read(options=data(2), len=SEG, seq=1)
    formosa.start(syn=HELLO)
    assert "controller" not in formosa.read(options=data(1), len=SEG)


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
    b"\x00" + answer(1, 3), answer(1, 3)[:4], b"\xfd\x01" + answer(1, 3), b"\x13\x12" + answer(1, 3),
    b"\xfd", HELLO, b"\xfe" + answer(1, 3)[1:],
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


def test_options_of_who_said_no_hello_are_nothing(formosa):
    formosa.start()
    formosa.poke(cb_flags=0x60)
    before = formosa.state()
    formosa.read(options=data(1, A), len=SEG)
    formosa.read(options=answer(1, 3))
    assert formosa.state() == before


def test_reordered_data_with_an_old_ack_stalls_nothing(formosa):
    """Both ends send, and data that another packet overtook has an ACK from before: it is acknowledged as if without
    an option."""
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
        assert max(last * 7 // 8, 2) <= now <= last + 1
        last = now


def test_echoes_behind_a_gap_bring_no_growth(formosa):
    """Each ends a round, of a packet only."""
    behind_a_gap(formosa)
    for _ in range(60):
        formosa.read(options=answer(formosa.state()["wire"]["round"]))
        formosa.ack(n=0, sack=1)
        assert formosa.state()["ca"]["w"] <= 65  # the first carried all of W
