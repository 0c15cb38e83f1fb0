# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Formosa's options on the host: what a sender writes, who speaks it, and a peer that lies."""

import pytest

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
    data,
    fields_of_answer,
    fields_of_data,
    quiet,
    room,
)  # fmt: skip

# --- what a sender writes ---------------------------------------------------------------------


def written(formosa, **keys):
    """flags, round, srtt, stamp of the data option of a segment that leaves"""
    return fields_of_data(bytes.fromhex(formosa.write(len=SEG, **keys)["options"]))


@pytest.mark.parametrize("srtt_us, field", [(6400, 100), (63, 0), (4194239, 65534), (10**9, 65535)])
def test_data_option(formosa, srtt_us, field):
    formosa.start(synack=HELLO, now=2**32 + 5)
    formosa.poke(wire__srtt_us=srtt_us, wire__round=255)
    assert written(formosa, now=2**32 + 7000)[1:] == (255, field, 7000)


def test_flags_of_a_round(formosa):
    """A: its first. P: beyond W. T: no full segment follows, for want of data or of the peer's window."""
    at_w(formosa, 5)
    tp = formosa.state()["tp"]
    begin, far = tp["snd_nxt"], tp["snd_nxt"] - tp["snd_una"] + 10**6
    formosa.poke(wire__segs=100)
    for sent, seq, window, waits, flags in (
        (0, 0, far, 10**6, A), (4, 4, far, 10**6, 0), (5, 5, far, 10**6, P), (1, 1, far, 2 * SEG, T),
        (1, 1, far, 3 * SEG - 1, T), (1, 1, far, 3 * SEG, 0), (1, 1, far - 10**6 + 3 * SEG - 1, 10**6, T),
        (1, 1, far - 10**6 + 3 * SEG, 10**6, 0),
    ):  # fmt: skip
        formosa.poke(data_segs_out=100 + sent, snd_wnd=window, write_seq=begin + waits)
        assert written(formosa, seq=begin + seq * SEG)[0] == flags


def test_a_repair_that_begins_a_round_is_a_probe(formosa):
    for command in ("loss", "rto"):
        at_w(formosa, 20)
        got = formosa.do(command, now=10**6)
        flags = [fields_of_data(bytes.fromhex(options))[0] for _, _, options in got["segments"]]
        assert flags[0] == A | P and not any(flags[1:])


def test_options_are_reserved_before_there_is_a_segment(formosa):
    """Else the stack's MSS is too large. An answer for which there is no room is left out."""
    formosa.start(synack=HELLO)
    assert (room(formosa), formosa.write(len=SEG)["reserved"], formosa.write(len=0)["reserved"]) == (12, 12, 0)
    formosa.read(options=data(7), len=SEG)
    assert (room(formosa), formosa.write(len=SEG)["reserved"], formosa.write(len=0, room=8)["reserved"]) == (20, 20, 8)
    assert formosa.write(len=0, room=4)["reserved"] == 0
    formosa.poke(wire__signal=0x2A)
    both = bytes.fromhex(formosa.write(len=SEG)["options"])
    assert fields_of_data(both[:12]) and fields_of_answer(both[12:]) == (F | 0xA, 7, 0)
    formosa.poke(wire__due=0)
    assert fields_of_answer(bytes.fromhex(formosa.write()["options"]))[0] == 0xA


# --- who speaks it ----------------------------------------------------------------------------


@pytest.mark.parametrize("params, syns", [(None, 2), ({"hello_syns": 1}, 1), ({"hello_syns": 255}, 255)])
def test_hello_in_a_syn(formosa, params, syns):
    """A connection that sends by this controller says it, but not in a SYN that is sent again and again."""
    formosa.start(params)
    assert formosa.write(flags=SYN)["options"] == ""  # nobody asked for callbacks
    formosa.call(op=CALL["connect"])
    formosa.call(op=CALL["syn"], full=0)  # of one that has come
    assert formosa.state()["tp"]["cb_flags"] == 0
    formosa.call(op=CALL["syn"])
    assert formosa.state()["tp"]["cb_flags"] == WRITE
    for sent in (0, syns - 1, syns, 255):
        formosa.poke(icsk_retransmits=sent)
        assert formosa.write(flags=SYN)["options"] == (HELLO.hex() if sent < syns else "")


@pytest.mark.parametrize("keys, greets", [
    ({"syn": HELLO}, True), ({"syn": bytes.fromhex("02040218") + b"\x01" + HELLO}, True), ({"syn": b""}, False),
    ({}, False), ({"syn": HELLO, "mode": COOKIE}, False), ({"syn": bytes.fromhex("fd06f0a00000")}, False),
    ({"syn": HELLO[:2]}, False), ({"syn": b"\x00" + HELLO}, False), ({"syn": HELLO, "room": 0}, False),
])  # fmt: skip
def test_hello_in_the_answer_to_one(formosa, keys, greets):
    """Not in that of a SYN cookie."""
    formosa.start()
    formosa.poke(cb_flags=WRITE)
    assert formosa.write(flags=SYN | ACK, full=0, **keys)["options"] == (HELLO.hex() if greets else "")


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


@pytest.mark.parametrize("raw, bad", [
    *((bytes([0xFD, length, 0xF0, 0xA2]) + bytes(length - 4), 1) for length in (4, 7, 9, 12)),
    *((bytes([0xFD, length, 0xF0, 0xA1]) + bytes(length - 4), 1) for length in (4, 11, 13)),
    *((before + answer(1, 3), 0) for before in (b"\x00", b"\xfd\x01", b"\x13\x12")), (answer(1, 3)[:4], 0),
    (b"\xfd", 0), (HELLO, 0), (b"\xfe" + answer(1, 3)[1:], 0),
])  # fmt: skip
@pytest.mark.parametrize("speaks", [True, False])
def test_options_that_are_wrong_or_of_who_said_no_hello_are_nothing(formosa, raw, bad, speaks):
    """So is a header that is cut."""
    at_w(formosa, 64)
    if not speaks:
        formosa.start()
        formosa.poke(cb_flags=WRITE | PARSE)
    before = formosa.state()
    before["counters"]["options_bad"] += bad * speaks
    formosa.read(options=raw, len=SEG)
    assert formosa.state() == before
    for cut in (9, 19, 20, 24, 27):
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
