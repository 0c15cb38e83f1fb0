# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The rivals' own sources, compiled for the host with sanitizers, against their laws and numbers by hand."""

from fractions import Fraction
from math import exp

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from host.driver import Driver, build, line
from host.streams import MS, RTT_MAX, W_MAX, many_rtts, one_rtt, packets, recover, rtts

ONE = 1 << 20  # a packet, in the units of the windows
EVER = 2**32 - 1  # data without end
windows = st.integers(2 * ONE, W_MAX * ONE) | st.integers(2 * ONE, 40 * ONE)


def running(name):
    driver = Driver(build(name))
    yield driver
    assert driver.close() == 0, driver.process.stderr.read()


@pytest.fixture(scope="session")
def nreno():
    yield from running("nreno")


@pytest.fixture(scope="session")
def vegas95():
    yield from running("vegas95")


@pytest.fixture(scope="session")
def ctcp():
    yield from running("ctcp")


@pytest.fixture(scope="session")
def areno():
    yield from running("areno")


@pytest.fixture(params=["nreno", "vegas95", "ctcp", "areno"])
def rival(request):
    return request.getfixturevalue(request.param)


def at_rest(driver, w, params=None, flight=1, ssthresh=2, **own):
    """A connection with this window (packets << 20), amid a round, its window filled, no data left."""
    driver.start(params, tx_start=0)
    state = {
        "app": 0, "snd_ssthresh": ssthresh, "snd_cwnd": w >> 20, "ca__cwnd": w >> 20, "ca__round_end": 2**30, "ca__round_stamp": 0,
        "ca__ack_stamp": 0, "now": 0, "packets_out": flight, "snd_nxt": 1 + flight * 960,
    }  # fmt: skip
    driver.poke(**state | own)


def sending(driver, w, params=None, **own):
    """The same with full flight and unlimited data; the next ACK but those in flight ends a round."""
    at_rest(driver, w, params, **own)
    driver.poke(packets_out=0, snd_nxt=1)
    driver.send(app=EVER)
    driver.poke(ca__round_end=driver.state()["tp"]["snd_nxt"])


def repaired(driver, **keys):
    """Ends a recovery with an ACK of the lost packet alone; the rest was acknowledged selectively, and none sent since."""
    driver.ack(n=0, sack=EVER, rtt=-1, app=0, **keys)
    recover(driver, rtt=-1, **keys)


def own(driver):
    return driver.state()["ca"]


def tp(driver):
    return driver.state()["tp"]


def count(driver, name):
    return driver.state()["counters"][name]


# --- what holds for each ------------------------------------------------------------------


def settled(driver, w=100):
    """Out of slow start, the whole of its window in flight."""
    driver.start({"init_cwnd": w}, now=0, snd_cwnd=w, snd_ssthresh=2)
    driver.batch([line("ack", rtt=40 * MS, now=40 * MS + i) for i in range(3)])
    return tp(driver)["snd_cwnd"]


def test_a_loss_then_its_undo(rival):
    w = settled(rival)
    rival.loss(now=90 * MS)
    cut = tp(rival)["snd_ssthresh"]
    assert w // 2 <= cut < w or rival.binary.name == "areno"
    assert rival.undo(now=91 * MS)["cwnd"] == w
    rival.ack(rtt=40 * MS, now=92 * MS)
    assert tp(rival)["snd_cwnd"] in (w, w + 1)
    assert (count(rival, "losses"), count(rival, "undos"), count(rival, "timeouts")) == (1, 1, 0)


def test_recovery_ends_with_the_reduced_window(rival):
    settled(rival)
    rival.loss(now=90 * MS)
    cut = tp(rival)["snd_ssthresh"]
    repaired(rival, now=130 * MS)
    assert tp(rival)["snd_cwnd"] == cut
    assert count(rival, "reloads") >= 1


def test_a_timeout_starts_slowly_again(rival):
    settled(rival)
    assert rival.rto(now=10**6)["cwnd"] == 1
    assert count(rival, "timeouts") == 1
    ssthresh = tp(rival)["snd_ssthresh"]
    assert ssthresh >= 50
    got = rival.ack(now=2 * 10**6, rtt=-1)["cwnd"]
    assert got == 2


def test_ecn_reduces_as_a_loss_does(rival):
    settled(rival)
    rival.loss(now=90 * MS)
    cut = tp(rival)["snd_ssthresh"]
    settled(rival)
    rival.cwr(now=90 * MS)
    assert tp(rival)["snd_ssthresh"] == cut
    assert count(rival, "losses") == 1


