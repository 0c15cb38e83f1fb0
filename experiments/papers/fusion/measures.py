# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The measures of TCP-Fusion's claims and figures, and the quantities of the paper."""

from statistics import fmean

import numpy as np

from asymlab.report.measures import Runs, goodput_of, jain_index, jain_of, share
from asymlab.results.metrics import jain

VARIANTS = ("reno", "fusion", "areno", "ctcp", "highspeed", "bic", "cubic")  # in the order of Table 1
FRIENDLY = ("fusion", "areno", "ctcp")
GREEDY = ("highspeed", "bic", "cubic")
SIMULATED = (*VARIANTS, "fast")
RARE, OFTEN = ("0.0001%", "0.001%"), ("0.01%", "0.1%", "1%")  # Reno can fill the path; leaves some of it
PHASES = {"increase": 1, "steady": 2, "decrease": 3}  # enum phase of fusion.bpf.c
RTTS = {20: "0ms", 60: "20ms", 120: "50ms"}  # ms of the second flow of FU-9: what it has more each way
SPEEDS = {100: "FU-11-100", 300: "FU-11-300", 600: "FU-11-GBIT", 1000: "FU-11-GBIT"}  # Mbit/s of Fig. 11
BUFFERS = (83, 167, 333, 1000)  # packets, of FU-1
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


def carried(run, rate: float) -> float:
    """The first flow's data that arrived in order, as IP packets, over the rate of the link in Mbit/s."""
    return run.metrics["flows"][0]["throughput_bps"] / 1e6 / rate


def kind_of(run, controller: str) -> float:
    """Mbit/s of the flow of this controller among the first two; of two alike the mean."""
    found = [goodput_of(run, i) for i in (0, 1) if run.job.flows[i].controller == controller]
    return sum(found) / len(found)


def twice_second(run) -> float:
    return 2 * goodput_of(run, 1)


def of_both(run, controller: str, other: str) -> float:
    """A controller's share of what both have."""
    mine = kind_of(run, controller)
    return mine / (mine + kind_of(run, other))


def of_fair(run, controller: str, other: str) -> float:
    """The same over the half, which would be fair."""
    return 2 * of_both(run, controller, other)


def second_of_fair(run) -> float:
    return 2 * share(run, 1, 0)


def share_difference(run) -> float:
    """The two flows' difference of goodput, in parts of their sum."""
    return abs(2 * share(run) - 1)


def mean_jain(runs) -> float:
    return fmean(jain_index(run) for run in runs)


def three_jain(run) -> float:
    return jain_of(run, range(3))


def cuts(run, flow: int) -> tuple[np.ndarray, ...]:
    """(cwnd before, ssthresh after, RTT, smallest RTT so far) of each loss, from the sender's state at each ACK. RTT is
    that of the ACK that told of the loss, or the last before. The first row has the RTT of the handshake, of which no
    controller hears: with another flow's packets in the queue it may be the smallest for long."""
    acks = run.acks[run.acks["flow"] == flow][1:]
    before = np.flatnonzero((acks["ca_state"][1:] >= 2) & (acks["ca_state"][:-1] < 2))
    sampled = np.maximum.accumulate(np.where(acks["rtt_us"] > 0, np.arange(len(acks)), 0))
    smallest = np.minimum.accumulate(np.where(acks["rtt_us"] > 0, acks["rtt_us"], np.iinfo(acks["rtt_us"].dtype).max))
    return acks["cwnd"][before], acks["ssthresh"][before + 1], acks["rtt_us"][sampled[before + 1]], smallest[before + 1]


def cut_error(run) -> float:
    """Packets by which a loss left another window than floor(cwnd max(RTTmin/RTT, 1/2)): the largest of the run."""
    cwnd, ssthresh, rtt, smallest = cuts(run, 0)
    return float(np.abs(ssthresh - np.floor(cwnd * np.maximum(smallest / rtt, 0.5))).max())


def stretched(run) -> np.ndarray:
    """RTT over RTTmin at each loss of Fusion."""
    _, _, rtt, smallest = cuts(run, 0)
    return rtt / smallest


def stretch_span(runs) -> float:
    """The largest of these ratios of several runs over the smallest."""
    ratios = [float(ratio) for run in runs for ratio in stretched(run)]
    return max(ratios) / min(ratios)


def smallest_cut(run) -> float:
    """The part of its window that the deepest cut of flow 0 left; rounding is given back."""
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
    """The share of ACKs that lowered the window: those in the decrease phase (or in slow start, which has no place
    there) of the measured time, with a window above reno_cwnd."""
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


# Flows of FU-13 that cross 1, 2, 3 hops: the variant 0, 2, 4, its Reno 1, 3, 5.


def by_hops(run) -> np.ndarray:
    """Mbit/s of the variant's and Reno's flow together that cross 1, 2, 3 hops."""
    return np.array([goodput_of(run, 2 * n) + goodput_of(run, 2 * n + 1) for n in range(3)])


def of_hops(run, hops: int) -> float:
    return float(by_hops(run)[hops - 1])


def hops_jain(run) -> float:
    return jain(by_hops(run))


def all_flows(run) -> float:
    return float(by_hops(run).sum())


def half_of_all(run) -> float:
    return all_flows(run) / 2


def reno_group(run) -> float:
    return sum(goodput_of(run, flow) for flow in (1, 3, 5))


def last_link(run) -> float:
    return run.metrics["hops"][-1]["forward"]["utilisation"]


# --- which runs ---------------------------------------------------------------------------


def beside(id: str, controller: str, **point) -> Runs:
    """A controller beside Reno, which is the second flow."""
    return Runs(id, flows__0__controller=controller, **point)


def alone(controller: str, loss: str) -> Runs:
    """Fig. 4."""
    return Runs("FU-4-RARE" if loss in RARE else "FU-4", path__forward__loss=loss, flows__controller=controller)


def lossy(controller: str, loss: str) -> Runs:
    """Figs. 5 and 6: beside Reno."""
    return beside("FU-5", controller, path__forward__loss=loss)


def pair(a: str, b: str) -> Runs:
    """Table 1: the pair of two controllers."""
    first, second = sorted((a, b), key=VARIANTS.index)
    return Runs("FU-T1", flows__0__controller=first, flows__1__controller=second)


def of_rtt(controller: str, ms: int, id: str = "FU-9") -> Runs:
    """Fig. 9: two flows of a kind, of 20 and of so many ms."""
    return Runs(id, flows__controller=controller, flows__1__extra_delay=RTTS[ms])


def fast(controller: str, speed: int) -> Runs:
    """Fig. 11, at so many Mbit/s."""
    point = {"path__forward__rate": f"{speed}mbit"} if speed > 300 else {}
    return beside(SPEEDS[speed], controller, **point)
