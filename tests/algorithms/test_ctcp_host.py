# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compound TCP, its own source compiled for the host, against its law and numbers by hand."""

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.algorithms.host.rivals import EVER, ONE, at_rest, count, own, repaired, sending, tp
from tests.algorithms.host.streams import MS, RTT_MAX, W_MAX, many_rtts, packets, reno_share, rtts

# --- Compound TCP -------------------------------------------------------------------------


def round_ends(ctcp, cwnd, dwnd, srtt=40 * MS, base=40 * MS, params=None, ssthresh=2, n=1, **keys):
    """One ACK that ends a round: both windows after it."""
    at_rest(ctcp, cwnd + dwnd, params, flight=n, ssthresh=ssthresh, ca__cwnd_q20=cwnd, ca__dwnd_q20=dwnd,
            ca__rtt_min=base, ca__round_end=0, srtt_us=srtt << 3, **keys)  # fmt: skip
    ctcp.ack(n=n)
    ca = own(ctcp)
    return ca["cwnd_q20"], ca["dwnd_q20"]


@pytest.mark.parametrize("w, gained", [
    (39, 0.95075), (100, 2.95285), (256, 7), (1000, 21.22849), (4096, 63), (10_000, 124), (65_536, 511),
    (W_MAX // 2, 2434.5),
])  # fmt: skip
def test_ctcp_grows_by_an_eighth_of_the_window_to_three_quarters(ctcp, w, gained):
    """win^0.75 / 8 - 1: 256^0.75 = 64, 4096^0.75 = 512, 10000^0.75 = 1000, 65536^0.75 = 4096."""
    _, dwnd = round_ends(ctcp, w * ONE, 0)
    assert dwnd / ONE == pytest.approx(gained, abs=5e-5, rel=1e-4)
    assert count(ctcp, "increases") == 1


@given(w=st.integers(39, W_MAX - 70_000) | st.integers(39, 2000), share=st.fractions(0, 1), alpha=st.integers(0, 256))
@example(w=W_MAX - 70_000, share=Fraction(1, 2), alpha=256)
def test_ctcp_growth_is_that_of_the_sum(ctcp, w, share, alpha):
    dwnd = int(w * share * ONE)
    cwnd = w * ONE - dwnd
    _, new = round_ends(ctcp, cwnd, dwnd, params={"alpha_q8": alpha})
    exact = max(w**0.75 * alpha / 256 - 1, 0)
    assert (new - dwnd) / ONE == pytest.approx(exact, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("w, grows", [(38, False), (39, True)])
def test_ctcp_is_reno_up_to_low_window(ctcp, w, grows):
    cwnd, dwnd = round_ends(ctcp, w * ONE, 0)
    assert (dwnd > 0) == grows
    assert cwnd == w * ONE + reno_share(w * ONE + dwnd, 1)


def test_ctcp_growth_is_never_negative(ctcp):
    """10^0.75 / 8 is less than 1."""
    assert round_ends(ctcp, 10 * ONE, 0, params={"low_window": 0})[1] == 0
    assert round_ends(ctcp, 8 * ONE, 2 * ONE, params={"low_window": 0})[1] == 2 * ONE


@pytest.mark.parametrize(
    "srtt, moved", [(40_000, 2.95285), (57_142, 2.95285), (57_143, -30), (80_000, -50), (160_000, -60)]
)
def test_ctcp_retreats_from_gamma_on(ctcp, srtt, moved):
    """100 packets, RTTmin 40 ms: 30 of them are in the queue at 57.143 ms, 50 at 80, 75 at 160; dwnd has 60."""
    _, dwnd = round_ends(ctcp, 40 * ONE, 60 * ONE, srtt=srtt)
    assert dwnd / ONE - 60 == pytest.approx(moved, abs=1e-3)
    assert (count(ctcp, "increases"), count(ctcp, "retreats")) == (moved > 0, moved < 0)


@given(
    cwnd=st.integers(2 * ONE, 300 * ONE), dwnd=st.integers(0, W_MAX * ONE // 2), base=rtts,
    srtt=st.integers(1, RTT_MAX), gamma=st.integers(1, 100) | st.integers(1, 65535), zeta=st.integers(0, 16),
)  # fmt: skip
@example(cwnd=W_MAX * ONE // 2, dwnd=W_MAX * ONE // 2, base=1, srtt=RTT_MAX, gamma=1, zeta=16)
def test_ctcp_law_of_the_delay_window(ctcp, cwnd, dwnd, base, srtt, gamma, zeta):
    old, _ = cwnd + dwnd, round_ends(ctcp, cwnd, dwnd, srtt, base, {"gamma": gamma, "zeta": zeta})
    got, w = own(ctcp)["dwnd_q20"], Fraction(old, ONE)
    diff = w * Fraction(srtt - min(base, srtt), srtt)
    if abs(diff - gamma) < Fraction(1, 1000):
        return  # rounding may decide
    if diff >= gamma:
        exact = max(Fraction(dwnd, ONE) - zeta * diff, 0)
    else:
        whole = old >> 20
        exact = Fraction(dwnd, ONE) + (Fraction(max(whole**0.75 / 8 - 1, 0)) if w > 38 else 0)
    assert abs(Fraction(got, ONE) - min(exact, W_MAX)) < Fraction(1, 1000) + exact / 10_000


@given(cwnd=st.integers(2 * ONE, W_MAX * ONE // 2), dwnd=st.integers(0, W_MAX * ONE // 2 - ONE), n=packets)
def test_ctcp_loss_window_grows_by_one_a_round_trip_of_both(ctcp, cwnd, dwnd, n):
    at_rest(
        ctcp, cwnd + dwnd, flight=n, ca__cwnd_q20=cwnd, ca__dwnd_q20=dwnd, ca__rtt_min=40 * MS, srtt_us=40 * MS << 3
    )
    ctcp.ack(n=n)
    ca = own(ctcp)
    assert ca["cwnd_q20"] == min(cwnd + reno_share(cwnd + dwnd, n), W_MAX * ONE)
    assert ca["dwnd_q20"] == min(dwnd, W_MAX * ONE - ca["cwnd_q20"])  # amid a round
    assert tp(ctcp)["snd_cwnd"] == ca["cwnd_q20"] + ca["dwnd_q20"] >> 20


def test_ctcp_over_round_trips(ctcp):
    """100 packets, no queue: 1 of (2) in each, and 3, 3, 3.1, ... of (3) with the first ACK of each but the first."""
    sending(ctcp, 100 * ONE, ca__cwnd_q20=100 * ONE, ca__rtt_min=40 * MS, srtt_us=40 * MS << 3)
    cwnd, dwnd, expected = 100 * ONE, 0.0, []
    for i in range(8):
        acks = int(cwnd + dwnd) // ONE
        dwnd += (acks**0.75 / 8 - 1) * ONE if i else 0
        for _ in range(acks):
            cwnd += reno_share(cwnd + int(dwnd), 1)
        expected.append(int(cwnd + dwnd) // ONE)
    assert many_rtts(ctcp, 8) == expected
    ca = own(ctcp)
    assert (ca["cwnd_q20"] / ONE, ca["dwnd_q20"] / ONE) == pytest.approx((cwnd / ONE, dwnd / ONE), abs=0.01)


@pytest.mark.parametrize("cwnd, dwnd", [(60, 40), (100, 0), (20, 80), (30, 30), (10, 13)])
def test_ctcp_halves_both(ctcp, cwnd, dwnd):
    """Below 38 packets too: 60 becomes 30, not 15."""
    sending(ctcp, (cwnd + dwnd) * ONE, ca__cwnd_q20=cwnd * ONE, ca__dwnd_q20=dwnd * ONE, ca__rtt_min=40 * MS)
    ctcp.loss()
    assert tp(ctcp)["snd_ssthresh"] == (cwnd + dwnd) // 2
    repaired(ctcp)
    ca = own(ctcp)
    assert ca["dwnd_q20"] == dwnd * ONE // 2
    assert ca["cwnd_q20"] / ONE == pytest.approx((cwnd + dwnd) // 2 - dwnd / 2, abs=0.1)
    assert tp(ctcp)["snd_cwnd"] == (cwnd + dwnd) // 2


def test_ctcp_two_losses_in_a_row(ctcp):
    """No ACK between: the second cuts what the first left."""
    sending(ctcp, 100 * ONE, ca__cwnd_q20=60 * ONE, ca__dwnd_q20=40 * ONE, ca__rtt_min=40 * MS)
    ctcp.loss()
    ctcp.poke(lost_out=0, sacked_out=0, retrans_out=0, state=0, snd_cwnd=50, stack_cwnd=50)
    ctcp.loss()
    assert (tp(ctcp)["snd_ssthresh"], own(ctcp)["dwnd_q20"]) == (25, 10 * ONE)


def test_ctcp_timeout_ends_the_delay_window_and_undo_brings_it_back(ctcp):
    sending(ctcp, 100 * ONE, ca__cwnd_q20=60 * ONE, ca__dwnd_q20=40 * ONE, ca__rtt_min=40 * MS)
    ctcp.rto(now=10**6)
    ca = own(ctcp)
    assert (ca["dwnd_q20"], ca["rtt_min"], tp(ctcp)["snd_ssthresh"]) == (0, 0, 50)
    ctcp.ack(rtt=70 * MS, now=2 * 10**6, timestamps=1)
    assert (own(ctcp)["dwnd_q20"], own(ctcp)["rtt_min"]) == (0, 70 * MS)
    assert ctcp.undo(now=2 * 10**6)["cwnd"] == 100
    ctcp.ack(rtt=70 * MS, now=2 * 10**6 + 1)
    ca = own(ctcp)
    assert ca["dwnd_q20"] == 40 * ONE and ca["rtt_min"] == 40 * MS
    assert ca["cwnd_q20"] / ONE == pytest.approx(60, abs=0.02)


def test_ctcp_slow_start_has_no_delay_window(ctcp):
    ctcp.start(now=0)
    assert many_rtts(ctcp, 6) == [20, 40, 80, 160, 320, 640]
    assert own(ctcp)["dwnd_q20"] == 0


@pytest.mark.parametrize("n, cwnd", [(1, 98), (3, 100), (7, 100.04)])
def test_ctcp_slow_start_ends_at_ssthresh(ctcp, n, cwnd):
    """97 packets of 100; what an ACK covers beyond avoids congestion."""
    at_rest(ctcp, 97 * ONE, flight=n, ssthresh=100, ca__cwnd_q20=97 * ONE, ca__rtt_min=40 * MS, srtt_us=40 * MS << 3)
    ctcp.ack(n=n)
    assert own(ctcp)["cwnd_q20"] / ONE == pytest.approx(cwnd, abs=1e-6)


def test_ctcp_restart_after_idle_is_slow_start(ctcp):
    sending(ctcp, 100 * ONE, ca__cwnd_q20=60 * ONE, ca__dwnd_q20=40 * ONE, ca__rtt_min=40 * MS, srtt_us=40 * MS << 3)
    ctcp.ack(n=EVER, app=0, rtt=40 * MS, now=100 * MS)
    ctcp.restart(cwnd=20, now=5 * 10**6)
    ctcp.send(app=EVER, now=5 * 10**6)
    assert ctcp.ack(rtt=40 * MS, now=5 * 10**6 + 40 * MS)["cwnd"] == 21
    assert own(ctcp)["dwnd_q20"] == 0


def test_ctcp_delay_window_saves_nothing_up_under_a_clamp(ctcp):
    sending(
        ctcp,
        100 * ONE,
        ca__cwnd_q20=60 * ONE,
        ca__dwnd_q20=40 * ONE,
        ca__rtt_min=40 * MS,
        srtt_us=40 * MS << 3,
        snd_cwnd_clamp=100,
    )
    assert many_rtts(ctcp, 5) == [100] * 5
    assert own(ctcp)["cwnd_q20"] + own(ctcp)["dwnd_q20"] == 100 * ONE


def test_ctcp_without_an_rtt_is_reno(ctcp):
    sending(ctcp, 100 * ONE, ca__cwnd_q20=100 * ONE)
    assert many_rtts(ctcp, 5, sample=-1) == [101, 102, 103, 104, 105]
    assert own(ctcp)["dwnd_q20"] == 0


def test_ctcp_limited_round_trip_raises_nothing(ctcp):
    cwnd, dwnd = round_ends(ctcp, 100 * ONE, 0, ca__limited=1)
    assert dwnd == 0 and cwnd > 100 * ONE  # this ACK is of the next
    assert own(ctcp)["limited"] == 0


def test_ctcp_retreat_is_no_reason_for_slow_start(ctcp):
    cwnd, dwnd = round_ends(ctcp, 40 * ONE, 60 * ONE, srtt=80 * MS, ssthresh=100)
    assert dwnd == pytest.approx(10 * ONE, abs=ONE / 1000)
    assert tp(ctcp)["snd_ssthresh"] == 50 and cwnd < 41 * ONE