def test_no_growth_while_the_application_limits(rival):
    rival.start({"init_cwnd": 20}, now=0, snd_cwnd=20, app=2, snd_ssthresh=2)
    trace = [rival.ack(n=2, rtt=40 * MS, now=40 * MS * i)["cwnd"] for i in range(1, 60)]
    assert trace == [20] * 59
    assert count(rival, "limited_acks") >= 50 or rival.binary.name == "vegas95"  # in round trips that would grow only
    assert count(rival, "limited_acks") > 0


def test_after_idle_the_stack_says_how_much(rival):
    settled(rival, 50)
    rival.ack(n=EVER, app=0, rtt=40 * MS, now=100 * MS)
    rival.restart(cwnd=10, now=5 * 10**6)
    rival.send(app=EVER, now=5 * 10**6)
    assert rival.ack(rtt=40 * MS, now=5 * 10**6 + 40 * MS)["cwnd"] in (10, 11)


def test_nothing_is_saved_up_under_a_clamp(rival):
    """Ten round trips that would have added a packet each, then the limit goes."""
    rival.start({"init_cwnd": 20}, now=0, snd_cwnd=20, snd_cwnd_clamp=20, snd_ssthresh=2)
    for i in range(10):
        assert set(one_rtt(rival, i * 40 * MS)) == {20}
    rival.poke(snd_cwnd_clamp=1000)
    assert rival.ack(rtt=40 * MS, now=440 * MS)["cwnd"] in (20, 21)


# --- NewReno of ns-2 ----------------------------------------------------------------------


def test_nreno_begins_with_one_packet(nreno):
    assert nreno.start()["cwnd"] == 1
    assert nreno.start({"init_cwnd": 0})["cwnd"] == 10
    assert nreno.start({"init_cwnd": 3}, snd_cwnd_clamp=2)["cwnd"] == 2


@pytest.mark.parametrize(
    "stretch, trace", [(1, [20, 40, 80]), (2, [15, 23, 35]), (4, [13, 17, 22]), (10, [11, 13, 15])]
)
def test_nreno_slow_start_counts_acks(nreno, stretch, trace):
    nreno.start({"init_cwnd": 10}, now=0)
    assert many_rtts(nreno, 3, stretch=stretch) == trace


