# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The measures of TCP-Taichung's claims and figures, and which runs are a table's."""

import numpy as np

from asymlab.report.measures import Runs

BDP = 10e6 * 0.09 / 8 / 552  # packets: 10 Mbit/s, 90 ms, 552 bytes
PACKET_US = 552 * 8 / 10  # us: one packet's time on the link, what InterACK stands for
SPAN_S = 10  # of Fig. 3
SETTLED_S = 5  # a window's variation is measured from here on
SENDERS = (1, 2, 10)
OTHERS = ("reno", "westwood")
LOSSES = ("0%", "0.1%", "0.5%", "1%", "5%", "10%")
PAPER = "impatient"  # the profile that has the paper's recovery
TODAY = "tuned"  # Linux's own, with SACK
WITH = {PAPER: "impatient", "newreno": "slow but steady", TODAY: "with SACK"}
LABEL = {"taichung": "Taichung", "default": "Taichung", "reno": "NewReno", "westwood": "Westwood+"}


def flow_acks(run, flow: int = 0):
    return run.acks[run.acks["flow"] == flow]


def goodput_at_first(run) -> float:
    """Mbit/s acknowledged in the first 10 s of the connection (eq. 1: MaxACK * MSS / time)."""
    acks = flow_acks(run)
    inside = acks["t"] < acks["t"][0] + SPAN_S
    return float(acks["acked"][inside].astype("u8").sum() * 8 / SPAN_S / 1e6)


def slow_start(run) -> np.ndarray:
    """Which ACKs belong to the first slow start: up to the first at which cwnd is at ssthresh, or a loss was found."""
    acks = flow_acks(run)
    over = (acks["cwnd"] >= acks["ssthresh"]) | (acks["ca_state"] >= 2)
    return np.arange(len(acks)) < (np.argmax(over) if over.any() else len(acks))


def peak_over_bdp(run) -> float:
    """Largest window of the first slow start over the BDP."""
    return float(flow_acks(run)["cwnd"][slow_start(run)].max() / BDP)


def retransmits(run) -> float:
    return run.metrics["flows"][0]["retransmits_whole_run"]


def ideal_error(run) -> np.ndarray:
    """|ssthresh_ideal / (BDP + 1) - 1| at each ACK of the first slow start that has an estimate."""
    state = run.state(0)
    end = flow_acks(run)["t"][slow_start(run)][-1]
    ideal = state["ideal_q4"][(state["t"] <= end) & (state["ideal_q4"] > 0)] / 16
    return np.abs(ideal / (BDP + 1) - 1)


def ideal_error_median(run) -> float:
    return float(np.median(ideal_error(run)))


def ideal_error_at_end(run) -> float:
    """At the last ACK of the first slow start."""
    return float(ideal_error(run)[-1])


def ideal_share(run) -> float:
    """ssthresh_ideal over what each of the run's flows may have of the BDP, from 1 s on: the median of the flows'
    medians."""
    flows = len(run.metrics["flows"])
    states = [run.state(flow) for flow in range(flows)]
    medians = [np.median(s["ideal_q4"][(s["t"] >= 1) & (s["ideal_q4"] > 0)]) / 16 for s in states]
    return float(np.median(medians) / ((BDP + 1) / flows))


def variation(run) -> float:
    """Coefficient of variation of cwnd over the ACKs after 5 s, mean of the flows."""
    acks = run.acks[run.acks["t"] >= SETTLED_S]
    windows = [acks["cwnd"][acks["flow"] == flow] for flow in range(len(run.metrics["flows"]))]
    return float(np.mean([w.std() / w.mean() for w in windows if len(w)]))


def whose(runs) -> str:
    """The name of the runs' controller, for the note at a value that is one of three."""
    return f"it is {LABEL[runs[0].metrics['flows'][0]['controller']]}'s"


# --- which runs are a table's --------------------------------------------------------------


def table1(profile: str, n: int, controller: str) -> Runs:
    if n == 1:
        return Runs("TC-F3", profile=profile, flows__controller=controller)
    if profile == "newreno":
        return Runs("TC-T1-NEWRENO", flows__count=n, flows__controller=controller)
    return Runs("TC-T1", profile=profile, flows__count=n, flows__controller=controller)


def table3(profile: str, n: int, controller: str) -> Runs:
    return Runs("TC-T3", profile=profile, flows__count=n, flows__controller=controller)


def fig7(profile: str, loss: str, controller: str, id: str = "TC-F7") -> Runs:
    """10 % of loss has both profiles, the others the paper's."""
    if loss == "10%":
        return Runs(id, title=f"10 % lost, {WITH[profile]}", flows__controller=controller)
    return Runs(id, path__forward__loss=loss, flows__controller=controller)


def acks_lost(profile: str, controller: str) -> Runs:
    return Runs("TC-F7-ACKS", profile=profile, flows__controller=controller)


def senders(n: int) -> str:
    return "one sender" if n == 1 else f"{n} senders"
