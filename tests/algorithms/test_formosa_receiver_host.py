# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Formosa's receiver on the host: the estimator of forward delay, what is answered, what is dropped, NACKs."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.host.driver import line
from tests.algorithms.host.formosa import (
    HELLO,
    SECOND,
    SEG,
    A,
    P,
    Receiver,
    Stream,
    T,
    data,
    fields_of_answer,
    passes,
    quiet,
    signed,
)  # fmt: skip
from tests.algorithms.host.streams import MS

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


spreads = st.integers(0, 200 * MS)


@st.composite
def deliveries(draw, spread=spreads):
    """Rounds of a few packets, 0 to 900 ms apart or more than a second."""
    now, samples = 0, []
    for number in range(1, draw(st.integers(2, 6))):
        for _ in range(draw(st.integers(1, 8))):
            now += draw(st.integers(0, 900 * MS) | st.integers(0, MS) | st.sampled_from([10**6, 10**6 + 1]))
            samples.append((now, draw(spread), number))
    return samples


@given(
    samples=deliveries(), eta=st.sampled_from([1, 128, 255]) | st.integers(1, 255), norm=st.integers(0, 1),
    mode=st.integers(0, 2), cathresh=st.sampled_from([1, 2, 5, 1024]),
    srtt=st.sampled_from([64, 6400, 40 * MS, 4 * SECOND]) | st.integers(64, 4 * SECOND),
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


def test_literal_sum_without_norm(formosa):
    """eta / (1 - eta) times the rise."""
    samples = [(0, 0, 1), (1, 0, 2), *[(2 + i, 10 * MS, 2) for i in range(63)], (90, 10 * MS, 3)]
    full, literal = (
        measure(formosa, samples, {"eta_q8": 192, "ftt_norm": norm, "cathresh": 1024})[-1]["in.q_q8"] for norm in (1, 0)
    )
    assert full == pytest.approx(64 * 10 / 40 * 256, abs=2)
    assert literal == pytest.approx(3 * full, abs=8)


@pytest.mark.parametrize("begin", [2**32 - 10 * MS, 2**40])
@pytest.mark.parametrize("offset", [0, 12345, 2**32 - 5])
def test_clocks_may_differ_and_wrap(formosa, offset, begin):
    samples = [(i * MS, i % 7 * 10 * MS, i // 9) for i in range(1, 60)]
    plain, other = (measure(formosa, samples, None, 40 * MS, *clock) for clock in ((0, 0), (offset, begin)))
    keys = ("in.sftt_q16", "in.var_q16", "in.q_q8", "signal", "in.packets")
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


def test_a_clock_that_jumps_begins_anew_and_packets_have_a_bound(formosa):
    formosa.start(syn=HELLO, rcv_mss=1)
    for i, (stamp, packets) in enumerate([(0, 0), (9, 65_000), (9, 130_000), (9, 130_000), (2**31, 65_000)]):
        seq = 1 + i * 65_000
        formosa.read(now=SECOND, options=data(1, stamp=stamp), len=65_000, seq=seq, rcv_nxt=seq)
        wire = formosa.state()["wire"]
        assert (wire["d0"], wire["in.packets"]) == ((SECOND - stamp * (i == 4)) % 2**32, packets)


def test_queue_is_the_delay_above_the_smallest(formosa):
    """Ten to twenty seconds are looked back at: clocks drift."""

    def queue(samples):
        measure(formosa, samples)
        return fields_of_answer(bytes.fromhex(formosa.write()["options"]))[2] * 64

    low = [(i * 100 * MS, 3 * MS, 1) for i in range(20)]
    assert queue(low) == 0
    high = [(2 * SECOND + i * 100 * MS, 13 * MS, 1) for i in range(250)]
    assert queue(low + high[:80]) == pytest.approx(10 * MS, abs=64)
    assert queue(low + high) == 0


# --- the receiver: what is answered -----------------------------------------------------------


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
    assert send(62, number=3, flags=A) == send(63, number=132) == []  # numbers of the past
    assert send(64, number=4 + 127) == [64]


def test_marked_packets_are_answered(stream):
    """A probe twice: an ACK before it, one with it."""
    send = stream(every=10**6)
    assert send(0, 1, 2) == [0]
    assert send(3, 4, flags=T) == [3, 4]
    assert send(5, 6) == []
    assert send(7, 8, flags=P) == [7, 7, 8, 8]
    assert send(9, flags=P | T) == [9, 9]
    assert send(10, number=2, flags=P | A) == [10, 10]
    assert send(11, number=2) == []


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


@pytest.mark.parametrize("srtt, limit", [(40 * MS, 500 * MS), (240 * MS, 500 * MS), (800 * MS, 1600 * MS)])
def test_silence_has_an_end(formosa, srtt, limit):
    receiver = Receiver(formosa, every=10**6)
    assert receiver.take(0, 1, data(1, A, srtt))
    receiver.take(1, 1 + SEG, data(1, 0, srtt))
    assert not receiver.acknowledge(limit)
    assert receiver.acknowledge(limit + 1)
    receiver.take(limit + 2, 1 + 2 * SEG, data(1, 0, srtt))
    assert not receiver.acknowledge(limit + 3)


def test_data_without_an_option_behind_a_gap_is_acknowledged(formosa):
    """A repair whose option found no room moves the ACK, below the end of what came with one."""
    receiver, _ = quiet(formosa)
    first = receiver.next
    for i in (2, 3):
        receiver.take(SECOND, first + i * SEG, data(1))
    assert not passes(formosa, first)
    assert passes(formosa, first + SEG)
