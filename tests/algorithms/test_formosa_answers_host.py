# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How many answers a round of Formosa asks for: one, or more where ACKs are lost."""

import pytest

from tests.algorithms.host.formosa import (
    OPEN,
    SEG,
    A,
    F,
    P,
    Receiver,
    T,
    answer,
    at_w,
    end_round,
    fields_of_data,
    transfer,
)
from tests.algorithms.host.streams import MS


def lose_an_answer(sender, beyond=1):
    """The next ACK covers the flagged packet of the round, and so many more: the first answer is lost."""
    state = sender.state()
    tp, n = state["tp"], (state["ca"]["round_end"] - state["tp"]["snd_una"]) // SEG + 1 + beyond
    sender.read(options=answer(state["wire"]["round"], 0, F), ack=tp["snd_una"] + n * SEG, now=tp["now"] + 40 * MS)
    sender.ack(n=n, rtt=40 * MS)
    return asked(sender)


def asked(sender):
    return sender.state()["wire"]["answers"]


def flags_of_round(sender, count, packets=1):
    """Flags of the next round's segments, each of so many packets; W is the first sent's."""
    tp, flags = sender.state()["tp"], []
    sender.poke(wire__segs=tp["data_segs_out"], write_seq=tp["snd_nxt"] + 10**6)
    for i in range(0, count, packets):
        sender.poke(data_segs_out=tp["data_segs_out"] + i)
        written = sender.write(seq=tp["snd_nxt"] + i * SEG, len=packets * SEG)
        flags.append(fields_of_data(bytes.fromhex(written["options"]))[0])
    return flags


def test_a_round_asks_once_while_its_answers_come(formosa):
    at_w(formosa, 64)
    for _ in range(100):
        end_round(formosa)
    assert asked(formosa) == 1
    w = formosa.state()["wire"]["budget"]
    assert flags_of_round(formosa, w + 1) == [A, *[0] * (w - 1), P]


@pytest.mark.parametrize("params, most", [(None, 8), ({"answers_max": 1}, 1), ({"answers_max": 3}, 3)])
def test_each_lost_answer_doubles_what_is_asked_for(formosa, params, most):
    at_w(formosa, 64, params)
    assert [lose_an_answer(formosa) for _ in range(5)] == [min(n, most) for n in (2, 4, 8, 8, 8)]


def test_answers_are_spread_over_the_round(formosa):
    at_w(formosa, 64)
    for m in (2, 4, 8):
        formosa.poke(wire__answers=m, wire__budget=64)
        flags = flags_of_round(formosa, 64)
        assert [i for i, flag in enumerate(flags) if flag] == [*range(0, 64, 64 // m)]
        assert flags[0] == A and {flag for flag in flags[1:] if flag} == {T}
    formosa.poke(wire__budget=30)  # no multiple: 8 answers as well
    assert [i for i, flag in enumerate(flags_of_round(formosa, 30)) if flag] == [0, 4, 8, 12, 15, 19, 23, 27]
    formosa.poke(wire__budget=5)  # fewer packets than answers
    assert flags_of_round(formosa, 5) == [A, T, T, T, T]
    formosa.poke(wire__budget=0)
    assert flags_of_round(formosa, 2) == [A | P, T | P]


def test_segments_that_the_device_cuts_ask_too(formosa):
    """The packet whose turn it is may be within one."""
    at_w(formosa, 64)
    formosa.poke(wire__answers=4, wire__budget=64)
    flags = flags_of_round(formosa, 60, packets=5)
    assert [5 * i for i, flag in enumerate(flags) if flag] == [0, 15, 30, 45]


def test_answers_that_come_make_them_fewer(formosa):
    at_w(formosa, 64)
    formosa.poke(wire__answers=8)
    seen = []
    for _ in range(100):
        end_round(formosa)
        seen.append(asked(formosa))
    assert seen == [8] * 30 + [4] * 32 + [2] * 32 + [1] * 6


@pytest.mark.parametrize("is_new", [0, 1])
def test_a_repair_tells_nothing_of_answers(formosa, is_new):
    """Its ACK covers what waited behind the gap."""
    at_w(formosa, 64)
    formosa.loss(n=1, sack=3)
    assert formosa.state()["wire"]["flag_is_new"] == 0
    formosa.poke(wire__flag_is_new=is_new)
    rounds = formosa.state()["counters"]["rounds"]
    formosa.ack(n=formosa.state()["tp"]["packets_out"], now=formosa.state()["tp"]["now"] + 40 * MS)
    assert formosa.state()["tp"]["state"] == OPEN and formosa.state()["counters"]["rounds"] == rounds + 1
    assert asked(formosa) == 1 + is_new


@pytest.mark.parametrize("queue_us, more", [(0, False), (14 * MS, False), (16 * MS, True)])
def test_where_acks_queue_no_more_are_asked_for(formosa, queue_us, more):
    """The RTT is 25 ms above its smallest, a quarter of which is nothing; our own packets' queue is not the ACKs'."""
    at_w(formosa, 64)
    assert lose_an_answer(formosa) == 2
    formosa.poke(ca__rtt_min=40 * MS, ca__srtt_us=65 * MS)
    state = formosa.state()
    formosa.read(options=answer(state["wire"]["round"], 0, F, queue_us), ack=state["tp"]["snd_una"])
    n = (state["ca"]["round_end"] - state["tp"]["snd_una"]) // SEG + 2
    formosa.ack(n=n)
    assert asked(formosa) == (4 if more else 1)
    assert formosa.state()["wire"]["acks_queue"] != more


def test_where_acks_queue_nothing_is_answered_twice(formosa):
    """A full queue loses one of two ACKs, or another flow's."""
    at_w(formosa, 20)
    for queues, twice in ((0, P), (1, T)):
        formosa.poke(wire__acks_queue=queues, wire__budget=2)
        assert flags_of_round(formosa, 4) == [A, 0, twice, twice]
    for queues, twice in ((0, P), (1, T)):
        at_w(formosa, 20)
        formosa.poke(wire__acks_queue=queues)
        segments = formosa.loss(n=1, sack=3)["segments"]
        assert fields_of_data(bytes.fromhex(segments[0][2]))[0] == A | twice


def test_a_transfer_that_loses_answers_goes_on(pair):
    """Half of the ACKs are lost. A sender that asks once a round waits for the probe each time. The first second is
    slow start, which ends by chance."""
    sender, other = pair
    lost = {n for n in range(6, 10**4) if n * 2654435761 % 2**32 < 2**31}
    sent = {}
    for most in (1, 8):
        receiver = Receiver(other, every=2)
        sent[most] = len(transfer(sender, receiver, 4000 * MS, lost_acks=lost, params={"answers_max": most})[0])
    assert sent[8] > 1.5 * sent[1]
