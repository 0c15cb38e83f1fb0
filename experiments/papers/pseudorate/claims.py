# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of "Pseudo-rate TCP" (Chen and Chen 1999), and ours beside them. Sources count from 1, as in the paper."""

import numpy as np

from asymlab.report import papers
from asymlab.report.claim import Cause, Check, Claim, Off
from asymlab.report.measures import Runs, each, jain_of, ratio_by_seed, together, utilisation
from asymlab.results import metrics

TITLE = "Pseudo-rate TCP"
SUBJECT = "A window that doubles up to its measured rate fills short queues evenly, and drops nothing."

ACTIVE = (2, 4, 5)  # the sources that send to the end, one for each hop count
STOP_S, END_S = 5.0, 10.0
STEADY = ((3.0, STOP_S), (7.0, END_S))  # s: both halves without their ramps
RAMPED = ((0.2, 0.4), (5.2, 5.4))  # s: just after the ramps of the paper's 0-20 and 500-520 ms
STEP_S = 0.5  # of Fig. 6
N_QUEUE = 3
RISE_S = 3.0  # in rise
TABLE1 = (1, 2, 4, 8)  # windows of the first cycles
FIG1 = (0, 1, 3, 7, 15)  # packets above the window before the rise: 8, 9, 11, 15, 23 in the paper
HALF = (0.4, 0.6)  # where the paper has 0.5
PLACES = tuple(dict.fromkeys(point["title"] for point in papers.points("pseudorate", "places")))
RIVALS = {"vegas95": "Vegas as published", "vegas": "Linux's Vegas"}


def window(run, source: int):
    """(t, cwnd, srtt in s) at each ACK of a source."""
    acks = run.acks[run.acks["flow"] == source - 1]
    return acks["t"], acks["cwnd"].astype(float), acks["srtt_us"] / 1e6


def steady_window(run, source: int, span) -> float:
    t, cwnd, _ = window(run, source)
    return float(np.median(cwnd[(t >= span[0]) & (t < span[1])]))


def refill_s(run) -> float:
    """Time from the stop until the last of the active sources has 90 % of its new window."""
    last = 0.0
    for source in ACTIVE:
        t, cwnd, _ = window(run, source)
        reached = (t >= STOP_S) & (cwnd >= 0.9 * steady_window(run, source, STEADY[1]))
        last = max(last, t[np.argmax(reached)] - STOP_S)
    return float(last)


def unsteadiness(run) -> float:
    """Largest (max - min) / mean of an active source's window in either steady half."""

    def fluctuation(source, span):
        t, cwnd, _ = window(run, source)
        inside = cwnd[(t >= span[0]) & (t < span[1])]
        return (inside.max() - inside.min()) / inside.mean()

    return float(max(fluctuation(source, span) for source in ACTIVE for span in STEADY))


def fairness(run) -> float:
    return jain_of(run, [source - 1 for source in ACTIVE])


def windows_by_rtt(run) -> float:
    """The smaller of two ratios in the second steady half: the window of 14 ms over that of 24, that of 24 over 34."""
    of_34, of_24, of_14 = (steady_window(run, source, STEADY[1]) for source in ACTIVE)
    return min(of_14 / of_24, of_24 / of_34)


def after_ramps(run, source: int) -> list[float]:
    """A source's steady window over that just after each ramp."""
    return [
        steady_window(run, source, steady) / steady_window(run, source, ramp) for ramp, steady in zip(RAMPED, STEADY)
    ]


def fairness_over_time(run) -> np.ndarray:
    """Jain index of the active sources, in steps of half a second."""
    bin_s = run.job.bin_ms / 1e3
    bins = [metrics.goodput_bins(run.goodput, source - 1, END_S, bin_s) for source in ACTIVE]
    return metrics.jain_over_time(np.array(bins), bin_s, STEP_S)


def fairer(runs) -> float:
    """Share of the steps in which the first of two runs is fairer."""
    mine, theirs = map(fairness_over_time, runs)
    return float(np.mean(mine > theirs))


def drops(run, since_s: float = 0) -> float:
    """Packets that the forward queues dropped from then on."""

    def dropped(dev):
        links = run.links[run.links["dev"] == dev]
        return links["drops"].max() - max(links["drops"][links["t"] < since_s], default=0)

    return float(sum(dropped(hop.forward.dev) for hop in run.job.watch))


def resting_queue(run) -> float:
    """Longest queue on the last hop in both steady halves, packets."""
    dev = run.job.watch[-1].forward.dev
    links = run.links[run.links["dev"] == dev]
    return float(max(links["qlen_max"][(links["t"] >= a) & (links["t"] < b)].max() for a, b in STEADY))


def cycles_to_fill(run, sources=ACTIVE, steady=STEADY[0]) -> float:
    """Round trips from the first window to 90 % of the steady one: mean over the sources."""
    found = []
    for source in sources:
        t, cwnd, srtt = window(run, source)
        reached = np.argmax(cwnd >= 0.9 * steady_window(run, source, steady))
        found.append(np.sum(np.diff(t[: reached + 1]) / np.maximum(srtt[1 : reached + 1], 1e-3)))
    return float(np.mean(found))


