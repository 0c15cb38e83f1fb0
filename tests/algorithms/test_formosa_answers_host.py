# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How many answers a round of Formosa asks for: one, or more where ACKs are lost."""

from tests.algorithms.host.formosa import SEG, A, F, P, T, answer, at_w, end_round, fields_of_data
from tests.algorithms.host.streams import MS


def flags_of_round(sender, count, packets=1):
    """Flags of the next round's segments, each of so many packets; W is the first sent's."""
    tp, flags = sender.state()["tp"], []
    sender.poke(wire__segs=tp["data_segs_out"], write_seq=tp["snd_nxt"] + 10**6)
    for i in range(0, count, packets):
        sender.poke(data_segs_out=tp["data_segs_out"] + i)
        written = sender.write(seq=tp["snd_nxt"] + i * SEG, len=packets * SEG)
        flags.append(fields_of_data(bytes.fromhex(written["options"]))[0])
    return flags


def test_a_lost_answer_doubles_what_is_asked_for(formosa):
    """The next ACK covers the flagged packet of the round, and one more."""
    at_w(formosa, 64)
    asked = []
    for _ in range(4):
        state = formosa.state()
        n = (state["ca"]["round_end"] - state["tp"]["snd_una"]) // SEG + 2
        formosa.read(options=answer(state["wire"]["round"], 0, F), now=state["tp"]["now"] + 40 * MS)
        formosa.ack(n=n, rtt=40 * MS)
        asked.append(formosa.state()["wire"]["answers"])
    assert asked == [2, 4, 8, 8]


def test_where_an_uploads_data_makes_acks_late_a_round_has_all_its_answers(formosa):
    for fits, answers in ((0, 1), (1, 8)):
        at_w(formosa, 64, {"fit_rtt": fits})
        formosa.poke(ca__srtt_us=400 * MS, wire__answers=2)
        end_round(formosa, rtt=400 * MS)
        assert formosa.state()["wire"]["answers"] == answers


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
