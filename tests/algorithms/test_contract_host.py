# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
Each law in turn is asked what holds for all: undo, marks, losses, timeouts, recovery, idle time, limits, samples.
The table has what differs. How a law grows is its model's business (test_models_host.py).
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.algorithms.host import accsa, driver, formosa
from tests.algorithms.host.rivals import EVER
from tests.algorithms.host.streams import MS, RTT_MAX, W_MAX, any_stream, many_rtts, recover

Q20, ENDLESS = 1 << 20, 2**31 - 1


@dataclass(frozen=True)
class Contract:
    """One law. Its window in `whole` is an integer; `own` are its windows in the private state."""

    own: tuple[str, ...]
    whole: tuple[str, int]  # the member that is the window, and its units in a packet
    first: int | None = 10  # first window by default; None: no parameter for it
    flat: float = 1 / 2  # what a loss leaves of the window where the RTT is RTTmin ...
    queued: float = 1 / 2  # ... and where it is twice RTTmin
    timeout: float | None = None  # what a timeout leaves, if that is another share
    marks: bool = False  # a mark is answered by ecn_beta_percent
    renos_start: bool = False  # slow start is Reno's
    bounds: dict = field(default_factory=dict)  # of other members: the largest value


Q = {"bounds": {"rtt_min": RTT_MAX, "rtt_last": RTT_MAX}}
LAWS = {
    "fast": Contract(("w_q8", "step_to_q8"), ("w_q8", 256), first=2,
                     bounds={"rtt_avg_q16": RTT_MAX << 16, "rtt_min": RTT_MAX, "step_to_q8": W_MAX << 8}),
    "fusion": Contract(("w_q20",), ("w_q20", Q20), flat=1, marks=True, renos_start=True,
                       bounds={"reno_q20": W_MAX << 20, "rtt_q4": RTT_MAX << 4, "rtt_min": RTT_MAX}),
    "taichung": Contract(("w_q20",), ("w_q20", Q20), flat=1, marks=True, renos_start=True,
                         bounds={"ideal_q4": W_MAX << 4, "inter_ack_ns": 4 * 10**9, "rtt_min": RTT_MAX}),
    "pseudorate": Contract(("base", "offset"), ("base", 1),
                           bounds={"bound_q4": W_MAX << 4, "rtt_min": RTT_MAX, "cycle_rtt": RTT_MAX}),
    "nreno": Contract(("w_q20",), ("w_q20", Q20), first=1),
    "vegas95": Contract(("w_q20",), ("w_q20", Q20), first=1, flat=3 / 4, queued=3 / 4, timeout=1 / 2, **Q),
    "ctcp": Contract(("cwnd_q20",), ("cwnd_q20", Q20), renos_start=True, **Q),
    "areno": Contract(("base_q20",), ("base_q20", Q20), flat=1, renos_start=True, **Q),
    "cubic9438": Contract(("w_q20",), ("w_q20", Q20), first=None, flat=0.7, queued=0.7, renos_start=True, **Q),
}  # fmt: skip
WITH_RTT = [name for name in LAWS if name != "nreno"]
BY_MARKS = [name for name, law in LAWS.items() if law.marks]
START_OF_RENO = [name for name, law in LAWS.items() if law.renos_start]
each = pytest.mark.parametrize("name", LAWS)


def tp(flow):
    return flow.state()["tp"]


def ca(flow):
    return flow.state()["ca"]


def counted(flow, *names):
    counters = flow.state()["counters"]
    return [counters[name] for name in names]


def under_way(of, name, w=100, rtt=40 * MS, params=None, now=10**6, **keys):
    """A connection that has left slow start, with w packets in flight and RTTmin 40 ms; the last RTT was `rtt`."""
    flow = of(name)
    flow.start(params, now=now, snd_cwnd=w, snd_ssthresh=2, data_segs_out=1, tx_start=0, **keys)
    times = {"rtt_min": 40 * MS, "rtt_last": rtt, "rtt_max": rtt, "rtt_q4": rtt << 4, "rtt_avg_q16": rtt << 16}
    flow.poke(**{f"ca.{member}": value for member, value in times.items() if member in ca(flow)})
    return flow


def window(flow, name):
    """The law's own, packets."""
    if name == "pseudorate":
        return ca(flow)["base"] + ca(flow)["offset"]
    member, units = LAWS[name].whole
    beside = {"ctcp": "dwnd_q20", "areno": "probe_q20"}.get(name)
    return (ca(flow)[member] + (ca(flow)[beside] if beside else 0)) / units


