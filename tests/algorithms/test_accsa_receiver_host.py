# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ACC+SA's receiver on the host: what is answered, what is dropped."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.algorithms.host.accsa import RECEIVER, Stream, T, data, quiet
from tests.algorithms.host.formosa import ACK, FIN, SEG, Receiver, passes
from tests.algorithms.host.streams import MS

# --- the receiver -----------------------------------------------------------------------------


@pytest.fixture
def stream(accsa):
    return lambda *args, **keys: Stream(accsa, *args, **keys)


@pytest.mark.parametrize("every", [1, 2, 10**6])
@pytest.mark.parametrize("dk", [1, 2, 3, 16])
def test_one_ack_for_dk_packets(stream, every, dk):
    """However often the kernel would send one."""
    send = stream(every=every, dk=dk)
    assert send(6 * dk) == [dk * i for i in range(1, 7)]
    counters = send.driver.state()["counters"]
    assert counters["acks_sent"] == 7 and counters["dk_sum"] == 1 + 6 * dk


def test_packets_in_one_segment_count_each(stream):
    send = stream(every=10**6, dk=16)
    accsa = send.driver
    for length, waiting in ((SEG, 1), (SEG + 1, 3), (12 * SEG, 15)):
        accsa.read(now=send.now, rcv_nxt=send.receiver.next, seq=send.receiver.next, len=length, options=data(1))
        send.receiver.next += length
        assert (accsa.state()["wire"]["waiting"], accsa.state()["wire"]["due"]) == (waiting, 0)
    accsa.read(now=send.now, rcv_nxt=send.receiver.next, seq=send.receiver.next, len=1, options=data(1))
    assert accsa.state()["wire"]["due"]


def test_a_mark_doubles_dk_once_a_round_trip(stream):
    send = stream({"dk_max": 1024})
    send()
    assert [send.round_trip(marks=n) for n in (1, 1, 3, 1)] == [2, 4, 8, 16]
    send.marks += 1  # of an ACK from before the last doubling
    send.una -= SEG
    send()
    assert send.dk == 16
    send.una += 2 * SEG
    send()
    assert send.dk == 16, "and it is not told of again"
    send.marks += 1
    send()
    assert send.dk == 32, "amid a round trip"


def test_a_round_trip_without_a_mark_takes_one(stream):
    """Not that after a doubling: its marks are of ACKs from before."""
    send = stream()
    send()
    for _ in range(3):
        send.round_trip(1)
    assert [send.round_trip() for _ in range(10)] == [8, 7, 6, 5, 4, 3, 2, 1, 1, 1]
    send.round_trip(1)
    send.una = 1
    send(20)
    assert send.dk == 2, "no round trip, no change"


def test_dk_has_a_bound(stream):
    send = stream({"dk_max": 5})
    send()
    assert [send.round_trip(1) for _ in range(4)] == [2, 4, 5, 5]
    send = stream()
    send()
    assert max(send.round_trip(1) for _ in range(14)) == 25, "that of ns-2's scripts"


@pytest.mark.parametrize("seen, told, ahead", [(255, 0, True), (0, 127, True), (0, 128, False), (1, 0, False)])
def test_numbers_of_marks_wrap(accsa, seen, told, ahead):
    """A packet that another overtook tells nothing new."""
    send = Stream(accsa)
    send.marks = seen
    send()
    send.marks, send.una = told, send.receiver.next
    send()
    assert send.dk == 1 + ahead and accsa.state()["wire"]["marks_seen"] == (told if ahead else seen)


