# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The questions of RFC 9743 (BCP 133) to a new congestion control, and what this lab answers, heading by heading.

The RFC has no thresholds: the community weighs the results. The bounds here are ours. Most compare with CUBIC (RFC
9438) on the same path and seeds. Another flow is harmed if it has less than half of what it has beside CUBIC; "at least
as good" leaves a tenth for chance.

A question that changes gets another id, since the board compares answers by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np

from asymlab.report.claim import Claim
from asymlab.report.measures import (
    Measure,
    Runs,
    Value,
    each,
    goodput,
    goodput_of,
    jain_index,
    ratio_by_seed,
    utilisation,
)
from asymlab.results.store import Run

check = partial(Claim, check=True)
STANDARD = "cubic"
RIVALS = (STANDARD, "reno", "bbr")  # each scenario has runs of them
ALIKE = 0.9  # of CUBIC's: at least as good
MORE = 1.1  # times what CUBIC makes of a queue or a time: no worse
COUPLED = 2 / 3  # the same where the queue couples both: equal shares are its aim
RECOVERY = 3  # ca_state from here on: losses are being repaired
BREAKER_S = 3  # reports of a second each
PAYLOAD = 0.96  # of the bytes on a link
MSS, INITIAL_WINDOW = 1448, 10  # bytes; packets
AT_ONCE = {"title": "with it", "flows__1__controller": STANDARD}  # of BESIDE: a CUBIC flow from the same moment on
HARM = 0.5  # of what is had beside CUBIC: less is harm


@dataclass(frozen=True)
class Heading:
    section: str  # of RFC 9743
    title: str
    checks: tuple[Claim, ...] = ()
    left: str = ""  # what the lab does not answer, or not by itself


# --- measures -------------------------------------------------------------------------------


def sent_pps(run: Run) -> float:
    """Packets a second that left the forward queue."""
    return run.metrics["forward"]["packets"] / (run.job.duration_s - run.job.measure_from_s)


def at_return(run: Run) -> float:
    """Packets that pass once an outage is over: in the bin of the first of them, and in the next."""
    links = run.links[run.links["dev"] == run.job.watch[0].forward.dev]
    passed = links["packets"][links["t"] >= run.job.measure_from_s]
    first = next(iter(np.flatnonzero(passed)), 0)
    return float(passed[first : first + 2].sum())


def queue_ms(run: Run) -> float:
    """Mean delay of the forward queue."""
    return run.metrics["forward"]["queue_delay_mean_s"] * 1e3


def dropped(run: Run) -> float:
    """Share of the packets that the forward queue dropped."""
    forward = run.metrics["forward"]
    return forward["drops"] / max(forward["drops"] + forward["packets"], 1)


def other(run: Run) -> float:
    """Goodput of the second flow, Mbit/s."""
    return goodput_of(run, 1)


def rest(run: Run) -> float:
    """Mean goodput of all flows but the first, Mbit/s."""
    return fmean(goodput_of(run, flow) for flow in range(1, len(run.metrics["flows"])))


def last(run: Run) -> float:
    """Goodput of the last flow, Mbit/s."""
    return goodput_of(run, len(run.metrics["flows"]) - 1)


def cut(run: Run) -> float:
    """The window an RTT after a loss is found, over that before it: the median of all losses; 0 without one."""
    acks = run.acks[run.acks["flow"] == 0]
    found = np.flatnonzero((acks["ca_state"][1:] >= RECOVERY) & (acks["ca_state"][:-1] < RECOVERY))
    later = np.searchsorted(acks["t"], acks["t"][found] + acks["srtt_us"][found] / 1e6)
    inside = later < len(acks)
    ratios = acks["cwnd"][later[inside]] / acks["cwnd"][found[inside]]
    return float(np.median(ratios)) if len(ratios) else 0.0