# --- the first window, and limits ----------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, law in LAWS.items() if law.first])
def test_first_window(of, name):
    flow = of(name)
    assert flow.start()["cwnd"] == LAWS[name].first
    assert flow.start({"init_cwnd": 0})["cwnd"] == 10  # the stack's
    assert flow.start({"init_cwnd": 32})["cwnd"] == window(flow, name) == 32
    assert flow.start({"init_cwnd": 32}, snd_cwnd_clamp=7)["cwnd"] == 7
    assert flow.start({"init_cwnd": 32}, snd_cwnd=40, data_segs_out=100)["cwnd"] == 40  # under way
    assert flow.start({"init_cwnd": 32}, snd_cwnd=1)["cwnd"] == 1  # its SYN was lost


@each
def test_clamp_is_honoured_and_then_kept(of, name):
    params = {"init_cwnd": 30, "alpha": 100} if name == "fast" else {"init_cwnd": 30} if LAWS[name].first else {}
    of(name).start(params, now=0, snd_cwnd=30, snd_cwnd_clamp=50)
    trace = many_rtts(of(name), 40)
    assert max(trace) == 50 and trace[-3:] == [50, 50, 50]
    assert window(of(name), name) == 50
    of(name).poke(snd_cwnd_clamp=1000)
    assert name == "cubic9438" or of(name).ack(rtt=40 * MS)["cwnd"] in (50, 51), (
        "nothing is saved up; a curve is of time"
    )


@each
def test_largest_window(of, name):
    flow = under_way(of, name, W_MAX, mss_cache=1, seg=1)
    assert flow.ack(n=W_MAX, rtt=40 * MS, now=2 * 10**6)["cwnd"] <= W_MAX
    flow.poke(snd_cwnd=2**31 - 1)
    assert flow.ack(rtt=40 * MS, now=3 * 10**6)["cwnd"] <= W_MAX and window(flow, name) <= W_MAX


@each
@settings(max_examples=60)
@given(data=st.data())
def test_any_stream_keeps_the_windows_in_bounds(of, name, data):
    flow, law = of(name), LAWS[name]
    _, most, played = any_stream(data, flow)
    for _, state in played:
        assert all(state["ca"][member] <= bound for member, bound in law.bounds.items())
    assert 1 <= window(flow, name) <= (W_MAX if name == "pseudorate" else most)


# --- samples -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WITH_RTT)
def test_rtt_min_is_the_least_sample_and_never_ages(of, name):
    """A sample has a bound, and an ACK without one changes nothing and ends no idle time."""
    flow, day = of(name), 86400
    flow.start({"tick_us": 0} if name == "areno" else None, now=0, app=100, tx_start=0)
    times = {"rtt_min", "rtt_last", "rtt_max", "rtt_q4", "rtt_avg_q16"} & {*ca(flow)}
    for second, rtt, last, least in (
        (1, 2**31 - 1, RTT_MAX, RTT_MAX), (2, 40 * MS, 40 * MS, 40 * MS), (day, 60 * MS, 60 * MS, 40 * MS),
        (day, 1, 1, 1),
    ):  # fmt: skip
        flow.ack(now=second * 10**6, rtt=rtt)
        before = flow.state()
        assert (before["ca"]["rtt_last"], before["ca"]["rtt_min"]) == (last, least)
        for none in (-1, 0, -(2**31)):
            flow.ack(now=second * 10**6 + 10 * MS, rtt=none)
            after = flow.state()
            assert all(before["ca"][member] == after["ca"][member] for member in times)
            assert after["counters"]["reloads"] == before["counters"]["reloads"]


# --- growth that any law has ----------------------------------------------------------------------


@pytest.mark.parametrize("stretch", [1, 2, 16])
@pytest.mark.parametrize("name", START_OF_RENO)
def test_slow_start_doubles_also_with_delayed_acks_and_ends_at_ssthresh(of, name, stretch):
    of(name).start(now=0)
    assert many_rtts(of(name), 5, sample=-1, stretch=stretch) == [20, 40, 80, 160, 320]
    of(name).start(now=0, snd_ssthresh=60)
    assert many_rtts(of(name), 3, sample=-1, stretch=stretch) in ([20, 40, 60], [20, 40, 61])


@pytest.mark.parametrize("name", START_OF_RENO)
def test_application_limited_slow_start_stops_at_twice_the_flight(of, name):
    of(name).start(now=0, app=20)
    many_rtts(of(name), 10, sample=-1)
    assert window(of(name), name) == 40