@given(w=windows, n=packets, ssthresh=st.integers(2, W_MAX))
@example(w=W_MAX * ONE, n=W_MAX, ssthresh=2)
@example(w=64 * ONE + ONE - 1, n=3, ssthresh=64)
@example(w=64 * ONE - 1, n=3, ssthresh=64)
def test_nreno_law_is_exact(nreno, w, n, ssthresh):
    at_rest(nreno, w, flight=n, ssthresh=ssthresh, ca__w_q20=w)
    nreno.poke(max_packets_out=w >> 20)
    nreno.ack(n=n)
    new = w + (ONE if w >> 20 < ssthresh else (1 << 40) // w)
    assert own(nreno)["w_q20"] == min(new, W_MAX * ONE)


@pytest.mark.parametrize("stretch, gained", [(1, 1), (2, 0.5), (4, 0.25), (50, 0.02)])
def test_nreno_gains_less_where_acks_are_few(nreno, stretch, gained):
    """A round trip of 100 packets."""
    at_rest(nreno, 100 * ONE, flight=100, ca__w_q20=100 * ONE)
    nreno.batch([line("ack", n=stretch) for _ in range(100 // stretch)])
    assert own(nreno)["w_q20"] / ONE - 100 == pytest.approx(gained, rel=0.01)


@pytest.mark.parametrize("w, half", [(100, 50), (101, 50), (5, 2), (3, 2), (2, 2)])
def test_nreno_halves(nreno, w, half):
    sending(nreno, w * ONE, ca__w_q20=w * ONE)
    nreno.loss()
    assert tp(nreno)["snd_ssthresh"] == half
    recover(nreno)
    assert tp(nreno)["snd_cwnd"] == half


def test_nreno_after_a_timeout(nreno):
    sending(nreno, 16 * ONE, ca__w_q20=16 * ONE)
    nreno.rto()
    trace = [nreno.ack(rtt=-1)["cwnd"] for _ in range(15)]
    assert trace[:7] == [2, 3, 4, 5, 6, 7, 8]  # ssthresh
    assert trace[7:15] == [8] * 8
    assert own(nreno)["w_q20"] / ONE == pytest.approx(9, abs=0.06)  # eight ACKs of 1/8 to 1/9


# --- Vegas of 1995 ------------------------------------------------------------------------

HOLD, DOUBLE, UP = range(3)


def decides(vegas95, w, rtt, params=None, base=40 * MS, phase=HOLD, ssthresh=2, n=1):
    """One ACK after a round trip with this mean RTT: what follows?"""
    at_rest(
        vegas95,
        w,
        params,
        flight=n,
        ssthresh=ssthresh,
        ca__w_q20=w,
        ca__over=1,
        ca__rtt_mean=rtt,
        ca__rtt_min=base,
        ca__phase=phase,
    )
    vegas95.ack(n=n)
    return own(vegas95)


def test_vegas95_doubles_in_every_other_round_trip(vegas95):
    vegas95.start({"init_cwnd": 2}, now=0)
    assert many_rtts(vegas95, 9) == [2, 4, 4, 8, 8, 16, 16, 32, 32]
    vegas95.start(now=0)
    assert many_rtts(vegas95, 7) == [1, 2, 2, 4, 4, 8, 8]


@pytest.mark.parametrize("stretch", [1, 2, 3])
def test_vegas95_knows_no_delayed_acks(vegas95, stretch):
    vegas95.start({"init_cwnd": 12}, now=0)
    assert many_rtts(vegas95, 5, stretch=stretch) == [12, 24, 24, 48, 48]


@pytest.mark.parametrize("rtt, w, over", [(42_666, 16, False), (42_667, 14, True), (80_000, 14, True)])
def test_vegas95_leaves_slow_start_beyond_gamma(vegas95, rtt, w, over):
    """16 packets, RTTmin 40 ms: one of them is in the queue at 42.667 ms; the eighth is 2."""
    ca = decides(vegas95, 16 * ONE, rtt, ssthresh=2**31 - 1, n=16)
    assert count(vegas95, "exits") == over
    assert ca["phase"] == (HOLD if over else DOUBLE)
    assert ca["w_q20"] == (w if over else 32) * ONE
    assert (tp(vegas95)["snd_ssthresh"] == 2) == over


def test_vegas95_decides_after_a_round_trip_that_held(vegas95):
    ca = decides(vegas95, 16 * ONE, 80 * MS, phase=DOUBLE, ssthresh=2**31 - 1)
    assert (ca["phase"], ca["w_q20"], count(vegas95, "exits")) == (HOLD, 16 * ONE, 0)


def test_vegas95_doubles_to_ssthresh_only(vegas95):
    ca = decides(vegas95, 16 * ONE, 40 * MS, ssthresh=20, n=16)
    assert ca["w_q20"] == 20 * ONE


@pytest.mark.parametrize("rtt, phase, w", [
    (40_000, UP, 20 + 1 / 20), (42_105, UP, 20 + 1 / 20), (42_106, HOLD, 20), (47_058, HOLD, 20), (47_059, HOLD, 19), (90_000, HOLD, 19),
])  # fmt: skip
def test_vegas95_keeps_one_to_three_packets_in_the_queue(vegas95, rtt, phase, w):
    """20 packets, RTTmin 40 ms: 1 of 20 at 42.1053 ms, 3 of 20 at 47.0588."""
    ca = decides(vegas95, 20 * ONE, rtt)
    assert ca["phase"] == phase
    assert ca["w_q20"] / ONE == pytest.approx(w, abs=1e-5)
    counted = [count(vegas95, name) for name in ("rounds", "increases", "decreases")]
    assert counted == [1, phase == UP, w == 19]


@given(
    w=windows, base=rtts, rtt=rtts, alpha=st.integers(0, 5) | st.integers(0, 65535), more=st.integers(0, 10) | st.just(40000),
    gamma=st.integers(0, 3) | st.integers(0, 65535), slow=st.booleans(),
)  # fmt: skip
@example(w=W_MAX * ONE, base=1, rtt=RTT_MAX, alpha=65535, more=0, gamma=65535, slow=False)
@example(w=W_MAX * ONE, base=1, rtt=RTT_MAX, alpha=1, more=2, gamma=1, slow=True)
@example(w=2 * ONE, base=40, rtt=RTT_MAX, alpha=0, more=0, gamma=0, slow=False)
def test_vegas95_law_is_exact(vegas95, w, base, rtt, alpha, more, gamma, slow):
    beta = min(alpha + more, 65535)
    ca = decides(
        vegas95, w, rtt, {"alpha": alpha, "beta": beta, "gamma": gamma}, base, ssthresh=2**31 - 1 if slow else 2
    )
    diff = Fraction(w, ONE) * Fraction(rtt - min(base, rtt), rtt)
    bounds = [gamma] if slow else [alpha, beta]
    if any(abs(diff - bound) < Fraction(1, 1000) for bound in bounds):
        return  # rounding may decide
    if slow:
        new = w - w // 8 if diff > gamma else w + ONE
    else:
        new = w + (1 << 40) // w if diff < alpha else w - ONE if diff > beta else w
    assert ca["w_q20"] == min(max(new, 2 * ONE), W_MAX * ONE)


@pytest.mark.parametrize("stretch", [1, 2, 7, 50, 100])
def test_vegas95_grows_by_one_packet_a_round_trip(vegas95, stretch):
    sending(vegas95, 100 * ONE, ca__w_q20=100 * ONE, ca__phase=UP, ca__rtt_min=40 * MS)
    one_rtt(vegas95, 0, stretch=stretch)
    assert own(vegas95)["w_q20"] / ONE == pytest.approx(101, abs=0.01)
    trace = many_rtts(vegas95, 6, start=40 * MS, stretch=stretch)
    assert [b - a for a, b in zip(trace, trace[1:])] == [1] * 5


def test_vegas95_settles_between_its_bounds_and_stays(vegas95):
    """A link of one packet a millisecond, 40 ms: w packets have an RTT of max(w, 40) ms."""
    vegas95.start({"init_cwnd": 2}, now=0)
    now, w, trace = 0, 2, []
    for _ in range(80):
        rtt = max(w, 40) * MS
        w = one_rtt(vegas95, now, rtt)[-1]
        now += rtt
        trace.append(w)
    assert max(trace) <= 64 and set(trace[-30:]) <= {41, 42, 43}
    assert len(set(trace[-10:])) == 1


@pytest.mark.parametrize("sample", [40 * MS + 800, -1])
def test_vegas95_does_not_turn_to_reno_with_few_samples(vegas95, sample):
    """One ACK a round trip: at 40.8 ms two of 100 packets are in the queue, which is where it stays."""
    sending(vegas95, 100 * ONE, ca__w_q20=100 * ONE, ca__rtt_min=40 * MS)
    assert many_rtts(vegas95, 20, stretch=100, sample=sample) == [100] * 20
    assert (count(vegas95, "increases"), count(vegas95, "decreases")) == (0, 0)
    assert count(vegas95, "rounds" if sample > 0 else "blind_rounds") >= 18


def test_vegas95_never_goes_below_two(vegas95):
    sending(vegas95, 6 * ONE, {"beta": 0, "alpha": 0}, ca__w_q20=6 * ONE, ca__rtt_min=40 * MS)
    trace = many_rtts(vegas95, 12, rtt=400 * MS)
    assert trace[-6:] == [2] * 6 and own(vegas95)["w_q20"] == 2 * ONE
    assert all(a - b <= 1 for a, b in zip(trace, trace[1:]))


def test_vegas95_takes_the_mean_of_a_round_trip(vegas95):
    """The ACK that ends a round trip belongs to the next."""
    sending(vegas95, 3 * ONE, ca__w_q20=3 * ONE, ca__rtt_min=30 * MS)
    vegas95.batch([line("ack", rtt=rtt, now=40 * MS + i) for i, rtt in enumerate([40 * MS, 41 * MS, 48 * MS])])
    vegas95.ack(rtt=99 * MS, now=80 * MS)
    ca = own(vegas95)
    assert (ca["rtt_mean"], ca["rtt_sum"], ca["rtt_count"]) == (43 * MS, 99 * MS, 1)


@pytest.mark.parametrize("w, left", [(100, 75), (101, 75), (4, 3), (3, 2), (2, 2)])
def test_vegas95_loses_a_quarter(vegas95, w, left):
    sending(vegas95, w * ONE, ca__w_q20=w * ONE, ca__rtt_min=40 * MS)
    vegas95.loss()
    assert tp(vegas95)["snd_ssthresh"] == left
    recover(vegas95)
    assert tp(vegas95)["snd_cwnd"] == left


def test_vegas95_timeout(vegas95):
    """ssthresh is half; with the first ACK the window is 2; then it doubles in every other round trip to ssthresh."""
    sending(vegas95, 40 * ONE, ca__w_q20=40 * ONE, ca__rtt_min=40 * MS, timestamps=1)
    vegas95.rto(now=10**6)
    assert tp(vegas95)["snd_ssthresh"] == 20
    assert many_rtts(vegas95, 11, start=10**6) == [2, 2, 4, 4, 8, 8, 16, 16, 20, 20, 21]


def test_vegas95_undone_timeout_leaves_no_trace(vegas95):
    sending(vegas95, 40 * ONE, ca__w_q20=40 * ONE, ca__rtt_min=40 * MS)
    vegas95.rto(now=10**6)
    assert vegas95.undo()["cwnd"] == 40
    assert own(vegas95)["timed_out"] == 0


def test_vegas95_shrinking_is_no_reason_for_slow_start(vegas95):
    ca = decides(vegas95, 30 * ONE, 80 * MS, ssthresh=30)
    assert (ca["w_q20"], tp(vegas95)["snd_ssthresh"]) == (29 * ONE, 2)


# --- Compound TCP -------------------------------------------------------------------------


def round_ends(ctcp, cwnd, dwnd, srtt=40 * MS, base=40 * MS, params=None, ssthresh=2, n=1, **keys):
    """One ACK that ends a round: both windows after it."""
    at_rest(ctcp, cwnd + dwnd, params, flight=n, ssthresh=ssthresh, ca__cwnd_q20=cwnd, ca__dwnd_q20=dwnd, ca__rtt_min=base,
            ca__round_end=0, srtt_us=srtt << 3, **keys)  # fmt: skip
    ctcp.ack(n=n)
    ca = own(ctcp)
    return ca["cwnd_q20"], ca["dwnd_q20"]


@pytest.mark.parametrize("w, gained", [
    (39, 0.95075), (100, 2.95285), (256, 7), (1000, 21.22849), (4096, 63), (10_000, 124), (65_536, 511), (W_MAX // 2, 2434.5),
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
    assert cwnd == w * ONE + (1 << 40) // (w * ONE + dwnd)


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
    cwnd=st.integers(2 * ONE, 300 * ONE), dwnd=st.integers(0, W_MAX * ONE // 2), base=rtts, srtt=st.integers(1, RTT_MAX),
    gamma=st.integers(1, 100) | st.integers(1, 65535), zeta=st.integers(0, 16),
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
    assert ca["cwnd_q20"] == min(cwnd + (n << 40) // (cwnd + dwnd), W_MAX * ONE)
    assert ca["dwnd_q20"] == min(dwnd, W_MAX * ONE - ca["cwnd_q20"])  # amid a round
    assert tp(ctcp)["snd_cwnd"] == ca["cwnd_q20"] + ca["dwnd_q20"] >> 20


def test_ctcp_over_round_trips(ctcp):
    """100 packets, no queue: 1 of (2) in each, and 3, 3, 3.1, ... of (3) with the first ACK of each but the first."""
    sending(ctcp, 100 * ONE, ca__cwnd_q20=100 * ONE, ca__rtt_min=40 * MS, srtt_us=40 * MS << 3)
    cwnd, dwnd, expected = 100.0, 0.0, []
    for i in range(8):
        acks = int(cwnd + dwnd)
        dwnd += int(cwnd + dwnd) ** 0.75 / 8 - 1 if i else 0
        for _ in range(acks):
            cwnd += 1 / (cwnd + dwnd)
        expected.append(int(cwnd + dwnd))
    assert many_rtts(ctcp, 8) == expected
    ca = own(ctcp)
    assert (ca["cwnd_q20"] / ONE, ca["dwnd_q20"] / ONE) == pytest.approx((cwnd, dwnd), abs=0.01)


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
    assert many_rtts(ctcp, 5, sample=-1) == [100, 101, 102, 103, 104]
    assert own(ctcp)["dwnd_q20"] == 0


def test_ctcp_limited_round_trip_raises_nothing(ctcp):
    cwnd, dwnd = round_ends(ctcp, 100 * ONE, 0, ca__limited=1)
    assert dwnd == 0 and cwnd > 100 * ONE  # this ACK is of the next
    assert own(ctcp)["limited"] == 0


def test_ctcp_retreat_is_no_reason_for_slow_start(ctcp):
    cwnd, dwnd = round_ends(ctcp, 40 * ONE, 60 * ONE, srtt=80 * MS, ssthresh=100)
    assert dwnd == pytest.approx(10 * ONE, abs=ONE / 1000)
    assert tp(ctcp)["snd_ssthresh"] == 50 and cwnd < 41 * ONE


# --- TCP Adaptive Reno --------------------------------------------------------------------

C_ONE = 1 << 16
MSS = 1250  # 10000 bits


def per_second(mbit):
    """B of so much payload: packets/s << 8."""
    return mbit * 1_000_000 * 256 // (8 * MSS)


def level(areno, w, mbit=100, base=40 * MS, rtt=40 * MS, cong=80 * MS, probe=0, n=1, params=None, **keys):
    """A connection amid a round with this RTT and RTTcong."""
    at_rest(areno, w, params, flight=n, ca__base_q20=w - probe, ca__probe_q20=probe, ca__rtt_min=base, ca__rtt_max=max(base, rtt),
            ca__rtt_last=rtt, ca__rtt_q4=rtt << 4, ca__rtt_cong=cong, ca__b_q8=per_second(mbit), mss_cache=MSS, **keys)  # fmt: skip


def winc(most, c, at_1):
    """(5); with at_1 = 1 as printed."""
    beta = 2 * most * (1 / 10 - (1 / 10 + 1) / exp(10))
    gamma = at_1 - 2 * most * (1 / 10 - (1 / 10 + 1 / 2) / exp(10))
    return most / exp(10 * c) + beta * c + gamma


@pytest.mark.parametrize("mbit, c, increase", [
    (100, 0, 8.00054), (100, 0.25, -0.67885), (100, 1, 0), (1000, 0, 80.00545), (1000, 0.1, 18.79239), (1000, 0.5, -9.32575), (1000, 1, 0),
    (10, 0, 0.80005), (10, 1, 0),
])  # fmt: skip
@pytest.mark.parametrize("at_1", [0, 1])
def test_areno_increase_by_hand(areno, mbit, c, increase, at_1):
    """Winc_max is 10 packets at 100 Mbit/s: 10 - 2 (1 - 0.6 / 22026) at c = 0, and 1 as printed."""
    rtt = 40 * MS + round(40 * MS * c)
    level(areno, 2000 * ONE, mbit, rtt=rtt, probe=1000 * ONE, n=2000, params={"winc_at_1": at_1})
    areno.ack(n=2000)
    assert own(areno)["c_q16"] == int(c * C_ONE)
    assert own(areno)["probe_q20"] / ONE - 1000 == pytest.approx(increase + at_1, abs=0.003 * mbit / 10)


@given(c=st.integers(0, 40 * MS), mbit=st.integers(1, 10_000), at_1=st.integers(0, 1))
@example(c=313, mbit=10_000, at_1=0)  # half a line of the table
def test_areno_increase_is_the_formula(areno, c, mbit, at_1):
    """Within what 64 straight lines for e^(-10c) allow, 0.31 % of it."""
    level(areno, 20_000 * ONE, mbit, rtt=40 * MS + c, probe=10_000 * ONE, n=20_000, params={"winc_at_1": at_1})
    areno.ack(n=20_000)
    most, level_of = mbit / 10, c / (40 * MS)
    got = own(areno)["probe_q20"] / ONE - 10_000
    slack = most * (0.0031 * exp(-10 * level_of) + 10 / C_ONE + 2e-5) + 1e-3
    assert got == pytest.approx(winc(most, level_of, at_1), abs=slack)


def test_areno_mean_increase_over_all_levels_is_nothing(areno):
    """Beside Wbase's: what Reno gains on the way to a loss."""
    total = 0
    for i in range(400):
        level(areno, 2000 * ONE, 1000, rtt=40 * MS + i * 100 + 50, probe=1000 * ONE, n=2000)
        areno.ack(n=2000)
        total += own(areno)["probe_q20"] / ONE - 1000
    assert total / 400 == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize("m_kbit, gained", [(10_000, 8.0), (1_000, 80.0), (100_000, 0.8)])
def test_areno_scales_with_m(areno, m_kbit, gained):
    level(areno, 2000 * ONE, 100, n=2000, params={"m_kbit": m_kbit})
    areno.ack(n=2000)
    assert own(areno)["probe_q20"] / ONE == pytest.approx(gained, abs=0.01)


def test_areno_one_window_at_most(areno):
    """1000 packets a round trip of B, 10 in the window: Winc_max is 10, Winc 8."""
    level(areno, 10 * ONE, 10_000, n=10)
    areno.ack(n=10)
    assert own(areno)["probe_q20"] / ONE == pytest.approx(8, abs=0.01)


@pytest.mark.parametrize("stretch", [1, 2, 7, 50, 100])
def test_areno_round_trip_of_acks_moves_by_winc_and_one(areno, stretch):
    level(areno, 1000 * ONE, 100, n=1000)
    areno.batch([line("ack", n=min(stretch, 1000 - i)) for i in range(0, 1000, stretch)])
    ca = own(areno)
    assert ca["probe_q20"] / ONE == pytest.approx(8, rel=0.01)
    assert ca["base_q20"] / ONE - 1000 == pytest.approx(1, rel=0.01)


def test_areno_one_ack_moves_no_more_than_a_round_trip(areno):
    level(areno, 100 * ONE, 100, n=100_000)
    areno.ack(n=100_000)
    assert own(areno)["probe_q20"] / ONE == pytest.approx(8, abs=0.01)


def test_areno_probe_ends_at_zero(areno):
    level(areno, 2000 * ONE, 1000, rtt=60 * MS, probe=3 * ONE, n=2000)
    areno.ack(n=2000)
    assert own(areno)["probe_q20"] == 0 and count(areno, "retreats") == 1
    assert own(areno)["base_q20"] == 1998 * ONE


@pytest.mark.parametrize("rtt, cong, rtt_max, c", [
    (40, 80, 80, 0), (50, 80, 80, 0.25), (80, 80, 80, 1), (200, 80, 200, 1), (41, 40, 90, 1), (40, 40, 90, 0), (45, 39, 90, 1),
    (50, 0, 80, 0.25), (80, 0, 80, 1), (40, 0, 40, 0),
])  # fmt: skip
def test_areno_congestion_level(areno, rtt, cong, rtt_max, c):
    """RTTmin 40; a RTTcong of 0: no loss yet."""
    level(areno, 100 * ONE, rtt=rtt * MS, cong=cong * MS)
    areno.poke(ca__rtt_max=rtt_max * MS)
    areno.ack()
    assert own(areno)["c_q16"] == c * C_ONE


@pytest.mark.parametrize("w, rtt, cong, left, new_cong", [
    (1000, 60, 80, 649, 77),  # 0.85 * 80 + 0.15 * 60; c = 20/37; 1000 / 1.5405
    (1000, 40, 80, 1000, 74),
    (1000, 80, 80, 500, 80),
    (1000, 120, 80, 500, 86),
    (1000, 50, 0, 500, 50),  # the first loss
    (1000, 40, 0, 1000, 40),
    (3, 80, 80, 2, 80),
])  # fmt: skip
def test_areno_loss_by_hand(areno, w, rtt, cong, left, new_cong):
    sending(
        areno,
        w * ONE,
        ca__base_q20=w * ONE,
        ca__rtt_min=40 * MS,
        ca__rtt_last=rtt * MS,
        ca__rtt_cong=cong * MS,
        ca__rtt_max=200 * MS,
    )
    areno.loss()
    assert (tp(areno)["snd_ssthresh"], own(areno)["rtt_cong"]) == (left, new_cong * MS)


@given(
    w=packets,
    base=rtts,
    last=st.integers(0, RTT_MAX) | st.integers(0, 1000),
    cong=rtts,
    command=st.sampled_from(["loss", "rto", "cwr"]),
)
@example(w=W_MAX, base=1, last=RTT_MAX, cong=RTT_MAX, command="loss")
@example(w=100, base=50, last=40, cong=60, command="loss")
def test_areno_cut_is_the_formula(areno, w, base, last, cong, command):
    at_rest(areno, w * ONE, ca__base_q20=w * ONE, ca__rtt_min=base, ca__rtt_last=last, ca__rtt_cong=cong)
    areno.do(command)
    if last:
        cong = (85 * cong + 15 * last) // 100
    assert own(areno)["rtt_cong"] == cong
    if not last:
        c = 1
    elif last <= base:
        c = 0
    else:
        c = min(Fraction(last - base, cong - base), 1) if cong > base else 1
    exact = w / (1 + Fraction(c))
    assert max(2, exact - 1) <= max(tp(areno)["snd_ssthresh"], 2) <= max(2, exact * (1 + Fraction(1, C_ONE)))


def test_areno_loss_ends_probing_and_undo_brings_it_back(areno):
    sending(areno, 100 * ONE, ca__base_q20=70 * ONE, ca__probe_q20=30 * ONE, ca__rtt_min=40 * MS, ca__rtt_last=60 * MS, ca__rtt_cong=80 * MS,
            ca__rtt_q4=60 * MS << 4, mss_cache=MSS)  # fmt: skip
    areno.loss(now=1)
    assert (own(areno)["probe_q20"], own(areno)["rtt_cong"]) == (0, 77 * MS)
    assert areno.undo(now=2)["cwnd"] == 100
    areno.ack(now=3, rtt=-1)
    ca = own(areno)
    assert ca["rtt_cong"] == 80 * MS
    assert (ca["probe_q20"] / ONE, ca["base_q20"] / ONE) == pytest.approx((30, 70), abs=0.02)


def test_areno_base_takes_the_window_after_a_loss(areno):
    sending(
        areno,
        100 * ONE,
        ca__base_q20=70 * ONE,
        ca__probe_q20=30 * ONE,
        ca__rtt_min=40 * MS,
        ca__rtt_last=60 * MS,
        ca__rtt_cong=80 * MS,
    )
    areno.loss(now=1)
    repaired(areno)
    ca = own(areno)
    assert (ca["base_q20"] / ONE, ca["probe_q20"] / ONE) == pytest.approx((64, 0), abs=0.1)


def test_areno_rtt_of_growth_is_averaged_and_that_of_the_cut_is_not(areno):
    sending(
        areno,
        100 * ONE,
        ca__base_q20=100 * ONE,
        ca__rtt_min=40 * MS,
        ca__rtt_last=40 * MS,
        ca__rtt_q4=40 * MS << 4,
        ca__rtt_cong=80 * MS,
    )
    areno.ack(rtt=80 * MS)
    assert own(areno)["rtt_q4"] == 50 * MS << 4
    assert own(areno)["c_q16"] == C_ONE // 4
    areno.loss()
    assert tp(areno)["snd_ssthresh"] == 50


def test_areno_rate_is_averaged_by_round_trips(areno):
    """100 packets in 40 ms are 2500 a second."""
    sending(areno, 100 * ONE, ca__base_q20=100 * ONE, ca__rtt_min=40 * MS)
    areno.poke(ca__delivered=0, delivered=0, ca__round_stamp=0)
    one_rtt(areno, -1, gap=0)
    areno.poke(now=40 * MS)
    areno.ack(n=1, rtt=40 * MS, now=40 * MS)
    assert own(areno)["b_q8"] == 101 * 256 * 25
    areno.poke(ca__b_q8=800 * 256, ca__delivered=0, delivered=99, ca__round_stamp=0, ca__round_end=0, ca__limited=0)
    areno.ack(n=1, rtt=40 * MS, now=62_500)  # 100 packets in 62.5 ms
    assert own(areno)["b_q8"] == (7 * 800 + 1600) * 256 // 8


def test_areno_limited_round_trip_lowers_no_rate(areno):
    sending(areno, 100 * ONE, ca__base_q20=100 * ONE)
    for limited, b in ((1, 8000), (0, 7200)):
        areno.poke(
            ca__b_q8=8000 * 256, ca__delivered=0, delivered=99, ca__round_stamp=0, ca__round_end=0, ca__limited=limited
        )
        areno.ack(n=1, rtt=40 * MS, now=62_500)
        assert own(areno)["b_q8"] == b * 256


def test_areno_slow_start_does_not_probe(areno):
    areno.start(now=0)
    assert many_rtts(areno, 6) == [20, 40, 80, 160, 320, 640]
    assert own(areno)["probe_q20"] == 0


@pytest.mark.parametrize("n, base, probe", [(3, 100, 0), (7, 100.04, 0.32), (1, 98, 0)])
def test_areno_slow_start_ends_at_ssthresh(areno, n, base, probe):
    """97 packets of 100; what an ACK covers beyond avoids congestion: 4/100 of 1 and of 8 packets."""
    level(areno, 97 * ONE, 100, n=n, ssthresh=100)
    areno.ack(n=n)
    ca = own(areno)
    assert (ca["base_q20"] / ONE, ca["probe_q20"] / ONE) == pytest.approx((base, probe), abs=0.001)


def test_areno_restart_after_idle_is_slow_start(areno):
    sending(areno, 100 * ONE, ca__base_q20=60 * ONE, ca__probe_q20=40 * ONE, ca__rtt_min=40 * MS, mss_cache=MSS)
    areno.ack(n=EVER, app=0, rtt=40 * MS, now=100 * MS)
    areno.restart(cwnd=20, now=5 * 10**6)
    areno.send(app=EVER, now=5 * 10**6)
    assert areno.ack(rtt=40 * MS, now=5 * 10**6 + 40 * MS)["cwnd"] == 21
    assert own(areno)["probe_q20"] == 0


def test_areno_probe_saves_nothing_up_under_a_clamp(areno):
    sending(areno, 100 * ONE, ca__base_q20=60 * ONE, ca__probe_q20=40 * ONE, ca__rtt_min=40 * MS, ca__rtt_cong=80 * MS,
            ca__b_q8=per_second(100), mss_cache=MSS, snd_cwnd_clamp=100)  # fmt: skip
    assert many_rtts(areno, 5) == [100] * 5
    assert own(areno)["base_q20"] + own(areno)["probe_q20"] == 100 * ONE


def test_areno_retreat_is_no_reason_for_slow_start(areno):
    level(areno, 2000 * ONE, 1000, rtt=60 * MS, probe=1000 * ONE, n=2000)
    areno.poke(snd_ssthresh=2000)
    areno.ack(n=2000)
    assert own(areno)["probe_q20"] < 1000 * ONE
    assert tp(areno)["snd_ssthresh"] == tp(areno)["snd_cwnd"] < 2000
