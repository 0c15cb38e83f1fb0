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
ONE = 1 << 20


def ca(flow, *names):
    values = flow.state()["ca"]
    return values[names[0]] if len(names) == 1 else tuple(values[name] for name in names)


def window(flow):
    return ca(flow, "w_q40") / 2**40


def alpha(flow):
    return ca(flow, "alpha_q24") / 16 / ONE


def counted(flow, *names):
    counters = flow.state()["counters"]
    return [counters[name] for name in names]


def begin(flow, cwnd=100, now=S, params=None, **keys):
    """A flow in congestion avoidance, whose data arrive as ECT(1), with alpha at 0 and all in flight."""
    flow.start(params, now=now, srtt_us=RTT << 3, snd_cwnd=cwnd, **keys)
    flow.poke(snd_ssthresh=2, ca__marked=1, ca__l4s=1, **{"ca__rounds": 0})
    return now


def with_alpha(flow, sixteenths):
    """alpha, which stays: no round ends."""
    flow.poke(ca__alpha_q24=sixteenths * ONE, ca__round_end=2**31 - 1)


def one_round(flow, now, share=0.0, rtt=RTT):
    """All in flight is acknowledged at once, `share` of it marked. The time after."""
    n = flow.state()["tp"]["packets_out"]
    now += rtt
    marks = round(share * n)
    flow.ack(n=n, rtt=rtt, now=now, **({"ece": 1, "ce": marks} if marks else {}))
    return now


# --- what the flags and the handshake give (2.3.1, RFC 9331 4.1 and 4.2) ----------------------


@pytest.mark.parametrize("flags", [0, OK, OK | ACCECN])
def test_without_accurate_feedback_cubic_goes_on(prague, flags):
    """OK alone is RFC 3168; with ACCECN it is a handshake that has not ended."""
    assert prague.start(ecn_flags=flags)["controller"] == "cubic"
    assert counted(prague, "flows", "fallbacks") == [1, 1] and ca(prague, "w") == 0


def test_with_accurate_feedback_it_stays(prague):
    assert "controller" not in prague.start(ecn_flags=ACCECN)
    assert counted(prague, "flows", "fallbacks") == [1, 0] and ca(prague, "w") == 10


@pytest.mark.parametrize("ect0", [0, 1])
def test_what_arrives_tells_whether_a_mark_is_one_of_l4s(prague, ect0):
    """RFC 9331, 4.3: data that arrive as ECT(0) have classic marks."""
    now = begin(prague, ect0=ect0)
    prague.poke(ca__l4s=0)
    now = one_round(prague, now)
    assert ca(prague, "l4s") == (not ect0)
    with_alpha(prague, 1)
    before = window(prague)
    prague.ack(n=1, ece=1, ce=1, rtt=RTT, now=now + RTT)
    assert window(prague) == pytest.approx(before * (0.5 if ect0 else 31 / 32), rel=1e-5)
    assert counted(prague, "cuts", "classic_cuts") == [not ect0, ect0]


# --- the average of marks (2.3.2) ---------------------------------------------------------------


def test_the_first_mark_is_answered_by_half(prague):
    """alpha is 1 from it on, and slow start is over (2.4.5)."""
    prague.start(now=S, srtt_us=RTT << 3, snd_cwnd=40)
    now = one_round(prague, S)
    assert window(prague) == 80 and alpha(prague) == 0
    prague.ack(n=1, ece=1, ce=1, rtt=RTT, now=now + RTT)
    assert alpha(prague) == 1 and window(prague) == 40
    assert prague.state()["tp"]["snd_ssthresh"] == 40


def test_alpha_follows_the_share_of_marks(prague):
    now = begin(prague)
    expected = alpha(prague)
    for share in [0.1] * 10 + [0.5] * 20 + [0.0] * 30 + [1.0] * 40 + [0.02] * 20:
        n = prague.state()["tp"]["packets_out"]
        now = one_round(prague, now, share)
        expected += (round(share * n) / n - expected) / 16
        assert alpha(prague) == pytest.approx(expected, abs=4e-6)


def test_a_tiny_share_does_not_vanish(prague):
    """2.3.2's rounding problem: alpha settles at the share, and 20 bits hold it."""
    now = begin(prague, cwnd=4000)
    for _ in range(200):
        prague.poke(snd_cwnd=4000, ca__cwnd=4000, ca__w=4000, ca__w_q40=4000 << 40)
        prague.send(app=NONE)
        now = one_round(prague, now, 2 / 4000)
    assert alpha(prague) == pytest.approx(2 / 4000, rel=0.03)


# --- the cut (2.4.2) ------------------------------------------------------------------------------


