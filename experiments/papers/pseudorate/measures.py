# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The measures of Pseudo-rate TCP's claims and figures. Sources count from 1, as in the paper."""

import numpy as np

from asymlab.report.measures import jain_of
from asymlab.results import metrics

ACTIVE = (2, 4, 5)  # the sources that send to the end, one for each hop count
STOP_S, END_S = 5.0, 10.0
STEADY = ((3.0, STOP_S), (7.0, END_S))  # s: both halves without their ramps
RAMPED = ((0.2, 0.4), (5.2, 5.4))  # s: just after the ramps of the paper's 0-20 and 500-520 ms
STEP_S = 0.5  # of Fig. 6
N_QUEUE = 3
RISE_S = 3.0  # in rise
TABLE1 = (1, 2, 4, 8)  # windows of the first cycles
FIG1 = (0, 1, 3, 7, 15)  # packets above the window before the rise: 8, 9, 11, 15, 23 in the paper


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


def after_ramp(run, source: int, half: int) -> float:
    """A source's steady window over that just after the ramp at the start (half 0), or at the stop (1)."""
    return steady_window(run, source, STEADY[half]) / steady_window(run, source, RAMPED[half])


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


def largest_rise(run) -> float:
    """The largest of the steps between these windows."""
    return float(max(np.diff(rise(run)), default=0))


def as_fig1(run) -> float:
    """How many of the windows after the rise are Fig. 1's, counted from the one before it."""
    windows = rise(run)[: len(FIG1)]
    return float(np.argmin(np.append(windows - windows[:1] == FIG1[: len(windows)], False)))