def over_equation(run: Run) -> float:
    """The first flow's packets a second over 1 / (RTT sqrt(2 p / 3)), in the three seconds in which that is largest.

    RFC 8083, 4.3, ends a flow that has more than ten times as much."""
    acks = run.acks[(run.acks["flow"] == 0) & (run.acks["t"] >= run.job.measure_from_s)]
    ends = np.searchsorted(acks["t"], np.arange(run.job.measure_from_s, run.job.duration_s))
    ratios = [0.0]
    for start, end in zip(ends, ends[BREAKER_S:]):
        rows = acks[start:end]
        if len(rows) < 2:
            continue
        lost, delivered = (int(rows[name][-1]) - int(rows[name][0]) for name in ("lost", "delivered"))
        share, rtt_s = lost / max(lost + delivered, 1), rows["srtt_us"].mean() / 1e6
        ratios.append((lost + delivered) / BREAKER_S * rtt_s * (2 * share / 3) ** 0.5)
    return float(max(ratios))


def unused(run: Run) -> float:
    """The most that window and pacing together let go in an RTT, over twice the most packets in flight by then.

    draft-ietf-ccwg-ratelimited-increase, section 3, caps the window at what a round would make of the most in flight,
    which is at least the initial window: in slow start twice it, else less. A law that sets a rate may keep none that
    such a window forbids."""
    acks = run.acks[run.acks["flow"] == 0]
    paced = acks["pacing"] * (acks["srtt_us"] / 1e6) / MSS
    most = np.maximum.accumulate(np.maximum(acks["in_flight"], INITIAL_WINDOW))
    ratios = np.minimum(acks["cwnd"], paced) / (2 * most)
    return float(ratios[acks["t"] >= run.job.measure_from_s].max(initial=0))


def until(run: Run, flow: int, start: float, rate: float) -> float:
    """s from start on until a flow has nine tenths of a rate (bit/s) for a second; at most up to the run's end."""
    rows = run.goodput[(run.goodput["flow"] == flow) & (run.goodput["t"] >= start)]
    total = np.concatenate(([0], np.cumsum(rows["bytes"].astype(float))))
    for at, t in enumerate(rows["t"]):
        end = np.searchsorted(rows["t"], t + 1)
        if end < len(rows) and (total[end] - total[at]) * 8 >= 0.9 * rate:
            return float(t + 1 - start)
    return run.job.duration_s - start


def late_s(run: Run) -> float:
    """Until the flow that comes later has nine tenths of a half."""
    return until(run, 1, run.job.flows[1].start_s, run.job.watch[0].forward.rate_bps * PAYLOAD / 2)


def left_s(run: Run) -> float:
    """Until the flow that stays has nine tenths of the link."""
    return until(run, 0, run.job.flows[1].stop_s, run.job.watch[0].forward.rate_bps * PAYLOAD)


def slower(run: Run) -> float:
    """The lower goodput of two flows, Mbit/s."""
    return min(goodput_of(run, 0), goodput_of(run, 1))


def short_s(run: Run) -> float:
    """Mean time that a short flow takes, from its start to the last ACK."""
    closed = run.record["agent"]["closed"]
    times = [sum(closed[str(f.id)]) / 1e9 - f.start_s for f in run.job.flows if f.size_bytes and str(f.id) in closed]
    if len(times) < sum(1 for f in run.job.flows if f.size_bytes):
        return run.job.duration_s  # one of them never ended
    return fmean(times)


# --- headings -------------------------------------------------------------------------------


class Questions:
    """The questions to one controller."""

    def __init__(self, name: str) -> None:
        self.name = name

    def runs(self, id: str, controller: str, all: bool = False, **point: str | int) -> Runs:
        """all: each flow of the scenario has the controller, and not the first alone."""
        return Runs(id, **{"flows__controller" if all else "flows__0__controller": controller}, **point)

    def own(self, id: str, measure: Measure, all: bool = False, **point: str | int) -> Value:
        return each(self.runs(id, self.name, all, **point), measure)

    def over(self, id: str, measure: Measure, all: bool = False, **point: str | int) -> Value:
        """Over that of CUBIC in its place."""
        return ratio_by_seed(self.runs(id, self.name, all, **point), self.runs(id, STANDARD, all, **point), measure)


