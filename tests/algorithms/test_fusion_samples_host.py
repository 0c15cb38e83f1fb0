# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What Fusion measures, on the host: its RTTs, and the rate B of its rounds."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.algorithms.host.fusion import B_MAX, ONE, at_rest, own, per_second, sending, w_of
from tests.algorithms.host.streams import MS, RTT_MAX, many_rtts, one_rtt, recover, rtts


def test_no_sample_changes_no_rtt(fusion):
    for rtt in (-1, 0, -(2**31)):
        at_rest(fusion, 100 * ONE, {})
        before = own(fusion)
        fusion.ack(rtt=rtt)
        assert all(own(fusion)[key] == before[key] for key in ("rtt_q4", "rtt_min", "rtt_last"))


# RTT


@given(first=rtts, samples=st.lists(rtts, max_size=5))
def test_rtt_is_averaged_over_about_four_samples(fusion, first, samples):
    fusion.start(tx_start=0)
    fusion.ack(rtt=first)
    average, exact = first << 4, Fraction(first)
    assert own(fusion)["rtt_q4"] == average
    for rtt in samples:
        fusion.ack(rtt=rtt)
        average, exact = (3 * average + (rtt << 4)) // 4, (3 * exact + rtt) / 4
        ca = own(fusion)
        assert (ca["rtt_q4"], ca["rtt_last"]) == (average, rtt)
        assert exact - Fraction(1, 4) < Fraction(average, 16) <= exact
    assert own(fusion)["rtt_min"] == min([first, *samples])


@pytest.mark.parametrize("rtt, counted", [(1, 1), (RTT_MAX, RTT_MAX), (RTT_MAX + 1, RTT_MAX), (2**31 - 1, RTT_MAX)])
def test_limits_of_a_sample(fusion, rtt, counted):
    fusion.start(tx_start=0)
    fusion.ack(rtt=rtt)
    ca = own(fusion)
    assert (ca["rtt_min"], ca["rtt_last"], ca["rtt_q4"]) == (counted, counted, counted << 4)


