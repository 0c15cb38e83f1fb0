# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
BBRv3's model and states, on its own source compiled for the host: draft-ietf-ccwg-bbr-06, by its sections and by the
cases of its appendix A. The host has no pacing.
"""

import pytest

MS, S = 1000, 1_000_000
NONE, NO_BW = 2**32 - 1, 2**64 - 1
STARTUP, DRAIN, DOWN, CRUISE, REFILL, UP, PROBE_RTT, NO_STATE = range(8)
INIT, REFILLING, STARTING, FEEDBACK, STOPPING = range(5)
RTT = 40 * MS
SEG = 960
RATE = 2500  # packets/s: 100 packets in 40 ms
BW = RATE << 8


def ca(flow, *names):
    values = flow.state()["ca"]
    return values[names[0]] if len(names) == 1 else tuple(values[name] for name in names)


def path(flow, name):
    return flow.state()["path"][name]


def state(flow):
    return ca(flow, "state")


def begin(flow, now=S, params=None, **keys):
    flow.start(params, now=now, **{"srtt_us": RTT << 3, "app_limited": 0, **keys})


def knows_the_path(flow, now=S, which=CRUISE, cwnd=200, params=None, **keys):
    """A flow that has left Startup, on a path of 2500 packets/s and 40 ms with 100 packets in flight, in this state."""
    begin(flow, now, params, snd_cwnd=100, app=100)
    known = dict(
        ca__bw=BW, ca__max_bw=BW, ca__full_bw=BW, ca__min_rtt_us=RTT, ca__full_bw_reached=1, ca__state=which,
        ca__cycle_ms=now // MS, path__bw_now=BW, path__probe_rtt_min_us=RTT, path__probe_rtt_min_ms=now // MS,
        path__min_rtt_ms=now // MS, path__bw_probe_wait_ms=2500, snd_cwnd=cwnd, stack_cwnd=cwnd,
    )  # fmt: skip
    flow.poke(**{**known, **keys})


def at_rate(flow, now, rate=RATE, **keys):
    """All that is in flight is acknowledged at once, as a bottleneck of this rate would let it. The time after."""
    n = flow.state()["tp"]["packets_out"]
    took = max(RTT, n * S // rate)
    flow.ack(n=n, now=now + took, rtt=took, **{"app": NONE, **keys})
    return now + took


def left_up(flow):
    """DOWN, or CRUISE where the same ACK finds that nothing is queued."""
    return ca(flow, "state", "pacing_gain") in ((DOWN, 90), (CRUISE, 100))


def sends(flow, n):
    """Fills up to n packets in flight, whatever the window was."""
    flow.poke(snd_cwnd=n, stack_cwnd=n)
    flow.send(app=n)


# --- what an ACK tells (4.1) -----------------------------------------------------------------


def test_the_rate_is_what_was_delivered_in_an_rtt(bbr):
    begin(bbr)
    bbr.ack(n=10, now=S + RTT, rtt=RTT)
    assert ca(bbr, "max_bw", "bw", "bw_latest", "inflight_latest") == (250 << 8, 250 << 8, 250 << 8, 10)


@pytest.mark.parametrize("limited, known, then", [(1, 2, 2), (1, 0.5, 1), (0, 2, 2), (0, 0.5, 1)])
def test_a_rate_that_the_application_limits_counts_if_it_is_larger(bbr, limited, known, then):
    """5.5.5. An unlimited one that is smaller is in the filter, and the next cycle's."""
    begin(bbr, snd_cwnd=100, app=100, app_limited=limited)
    bbr.poke(ca__max_bw=int(known * BW), path__bw_before=int(known * BW), app_limited=0)
    bbr.ack(n=100, now=S + RTT, rtt=RTT)
    assert ca(bbr, "max_bw") == then * BW
    assert path(bbr, "bw_now") == (0 if limited and known > 1 else BW)