def cycles_alone(run) -> float:
    """The same of the one flow of rise, to its window beside the load."""
    return cycles_to_fill(run, (1,), (RISE_S - 1, RISE_S))


def cycle_ends(run, source: int) -> tuple[np.ndarray, np.ndarray]:
    """(when a source's cycles ended, Base + Offset then): from the second on, as the first ends with the handshake."""
    state = run.state(source - 1)
    last = np.flatnonzero(
        np.diff(state["round_stamp"]) > 0
    )  # a state is that before its ACK, and this ACK ends the cycle
    return state["t"][last], state["base"][last].astype(int) + state["offset"][last]


def largest_step(run) -> float:
    """Largest growth of an active source's window from cycle to cycle, packets."""
    return float(max(np.diff(cycle_ends(run, source)[1]).max() for source in ACTIVE))


def as_table1(run) -> float:
    """How many of the first windows are Table 1's."""
    windows = cycle_ends(run, 1)[1][: len(TABLE1)]
    return float(np.argmin(np.append(windows == TABLE1[: len(windows)], False)))


def rise(run) -> np.ndarray:
    """Windows at the ends of cycles after the load ended, from the last one at rest on."""
    t, windows = cycle_ends(run, 1)
    after = windows[t >= RISE_S]
    grows = np.flatnonzero(np.diff(after) > 0)
    return after[grows[0] :] if len(grows) else after[:0]


def as_fig1(run) -> float:
    """How many of the windows after the rise are Fig. 1's, counted from the one before it."""
    windows = rise(run)[: len(FIG1)]
    return float(np.argmin(np.append(windows - windows[:1] == FIG1[: len(windows)], False)))


def of(id: str, controller: str) -> Runs:
    return Runs(id, flows__controller=controller)


def against(rival: str, measure, id: str = "PR-LOT"):
    """Pseudo-rate's over the rival's."""
    return ratio_by_seed(of(id, "pseudorate"), of(id, rival), measure)


MINE, LITERAL = of("PR-LOT", "pseudorate"), of("PR-LOT", "literal")
NO_ROOM = Cause(
    "it starts from ten packets and doubles in each round trip, and fills the link as well: there is no room"
)


def claims():
    yield from first_claims(of("PR-RISE", "pseudorate"))
    for rival, name in RIVALS.items():
        yield from rival_claims(rival, name)
    yield from published_vegas()
    yield from ramp_claims()
    yield from queue_claims()
    yield from literal_claims()
    yield from place_claims()


def first_claims(rises):
    """The way to the first steady windows."""
    yield Claim(
        "PR-T1",
        "Table 1",
        f"the windows of the first cycles are {', '.join(map(str, TABLE1))}: so many of them agree",
        each(rises, as_table1),
        paper=len(TABLE1),
        at_least=len(TABLE1),
    )
    yield Claim(
        "PR-1",
        "Fig. 1",
        "a window of W at rest, 8 in the paper, then the bound rises: W, W + 1, W + 3, W + 7, W + 15; so many of "
        "them agree",
        each(rises, as_fig1),
        paper=len(FIG1),
        at_least=len(FIG1),
    )
    says = "round trips from the first window to 90 % of the steady one: in {bound} of those of Vegas as published"
    yield Claim(
        "PR-4a",
        "Figs. 3, 4",
        says,
        against("vegas95", cycles_to_fill, "PR-FILL"),
        paper=0.5,
        at_most=HALF[1],
        cause=Cause(
            "sources with a shorter RTT double first, and Vegas' own take long to even out",
            Off(
                "PR-C first",
                f"all RTTs {{rtt[0]}} ms: {says}",
                against("vegas95", cycles_to_fill, "PR-C-RTTS"),
                at_most=HALF[1],
            ),
        ),
    )
    yield Claim(
        "PR-4a alone",
        "Fig. 4",
        "the same of one flow, to its window beside a constant load",
        against("vegas95", cycles_alone, "PR-RISE"),
        paper=0.5,
        within=HALF,
    )


def rival_claims(rival: str, name: str):
    """Linux's Vegas is not the paper's: what is said of it is a check."""
    says = f"after the stop, 90 % of the new windows: in {{bound}} of the time of {name}"
    checks = [
        Off(f"PR-C {what}", f"{where}: {says}", against(rival, refill_s, id), below=1)
        for what, where, id in (("RTTs", "all RTTs {rtt[0]} ms", "PR-C-RTTS"), ("rate", "{rate} a hop", "PR-C-RATE"))
    ]
    short = Cause(
        "sources with a shorter RTT double first, and fill what those with a longer one are to gain, until the shares "
        "even out: the source of three hops is the last",
        *(["PR-C RTTs"] if rival == "vegas95" else []),
    )
    kind = Claim if rival == "vegas95" else Check
    yield kind(f"PR-4b {rival}", "Figs. 3, 4", says, against(rival, refill_s), below=1, cause=short)
    if rival == "vegas95":
        yield from checks
    yield kind(
        f"PR-5b {rival}",
        "Table 3",
        f"throughput over that of {name} {{bound}}",
        against(rival, utilisation),
        paper=0.98 / 0.95,
        above=1,
        cause=NO_ROOM if rival == "vegas" else None,
    )
    yield kind(
        f"PR-6b {rival}",
        "Table 3",
        f"Jain index of sources 2, 4, 5 over that of {name} {{bound}}",
        against(rival, fairness),
        paper=0.993 / 0.889,
        above=1,
    )