def headings(name: str) -> list[Heading]:
    q = Questions(name)
    return [
        Heading("5.1.1", "Protection against congestion collapse", tuple(collapse(q))),
        Heading("5.1.2", "Protection against bufferbloat", tuple(bufferbloat(q))),
        Heading("5.1.3", "Protection against high packet loss", tuple(high_loss(q))),
        Heading("5.1.4", "Fairness among its own", tuple(fairness(q))),
        Heading("5.1.5", "Short flows", tuple(short_flows(q))),
        Heading("5.2.1", "Beside Reno and CUBIC", tuple(beside(q))),
        Heading(
            "5.2.2",
            "Beside real-time traffic",
            tuple(real_time(q)),
            "A stream of constant rate stands for it; no congestion control of real-time media runs here.",
        ),
        Heading("5.2.3", "Short and long flows of others", tuple(wake(q))),
        Heading("5.3.1", "Differences with congestion control principles", left="An author's text, not a measurement."),
        Heading(
            "5.3.2",
            "Incremental deployment",
            tuple(incremental(q)),
            "The runs here need no help from the path. Whether both ends need it, its own page says.",
        ),
        Heading("6.1", "Paths with tail-drop queues", tuple(tail_drop(q))),
        Heading(
            "6.2",
            "Tunnel behaviour",
            tuple(tunnel(q)),
            "The tunnel is GRE between two routers. `tunnel` also takes IPIP and, with `qemu`, WireGuard.",
        ),
        Heading("6.3", "Wired paths", tuple(wired(q))),
        Heading("6.4", "Wireless paths", tuple(wireless(q))),
        Heading(
            "7.1",
            "Active queue management",
            tuple(aqm(q)),
            "DualPI2 is tried where the kernel has it: engine `uml`, Linux 7.3. Receivers of L4S have AccECN.",
        ),
        Heading("7.2", "Circuit breakers", tuple(breakers(q)), "The rule of RFC 8083 is applied to what was sent."),
        Heading("7.3", "Paths with varying delay", tuple(varying_delay(q))),
        Heading("7.4", "Constrained nodes", tuple(constrained(q)), "`asymlab bench` counts its cost on a small CPU."),
        Heading("7.5", "Paths with high delay", tuple(high_delay(q))),
        Heading(
            "7.6",
            "Misbehaving nodes",
            left="`make attack` tries two dozen kinds of peers that lie, on this machine's own kernel. In a guest of "
            "Linux 6.12 our laws sent twenty of them at most 1.3 times what Reno did. They sent up to 15 times as much "
            "to another, who forges duplicate ACKs without SACK and timestamps.",
        ),
        Heading("7.7", "Extreme packet reordering", tuple(reordering(q))),
        Heading("7.8", "Transient events", tuple(transients(q))),
        Heading("7.9", "Sudden changes in the path", tuple(sudden(q))),
        Heading(
            "7.10",
            "Multipath transport",
            tuple(multipath(q)),
            "MPTCP takes `--engine qemu`: the kernel of `uml` is built without. Linux has no coupled controllers.",
        ),
        Heading("7.11", "Data centres", tuple(data_centre(q)), "One rack; no switch marks by a low threshold."),
        Heading("8", "Security considerations", left="An author's text; `make attack` is a part of it, as for 7.6."),
        Heading(
            "-", "Not in the RFC: a slow way for its ACKs, an upload, several hops, a slow program", tuple(ours(q))
        ),
    ]


def collapse(q: Questions) -> Iterator[Claim]:
    says = "{loss} of all packets is lost: packets a second over CUBIC's {bound}"
    yield check("heavy", "5.1.1", says, q.over("HEAVY", sent_pps), at_most=2)
    says = "{loss} of what ten flows send is lost: packets a second over CUBIC's {bound}"
    for loss in ("20%", "40%"):
        value = q.over("HEAVIER", sent_pps, all=True, path__forward__loss=loss)
        yield check(f"heavy {loss}", "5.1.1", says, value, at_most=2)
    says = "a loss in a queue of {queue} packets: the window an RTT later over that before it, the median, {bound}"
    yield check("cut", "5.1.1", says, q.own("TAIL", cut), at_most=0.9)
    says = "after an outage: in the 0.2 s from the first packet that passes on, five RTTs of slow start, {bound} pass"
    yield check("return", "5.1.1", says, q.own("RETURN", at_return), at_most=31)