@each
def test_no_growth_while_the_application_limits(of, name):
    flow = under_way(of, name, 20, app=2, now=0)
    trace = [flow.ack(n=2, rtt=40 * MS, now=40 * MS * i)["cwnd"] for i in range(1, 60)]
    assert trace == sorted(trace, reverse=True) and trace[-1] == 20
    assert sum(n for name, n in flow.state()["counters"].items() if name.startswith("limited")) > 0


# --- losses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("w", [100, 101, 5, 3, 2])
@pytest.mark.parametrize("queued", [False, True])
@each
def test_what_a_loss_leaves_is_the_window_after_recovery(of, name, w, queued):
    flow, law = under_way(of, name, w, (1 + queued) * 40 * MS), LAWS[name]
    left = max(int(w * (law.queued if queued else law.flat) + 1e-9), 2)
    flow.loss(now=10**6 + 1)
    assert tp(flow)["snd_ssthresh"] == left
    flow.ack(n=0, sack=EVER, rtt=-1, app=0, now=10**6 + 2)
    recover(flow, rtt=-1, now=10**6 + 3)
    assert tp(flow)["state"] == 0 and tp(flow)["snd_cwnd"] in (left, left + (w < 6))
    assert counted(flow, "losses", "timeouts") == [1, 0] and (left == w or counted(flow, "reloads")[0] >= 1)


@pytest.mark.parametrize("name", [name for name in LAWS if name not in BY_MARKS])
def test_a_mark_is_answered_as_a_loss(of, name):
    for command in ("cwr", "ack"):
        flow = under_way(of, name, rtt=80 * MS)
        flow.do(command, **({"ece": 1, "now": 10**6 + 1} if command == "ack" else {}))
        assert tp(flow)["snd_ssthresh"] == int(100 * LAWS[name].queued) and counted(flow, "losses") == [1]


@pytest.mark.parametrize("percent, after", [(None, 50), (80, 80), (100, 100), (0, 90)])
@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("name", BY_MARKS)
def test_a_mark_leaves_a_share_of_the_window(of, name, percent, after, lost):
    """RTTmin/RTT is 0.9. A loss that the marked ACK tells of as well is no random one."""
    flow = under_way(of, name, params={} if percent is None else {"ecn_beta_percent": percent})
    flow.poke(ca__rtt_min=45 * MS, ca__rtt_last=50 * MS)
    flow.do("loss" if lost else "ack", ece=1, now=10**6 + 1)
    assert tp(flow)["snd_ssthresh"] == after and counted(flow, "losses", "marks") == [1, percent != 0]
    recover(flow, now=10**6 + 2, rtt=-1)
    flow.ack(n=1, now=10**6 + 3, rtt=-1)
    assert after <= window(flow, name) <= after + 3
    flow = under_way(of, name, 3)
    flow.ack(ece=1, now=10**6 + 1)
    assert tp(flow)["snd_ssthresh"] == 2


@pytest.mark.parametrize("command, keys", [("loss", {}), ("loss", {"timer": 1}), ("rto", {}), ("cwr", {})])
@pytest.mark.parametrize("name", BY_MARKS)
def test_an_old_mark_is_none(of, name, command, keys):
    """One that tells of nothing in flight cuts nothing; what follows has RTTmin/RTT, 0.9."""
    flow = under_way(of, name)
    flow.poke(packets_out=0)
    flow.ack(ece=1, now=10**6 + 1)
    flow.poke(packets_out=100, ca__rtt_min=45 * MS, ca__rtt_last=50 * MS, now=10**6 + 2)
    flow.do(command, **keys)
    assert tp(flow)["snd_ssthresh"] == 90 and counted(flow, "marks") == [0]


@each
def test_the_windows_rest_during_recovery(of, name):
    flow = under_way(of, name)
    before = window(flow, name)
    flow.loss(now=10**6 + 1)
    during = ca(flow)
    flow.batch([driver.line("ack", n=0, sack=1, rtt=40 * MS)] * 50)
    assert all(ca(flow)[member] == during[member] for member in LAWS[name].own)
    assert name in ("ctcp", "areno") or window(flow, name) == before


@each
def test_a_timeout_restarts_from_one_packet_and_counts_once(of, name):
    flow, law = under_way(of, name, rtt=80 * MS, timestamps=1), LAWS[name]
    assert flow.rto(now=2 * 10**6)["cwnd"] == 1
    assert tp(flow)["snd_ssthresh"] == int(100 * (law.timeout or law.queued))
    assert flow.rto(now=3 * 10**6)["cwnd"] == 1  # no ACK between: the same loss
    assert counted(flow, "losses", "timeouts") == [1, 1]
    assert flow.ack(now=4 * 10**6, rtt=-1)["cwnd"] in (1, 2)
    trace = many_rtts(flow, 24, start=5 * 10**6)  # vegas95 doubles in every other round trip
    assert trace == sorted(trace) and max(trace) >= 30


