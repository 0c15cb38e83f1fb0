# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of "TCP-Fusion" (Kaneko, Fujikawa, Su, Katto 2007), and ours beside them."""

import numpy as np

LOSSES = ("0.0001%", "0.001%", "0.01%", "0.1%", "1%")  # the paper's exponents are lost; by Reno's law these span its figure
KERNELS_OWN = ("reno", "highspeed", "bic", "cubic")
VARIANTS = ("fusion", "reno", "highspeed", "bic", "cubic")
PHASES = {"increase": 1, "steady": 2, "decrease": 3}  # enum phase of fusion.bpf.c
LEAVES_RENO = {  # half of path and buffer is a window of 50 packets
    "highspeed": "HighSpeed leaves Reno's law at a window of 38 packets (RFC 3649), and a share of path and buffer is 50 here",
    "bic": "BIC leaves Reno's law at a window of 14 packets (low_window), and a share of path and buffer is 50 here",
}
CUT = 0.66  # RTTmin/RTT with a full buffer of half a BDP: 40 / 60 ms, less a packet's rounding


def reductions(run, flow: int) -> np.ndarray:
    """ssthresh after each loss over cwnd before it, from the sender's state at each ACK."""
    acks = run.acks[run.acks["flow"] == flow]
    entry = np.flatnonzero((acks["ca_state"][1:] >= 2) & (acks["ca_state"][:-1] < 2))
    return acks["ssthresh"][entry + 1] / acks["cwnd"][entry]


def above_reno(run) -> float:
    """Share of Fusion's ACKs at which its window is not less than its own reno_cwnd."""
    state = run.state(0)
    return float((state["w_q20"] >= state["reno_q20"]).mean())


def phase_share(run, phase: str) -> float:
    """Share of the ACKs in the measured window that were in this phase."""
    state = run.state(0)
    return float((state["phase"][state["t"] >= run.job["measure_from_s"]] == PHASES[phase]).mean())


def goodput(run, flow: int = 0) -> float:
    return run.metrics["flows"][flow]["goodput_bps"] / 1e6


def used(run) -> float:
    return run.metrics["utilisation"]


def share(run) -> float:
    """The first flow's share of the pair's goodput."""
    return goodput(run, 0) / max(goodput(run, 0) + goodput(run, 1), 1e-9)


def over_the_best(results, loss: str):
    """Fusion's goodput over the best of the kernel's own at this loss rate and seed."""
    best = {}
    for controller in KERNELS_OWN:
        for run in results.valid("FU-4", path__forward__loss=loss, flows__controller=controller):
            seed = run.record["seed"]
            best[seed] = max(best.get(seed, 0), goodput(run))
    runs = results.all("FU-4", path__forward__loss=loss, flows__controller="fusion")
    return [r for r in runs if r.record["seed"] in best], lambda r: goodput(r) / best[r.record["seed"]]


def claims(results):
    fig2 = results.all("FU-2")
    verdicts = [
        results.judge("FU-2a", "Fig. 2, eq. for cwnd_new", "buffer 0.5 BDP: no loss cuts Fusion's window below RTTmin/RTT = 0.66",
                      0.667, fig2, lambda r: float(reductions(r, 0).min()), at_least=CUT),
        results.judge("FU-2b", "Fig. 2", "cwnd >= its own reno_cwnd at every ACK: share of ACKs is 1", 1, fig2, above_reno, at_least=1),
    ]
    for phase in PHASES:
        verdicts.append(results.judge(f"FU-2c {phase}", "section II.B", f"the {phase} phase is visited: share of ACKs > 0", None, fig2,
                                      lambda r, phase=phase: phase_share(r, phase), at_least=1e-9))
    smallest = LOSSES[0]
    for controller in results.points("FU-4", "flows.controller"):
        verdicts.append(results.judge(
            f"FU-4a {controller}", "Fig. 4", f"p = {smallest}: {controller} uses >= 0.9 of the link", None,
            results.all("FU-4", path__forward__loss=smallest, flows__controller=controller), used, at_least=0.9))
    for loss in LOSSES:
        runs, ratio = over_the_best(results, loss)
        if runs or loss in results.points("FU-4", "path.forward.loss"):
            verdicts.append(results.judge(f"FU-4b {loss}", "Fig. 4", f"p = {loss}: Fusion's goodput >= 0.97 of the best of the others",
                                          None, runs, ratio, at_least=0.97))
    for controller in VARIANTS:
        verdicts.append(results.judge(
            f"FU-10a {controller}", "Fig. 10", f"30 Mbit/s, 20 ms: {controller} takes [0.4, 0.6] of what it and a Reno flow get", None,
            results.all("FU-10", flows__0__controller=controller), share, at_least=0.4, at_most=0.6,
            why=LEAVES_RENO.get(controller, "")))
        verdicts.append(results.judge(
            f"FU-10b {controller}", "Fig. 10", f"{controller} alone uses >= 0.9 of the link", None,
            results.all("FU-10-ALONE", flows__controller=controller), used, at_least=0.9))
    return verdicts