@given(
    first=st.sampled_from([1, 2**31 - 3000, 2**32 - 5000]),
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 12), st.sampled_from([1, 2, 8, 100])), min_size=1, max_size=40
    ),
)
@settings(max_examples=60, deadline=None)
def test_dk_follows_its_law(accsa, first, steps):
    """Against (1) to (3) written down anew, with marks, steps of the sender's snd_una and windows as they come."""
    receiver = Receiver(accsa, None, 10**6, first, **RECEIVER)
    dk, waiting, seen, marks, settled = 1, 0, 0, 0, True
    began = una = 0  # in packets, as what follows
    for packet, (new, forward, cwnd) in enumerate(steps):
        marks, una = marks + new, min(una + forward, packet)
        acks = receiver.take(packet * MS, (first + packet * SEG) % 2**32, data(first + una * SEG, marks, cwnd))
        receiver.next %= 2**32
        if not packet:
            seen = marks
        if marks > seen and (settled or una > began):
            dk, began, settled = min(2 * dk, 25), packet, False
        elif una > began:
            dk, began, settled = max(dk - settled, 1), packet, True
        seen = marks
        waiting += 1
        due = waiting >= min(dk, max(cwnd // 2, 1)) or not packet
        assert accsa.state()["wire"]["dk"] == dk
        assert len(acks) == due
        waiting = 0 if due else waiting


@pytest.mark.parametrize("every", [1, 10**6])
def test_out_of_order_is_answered_at_once(stream, every):
    send = stream(every=every, dk=16)
    assert send(3) == []
    assert send(4, at=6) == [6, 7, 8, 9], "behind a gap"
    assert send(at=4) == [4] and send(at=5) == [5], "what fills it"
    assert send(16) == [25]
    assert send(at=3) == [3], "what is here already"
    assert send(16) == [41]


@pytest.mark.parametrize("seq, length", [(1 + 5 * SEG, SEG), (1, SEG), (1 + 2 * SEG, 5 * SEG)])
def test_gaps_and_duplicates_are_hastened(accsa, seq, length):
    """The kernel would put off their ACKs a while, as it does with SACKs. Two packets came in order, one behind a gap
    of two."""
    send = Stream(accsa, every=10**6, dk=16)
    send(1)
    send(1, at=4)
    accsa.read(now=send.now, rcv_nxt=send.receiver.next, seq=seq, len=length, options=data(1))
    accsa.ack(n=0)
    assert accsa.state()["tp"]["pending"] & 16


@pytest.mark.parametrize("keys", [{"flags": T}, {"gap": 101 * MS}])
def test_the_last_packets_and_late_ones_wait_for_nothing(stream, keys):
    send = stream(every=10**6, dk=16)
    assert send(3) == []
    assert send(1, **keys) == [4]
    assert send(15) == [] and send() == [20]


def test_a_fin_waits_for_nothing(accsa):
    send = Stream(accsa, every=10**6, dk=16)
    assert send(3) == []
    accsa.read(
        now=send.now, rcv_nxt=send.receiver.next, seq=send.receiver.next, len=SEG, flags=FIN | ACK, options=data(1)
    )
    assert accsa.state()["wire"]["due"]


def test_a_gap_that_data_without_an_option_closes_is_told(accsa):
    send = Stream(accsa, every=10**6, dk=16)
    send(2)
    assert send(2, at=4) == [4, 5]
    assert passes(accsa, 1 + 6 * SEG)


def test_an_ack_of_the_kernels_timer_passes(accsa):
    receiver, now = quiet(accsa)
    assert not receiver.acknowledge(now)
    receiver, now = quiet(accsa)
    assert receiver.acknowledge(now + 101 * MS)


@pytest.mark.parametrize("length, exid, bad", [(8, 0xA4, 1), (16, 0xA4, 1), (8, 0xA2, 0), (12, 0xA4, 0)])
def test_options_of_a_wrong_length_are_counted(accsa, length, exid, bad):
    accsa.start(**RECEIVER)
    options = bytes([0xFD, length, 0xF0, exid]) + bytes(length - 4)
    accsa.read(options=options, len=SEG)
    assert accsa.state()["counters"]["options_bad"] == bad
    for cut in range(len(options) + 20):
        accsa.read(options=options, len=SEG, cut=cut)