def published_vegas():
    """Of Vegas as published: Fig. 3, and Fig. 6 beside Pseudo-rate."""
    says = "Vegas as published: the shorter the RTT, the larger the steady window: the smaller ratio {bound}"
    yield Claim("PR-3a", "Fig. 3", says, each(of("PR-LOT", "vegas95"), windows_by_rtt), above=1)
    for title in PLACES[:2]:
        value = each(Runs("PR-PLACES", title=title, flows__controller="vegas95"), windows_by_rtt)
        yield Check(f"PR-3a {title}", "Fig. 3", f"{title}: {says}", value, above=1)
    says = "in so many of the steps of half a second Pseudo-rate's Jain index is above that of Vegas as published"
    value = together([MINE, of("PR-LOT", "vegas95")], fairer)
    yield Claim("PR-6c", "Fig. 6", says, value, at_least=0.9)


def ramp_claims():
    """What the windows do after both ramps."""
    for source, says, bound in ((5, "falls", {"below": 1.0}), (2, "rises", {"above": 1.0})):
        rtt = "shortest" if source == 5 else "longest"
        for half, when in enumerate(("start", "stop")):
            yield Claim(
                f"PR-4d {says} {when}",
                "Fig. 4",
                f"after the ramp at the {when} the window of the {rtt} RTT {says}: at rest {{bound}} of what it was",
                each(MINE, lambda run, source=source, half=half: after_ramps(run, source)[half]),
                **bound,
            )


def place_claims():
    """Table 3 with other delays and rates, which the paper's text has lost."""
    for title in PLACES:
        mine, theirs = (Runs("PR-PLACES", title=title, flows__controller=c) for c in ("pseudorate", "vegas95"))
        for what, measure, says in (
            ("5b", utilisation, "throughput"),
            ("6b", fairness, "Jain index of sources 2, 4, 5"),
        ):
            words = f"{title}: {says} over that of Vegas as published {{bound}}"
            yield Check(f"PR-{what} {title}", "Table 3", words, ratio_by_seed(mine, theirs, measure), above=1)


def queue_claims():
    """At rest, and what the way there drops."""
    yield Claim(
        "PR-4c",
        "Fig. 4",
        "steady windows: their range, over the mean, {bound}",
        each(MINE, unsteadiness),
        paper=0.05,
        at_most=0.10,
        worst=True,
    )
    says = "throughput {bound} of the last hop's rate"
    yield Claim("PR-5a", "Table 3", says, each(MINE, utilisation), paper=0.98, at_least=0.97)
    says = "Jain index of sources 2, 4, 5 {bound}"
    yield Claim("PR-6a", "Table 3", says, each(MINE, fairness), paper=0.993, at_least=0.97)
    says = "no periodic drop of the window by congestion of its own: no packet is dropped after the first second"
    yield Claim("PR-7a", "section 4.3", says, each(MINE, lambda r: drops(r, 1)), at_most=0, worst=True)
    yield Check(
        "PR-7a start",
        "not in the paper",
        "nor before",
        each(MINE, drops),
        at_most=0,
        worst=True,
        cause=Cause(
            "doubling learns of the queue a cycle late: the source of the shortest way fills the path before the "
            "others do, and overflows the queue with its last doubling",
            "PR-7a literal",
        ),
    )
    says = "with the bound as printed (bound_mode 0) no packet is dropped at all"
    yield Check("PR-7a literal", "section 4.3", says, each(LITERAL, drops), at_most=0, worst=True)
    yield Claim(
        "PR-7b",
        "eq. for Bound",
        f"at rest five sources queue at most 5 * {N_QUEUE} packets, 5 for bursts",
        each(MINE, resting_queue),
        at_most=5 * N_QUEUE + 5,
        worst=True,
    )


def literal_claims():
    """The bound as printed."""
    yield Check(
        "PR-8",
        "section 3.2",
        "the bound as printed (bound_mode 0) grows by {bound} packets a cycle",
        each(LITERAL, largest_step),
        at_most=N_QUEUE,
        worst=True,
    )
    yield Check(
        "PR-8 rise",
        "section 3.2",
        "as it does where PR-1 doubles: the largest step",
        each(of("PR-RISE", "literal"), lambda r: float(max(np.diff(rise(r)), default=0))),
        at_most=N_QUEUE,
        worst=True,
    )
    yield Check(
        "PR-8 rest",
        "section 3.2",
        "and comes to the same shares: Jain index of sources 2, 4, 5 {bound}",
        each(LITERAL, fairness),
        at_least=0.97,
    )