def minima(fusion, params, samples):
    fusion.start(params, now=0, app=100, tx_start=0)
    out = []
    for second, rtt in samples:
        fusion.ack(now=second * 10**6, rtt=rtt * MS)
        out.append(own(fusion)["rtt_min"] // MS)
    return out


def test_rtt_min_never_ages_by_default(fusion):
    assert minima(fusion, {}, [(1, 50), (2, 40), (3, 60), (86400, 60)]) == [50, 40, 40, 40]


# B


def rounds(fusion, lengths, params=None, limited=(), **keys):
    """One ACK a round, (packets, us) each. B and its predecessor after each round."""
    at_rest(fusion, 1000 * ONE, params, rtt=46 * MS, flight=10**6, now=10**6, ca__round_stamp=10**6, **keys)
    now, una, out = 10**6, 1, []
    for i, (n, us) in enumerate(lengths):
        now += us
        fusion.ack(n=n, now=now, ca__round_end=una, ca__limited=i in limited, ca__ack_stamp=now)
        una += n * 960
        ca = own(fusion)
        assert ca["round_stamp"] == now
        out.append((ca["b_q8"], ca["b_last_q8"]))
    return out


def rate(n, us):
    return min(n * 256 * 10**6 // max(us, 1), B_MAX)


spans = st.lists(st.tuples(st.integers(1, 1000), st.integers(100, 10**6)), min_size=1, max_size=20)


@settings(max_examples=60)
@given(lengths=spans)
def test_b_is_averaged_with_seven_eighths(fusion, lengths):
    got, exact, want = rounds(fusion, lengths), None, []
    for (n, us), (b, last) in zip(lengths, got):
        sample = rate(n, us)
        want.append(sample if not want else (7 * want[-1] + sample) // 8)
        exact = Fraction(n * 256 * 10**6, us) if exact is None else (7 * exact + Fraction(n * 256 * 10**6, us)) / 8
        assert (b, last) == (want[-1], 0)
        assert exact - 8 < b <= exact


@settings(max_examples=60)
@given(lengths=spans)
def test_b_is_the_largest_of_the_last_five_to_ten_rounds(fusion, lengths):
    samples = [rate(n, us) for n, us in lengths]
    for i, got in enumerate(rounds(fusion, lengths, {"b_mode": 1}), 1):
        b, open_rounds = max(got), i % 5
        assert b == max(samples[max(i - 5 - open_rounds, 0) : i] or samples[:i])
        assert max(samples[max(i - 5, 0) : i]) <= b <= max(samples[max(i - 10, 0) : i])


def test_largest_b_ages(fusion):
    got = [max(pair) for pair in rounds(fusion, [(100, 10**4)] + [(10, 10**4)] * 10, {"b_mode": 1})]
    assert got == [10**4 * 256] * 9 + [10**3 * 256] * 2


def test_b_mode_chooses_what_winc_is_made_of(fusion):
    for params, b, before, winc in (
        ({}, 12, 120, 1),
        ({"b_mode": 1}, 12, 120, 10),
        ({"b_mode": 1}, 120, 12, 10),
        ({"b_mode": 1}, 0, 36, 3),
    ):
        at_rest(fusion, 100 * ONE, params, flight=100, ca__b_q8=per_second(b), ca__b_last_q8=per_second(before))
        fusion.ack(n=100)
        assert w_of(fusion) / ONE - 100 == pytest.approx(winc, rel=0.001)


def test_a_round_of_no_time_gives_no_sample(fusion):
    assert rounds(fusion, [(10, 0)]) == [(0, 0)]
    assert rounds(fusion, [(10**5, 1)]) == [(B_MAX, 0)]


@pytest.mark.parametrize("mode", [0, 1])
def test_a_round_that_the_application_limited_only_raises_b(fusion, mode):
    lengths = [(100, 10**4), (10, 10**4), (200, 10**4), (100, 10**4)]
    b = [
        max(pair) // 2560_000
        for pair in rounds(fusion, [(n, us) for n, us in lengths], {"b_mode": mode}, limited={1, 2, 3})
    ]
    assert b == ([1, 1, 1, 1] if mode == 0 else [1, 1, 2, 2])
    exact = [pair[0] for pair in rounds(fusion, lengths, {"b_mode": mode}, limited={1, 2, 3})]
    assert exact[1] == exact[0] and exact[2] == (exact[0] * 9 // 8 if mode == 0 else 2 * exact[0])
    assert exact[3] == exact[2]


def test_first_round_seeds_b_even_if_limited(fusion):
    assert rounds(fusion, [(10, 10**4)], limited={0}) == [(256_000, 0)]


def test_a_round_is_a_round_trip(fusion):
    sending(fusion, 100 * ONE, {}, base=40 * MS, rtt=46 * MS)
    many_rtts(fusion, 2, rtt=46 * MS)
    fusion.poke(ca__b_q8=0)
    for i in range(2, 5):
        one_rtt(fusion, i * 46 * MS, rtt=46 * MS)
        assert own(fusion)["b_q8"] == 100 * 256 * 10**6 // (46 * MS)


def test_one_limited_ack_spoils_its_round_only(fusion):
    sending(fusion, 100 * ONE, {}, base=40 * MS, rtt=46 * MS)
    many_rtts(fusion, 3, rtt=46 * MS)
    fusion.poke(app=20)
    many_rtts(fusion, 2, start=3 * 46 * MS, rtt=46 * MS)
    b = own(fusion)["b_q8"]
    many_rtts(fusion, 4, start=5 * 46 * MS, rtt=46 * MS)
    ca = own(fusion)
    assert (ca["b_q8"], ca["limited"]) == (b, 1)
    fusion.send(app=2**32 - 1)
    many_rtts(fusion, 6, start=9 * 46 * MS, rtt=60 * MS)  # slower: measured again
    assert own(fusion)["b_q8"] < b and own(fusion)["limited"] == 0


def test_recovery_gives_no_sample_of_b(fusion):
    sending(fusion, 100 * ONE, {}, base=40 * MS, rtt=46 * MS, ca__b_q8=10**6, ca__round_stamp=1)
    fusion.loss(now=10**5)
    for i in range(50):
        fusion.ack(n=0, sack=1, rtt=46 * MS, now=10**5 + 100 * i)
    recover(fusion, rtt=46 * MS, now=2 * 10**5)
    ca = own(fusion)
    assert (ca["b_q8"], ca["round_stamp"], ca["delivered"]) == (10**6, 2 * 10**5, fusion.state()["tp"]["delivered"])
    fusion.ack(rtt=46 * MS, now=2 * 10**5 + 46 * MS)
    assert own(fusion)["b_q8"] == (7 * 10**6 + rate(1, 46 * MS)) // 8


def test_timeout_gives_no_sample_of_b(fusion):
    sending(fusion, 100 * ONE, {}, base=40 * MS, rtt=46 * MS, ca__b_q8=10**6, ca__round_stamp=1)
    fusion.rto(now=10**6)
    for i in range(5):
        one_rtt(fusion, 10**6 + i * 46 * MS, rtt=46 * MS)
        state = fusion.state()
        assert (state["tp"]["state"], state["ca"]["b_q8"]) == (4, 10**6)
        assert state["ca"]["round_stamp"] == 10**6 + (i + 1) * 46 * MS  # rounds go on