@pytest.mark.parametrize("first", [1, 3, 50, 99])
def test_in_flight_when_a_packet_left(bbr, first):
    """P.tx_in_flight has P and what left before it; other ACKs took away theirs. Only it raises a bound that is low."""
    begin(bbr, snd_cwnd=100, app=100)
    low = dict(ca__inflight_longterm=1, ca__full_bw_reached=1, ca__state=DRAIN, app=0)
    bbr.ack(n=first, now=S + RTT, rtt=RTT, **low)
    assert ca(bbr, "inflight_longterm") == first
    sends(bbr, 100)
    bbr.ack(n=100 - first, now=S + RTT + 1, rtt=RTT, **low)
    assert ca(bbr, "inflight_longterm") == 100
    for i in range(1, first + 1):  # these left into 100 - first others
        bbr.ack(n=1, now=S + 2 * RTT + i, rtt=RTT, **low)
        assert ca(bbr, "inflight_longterm") == 100 - first + i


def test_more_acks_than_memories_lose_nothing_but_losses(bbr):
    """800 ACKs in a flight, of which 128 are remembered."""
    begin(bbr, snd_cwnd=800, app=800)
    low = dict(ca__inflight_longterm=1, ca__full_bw_reached=1, ca__state=DRAIN, app=0)
    for i in range(1600):
        bbr.ack(n=1, now=S + RTT + i * 50, rtt=RTT, **low)
        assert ca(bbr, "inflight_longterm") == min(i + 1, 800)
        sends(bbr, 800)


# --- Startup and Drain (5.3.1, 5.3.2, A.1 to A.4) -------------------------------------------------


def test_three_rounds_without_growth_end_startup(bbr):
    """A.1"""
    begin(bbr, snd_cwnd=100, app=100)
    now, seen = S, []
    for _ in range(4):
        now = at_rate(bbr, now)
        seen.append((state(bbr), *ca(bbr, "full_bw_count", "full_bw_reached")))
    assert seen[:3] == [(STARTUP, 0, 0), (STARTUP, 1, 0), (STARTUP, 2, 0)]
    assert seen[3][0] != STARTUP and seen[3][1:] == (3, 1)
    assert bbr.state()["counters"]["startups"] == 1 and bbr.state()["counters"]["startup_losses"] == 0


