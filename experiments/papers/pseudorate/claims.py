# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of "Pseudo-rate TCP" (Chen and Chen 1999), and ours beside them. Sources count from 1, as in the paper."""

import numpy as np

from asymlab.metrics import jain

ACTIVE = (2, 4, 5)  # the sources that send to the end, one for each hop count
STOP_S, END_S = 5.0, 10.0
STEADY = ((3.0, STOP_S), (7.0, END_S))  # s: both halves without their ramps
N_QUEUE = 3
VEGAS_DIFFERS = "Linux's Vegas starts from 10 packets and doubles each round trip, the paper's every other"


def window(run, source: int):
    """(t, cwnd, srtt in s) at each ACK of a source."""
    acks = run.acks[run.acks["flow"] == source - 1]
    return acks["t"], acks["cwnd"].astype(float), acks["srtt_us"] / 1e6


def steady_window(run, source: int, span) -> float:
    t, cwnd, _ = window(run, source)
    return float(np.median(cwnd[(t >= span[0]) & (t < span[1])]))


def cycles_per_doubling(run) -> float:
    """Round trips from the first window to 90 % of the steady one, per doubling: mean over the active sources."""
    found = []
    for source in ACTIVE:
        t, cwnd, srtt = window(run, source)
        goal = 0.9 * steady_window(run, source, STEADY[0])
        reached = np.argmax(cwnd >= goal)
        if goal > cwnd[0]:
            found.append(np.sum(np.diff(t[:reached + 1]) / np.maximum(srtt[1:reached + 1], 1e-3)) / np.log2(goal / cwnd[0]))
    return float(np.mean(found))


def refill_s(run) -> float:
    """Time from the stop until the last of the active sources has 90 % of its new window."""
    last = 0.0
    for source in ACTIVE:
        t, cwnd, _ = window(run, source)
        reached = (t >= STOP_S) & (cwnd >= 0.9 * steady_window(run, source, STEADY[1]))
        last = max(last, t[np.argmax(reached)] - STOP_S)
    return float(last)


def unsteadiness(run) -> float:
    """Largest std/mean of an active source's window in either steady half."""
    def cv(source, span):
        t, cwnd, _ = window(run, source)
        inside = cwnd[(t >= span[0]) & (t < span[1])]
        return inside.std() / inside.mean()
    return float(max(cv(source, span) for source in ACTIVE for span in STEADY))


def fairness(run) -> float:
    return jain([run.metrics["flows"][source - 1]["goodput_bps"] for source in ACTIVE])


def used(run) -> float:
    return run.metrics["utilisation"]


def drops(run, since_s: float = 0) -> float:
    """Packets that the forward queues dropped from then on."""
    def dropped(dev):
        links = run.links[run.links["dev"] == dev]
        return links["drops"].max() - max(links["drops"][links["t"] < since_s], default=0)
    return float(sum(dropped(hop["forward"]["dev"]) for hop in run.job["watch"]))


def resting_queue(run) -> float:
    """Longest queue on the last hop in both steady halves, packets."""
    dev = run.job["watch"][-1]["forward"]["dev"]
    links = run.links[run.links["dev"] == dev]
    return float(max(links["qlen_max"][(links["t"] >= a) & (links["t"] < b)].max() for a, b in STEADY))


def windows_by_cycle(run, source: int) -> np.ndarray:
    """Base + Offset when each cycle of a source began."""
    state = run.state(source - 1)
    first = np.flatnonzero(np.diff(state["round_stamp"]) > 0) + 1
    return (state["base"].astype(int) + state["offset"])[first]


def largest_step(run) -> float:
    """Largest growth of an active source's window from cycle to cycle, packets."""
    return float(max(np.diff(windows_by_cycle(run, source)).max() for source in ACTIVE))


def claims(results):
    def lot(controller):
        return results.all("PR-LOT", flows__controller=controller)

    def against_vegas(measure):
        """(runs of Pseudo-rate with a Vegas run of the same seed, measure over Vegas')."""
        vegas = {r.record["seed"]: measure(r) for r in lot("vegas") if r.valid}
        return [r for r in lot("pseudorate") if r.record["seed"] in vegas], lambda r: measure(r) / max(vegas[r.record["seed"]], 1e-9)

    mine = lot("pseudorate")
    return [
        results.judge("PR-4a", "Figs. 3, 4", "round trips a doubling takes, from the first window to 90 % of the steady one: <= 0.6 of "
                      "Vegas', which here doubles each round trip, leaves slow start early and goes on by one packet", 0.5,
                      *against_vegas(cycles_per_doubling), at_most=0.6),
        results.judge("PR-4b", "Figs. 3, 4", "after the stop, 90 % of the new windows: in <= 0.5 of Vegas' time", None,
                      *against_vegas(refill_s), at_most=0.5,
                      why="a window has only some ten packets to gain at these rates: Vegas' one a round trip closes the gap about as "
                          "soon as a doubling from one"),
        results.judge("PR-4c", "Fig. 4", "steady windows: std/mean <= 0.10", 0.05, mine, unsteadiness, at_most=0.10, worst=True),
        results.judge("PR-5a", "Table 3", "from 0.3 s on, when all send: throughput >= 0.95 of the link", 0.98, mine, used, at_least=0.95),
        results.judge("PR-5b", "Table 3", "from 0.3 s on: throughput >= Vegas', ratio >= 1", 0.98 / 0.95, *against_vegas(used), at_least=1,
                      why="neither loses more than its first round trips: " + VEGAS_DIFFERS),
        results.judge("PR-6a", "Table 3", "Jain index of sources 2, 4, 5 >= 0.97", 0.993, mine, fairness, at_least=0.97),
        results.judge("PR-6b", "Table 3", "more than Vegas': ratio > 1", 0.993 / 0.889, *against_vegas(fairness), at_least=1 + 1e-9),
        results.judge("PR-7a", "section 4.3", "no packet is dropped", None, mine, drops, at_most=0,
                      why="doubling learns of the queue a cycle late: the source of 14 ms, which fills the path before the others do, "
                          "overflows the 128 packets with its last doubling"),
        results.judge("PR-7a later", "section 4.3", "and none after the first second", None, mine, lambda r: drops(r, 1), at_most=0),
        results.judge("PR-7a literal", "section 4.3", "with the bound as printed (bound_mode 0) no packet is dropped", None, lot("literal"), drops, at_most=0),
        results.judge("PR-7b", "eq. for Bound", f"at rest five sources queue at most 5 * {N_QUEUE} packets, 5 for bursts", None, mine, resting_queue,
                      at_most=5 * N_QUEUE + 5, worst=True),
        results.judge("PR-8", "section 3.2", f"the bound as printed (bound_mode 0) grows by <= {N_QUEUE} packets a cycle", None, lot("literal"),
                      largest_step, at_most=N_QUEUE, worst=True),
        results.judge("PR-8 rest", "section 3.2", "and comes to the same shares: Jain index of sources 2, 4, 5 >= 0.97", None, lot("literal"), fairness, at_least=0.97),
    ]
