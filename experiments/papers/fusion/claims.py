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
    mine = np.isin(state["phase"][1:], (0, PHASES["decrease"])) & (w[1:] > reno[1:]) & (state["t"][1:] >= run.job["measure_from_s"])
    return float((np.diff(w)[mine] < 0).mean()) if mine.any() else 0.0


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
    others = {}
    for controller in KERNELS_OWN:
        for run in results.valid("FU-4", path__forward__loss=loss, flows__controller=controller):
            others.setdefault(run.record["seed"], []).append(goodput(run))
    runs = results.all("FU-4", path__forward__loss=loss, flows__controller="fusion")
    complete = [r for r in runs if len(others.get(r.record["seed"], ())) == len(KERNELS_OWN)]
    return complete, lambda r: goodput(r) / max(others[r.record["seed"]])


def claims(results):
    fig2 = results.all("FU-2")
    verdicts = [
        results.judge("FU-2a", "Fig. 2, eq. for cwnd_new", "buffer 0.5 BDP: no loss cuts Fusion's window below RTTmin/RTT = 0.66",
                      None, fig2, lambda r: float(reductions(r, 0).min()), at_least=CUT, worst=True),
        results.judge("FU-2b", "Fig. 2", "cwnd >= its own reno_cwnd at every ACK: share of ACKs is 1", None, fig2, above_reno, at_least=1, worst=True),
    ]
    for phase in PHASES:
        verdicts.append(results.judge(f"FU-2c {phase}", "section II.B", f"the {phase} phase is visited: share of ACKs > 0", None, fig2,
                                      lambda r, phase=phase: phase_share(r, phase), at_least=1e-9))
    verdicts.append(results.judge("FU-2d", "section II.B", "where reno_cwnd does not hold it, each ACK of the decrease phase lowers the "
                                  "window: share >= 0.95", None, fig2, falls, at_least=0.95))
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