@pytest.mark.parametrize("sixteenths", [0, 1, 5, 16])
def test_a_mark_takes_half_of_alpha_once_an_rtt(prague, sixteenths):
    now = begin(prague)
    with_alpha(prague, sixteenths)
    before = window(prague)
    for i in range(5):
        prague.ack(n=1, ece=1, ce=1, rtt=RTT, now=now + RTT + i)
        assert window(prague) == pytest.approx(before * (1 - sixteenths / 32), rel=1e-6)
    assert counted(prague, "cuts", "marked_acks") == [1, 5]
    prague.ack(n=NONE, rtt=RTT, now=now + RTT + 10)
    prague.ack(n=NONE, rtt=RTT, now=now + 2 * RTT + 20)
    before = window(prague)
    prague.ack(n=1, ece=1, ce=1, rtt=RTT, now=now + 3 * RTT + 30)
    assert counted(prague, "cuts") == [2] and window(prague) <= before


# --- growth (2.4.3, 2.4.4) --------------------------------------------------------------------------


@pytest.mark.parametrize("rtt, rounds, m", [(5, 499, 1), (5, 500, 5), (20, 600, 1.25), (25, 600, 1), (80, 600, 1)])
def test_after_many_rounds_a_short_rtt_grows_as_25_ms_would(prague, rtt, rounds, m):
    """1/M^2 of a packet an RTT; the round that ends with the ACK is not counted yet."""
    now = begin(prague)
    prague.poke(ca__rounds=rounds, srtt_us=rtt * MS << 3, ca__round_end=2**31 - 1)
    prague.ack(n=100, rtt=rtt * MS, now=now + rtt * MS)
    assert window(prague) == pytest.approx(100 + 1 / m**2, abs=1e-4)


# --- classic queues (3.3, RFC 9331 4.3) -----------------------------------------------------------------


def rounds_of(flow, now, extra_ms, count, marks=1):
    """Round trips of a queue of so many ms, each with a mark or without; the time after, and how it answers then."""
    for _ in range(count):
        n, rtt = flow.state()["tp"]["packets_out"], RTT + extra_ms * MS
        now += rtt
        told = {"ece": 1, "ce": 1} if marks else {}
        flow.ack(n=n - 1, rtt=rtt + 9 * MS, now=now - 1, **told)
        flow.ack(n=1, rtt=rtt, now=now)
    return now, ca(flow, "long_queue")


def test_marked_rounds_with_a_long_queue_make_marks_classic(prague):
    now = begin(prague, params={"classic_ms": 3})
    now, seen = rounds_of(prague, now, 0, 2, marks=0)
    assert seen == 0 and ca(prague, "rtt_min") == RTT
    assert rounds_of(prague, now, 2, 5)[1] == 0, "longer, but not so long"
    now = begin(prague, params={"classic_ms": 3})
    now, _ = rounds_of(prague, now, 0, 1, marks=0)
    now, seen = rounds_of(prague, now, 4, 3, marks=0)
    assert seen == 0, "no marks"
    seen, halved = [], []
    for _ in range(8):
        before = counted(prague, "classic_cuts")[0]
        now, one = rounds_of(prague, now, 4, 1)
        seen.append(one)
        halved.append(counted(prague, "classic_cuts")[0] > before)
    assert seen == [1, 2, 3, 4, 5, 6, 6, 6] and halved.index(True) == 2
    for left in (6, 5, 4, 3, 2, 1, 0, 0):  # the first has a sample of the round before
        now, one = rounds_of(prague, now, 0, 1)
        assert one == left
    cuts = counted(prague, "classic_cuts")
    now, _ = rounds_of(prague, now, 0, 3)
    assert counted(prague, "classic_cuts") == cuts


# --- sending (2.5) ----------------------------------------------------------------------------------


def test_it_paces_the_window_over_an_rtt_and_slow_start_twice_as_fast(prague):
    prague.start(now=S, srtt_us=RTT << 3, snd_cwnd=40)
    assert prague.state()["tp"]["pacing_rate"] == 2 * 40 * 960 * S // RTT
    now = begin(prague)
    prague.ack(n=1, rtt=RTT, now=now + RTT)
    assert prague.state()["tp"]["pacing_rate"] == 100 * 960 * S // RTT


def test_an_idle_time_shrinks_the_window(prague):
    now = one_round(prague, begin(prague, app=100))
    prague.ack(n=NONE, rtt=RTT, now=now + RTT, app=0)
    now += RTT
    assert prague.send(app=NONE, now=now + 2 * S + 1)["cwnd"] == 25
    assert counted(prague, "idle_restarts") == [1]