def bufferbloat(q: Questions) -> Iterator[Claim]:
    says = "{queue} packets of queue, eight BDP: its mean delay over that with CUBIC {bound}"
    yield check("bloat", "5.1.2", says, q.over("BLOAT", queue_ms), at_most=MORE)
    says = "and in it goodput over CUBIC's {bound}"
    yield check("bloat goodput", "5.1.2", says, q.over("BLOAT", goodput), at_least=ALIKE)


def high_loss(q: Questions) -> Iterator[Claim]:
    says = "five flows, {queue} packets of queue, a quarter of a BDP: share of packets dropped over CUBIC's {bound}"
    yield check("drops", "5.1.3", says, q.over("DROPS", dropped, all=True), at_most=2)
    says = "fifty flows on {rate}: share of packets dropped over CUBIC's {bound}"
    yield check("crowd drops", "5.1.3", says, q.over("CROWD", dropped, all=True), at_most=1.5)


def fairness(q: Questions) -> Iterator[Claim]:
    yield check("own", "5.1.4", "five flows: Jain index {bound}", q.own("OWN", jain_index), at_least=0.9)
    says = "fifty flows on {rate}: Jain index over CUBIC's {bound}"
    yield check("crowd", "5.1.4", says, q.over("CROWD", jain_index, all=True), at_least=ALIKE)
    for name, id, far, least in (("rtts", "RTTS", 120, ALIKE), ("rtts ten", "RTTS-TEN", 200, HARM)):
        says = f"flows of {{rtt[0]}} and {far} ms: the slower one's goodput over that with CUBIC {{bound}}"
        yield check(name, "5.1.4", says, q.over(id, slower, all=True), at_least=least)
    says = "two flows: from the start of the later one until it has nine tenths of a half, over CUBIC's, {bound}"
    yield check("late", "5.1.4", says, q.over("LATE", late_s, all=True), at_most=2)
    says = "and from its end until the other has nine tenths of the link, over CUBIC's, {bound}"
    yield check("left", "5.1.4", says, q.over("LATE", left_s, all=True), at_most=2)


def short_flows(q: Questions) -> Iterator[Claim]:
    says = "flows of 60 kB beside a long one, all of it: their mean time over that with CUBIC {bound}"
    yield check("short", "5.1.5", says, q.over("SHORT", short_s, all=True), at_most=MORE)
    says = "and the long one's goodput over CUBIC's {bound}"
    yield check("short long", "5.1.5", says, q.over("SHORT", goodput_of, all=True), at_least=ALIKE)


def both(q: Questions, name: str, section: str, id: str, where: str, **point: str) -> Iterator[Claim]:
    """The share of a CUBIC flow beside it, and its own."""
    says = f"{where}: what cubic has, over what it has beside CUBIC, {{bound}}"
    yield check(f"{name} cubic", section, says, q.over(id, other, **point), at_least=HARM)
    says = "it is not starved: its own goodput beside that cubic, over CUBIC's in its place, {bound}"
    yield check(f"{name} own", section, says, q.over(id, goodput_of, **point), at_least=HARM)


def beside(q: Questions) -> Iterator[Claim]:
    for rival in ("cubic", "reno"):
        for when in ("with it", "after it", "before it"):
            point = {"title": when, "flows__1__controller": rival}
            says = f"one {rival}, begun {when}: what {rival} has, over what it has beside CUBIC, {{bound}}"
            yield check(f"beside {rival} {when}", "5.2.1", says, q.over("BESIDE", other, **point), at_least=HARM)
    for id, path in (("DEEP", "{queue} packets of queue, four BDP"), ("FAR", "120 ms beside its 40 ms")):
        says = f"one cubic, {path}: what cubic has, over what it has beside CUBIC, {{bound}}"
        yield check(f"beside cubic {id.lower()}", "5.2.1", says, q.over(id, other), at_least=HARM)
    says = "it is not starved: its own goodput beside cubic, over CUBIC's in its place, {bound}"
    yield check("not starved", "5.2.1", says, q.over("BESIDE", goodput_of, **AT_ONCE), at_least=HARM)
    says = "and the share of their packets that is dropped, over that of two CUBIC flows, {bound}"
    yield check("beside drops", "5.2.1", says, q.over("BESIDE", dropped, **AT_ONCE), at_most=2)