def test_a_quarter_more_is_growth(bbr):
    begin(bbr, snd_cwnd=100, app=100)
    bbr.poke(ca__full_bw=BW * 4 // 5, ca__full_bw_count=2)
    bbr.ack(n=100, now=S + RTT, rtt=RTT)
    assert ca(bbr, "full_bw_count", "full_bw", "full_bw_reached") == (0, BW, 0)
    begin(bbr, snd_cwnd=100, app=100)
    bbr.poke(ca__full_bw=BW * 4 // 5 + 1, ca__full_bw_count=2)
    bbr.ack(n=100, now=S + RTT, rtt=RTT)
    assert ca(bbr, "full_bw_count", "full_bw_reached") == (3, 1)


def test_rounds_that_the_application_limits_never_end_startup(bbr):
    """A.7"""
    begin(bbr, snd_cwnd=100, app=50)
    for i in range(1, 20):
        bbr.ack(n=50, now=S + i * RTT, rtt=RTT, snd_cwnd=100, path__probe_rtt_min_ms=(S + i * RTT) // MS)
        assert state(bbr) == STARTUP


def lossy_round(flow, events):
    """A flow in Startup with 100 in flight loses in that many ACKs; then ACKs end the round."""
    begin(flow, snd_cwnd=100, app=100)
    for i in range(events):
        flow.loss(n=1, sack=2, now=S + RTT + i * MS, app=200)
    assert state(flow) == STARTUP
    for i in range(120):
        flow.ack(n=0, sack=1, now=S + 2 * RTT + i, rtt=RTT, app=200)
        if state(flow) != STARTUP:
            break


@pytest.mark.parametrize("events, ends", [(2, False), (5, False), (6, True)])
def test_six_acks_with_losses_end_startup_after_a_round(bbr, events, ends):
    """A.2. Two of a hundred are not more than 2 %."""
    lossy_round(bbr, events)
    assert (state(bbr) != STARTUP, bbr.state()["counters"]["startup_losses"]) == (ends, ends)
    longterm, latest = ca(bbr, "inflight_longterm", "inflight_latest")
    assert 4 <= longterm < NONE and longterm >= latest if ends else longterm == NONE


def test_without_sack_one_loss_ends_startup(bbr):
    """5.3.1.3"""
    begin(bbr, snd_cwnd=100, app=100, sack_ok=0)
    bbr.loss(n=1, sack=1, now=S + RTT)
    assert ca(bbr, "full_bw_reached") == 1


def test_a_mark_ends_startup_after_its_round(bbr):
    begin(bbr, snd_cwnd=100, app=100)
    bbr.ack(n=10, now=S + RTT, rtt=RTT, ece=1)
    assert state(bbr) == STARTUP
    bbr.ack(n=90, now=S + RTT + 1, rtt=RTT)
    bbr.ack(n=100, now=S + 2 * RTT + 1, rtt=RTT)
    assert ca(bbr, "full_bw_reached") == 1
    assert bbr.state()["counters"]["marked_acks"] == 1


def test_drain_ends_at_the_bdp(bbr):
    """A.3"""
    knows_the_path(bbr, which=DRAIN, ca__pacing_gain=50)
    bbr.poke(snd_cwnd=120, packets_out=120)
    bbr.ack(n=1, now=S + MS, rtt=RTT, app=0)
    assert state(bbr) == DRAIN
    bbr.ack(n=19, now=S + 2 * MS, rtt=RTT, app=0)
    assert left_up(bbr) and ca(bbr, "ack_phase") == STOPPING


def test_drain_ends_after_three_rounds(bbr):
    """A.4: the BDP is never reached."""
    knows_the_path(bbr, which=DRAIN)
    left = []
    for i in range(8):
        sends(bbr, 300)
        bbr.ack(n=150, now=S + (i + 2) * 60 * MS, rtt=120 * MS, app=0, snd_cwnd=300)  # more than the BDP stays
        left.append((ca(bbr, "round_count"), state(bbr)))
    assert left[:6] == [(1, DRAIN), (1, DRAIN), (2, DRAIN), (2, DRAIN), (3, DRAIN), (3, DRAIN)]
    assert left[6] == (4, DOWN)


# --- ProbeBW (5.3.3, A.5 to A.9, A.21, A.22) --------------------------------------------------------


@pytest.mark.parametrize(
    "longterm, flight, cruises", [(NONE, 100, True), (NONE, 101, False), (100, 85, True), (100, 86, False)]
)
def test_down_ends_with_headroom_and_without_a_queue(bbr, longterm, flight, cruises):
    """A.8"""
    knows_the_path(bbr, which=DOWN, ca__inflight_longterm=longterm)
    bbr.poke(packets_out=flight + 1, snd_cwnd=100)
    bbr.ack(n=1, now=S + MS, rtt=RTT, app=0)
    assert (state(bbr) == CRUISE) == cruises


def test_a_probe_comes_after_its_wait(bbr):
    """A.9: in whatever state of the two."""
    for which in (DOWN, CRUISE):
        knows_the_path(bbr, which=which, ca__inflight_longterm=150, ca__bw_shortterm=BW // 2, ca__inflight_shortterm=50)
        sends(bbr, 140)  # no headroom
        bbr.ack(n=1, now=S + 2500 * MS, rtt=RTT)
        assert state(bbr) == which
        bbr.ack(n=1, now=S + 2501 * MS, rtt=RTT)
        assert ca(bbr, "state", "ack_phase", "bw_shortterm", "inflight_shortterm") == (REFILL, REFILLING, NO_BW, NONE)


@pytest.mark.parametrize("bdp, after", [(100, 63), (20, 20)])
def test_a_probe_comes_when_reno_would_have_grown(bbr, bdp, after):
    knows_the_path(bbr, ca__min_rtt_us=bdp * S // RATE)
    bbr.ack(n=1, now=S + MS, rtt=RTT, ca__rounds_since_probe_up=after - 2)
    assert state(bbr) == CRUISE
    bbr.ack(n=1, now=S + MS, rtt=RTT, ca__rounds_since_probe_up=after)
    assert state(bbr) == REFILL


def test_waits_are_random_within_their_bounds(bbr):
    waits, starts = set(), set()
    knows_the_path(bbr, which=DRAIN)
    for _ in range(200):
        bbr.ack(n=0, now=S, ca__state=DRAIN, app=10)
        assert state(bbr) in (DOWN, CRUISE)
        waits.add(path(bbr, "bw_probe_wait_ms"))
        starts.add(ca(bbr, "rounds_since_probe_up"))
    assert starts == {0, 1} and 2000 <= min(waits) < 2100 and 2900 < max(waits) <= 3000


def test_refill_lasts_a_round_and_up_ends_when_the_rate_stands(bbr):
    """A.5"""
    knows_the_path(bbr, which=REFILL, cwnd=100, ca__ack_phase=REFILLING)
    now = at_rate(bbr, S)
    assert ca(bbr, "state", "ack_phase", "pacing_gain", "cwnd_gain") == (UP, STARTING, 125, 225)
    assert ca(bbr, "is_bw_probe_sample", "full_bw", "bw_probe_up_rounds") == (1, BW, 1)
    for _ in range(2):
        now = at_rate(bbr, now)
        assert state(bbr) == UP
    at_rate(bbr, now)
    assert left_up(bbr) and bbr.state()["counters"]["probes"] == 1


def test_a_bound_that_limits_is_raised_by_1_2_4(bbr):
    """5.3.3.5: a packet in the first round, two in the next."""
    knows_the_path(
        bbr, which=UP, cwnd=100, ca__inflight_longterm=100, ca__bw_probe_up_rounds=1, path__probe_up_acked_per_inc=100
    )
    raised = []
    for i in range(1, 5):
        before = ca(bbr, "inflight_longterm")
        bbr.ack(n=before, now=S + i * RTT, rtt=RTT, app=NONE, ca__full_bw_count=0)
        raised.append(ca(bbr, "inflight_longterm") - before)
    assert raised[:3] == [1, 2, 4] and raised[3] in (8, 9)  # an eighth of the window is 13 whole packets


def test_the_next_probe_after_a_bad_one_only_touches_the_bound(bbr):
    """5.3.3.6: precautionary; the one after it, if nothing was lost, goes on."""
    knows_the_path(
        bbr, which=UP, cwnd=150, ca__inflight_longterm=100, ca__prev_probe_too_high=1, ca__is_bw_probe_sample=1
    )
    bbr.ack(n=1, now=S + MS, rtt=RTT, app=NONE)  # 149 leave
    bbr.ack(n=1, now=S + 2 * MS, rtt=RTT)
    assert ca(bbr, "state", "prev_probe_precautionary", "prev_probe_too_high", "ack_phase") == (DOWN, 1, 0, STOPPING)
    bbr.ack(n=NONE, now=S + RTT, rtt=RTT)
    bbr.ack(n=NONE, now=S + 2 * RTT, rtt=RTT)
    assert ca(bbr, "prev_probe_precautionary") == 0 and state(bbr) in (REFILL, UP)


@pytest.mark.parametrize("lost, bound", [(2, NONE), (3, 98), (60, 70)])
def test_more_than_two_percent_end_a_probe(bbr, lost, bound):
    """5.5.10.2, A.21: 97 were before the burst of three, of which 1.98 fit: (2 % of 97 - 0) / 98 %. Seven tenths of the
    target stay at least."""
    knows_the_path(bbr, which=UP, cwnd=100, ca__is_bw_probe_sample=1, ca__ack_phase=FEEDBACK)
    bbr.loss(n=lost, sack=100 - lost, now=S + RTT)
    high = bound < NONE
    assert left_up(bbr) == high
    assert ca(bbr, "prev_probe_too_high", "inflight_longterm") == (high, bound)
    assert (ca(bbr, "undo_state"), bbr.state()["counters"]["too_high"]) == (UP if high else NO_STATE, high)


def test_a_bad_probe_that_the_application_limits_sets_no_bound(bbr):
    """A.6: it ends nevertheless."""
    begin(bbr, snd_cwnd=200, app=100, app_limited=1)
    knows = dict(
        ca__bw=BW, ca__max_bw=BW, ca__min_rtt_us=RTT, ca__full_bw_reached=1, ca__state=UP, ca__is_bw_probe_sample=1
    )
    bbr.poke(path__bw_now=BW, **knows)
    bbr.loss(n=10, sack=90, now=S + RTT)
    assert left_up(bbr) and ca(bbr, "inflight_longterm") == NONE


def test_a_mark_ends_a_probe(bbr):
    knows_the_path(bbr, which=UP, cwnd=100, ca__is_bw_probe_sample=1)
    bbr.ack(n=100, now=S + RTT, rtt=RTT, ece=1)
    assert left_up(bbr) and ca(bbr, "inflight_longterm", "prev_probe_too_high") == (100, 1)


def test_a_probe_that_is_limited_teaches_no_lower_rate(bbr):
    """A.22"""
    knows_the_path(bbr, which=REFILL, cwnd=100, ca__ack_phase=REFILLING)
    bbr.ack(n=90, now=S + RTT, rtt=RTT, app=10)
    bbr.ack(n=10, now=S + 2 * RTT, rtt=RTT, app=10)
    assert ca(bbr, "max_bw") == BW and state(bbr) in (REFILL, UP)


def test_the_rate_is_of_two_cycles(bbr):
    """5.5.6, A.16"""
    knows_the_path(bbr, which=DOWN)
    now = S
    for best in (BW, BW // 10, BW // 10):
        bbr.poke(ca__ack_phase=STOPPING, ca__state=DOWN, path__bw_probe_wait_ms=100_000, ca__rounds_since_probe_up=0)
        now = at_rate(bbr, now, RATE // 10)
        assert ca(bbr, "ack_phase") == INIT
        now = at_rate(bbr, now, RATE // 10)
        assert abs(ca(bbr, "max_bw") - best) <= 256


# --- outside of probes: loss (5.5.10.3) ----------------------------------------------------------------


@pytest.mark.parametrize("mark", [False, True])
def test_a_round_with_a_loss_takes_three_tenths_at_most(bbr, mark):
    knows_the_path(bbr, which=CRUISE, cwnd=100, ca__bw_latest=BW // 4, ca__inflight_latest=25)
    bbr.poke(ca__loss_round_delivered=1)  # the round that was ends not with the next ACK
    if mark:
        bbr.ack(n=10, now=S + RTT, rtt=RTT, ece=1, ca__bw_latest=BW // 4, app=10)
    else:
        bbr.loss(n=1, sack=1, now=S + RTT)
    assert ca(bbr, "is_loss_in_round", "bw_shortterm") == (1, NO_BW)
    bbr.poke(ca__bw_latest=0, ca__inflight_latest=0)
    for i in range(3):
        bbr.ack(n=NONE, now=S + (i + 3) * 10 * RTT, rtt=RTT, app=1)
    assert ca(bbr, "bw_shortterm", "bw") == (BW * 7 // 10, BW * 7 // 10)


@pytest.mark.parametrize("which, acked, bw, inflight", [
    (CRUISE, 10, BW * 7 // 10, 70), (CRUISE, 90, 2250 << 8, 90),  # what was delivered stays
    *((which, 90, NO_BW, NONE) for which in (STARTUP, REFILL, UP)),
])  # fmt: skip
def test_a_round_with_a_loss_leaves_seven_tenths_of_the_window_unless_it_probes(bbr, which, acked, bw, inflight):
    knows_the_path(bbr, which=which, cwnd=100, ca__is_loss_in_round=1, ca__loss_round_delivered=0)
    bbr.ack(n=acked, now=S + RTT, rtt=RTT)
    assert ca(bbr, "bw_shortterm", "inflight_shortterm") == (bw, inflight)


# --- ProbeRTT (5.3.4, A.10, A.11, A.20) --------------------------------------------------------------------


@pytest.mark.parametrize("full", [0, 1])
def test_probe_rtt(bbr, full):
    """After 5 s: half a BDP for 200 ms and a round, then back. A.20: in Startup to Startup."""
    knows_the_path(bbr, which=CRUISE if full else STARTUP, cwnd=150, ca__full_bw_reached=full)
    bbr.poke(ca__cycle_ms=S // MS + 4000)
    now = S + 5000 * MS
    bbr.ack(n=1, now=now, rtt=RTT + 1)
    assert state(bbr) != PROBE_RTT
    got = bbr.ack(n=1, now=now + MS, rtt=RTT + 1)
    assert state(bbr) == PROBE_RTT and got["cwnd"] == 50
    bbr.ack(n=50, now=now + 2 * MS, rtt=RTT + 1)  # down to the window
    flight = bbr.state()["tp"]["packets_out"]
    assert path(bbr, "probe_rtt_done_ms") == (now + 2 * MS) // MS + 200 and flight == 50
    bbr.ack(n=1, now=now + 203 * MS, rtt=RTT + 1)
    assert state(bbr) == PROBE_RTT  # that one left before the round
    bbr.ack(n=49, now=now + 204 * MS, rtt=RTT + 1)
    bbr.ack(n=1, now=now + 205 * MS, rtt=RTT + 1)
    assert state(bbr) == (CRUISE if full else STARTUP)
    assert bbr.state()["tp"]["snd_cwnd"] >= 150 and bbr.state()["counters"]["probe_rtts"] == 1
    assert ca(bbr, "min_rtt_us") == RTT  # of ten seconds


def test_a_smaller_rtt_puts_probe_rtt_off_and_counts_for_ten_seconds(bbr):
    knows_the_path(bbr)
    for seconds, more, least, probes in ((4, -1, -1, False), (8, 0, -1, False), (9.1, 5, -1, True), (14.1, 7, 5, True)):
        bbr.ack(n=1, now=int((1 + seconds) * S), rtt=RTT + more)
        assert ca(bbr, "min_rtt_us") - RTT == least and (state(bbr) == PROBE_RTT) == probes


def test_what_left_in_probe_rtt_is_limited(bbr):
    knows_the_path(bbr, which=PROBE_RTT, cwnd=50, path__probe_rtt_done_ms=NONE >> 1)
    bbr.ack(n=100, now=S + RTT, rtt=RTT)  # 50 leave, marked from here on
    bbr.poke(ca__max_bw=BW // 4, path__bw_now=BW // 2, ca__full_bw_count=0, ca__full_bw=BW * 10)
    bbr.ack(n=50, now=S + 2 * RTT, rtt=RTT, ca__state=CRUISE, path__probe_rtt_min_ms=S // MS)
    assert ca(bbr, "full_bw_count") == 0  # of a limited round
    now = S + 2 * RTT
    for _ in range(3):
        now = at_rate(bbr, now, ca__state=CRUISE, path__probe_rtt_min_ms=now // MS)
    assert ca(bbr, "full_bw_count") >= 1


def test_idle_time_is_probe_rtt_enough(bbr):
    """A.11, 5.4.1: the rate is paced at once, and no ProbeRTT follows."""
    knows_the_path(bbr, cwnd=100, ca__pacing_gain=90)
    bbr.ack(n=100, now=S + RTT, rtt=RTT, app=0)
    bbr.send(now=S + 10 * S, app=50)
    assert ca(bbr, "idle_restart") == 1 and bbr.state()["counters"]["idle_restarts"] == 1
    assert bbr.state()["tp"]["pacing_rate"] == RATE * SEG * 99 // 100
    bbr.ack(n=49, now=S + 10 * S + RTT, rtt=RTT + 1)
    assert state(bbr) != PROBE_RTT and ca(bbr, "idle_restart") == 0


def test_probe_rtt_may_end_in_idle_time(bbr):
    knows_the_path(bbr, which=PROBE_RTT, cwnd=50, ca__prior_cwnd=120, path__probe_rtt_done_ms=S // MS + 100)
    bbr.ack(n=100, now=S + RTT, rtt=RTT, app=0)
    bbr.send(now=S + S, app=200)
    assert state(bbr) == CRUISE and bbr.state()["tp"]["snd_cwnd"] == 120


# --- aggregation (5.5.9, A.12, A.13) ----------------------------------------------------------------------------


def test_extra_acked_is_what_comes_beyond_the_rate(bbr):
    knows_the_path(bbr, cwnd=100, ca__round_count=100)
    bbr.ack(n=10, now=S + RTT, rtt=RTT, app=90)  # 10 at once, an interval begins
    assert ca(bbr, "extra_acked") == 10
    bbr.ack(n=30, now=S + RTT + 2 * MS, rtt=RTT, app=90)  # 40 in 2 ms, of which 5 are the rate's
    assert ca(bbr, "extra_acked") == 35
    assert ca(bbr, "w") == 200 + 35


def test_extra_acked_is_of_ten_rounds(bbr):
    knows_the_path(bbr, cwnd=100)
    bbr.poke(ca__round_count=16, ca__extra_acked=35)
    bbr.ack(n=40, now=S + RTT, rtt=RTT)
    bbr.ack(n=60, now=S + RTT + 1, rtt=RTT, app=1)
    first = ca(bbr, "round_count", "extra_acked")
    now, seen = S + RTT + 1, []
    for _ in range(12):
        now += 10 * S  # far below the rate: nothing extra but the ACK itself
        bbr.ack(n=NONE, now=now, rtt=RTT, app=1, path__probe_rtt_min_ms=now // MS)
        seen.append(ca(bbr, "round_count", "extra_acked"))
    assert first[1] == 100
    assert max(r for r, extra in seen if extra == 100) == first[0] + 9


# --- undo (5.5.11, A.18, A.19) -------------------------------------------------------------------------------------


def test_undo_in_a_probe(bbr):
    knows_the_path(bbr, which=UP, cwnd=100, ca__is_bw_probe_sample=1, ca__inflight_longterm=130)
    bbr.loss(n=10, sack=90, now=S + RTT)
    assert left_up(bbr) and ca(bbr, "inflight_longterm") < 130
    got = bbr.undo(now=S + RTT + 1)
    assert ca(bbr, "state", "inflight_longterm", "undo_state", "full_bw") == (REFILL, 130, NO_STATE, 0)
    assert got["cwnd"] >= 100 and bbr.state()["counters"]["undos"] == 1


def test_undo_in_startup(bbr):
    lossy_round(bbr, 6)
    assert state(bbr) != STARTUP
    bbr.undo(now=S + 3 * RTT)
    assert ca(bbr, "state", "full_bw_reached", "inflight_longterm") == (STARTUP, 0, NONE)


def test_undo_of_short_bounds(bbr):
    knows_the_path(bbr, which=CRUISE, cwnd=100)
    bbr.loss(n=1, sack=1, now=S + RTT)
    bbr.poke(ca__bw_shortterm=BW // 2, ca__inflight_shortterm=50)
    bbr.undo(now=S + RTT + 1)
    assert ca(bbr, "bw_shortterm", "inflight_shortterm", "is_loss_in_round", "state") == (NO_BW, NONE, 0, CRUISE)


def test_undo_does_not_leave_probe_rtt(bbr):
    for before in (STARTUP, UP):
        knows_the_path(bbr, which=PROBE_RTT, cwnd=50)
        bbr.loss(n=1, sack=1, now=S + RTT)
        bbr.poke(ca__undo_state=before)
        bbr.undo(now=S + RTT + 1)
        assert ca(bbr, "state", "full_bw_reached") == (PROBE_RTT, before != STARTUP)


def test_a_recovery_of_many_rounds_is_undone_to_its_beginning(bbr):
    """5.5.11.1: saved where the episode begins, not in each of its rounds."""
    knows_the_path(bbr, which=CRUISE, cwnd=100, ca__inflight_longterm=150)
    bbr.loss(n=1, sack=1, now=S + RTT)
    for i in range(2, 6):
        bbr.ack(n=0, sack=60, now=S + i * RTT, rtt=RTT, app=1000)
        bbr.loss(n=1, sack=1, now=S + i * RTT + 1)
    assert ca(bbr, "inflight_shortterm") < NONE
    bbr.undo(now=S + 6 * RTT)
    assert ca(bbr, "inflight_shortterm", "bw_shortterm", "inflight_longterm") == (NONE, NO_BW, 150)


# --- what the stack is told (5.6) -------------------------------------------------------------------------------------


def test_the_first_pacing_rate(bbr):
    """5.6.2: 2.77 windows an RTT; without an RTT, a millisecond, until there is one."""
    begin(bbr, snd_cwnd=10)
    assert bbr.state()["tp"]["pacing_rate"] == 250 * SEG * 277 // 100
    bbr.start(now=S, snd_cwnd=10)
    assert bbr.state()["tp"]["pacing_rate"] == 10_000 * SEG * 277 // 100
    bbr.ack(n=1, now=S + RTT, rtt=RTT)
    assert bbr.state()["tp"]["pacing_rate"] == 250 * SEG * 277 // 100


@pytest.mark.parametrize("which, gain", [(DOWN, 90), (CRUISE, 100), (UP, 125), (DRAIN, 50)])
def test_the_pacing_rate_is_one_percent_below(bbr, which, gain):
    knows_the_path(bbr, which=which, cwnd=300, ca__pacing_gain=gain, ca__next_round_delivered=1000)
    bbr.poke(packets_out=300)
    bbr.ack(n=1, now=S + MS, rtt=RTT)
    assert bbr.state()["tp"]["pacing_rate"] == RATE * SEG * gain * 99 // 10_000


def test_the_mss_of_a_route_that_goes_is_no_pace(bbr):
    """The kernel's blackhole_netdev has an MTU of 68."""
    knows_the_path(bbr, which=CRUISE, cwnd=300, ca__pacing_gain=100, ca__next_round_delivered=1000)
    bbr.poke(packets_out=300)
    bbr.ack(n=1, now=S + MS, rtt=RTT)
    for mss in (36, SEG):
        bbr.poke(mss_cache=mss)
        bbr.ack(n=1, now=S + 2 * MS, rtt=RTT)
        assert bbr.state()["tp"]["pacing_rate"] == RATE * SEG * 99 // 100


def test_startup_lowers_no_pacing_rate(bbr):
    begin(bbr, snd_cwnd=10, app=1)
    before = bbr.state()["tp"]["pacing_rate"]
    bbr.ack(n=1, now=S + RTT, rtt=RTT)
    assert ca(bbr, "bw") == 25 << 8 and bbr.state()["tp"]["pacing_rate"] == before


@pytest.mark.parametrize(
    "which, longterm, shortterm, cwnd",
    [
        (CRUISE, NONE, NONE, 200), (CRUISE, 100, NONE, 85), (CRUISE, 100, 50, 50), (DOWN, 100, NONE, 100),
        (REFILL, 100, NONE, 100), (PROBE_RTT, 40, NONE, 34), (PROBE_RTT, NONE, NONE, 50), (DRAIN, NONE, 60, 60),
        (CRUISE, 2, NONE, 4),
    ],
)  # fmt: skip
def test_bounds_of_the_window(bbr, which, longterm, shortterm, cwnd):
    """The table of 5.6.1."""
    bounds = dict(
        ca__inflight_longterm=longterm,
        ca__inflight_shortterm=shortterm,
        ca__cwnd_gain=50 if which == PROBE_RTT else 200,
    )
    knows_the_path(
        bbr, which=which, cwnd=300, ca__next_round_delivered=1000, path__probe_rtt_done_ms=NONE >> 1, **bounds
    )
    bbr.poke(packets_out=300)
    assert bbr.ack(n=1, now=S + MS, rtt=RTT, path__extra_acked_start=0, path__extra_acked_delivered=0)[
        "cwnd"
    ] - cwnd in (0, 1)


@pytest.mark.parametrize("added, bdp, window", [(0, 1, 6), (1, 1, 8), (0, 10, 20), (1, 10, 26)])
def test_three_bursts_are_the_least_or_come_besides(bbr, added, bdp, window):
    """The draft has the larger of both (5.6.4.2), version 1 the sum. A burst has two packets at this rate."""
    rate = bdp * 25 << 8
    knows_the_path(bbr, cwnd=50, params={"budget_added": added}, ca__bw=rate, ca__max_bw=rate, path__bw_now=rate)
    bbr.poke(packets_out=1, app=1)
    bbr.ack(n=1, now=S + MS, rtt=RTT, path__pacing_rate=0, path__extra_acked_start=0, path__extra_acked_delivered=0)
    assert ca(bbr, "w") - window in (0, 1)  # extra_acked


def test_a_timeout_begins_anew_from_one_packet(bbr):
    """5.6.4.4"""
    knows_the_path(bbr, cwnd=100)
    got = bbr.rto(now=S + S)
    assert got["cwnd"] == 1 and ca(bbr, "prior_cwnd") == 100
    got = bbr.ack(n=1, now=S + S + RTT, rtt=-1)
    assert got["cwnd"] == 4
    bbr.ack(n=NONE, now=S + S + 2 * RTT, rtt=-1)
    assert bbr.state()["tp"]["snd_cwnd"] >= 70  # what the short bound leaves of the window it had


def test_without_memory_the_window_rests_until_there_is_some(bbr):
    bbr.start(now=S, fails=1)
    for i in range(1, 5):
        assert bbr.ack(n=1, now=S + i * RTT, rtt=RTT)["cwnd"] == 10
    bbr.poke(fails=0)
    for i in range(5, 10):
        got = bbr.ack(n=1, now=S + i * RTT, rtt=RTT)
    assert got["cwnd"] > 10


def test_an_ack_before_init_is_none_of_ours(bbr):
    begin(bbr)
    bbr.poke(ca__w=0)
    assert bbr.ack(n=1, now=S + RTT, rtt=RTT)["cwnd"] == 10
