# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
Prague's law, on its own source compiled for the host: draft-briscoe-iccrg-prague-congestion-control by its sections,
and RFC 9331, section 4: numbers by hand. Beside its model it runs in test_models_host.py.
"""

import pytest

MS, S = 1000, 1_000_000
NONE = 2**32 - 1
RTT = 20 * MS
OK, ACCECN = 1, 16  # ecn_flags


def ca(flow, name):
    return flow.state()["ca"][name]


def window(flow):
    return ca(flow, "w_q40") / 2**40


def counted(flow, *names):
    counters = flow.state()["counters"]
    return [counters[name] for name in names]


def begin(flow, cwnd=100, params=None, alpha=None, **keys):
    """A flow in congestion avoidance, whose data arrive as ECT(1), with all in flight. An alpha that is given stays."""
    flow.start(params, now=S, srtt_us=RTT << 3, snd_cwnd=cwnd, **keys)
    flow.poke(snd_ssthresh=2, ca__marked=1, ca__l4s=1, ca__rounds=0)
    if alpha is not None:
        flow.poke(ca__alpha_q24=int(alpha * 2**24), ca__round_end=2**31 - 1)
    return S


def one_round(flow, now, share=0.0):
    """All in flight is acknowledged at once, `share` of it marked. The time after."""
    n = flow.state()["tp"]["packets_out"]
    marks = round(share * n)
    flow.ack(n=n, rtt=RTT, now=now + RTT, **({"ece": 1, "ce": marks} if marks else {}))
    return now + RTT


# --- what the flags and the handshake give (2.3.1, RFC 9331 4.1 and 4.2) ----------------------


@pytest.mark.parametrize("flags, goes_on", [(0, "cubic"), (OK, "cubic"), (OK | ACCECN, "cubic"), (ACCECN, None)])
def test_without_accurate_feedback_cubic_goes_on(prague, flags, goes_on):
    """OK alone is RFC 3168; with ACCECN it is a handshake that has not ended."""
    assert prague.start(ecn_flags=flags).get("controller") == goes_on
    assert counted(prague, "flows", "fallbacks") == [1, goes_on is not None]


@pytest.mark.parametrize("ect0, left", [(0, 31 / 32), (1, 0.5)])
def test_what_arrives_tells_whether_a_mark_is_one_of_l4s(prague, ect0, left):
    """RFC 9331, 4.3: data that arrive as ECT(0) have classic marks."""
    now = one_round(prague, begin(prague, ect0=ect0))
    prague.poke(ca__alpha_q24=2**20, ca__round_end=2**31 - 1)
    before = window(prague)
    prague.ack(n=1, ece=1, ce=1, rtt=RTT, now=now + RTT)
    assert window(prague) == pytest.approx(before * left, rel=1e-5)
    assert counted(prague, "cuts", "classic_cuts") == [not ect0, ect0]


# --- the average of marks (2.3.2) ---------------------------------------------------------------


def test_the_first_mark_is_answered_by_half(prague):
    """alpha is 1 from it on, and slow start is over (2.4.5)."""
    prague.start(now=S, srtt_us=RTT << 3, snd_cwnd=40)
    now = one_round(prague, S)
    assert window(prague) == 80
    prague.ack(n=1, ece=1, ce=1, rtt=RTT, now=now + RTT)
    assert ca(prague, "alpha_q24") == 2**24 and window(prague) == prague.state()["tp"]["snd_ssthresh"] == 40


def test_alpha_settles_at_a_tiny_share(prague):
    """2.3.2's rounding problem: 24 bits hold it."""
    now = begin(prague, cwnd=4000)
    for _ in range(200):
        prague.poke(snd_cwnd=4000, ca__cwnd=4000, ca__w=4000, ca__w_q40=4000 << 40)
        prague.send(app=NONE)
        now = one_round(prague, now, 2 / 4000)
    assert ca(prague, "alpha_q24") / 2**24 == pytest.approx(2 / 4000, rel=0.03)


# --- the cut (2.4.2) ------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0, 1 / 16, 1])
def test_a_mark_takes_half_of_alpha_once_an_rtt(prague, alpha):
    now = begin(prague, alpha=alpha)
    for i in range(5):
        prague.ack(n=1, ece=1, ce=1, rtt=RTT, now=now + RTT + i)
        assert window(prague) == pytest.approx(100 * (1 - alpha / 2), rel=1e-6)
    assert counted(prague, "cuts", "marked_acks") == [1, 5]


# --- growth (2.4.3, 2.4.4) --------------------------------------------------------------------------


@pytest.mark.parametrize("rtt, rounds, m", [(5, 499, 1), (5, 500, 5), (20, 600, 1.25), (25, 600, 1), (80, 600, 1)])
def test_after_many_rounds_a_short_rtt_grows_as_25_ms_would(prague, rtt, rounds, m):
    """1/M^2 of a packet an RTT; the round that ends with the ACK is not counted yet."""
    now = begin(prague, alpha=0)
    prague.poke(ca__rounds=rounds, srtt_us=rtt * MS << 3)
    prague.ack(n=100, rtt=rtt * MS, now=now + rtt * MS)
    assert window(prague) == pytest.approx(100 + 1 / m**2, abs=1e-4)


# --- classic queues (3.3, RFC 9331 4.3) -----------------------------------------------------------------


@pytest.mark.parametrize("extra_ms, marks, seen", [
    (4, 1, [1, 2, 3, 4, 5, 6, 6]), (2, 1, [0] * 7), (4, 0, [0] * 7),  # longer, but not so long; no marks
])  # fmt: skip
def test_marked_rounds_with_a_long_queue_make_marks_classic(prague, extra_ms, marks, seen):
    """From the third on. Marked rounds with a short queue take that back."""

    def round_with(extra, marks):
        nonlocal now
        n, rtt, told = prague.state()["tp"]["packets_out"], RTT + extra * MS, {"ece": 1, "ce": 1} if marks else {}
        now += rtt
        prague.ack(n=n - 1, rtt=rtt + 9 * MS, now=now - 1, **told)
        prague.ack(n=1, rtt=rtt, now=now)
        return ca(prague, "long_queue")

    now = begin(prague, params={"classic_ms": 3})
    round_with(0, 0)
    round_with(extra_ms, 0)
    assert [round_with(extra_ms, marks) for _ in seen] == seen
    assert (counted(prague, "classic_cuts")[0] > 0) == (seen[-1] == 6)
    if seen[-1]:
        assert [round_with(0, 1) for _ in range(8)] == [6, 5, 4, 3, 2, 1, 0, 0]  # the first has a sample of before


# --- sending (2.5) ----------------------------------------------------------------------------------


def test_it_paces_the_window_over_an_rtt_and_slow_start_twice_as_fast(prague):
    prague.start(now=S, srtt_us=RTT << 3, snd_cwnd=40)
    assert prague.state()["tp"]["pacing_rate"] == 2 * 40 * 960 * S // RTT
    now = begin(prague)
    prague.ack(n=1, rtt=RTT, now=now + RTT)
    assert prague.state()["tp"]["pacing_rate"] == 100 * 960 * S // RTT