def real_time(q: Questions) -> Iterator[Claim]:
    says = "{load} of small packets: the queue's mean delay over that beside CUBIC {bound}"
    yield check("voice delay", "5.2.2", says, q.over("VOICE", queue_ms), at_most=MORE)


def wake(q: Questions) -> Iterator[Claim]:
    says = "CUBIC flows of 60 kB beside a long one: their mean time over that beside CUBIC {bound}"
    yield check("wake", "5.2.3", says, q.over("WAKE", short_s), at_most=MORE)


def incremental(q: Questions) -> Iterator[Claim]:
    says = "one of it among ten cubic: what each of these has, over what it has beside CUBIC, {bound}"
    yield check("one", "5.3.2", says, q.over("ONE", rest), at_least=HARM)
    says = "and it is not starved: its own goodput over CUBIC's in its place {bound}"
    yield check("one own", "5.3.2", says, q.over("ONE", goodput_of), at_least=HARM)
    says = "ten of it beside one cubic: what that has, over what it has beside ten of CUBIC, {bound}"
    yield check("ten", "5.3.2", says, q.over("TEN", last), at_least=HARM)


def tail_drop(q: Questions) -> Iterator[Claim]:
    says = "{queue} packets of queue, a tenth of a BDP: goodput over CUBIC's {bound}"
    yield check("tail 7", "6.1", says, q.over("TAIL", goodput), at_least=ALIKE)


def tunnel(q: Questions) -> Iterator[Claim]:
    says = "both in GRE, one cubic: its own goodput over that without the tunnel {bound}"
    value = ratio_by_seed(q.runs("TUNNEL-BESIDE", q.name), q.runs("BESIDE", q.name, **AT_ONCE), goodput_of)
    yield check("tunnel beside", "6.2", says, value, near=(1, 0.2))
    says = "GRE, RED that marks outer packets: the queue's mean delay over that without the tunnel {bound}"
    value = ratio_by_seed(q.runs("TUNNEL-MARKS", q.name), q.runs("AQM", q.name, title="RED with ECN"), queue_ms)
    yield check("tunnel marks", "6.2", says, value, at_most=MORE)
    says = "a router marks one packet in a hundred without ECN, and GRE drops it: goodput over CUBIC's {bound}"
    yield check("tunnel drops", "6.2", says, q.over("TUNNEL-DROPS", goodput), at_least=ALIKE)


def wired(q: Questions) -> Iterator[Claim]:
    value = q.own("WIRED", utilisation)
    yield check("wired 100mbit", "6.3", "{rate}: utilisation {bound}", value, at_least=ALIKE)


def wireless(q: Questions) -> Iterator[Claim]:
    for loss in ("0.1%", "1%"):
        says = "{loss} of random loss: goodput over CUBIC's {bound}"
        value = q.over("LOSS", goodput, path__forward__loss=loss)
        yield check(f"loss {loss}", "6.4", says, value, at_least=ALIKE)
    says = "a rate that moves from a quarter to the whole, jitter of 5 ms: goodput over CUBIC's {bound}"
    yield check("radio", "6.4", says, q.over("RADIO", goodput), at_least=ALIKE)
    says = "and the queue's mean delay over that with CUBIC {bound}"
    yield check("radio delay", "6.4", says, q.over("RADIO", queue_ms), at_most=MORE)
    says = "the rate of a cell: goodput over CUBIC's {bound}"
    yield check("lte", "6.4", says, q.over("LTE", goodput), at_least=ALIKE)
    says = "and the queue's mean delay over that with CUBIC {bound}"
    yield check("lte delay", "6.4", says, q.over("LTE", queue_ms), at_most=MORE)