# --- undo ------------------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("how", ["at once", "amid recovery", "recovered", "timeout"])
@pytest.mark.parametrize("w", [7, 100, 2000])
def test_undo_restores_the_window(of, name, how, w):
    flow = under_way(of, name, w)
    before = window(flow, name)
    flow.do("rto" if how == "timeout" else "loss", now=10**6 + 1)
    if how == "amid recovery":
        flow.batch([driver.line("ack", n=0, sack=1)] * 30)
    elif how == "recovered":
        flow.ack(n=0, sack=EVER, rtt=-1, app=0, now=10**6 + 2)
        recover(flow, rtt=-1, now=10**6 + 3)
    elif how == "timeout":
        flow.ack(n=1, now=10**6 + 40 * MS, rtt=-1)
    assert flow.undo(now=2 * 10**6)["cwnd"] == w
    flow.send(app=EVER)
    flow.ack(rtt=40 * MS, now=2 * 10**6 + 1)
    assert before <= window(flow, name) <= before + 1
    assert counted(flow, "undos") == [1]


@each
def test_a_late_undo_never_lowers(of, name):
    flow = under_way(of, name, 10)
    flow.loss(now=10**6 + 1)
    recover(flow, now=10**6 + 40 * MS, rtt=40 * MS)
    many_rtts(flow, 8, start=10**6 + 40 * MS)
    grown = max(tp(flow)["snd_cwnd"], 30)
    flow.poke(snd_cwnd=grown)
    assert flow.undo(now=10**7)["cwnd"] == grown


# --- idle time and windows of the stack ------------------------------------------------------------------


@pytest.mark.parametrize("tx_start", [0, 1])
@pytest.mark.parametrize("cwnd", [None, 10, 200])  # 200: more than the window
@each
def test_after_idle_the_stack_says_how_much(of, name, cwnd, tx_start):
    flow = under_way(of, name, 50)
    flow.ack(n=EVER, app=0, rtt=40 * MS, now=10**6 + 40 * MS)
    w = tp(flow)["snd_cwnd"]
    if cwnd:
        assert flow.restart(cwnd=cwnd, now=9 * 10**6)["cwnd"] == min(cwnd, w)
    flow.send(app=EVER, tx_start=tx_start, now=9 * 10**6)
    got = flow.ack(rtt=50 * MS, now=9 * 10**6 + 50 * MS)["cwnd"]
    assert got in (min(cwnd or w, w), min(cwnd or w, w) + 1)
    assert name == "nreno" or (ca(flow)["rtt_min"] == 40 * MS and counted(flow, "reloads") == [1])


SELF_CONTROLLED = {"accsa": accsa.SENDER, "formosa": {"synack": formosa.HELLO}, "prague": {}}


@pytest.mark.parametrize("tx_start", [0, 1])
@pytest.mark.parametrize(
    "cwnd, seconds, shift", [(100, 0.9, 0), (100, 1.1, 1), (100, 2.1, 2), (100, 10**6, 31), (9, 9, 0)]
)
@pytest.mark.parametrize("name", SELF_CONTROLLED)
def test_idle_seconds_halve_a_window_that_the_stack_leaves_alone(of, name, cwnd, seconds, shift, tx_start):
    """Not below ten packets."""
    flow, keys = of(name), SELF_CONTROLLED[name]
    flow.start(now=0, snd_cwnd=cwnd, data_segs_out=1, snd_ssthresh=2, tx_start=tx_start, **keys)
    flow.ack(n=EVER, app=0, rtt=40 * MS, now=40 * MS)
    w = ca(flow)["w"]
    flow.send(app=EVER, now=40 * MS + int(seconds * 10**6))
    assert ca(flow)["w"] == (max(w >> shift, 10) if shift else w)
    ssthresh = ca(flow)["ssthresh"] if name == "formosa" else tp(flow)["snd_ssthresh"]
    assert ssthresh == (w - w // 4 if shift else 2)


@pytest.mark.parametrize("cwnd", [1, 40, 99, 101, 300])
@each
def test_a_window_of_the_stack_is_taken_over(of, name, cwnd):
    flow = under_way(of, name)
    flow.poke(snd_cwnd=cwnd, snd_ssthresh=1)
    assert flow.ack(now=10**6 + 1, rtt=-1)["cwnd"] in (cwnd, cwnd + 1)
    assert cwnd <= window(flow, name) <= cwnd + 1 and counted(flow, "reloads") == [1]
