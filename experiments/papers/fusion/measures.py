# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the claims and figures of TCP-Fusion measure, and the quantities of the paper.

Most scenarios are smaller than the paper's and say in their files what that changes. Where a verdict names a loss rate
or a link rate of the paper's, the file has ours for it.
"""

from statistics import fmean

import numpy as np

from asymlab.report.measures import goodput_of, ratio

VARIANTS = ("reno", "fusion", "areno", "ctcp", "highspeed", "bic", "cubic")  # as on the hops of FU-4
FRIENDLY = ("fusion", "areno", "ctcp")
GROUP = ("reno", *FRIENDLY)  # as on the hops of FU-5
GREEDY = ("highspeed", "bic", "cubic")
LOSSES = {
    "0.0025%": "1e-6",
    "0.025%": "1e-5",
    "0.25%": "1e-4",
    "2.5%": "1e-3",
}  # ours, the paper's of the same share for Reno
RARE, OFTEN = ("0.0025%", "0.025%"), ("0.25%", "2.5%")  # Reno has its fair share; leaves some of the path
PHASES = {"increase": 1, "steady": 2, "decrease": 3}  # enum phase of fusion.bpf.c
CUT = 0.66  # RTTmin/RTT with a full buffer of half a BDP: 40 / 60 ms
RTTS = (60, 120)  # ms, of the second flow on the hops of FU-9
TABLE_1 = {  # Mbit/s that the row has beside the column, in the order of VARIANTS
    "reno": (44.9, 40.2, 42.4, 38.6, 10.3, 10.4, 18.6),
    "fusion": (50.0, 43.6, 46.0, 43.0, 21.1, 11.4, 18.7),
    "areno": (40.5, 44.0, 43.2, 38.0, 16.5, 12.2, 19.4),
    "ctcp": (53.9, 46.5, 50.5, 44.9, 20.8, 13.8, 15.0),
    "highspeed": (78.2, 61.4, 68.2, 65.8, 43.2, 29.9, 29.7),
    "bic": (81.2, 79.0, 78.0, 76.2, 59.7, 44.8, 45.4),
    "cubic": (71.7, 70.3, 68.4, 74.0, 59.6, 43.9, 44.3),
}
NAMES = {
    "reno": "Reno",
    "fusion": "Fusion",
    "areno": "ARENO",
    "ctcp": "CTCP",
    "highspeed": "HSTCP",
    "bic": "BIC",
    "cubic": "CUBIC",
    "fast": "FAST",
}


# --- measures of one run ------------------------------------------------------------------


def both(run) -> float:
    """Mbit/s of the first two flows together."""
    return goodput_of(run, 0) + goodput_of(run, 1)


def carried(run, flow: int, rate: float) -> float:
    """What arrived of a flow in order, as IP packets, over the rate of its link in Mbit/s."""
    return run.metrics["flows"][flow]["throughput_bps"] / 1e6 / rate


def cuts(run, flow: int) -> tuple[np.ndarray, ...]:
    """(cwnd before, ssthresh after, RTT, smallest RTT so far) of each loss, from the sender's state at each ACK. RTT is
    that of the ACK that told of the loss, or the last before."""
    acks = run.acks[run.acks["flow"] == flow]
    before = np.flatnonzero((acks["ca_state"][1:] >= 2) & (acks["ca_state"][:-1] < 2))
    sampled = np.maximum.accumulate(np.where(acks["rtt_us"] > 0, np.arange(len(acks)), 0))
    smallest = np.minimum.accumulate(np.where(acks["rtt_us"] > 0, acks["rtt_us"], np.iinfo(acks["rtt_us"].dtype).max))
    return acks["cwnd"][before], acks["ssthresh"][before + 1], acks["rtt_us"][sampled[before + 1]], smallest[before + 1]


FU_1_FLOWS = range(0, 10, 2)  # Fusion's, on the five hops


def cut_error(run) -> float:
    """Packets by which a loss left another window than floor(cwnd max(RTTmin/RTT, 1/2)): the largest of the run."""
    cwnd, ssthresh, rtt, smallest = np.concatenate([cuts(run, f) for f in FU_1_FLOWS], axis=1)
    return float(np.abs(ssthresh - np.floor(cwnd * np.maximum(smallest / rtt, 0.5))).max())


def cut_range(run) -> float:
    """The largest RTT over RTTmin at a loss, over the smallest."""
    _, _, rtt, smallest = np.concatenate([cuts(run, f) for f in FU_1_FLOWS], axis=1)
    return float((rtt / smallest).max() / (rtt / smallest).min())


def smallest_cut(run) -> float:
    """What the deepest cut of flow 0 left of its window; what rounding took is given back."""
    cwnd, ssthresh, *_ = cuts(run, 0)
    return float(((ssthresh + 1) / cwnd).min())


def undisturbed(run) -> tuple[np.ndarray, np.ndarray]:
    """(state, the stack's cwnd) at Fusion's ACKs, those of recoveries left out."""
    acks, state = run.acks[run.acks["flow"] == 0], run.state(0)
    quiet = acks["ca_state"] < 2
    return state[quiet], acks["cwnd"][quiet]


def above_reno(run) -> float:
    """Share of Fusion's ACKs outside recovery at which cwnd is not less than its own reno_cwnd."""
    state, cwnd = undisturbed(run)
    return float((cwnd >= state["reno_q20"] >> 20).mean())


def falls(run) -> float:
    """Of the measured window's ACKs in the decrease phase (or in slow start, which has no place there) and with a
    window above reno_cwnd, the share that lowered it."""
    state, _ = undisturbed(run)
    w, reno = state["w_q20"].astype(float), state["reno_q20"].astype(float)
    mine = (
        np.isin(state["phase"][1:], (0, PHASES["decrease"]))
        & (w[1:] > reno[1:])
        & (state["t"][1:] >= run.job.measure_from_s)
    )
    return float((np.diff(w)[mine] < 0).mean()) if mine.any() else 0.0


def phase_share(run, phase: str) -> float:
    """Share of the ACKs in the measured window that were in this phase."""
    state = run.state(0)
    return float((state["phase"][state["t"] >= run.job.measure_from_s] == PHASES[phase]).mean())


def alone(run, controller: str) -> float:
    """Mbit/s of a variant in FU-4."""
    return goodput_of(run, VARIANTS.index(controller))


def beside(run, controller: str) -> tuple[float, float]:
    """Mbit/s of a variant and its Reno flow in FU-5."""
    hop = GROUP.index(controller)
    return goodput_of(run, 2 * hop), goodput_of(run, 2 * hop + 1)


def reno_beside(run, controller: str) -> float:
    """Mbit/s of the Reno flow beside a variant in FU-5; beside Reno the mean of the two."""
    return fmean(beside(run, "reno")) if controller == "reno" else beside(run, controller)[1]


def over_renos(run, controller: str) -> float:
    """Goodput of a variant in FU-5 over the mean of all Reno flows of the run."""
    renos = [beside(run, c)[1] for c in GROUP] + [beside(run, "reno")[0]]
    return beside(run, controller)[0] / fmean(renos)


def rtt_ratio(run, ms: int) -> float:
    """FU-9: goodput of the flow of 20 ms over that of the other."""
    first = 2 * RTTS.index(ms)
    return ratio(run, first, first + 1)


# Flows of FU-13 that cross 1, 2, 3 hops: the variant 0, 2, 4, its Reno 1, 3, 5.


def by_hops(run) -> np.ndarray:
    """Mbit/s of the variant's and Reno's flow together that cross 1, 2, 3 hops."""
    return np.array([goodput_of(run, 2 * n) + goodput_of(run, 2 * n + 1) for n in range(3)])


def reno_group(run) -> float:
    return sum(goodput_of(run, flow) for flow in (1, 3, 5))


def last_link(run) -> float:
    return run.metrics["hops"][-1]["forward"]["utilisation"]


# --- measures of several runs -------------------------------------------------------------


def spread(text: str, runs, measure) -> str:
    """The text, with the smallest and the largest of the runs' values in place of {}."""
    low, high = (f"{end([measure(r) for r in runs]):.3g}" for end in (min, max))
    return text.format(low if low == high else f"{low} to {high}")


def pairs(run) -> dict[tuple[str, str], tuple[float, float]]:
    """FU-T1: (row, column) of Table 1 -> Mbit/s of the row's and the column's flow."""
    names = [f.controller for f in run.job.flows]
    return {(names[i], names[i + 1]): (goodput_of(run, i), goodput_of(run, i + 1)) for i in range(0, len(names), 2)}


def table_1(runs) -> dict[tuple[str, str], list[float]]:
    """(row, column) -> Mbit/s that the row has beside the column, one a seed, in both orders; of two alike the mean."""
    found = {}
    for run in runs:
        for (a, b), (x, y) in pairs(run).items():
            if a == b:
                x = y = (x + y) / 2
            found.setdefault((a, b), []).append(x)
            if a != b:
                found.setdefault((b, a), []).append(y)
    return found