def aqm(q: Questions) -> Iterator[Claim]:
    for kind in ("RED", "RED with ECN", "FQ-CoDel", "CAKE"):
        says = f"{kind}: goodput over CUBIC's {{bound}}"
        yield check(f"{kind}", "7.1", says, q.over("AQM", goodput, title=kind), at_least=ALIKE)
        if kind != "CAKE":  # whose queue has a delay of its own, and is another's to count
            says = f"{kind}: the queue's mean delay over that with CUBIC {{bound}}"
            yield check(f"{kind} delay", "7.1", says, q.over("AQM", queue_ms, title=kind), at_most=2)
    for kind in ("RED", "PIE"):
        yield from both(q, f"{kind} beside", "7.1", "AQM-BESIDE", f"one cubic, {kind}", title=kind)
    says = "one cubic with ECN, where RED marks: what cubic has, over what it has beside CUBIC, {bound}"
    yield check("MARKS cubic", "7.1", says, q.over("MARKS", other), at_least=HARM)
    says = "one cubic behind DualPI2: what cubic has, over what it has beside CUBIC, {bound}"
    yield check("DualPI2 cubic", "7.1", says, q.over("DUALPI2-BESIDE", other), at_least=COUPLED)
    says = "it is not starved: its own goodput beside that cubic, over CUBIC's in its place, {bound}"
    yield check("DUALPI2-BESIDE own", "7.1", says, q.over("DUALPI2-BESIDE", goodput_of), at_least=HARM)


def breakers(q: Questions) -> Iterator[Claim]:
    says = "{loss} of all packets is lost: the rate over that of TCP's equation, in the three seconds of most, {bound}"
    yield check("breaker", "7.2", says, q.own("HEAVY", over_equation), at_most=10)
    says = "five flows, {queue} packets of queue, a quarter of a BDP: the same {bound}"
    yield check("breaker drops", "7.2", says, q.own("DROPS", over_equation, all=True), at_most=10)


def varying_delay(q: Questions) -> Iterator[Claim]:
    says = "the base RTT goes from 40 ms to 140, to 21, and back: goodput over CUBIC's {bound}"
    yield check("moves", "7.3", says, q.over("MOVES", goodput), at_least=ALIKE)
    says = "jitter of 15 ms: goodput over CUBIC's {bound}"
    yield check("jitter", "7.3", says, q.over("JITTER", goodput), at_least=ALIKE)
    says = "noise of 2 ms each way, {queue} packets of queue, eight BDP: goodput over CUBIC's {bound}"
    yield check("noise", "7.3", says, q.over("BLOAT-NOISE", goodput), at_least=ALIKE)
    says = "and the queue's mean delay over that with CUBIC {bound}"
    yield check("noise delay", "7.3", says, q.over("BLOAT-NOISE", queue_ms), at_most=MORE)
    yield from both(q, "noise", "7.3", "BESIDE-NOISE", "noise of 2 ms each way, one cubic")


def constrained(q: Questions) -> Iterator[Claim]:
    says = "{rate}, {rtt[0]} ms, packets of 576 bytes: utilisation {bound}"
    yield check("thing", "7.4", says, q.own("THING", utilisation), at_least=ALIKE)


def high_delay(q: Questions) -> Iterator[Claim]:
    says = "{rate}, {rtt[0]} ms: goodput over CUBIC's {bound}"
    yield check("geo", "7.5", says, q.over("GEO", goodput), at_least=ALIKE)


def reordering(q: Questions) -> Iterator[Claim]:
    says = "one packet of a hundred overtakes those of 20 ms: goodput over CUBIC's {bound}"
    yield check("order", "7.7", says, q.over("ORDER", goodput), at_least=ALIKE)


def transients(q: Questions) -> Iterator[Claim]:
    says = "{load} of others for five seconds: goodput in the five seconds after it, over CUBIC's, {bound}"
    yield check("burst over", "7.8", says, q.over("BURST", goodput), at_least=ALIKE)
    says = "a low satellite, two handovers with an outage and losses: goodput over CUBIC's {bound}"
    yield check("leo", "7.8", says, q.over("LEO", goodput), at_least=ALIKE)


def sudden(q: Questions) -> Iterator[Claim]:
    says = "a tenth of the rate for fifteen seconds: goodput in the five seconds after it, over CUBIC's, {bound}"
    yield check("fade over", "7.9", says, q.over("FADE", goodput), at_least=ALIKE)


def multipath(q: Questions) -> Iterator[Claim]:
    says = "MPTCP, two subflows on one path with one cubic: what that has over what it has beside one flow {bound}"
    value = ratio_by_seed(q.runs("MULTIPATH", q.name), q.runs("BESIDE", q.name, **AT_ONCE), last)
    yield check("multipath", "7.10", says, value, at_least=ALIKE)


def data_centre(q: Questions) -> Iterator[Claim]:
    says = "{rate}, {rtt[0]} ms: twenty of 500 kB at once: their mean time over that with CUBIC {bound}"
    yield check("incast", "7.11", says, q.over("INCAST", short_s), at_most=MORE)


def ours(q: Questions) -> Iterator[Claim]:
    says = "ACKs have {reverse}, a hundredth of the data's: goodput over CUBIC's {bound}"
    yield check("uplink", "ours", says, q.over("UPLINK", goodput), at_least=ALIKE)
    yield from both(q, "upload", "ours", "UPLOAD", "one cubic the other way, which has {reverse} for it and the ACKs")
    says = "ACKs have {reverse}, and the receiver thins them: goodput over CUBIC's {bound}"
    yield check("thinned", "ours", says, q.over("THINNED", goodput), at_least=ALIKE)
    says = "a flow of three hops, one of its kind on each: its goodput over CUBIC's in its place {bound}"
    yield check("chain", "ours", says, q.over("CHAIN", goodput_of, all=True), at_least=HARM)
    says = "a program that writes a quarter of the rate: what may go in an RTT, over twice the most in flight {bound}"
    yield check("limited", "ours", says, q.own("LIMITED", unused), at_most=1.1)
    says = "a pause of ten seconds: goodput in the ten seconds after it, over CUBIC's, {bound}"
    yield check("idle", "ours", says, q.over("IDLE", goodput), at_least=ALIKE)


# --- what a referee objects to where a question fails ----------------------------------------

# {} is the value. The board tells the answer of a heading that is farthest from its bound. Rows that are published may
# have answers to a question that is no longer asked: "collapse".
OBJECTIONS = {
    "heavy": "sends {} times CUBIC's packets where a tenth is lost",
    "heavy 20%": "sends {} times CUBIC's packets where a fifth is lost",
    "heavy 40%": "sends {} times CUBIC's packets where two fifths are lost",
    "cut": "an RTT after a loss its window is {} of what it was",
    "return": "lets {} packets go at once after an outage",
    "collapse": "sends {} times CUBIC's packets where half are lost",
    "bloat": "{} times CUBIC's queue where that is deep",
    "bloat goodput": "{} of CUBIC's goodput on a deep queue",
    "drops": "{} times CUBIC's losses on a short queue",
    "crowd drops": "{} times CUBIC's losses among fifty of its own",
    "crowd": "{} of CUBIC's Jain index among fifty of its own",
    "late": "a later flow waits {} times as long for its share",
    "left": "takes {} times CUBIC's time to fill what another leaves",
    "own": "a Jain index of {} among its own",
    "rtts": "its far flow has {} of CUBIC's among its own",
    "rtts ten": "its far flow, ten times as far, has {} of CUBIC's among its own",
    "short": "short flows of its own take {} times CUBIC's time",
    "short long": "a long flow beside short ones has {} of CUBIC's goodput",
    **{
        f"beside {rival} {when}": f"{rival} {said} has {{}} of what CUBIC leaves it"
        for rival in ("cubic", "reno")
        for when, said in (("with it", "beside it"), ("after it", "that comes later"), ("before it", "that was there"))
    },
    "beside cubic deep": "cubic beside it on a deep queue has {} of what CUBIC leaves it",
    "beside cubic far": "cubic of a longer RTT has {} of what CUBIC leaves it",
    "not starved": "gets {} of CUBIC's share beside cubic",
    "beside drops": "{} times CUBIC's losses beside cubic",
    "breaker": "has {} times what TCP's equation gives where a tenth is lost",
    "breaker drops": "has {} times what TCP's equation gives on a short queue",
    "one": "ten cubic beside it have {} of what CUBIC leaves them",
    "one own": "gets {} of CUBIC's share beside ten cubic",
    "ten": "cubic beside ten of it has {} of what ten of CUBIC leave it",
    "voice delay": "a small stream beside it waits {} times as long",
    "wake": "CUBIC's short flows beside it take {} times as long",
    "tail 7": "{} of CUBIC's goodput with 7 packets of queue",
    "wired 100mbit": "uses {} of 100 Mbit/s",
    "loss 0.1%": "{} of CUBIC's goodput with 0.1 % of loss",
    "loss 1%": "{} of CUBIC's goodput with 1 % of loss",
    "radio": "{} of CUBIC's goodput where the rate moves",
    "radio delay": "{} times CUBIC's queue where the rate moves",
    "lte": "{} of CUBIC's goodput in a cell",
    "lte delay": "{} times CUBIC's queue in a cell",
    "RED": "{} of CUBIC's goodput with RED",
    "RED delay": "{} times CUBIC's queue with RED",
    "RED with ECN": "{} of CUBIC's goodput where RED marks",
    "RED with ECN delay": "{} times CUBIC's queue where RED marks",
    "FQ-CoDel": "{} of CUBIC's goodput with FQ-CoDel",
    "FQ-CoDel delay": "{} times CUBIC's queue with FQ-CoDel",
    "CAKE": "{} of CUBIC's goodput with CAKE",
    "MARKS cubic": "cubic beside it where RED marks has {} of what CUBIC leaves it",
    "RED beside cubic": "cubic beside it behind RED has {} of what CUBIC leaves it",
    "RED beside own": "gets {} of CUBIC's share beside cubic behind RED",
    "PIE beside cubic": "cubic beside it behind PIE has {} of what CUBIC leaves it",
    "PIE beside own": "gets {} of CUBIC's share beside cubic behind PIE",
    "DualPI2 cubic": "cubic beside it behind DualPI2 has {} of what CUBIC leaves it",
    "DUALPI2-BESIDE own": "gets {} of CUBIC's share beside cubic behind DualPI2",
    "burst over": "{} of CUBIC's goodput just after a burst of others",
    "fade over": "{} of CUBIC's goodput once the rate is back",
    "moves": "{} of CUBIC's goodput where the path's RTT changes",
    "jitter": "{} of CUBIC's goodput with jitter",
    "noise": "{} of CUBIC's goodput with noise",
    "noise delay": "{} times CUBIC's queue with noise",
    "noise cubic": "cubic beside it with noise has {} of what CUBIC leaves it",
    "noise own": "gets {} of CUBIC's share beside cubic with noise",
    "tunnel beside": "has {} times its goodput beside cubic within a tunnel",
    "tunnel marks": "{} times its queue where RED marks what a tunnel carries",
    "tunnel drops": "{} of CUBIC's goodput where a tunnel drops what is marked",
    "thing": "uses {} of 60 kbit/s",
    "geo": "{} of CUBIC's goodput at an RTT of 600 ms",
    "multipath": "cubic beside two subflows of it has {} of what one flow leaves it",
    "order": "{} of CUBIC's goodput where packets overtake",
    "leo": "{} of CUBIC's goodput where a satellite hands over",
    "incast": "twenty answers at once take {} times CUBIC's time",
    "uplink": "{} of CUBIC's goodput where ACKs have a hundredth of the rate",
    "upload cubic": "an upload beside it has {} of what CUBIC leaves it",
    "upload own": "{} of CUBIC's goodput beside an upload",
    "thinned": "{} of CUBIC's goodput where the receiver thins ACKs",
    "limited": "it may send {} times twice what a slow program had in flight",
    "idle": "{} of CUBIC's goodput after a pause",
    "chain": "{} of CUBIC's goodput over three hops",
}
# The headings that no run here answers.
KNOWN = {
    "formosa": "both ends must run it",
    "accsa": "both ends must run it, and the path must mark ACKs",
    "prague": "its receivers must have AccECN, and its own device a filter, or it is no L4S",
    "dctcp": "it is for paths that mark by a low threshold, and none does here",
}
