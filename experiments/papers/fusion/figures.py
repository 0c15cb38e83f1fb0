# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figures for TCP-Fusion (Kaneko, Fujikawa, Su, Katto 2007).

Each function draws one figure from valid runs, or returns None when a run that it needs is missing.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from asymlab import report, suite, trace
from asymlab.plot import EXPECTED, look, points, steps
from asymlab.report import BLACK, BLUE, GREEN, GREY, LOOKS, NAMES, VERMILLION

paper = suite.module("fusion", "claims")

RATE, RTT, PACKET = 100e6, 0.04, 1500  # bit/s, s, bytes of Figs. 2 and 4
PAYLOAD = 1448 / PACKET
FLOOR, CEILING = EXPECTED, EXPECTED | {"linestyle": ":"}
PHASES = {"increase": {"facecolor": "#cfe8f8"}, "steady": {"facecolor": "#e8e8e8"}, "decrease": {"facecolor": "#fbe3c0", "hatch": "..."}}
FRAME = {"frameon": True, "edgecolor": "none", "framealpha": 1}  # of a legend on shades
PHASE_S = 0.05  # the phase of most ACKs in so long is the one that shows
CYCLES = 2  # from loss to loss, in a zoom
CUTS, LEAST = 100, 20  # losses that are drawn of a run, at most; packets below which a cut is all rounding


def figures(results) -> list[report.Figure]:
    with report.style():
        drawn = [draw(results) for draw in (windows, queue, loss, shares, reduction)]
    return [f for f in drawn if f]


def losses(acks) -> np.ndarray:
    """Index of the last ACK before each recovery, as in claims.reductions()."""
    return np.flatnonzero((acks["ca_state"][1:] >= 2) & (acks["ca_state"][:-1] < 2))


def flow_acks(run, flow: int):
    return run.acks[run.acks["flow"] == flow]


def cycles(run) -> tuple[float, float]:
    """The last whole cycles of Fusion's window, with a little on both sides; half the run if there are none."""
    acks, end = flow_acks(run, 0), run.job["duration_s"]
    t = acks["t"][losses(acks)]
    return (max(t[-CYCLES - 1] - 0.3, 0), min(t[-1] + 0.6, end)) if len(t) > CYCLES else (end / 2, end)


def shade(ax, state, span: tuple[float, float]) -> list[Patch]:
    """Fusion's phases as the background, but for slow start. Their legend."""
    names = dict(zip(paper.PHASES.values(), paper.PHASES))
    edges = np.arange(span[0], span[1] + PHASE_S, PHASE_S)
    per_bin = [np.histogram(state["t"][state["phase"] == number], edges)[0] for number in range(len(names) + 1)]
    phase = np.argmax(per_bin, axis=0)
    change = [0, *(np.flatnonzero(np.diff(phase)) + 1), len(phase)]
    for a, b in zip(change, change[1:]):
        if phase[a]:
            ax.axvspan(edges[a], edges[b], zorder=0, edgecolor="white", linewidth=0, **PHASES[names[phase[a]]])
    return [Patch(edgecolor="white", linewidth=0, **style, label=name) for name, style in PHASES.items()]


def windows(results):
    runs = results.valid("FU-2")
    if not runs:
        return None
    run, state = runs[0], runs[0].state(0)
    figure = Figure(figsize=(7.5, 7.5))
    axes = figure.subplots(2)
    for ax, span in zip(axes, ((0, run.job["duration_s"]), cycles(run))):
        for flow, controller in ((1, "reno"), (0, "fusion")):
            acks = flow_acks(run, flow)
            steps(ax, acks["t"], acks["cwnd"], span, **look(controller))
            at = losses(acks)
            at = at[(acks["t"][at] >= span[0]) & (acks["t"][at] < span[1])]
            ax.plot(acks["t"][at], acks["cwnd"][at], color=LOOKS[controller]["color"], marker="v", linestyle="", markersize=7,
                    label=f"{NAMES[controller]} loses")
        steps(ax, state["t"], state["reno_q20"] / 2**20, span, color=GREEN, linestyle=(0, (3, 1, 1, 1)), label="Fusion's reno_cwnd")
        ax.set(xlim=span, ylim=(0, 1.25 * ax.dataLim.ymax), ylabel="packets")
    axes[0].legend(loc="upper right", ncols=3)
    phases = shade(axes[1], state, axes[1].get_xlim())
    axes[1].legend(handles=phases, loc="lower right", ncols=3, title="phase of Fusion", title_fontsize=9, **FRAME)
    axes[0].set_title("Congestion windows")
    axes[1].set_title("The last cycles")
    axes[1].set_xlabel("time, s")
    return report.Figure(
        "fusion-windows", "Fig. 2: Fusion beside Reno, a buffer of half a BDP",
        "100 Mbit/s, 40 ms, the first seed. A loss takes a third of Fusion's window and half of Reno's; Fusion fills what Reno left free, "
        "holds its window while Reno's queue grows, and falls back to its own reno_cwnd once diff is beyond 3 alpha: from there both are "
        "Reno until the next loss.", figure)


def queue(results):
    runs = results.valid("FU-2")
    if not runs:
        return None
    run, state = runs[0], runs[0].state(0)
    span, t = cycles(run), state["t"]
    figure = Figure(figsize=(7.5, 8))
    axes = figure.subplots(3, height_ratios=[1.5, 0.9, 0.9])
    steps(axes[0], t, state["diff_q8"] / 256, span, **look("fusion", label="diff"))
    for times, style in ((1, {"color": BLUE, "linestyle": (0, (6, 2))}), (3, {"color": VERMILLION, "linestyle": "-."})):
        steps(axes[0], t, times * state["alpha_q8"] / 256, span, **style, label="alpha" if times == 1 else f"{times} alpha")
    steps(axes[1], t, state["rtt_q4"] / 16e3, span, color=BLACK, linewidth=1, label="RTT, averaged")
    axes[1].axhline(state["rtt_min"][-1] / 1e3, **CEILING, label="RTT_min")
    known = state["b_q8"] > 0
    rate = state["b_q8"][known] / 256 * PACKET * 8 / 1e6
    axes[2].plot(*report.thin(t[known], rate), **look("fusion", label="B"))
    axes[2].axhline(RATE / 1e6, **CEILING, label="the link")
    axes[2].axhline(RATE / 2e6, **FLOOR, label="its half")
    axes[0].set(title="Fusion's packets in the queue, and how many it may keep there", ylabel="packets", ylim=(0, 1.25 * axes[0].dataLim.ymax))
    axes[1].set(title="Round-trip time", ylabel="ms", ylim=(0, 1.2 * axes[1].dataLim.ymax))
    axes[2].set(title="B, from which the increase: 1 ms of B a round trip. The whole run", ylabel="Mbit/s", xlabel="time, s",
                xlim=(0, run.job["duration_s"]), ylim=(0, 1.2 * max(rate.max(), RATE / 1e6)))
    for ax in axes[:2]:
        ax.set_xlim(span)
        phases = shade(ax, state, ax.get_xlim())
    handles, _ = axes[0].get_legend_handles_labels()
    axes[0].legend(handles=handles + phases, loc="upper right", ncols=6, columnspacing=1, **FRAME)
    for ax in axes[1:]:
        ax.legend(loc="lower right", ncols=3, **FRAME)
    return report.Figure(
        "fusion-queue", "How Fusion sees the queue",
        "From the controller's own variables, the last cycles of the run above. Below alpha it fills the path, between alpha and 3 alpha it "
        "waits, beyond it backs off; while reno_cwnd is the larger, that has no effect.", figure)


def reno_law(p):
    """Mbit/s of payload by Mathis et al. 1997, at most the link's."""
    return np.minimum(np.sqrt(1.5 / p) * PACKET * 8 / RTT, RATE) * PAYLOAD / 1e6


def loss(results):
    found = {}
    for controller in ("fusion", *paper.KERNELS_OWN):
        runs = {float(p.removesuffix("%")) / 100: results.valid("FU-4", path__forward__loss=p, flows__controller=controller)
                for p in paper.LOSSES}
        found[controller] = {p: rs for p, rs in runs.items() if rs}
    if not found["fusion"] or not found["reno"]:
        return None
    figure = Figure(figsize=(7.5, 5))
    ax = figure.subplots()
    p = np.geomspace(5e-7, 2e-2, 200)
    ax.plot(p, reno_law(p), color=GREY, linewidth=1, linestyle=":", label=r"Reno's law, $\sqrt{3/2p}$ packets a round trip")
    for i, (controller, runs) in enumerate(reversed(found.items())):
        if runs:  # a little apart sideways, Fusion where it belongs
            points(ax, runs, paper.goodput, 1.07 ** (i + 1 - len(found)), **LOOKS[controller] | {"label": NAMES[controller], "linewidth": 1.1})
    ax.set(xscale="log", xlabel="random loss rate", ylabel="goodput, Mbit/s", xlim=(p[0], p[-1]), ylim=(0, 108))
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], loc="lower left")
    return report.Figure(
        "fusion-loss", "Fig. 4: one flow under random loss",
        "100 Mbit/s, 40 ms, a buffer of one BDP; points a little apart sideways. As in the paper, all but fill the link at the lowest rate, "
        "and Fusion holds out longest: its cut spares what is in flight and not queued, and it grows by more than a packet a round trip.", figure)


def shares(results):
    pairs = {c: r for c in paper.VARIANTS if (r := results.valid("FU-10", flows__0__controller=c))}
    alone = {c: r for c in paper.VARIANTS if (r := results.valid("FU-10-ALONE", flows__controller=c))}
    if "fusion" not in pairs:
        return None
    figure = Figure(figsize=(7.5, 4))
    together, single = figure.subplots(1, 2, sharey=True, width_ratios=[2, 1])
    names = [NAMES[c] for c in pairs]
    mine, hers = (np.array([np.mean([paper.goodput(r, flow) for r in rs]) for rs in pairs.values()]) for flow in (0, 1))
    together.barh(names, mine, color=[LOOKS[c]["color"] for c in pairs], height=0.6)
    together.barh(names, hers, left=mine, color="white", edgecolor=LOOKS["reno"]["color"], hatch="////", height=0.6)
    inside = {"va": "center", "fontsize": 9, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1.5}}
    for i, (a, b) in enumerate(zip(mine, hers)):
        together.text(a / 2, i, f"{a:.1f}: {100 * a / (a + b):.0f} %", ha="center", **inside)
        together.text(a + b / 2, i, f"Reno {b:.1f}", ha="center", **inside)
    whole = (mine + hers).mean()
    for part in (0.4, 0.6):
        together.axvline(part * whole, **EXPECTED)
    used = [100 * np.mean([paper.used(r) for r in alone[c]]) if c in alone else 0 for c in pairs]
    single.barh(names, used, color=[LOOKS[c]["color"] for c in pairs], height=0.6)
    for i, value in enumerate(used):
        single.text(50, i, f"{value:.1f} %" if value else "not run", ha="center", **inside)
    single.axvline(90, **EXPECTED)
    together.set(title="Beside one Reno flow: goodput", xlabel="Mbit/s, dashed: 40 and 60 %", xlim=(0, 1.02 * whole))
    single.set(title="Alone: use of the link", xlabel="%, dashed: 90 %", xlim=(0, 103))
    together.invert_yaxis()
    for ax in (together, single):
        ax.grid(visible=False)
    return report.Figure(
        "fusion-shares", "Fig. 10: a variant beside Reno on a slow path",
        "30 Mbit/s, 20 ms, buffer of one BDP of 50 packets. The paper finds that all variants share fairly with Reno here, being in "
        "their Reno mode.", figure)


def cuts(run, flow: int) -> tuple[np.ndarray, np.ndarray]:
    """(RTT over the smallest, ssthresh over cwnd) as a flow's recoveries begin."""
    acks = trace.read(run.folder, "acks")  # not run.acks, which would stay in memory: there are many runs
    acks = acks[(acks["flow"] == flow) & (acks["rtt_us"] > 0)]
    at = losses(acks)
    at = at[acks["cwnd"][at] >= LEAST]
    if len(at) > CUTS:
        at = at[np.linspace(0, len(at) - 1, CUTS).astype(int)]
    return acks["rtt_us"][at] / acks["rtt_us"].min(), acks["ssthresh"][at + 1] / acks["cwnd"][at]


def reduction(results):
    runs = [r for c in ("fusion", "reno") for p in paper.LOSSES
            for r in results.valid("FU-4", path__forward__loss=p, flows__controller=c)[:1]]
    runs += results.valid("FU-2")[:1] + results.valid("FU-10", flows__0__controller="fusion")[:1]
    found = {"reno": [], "fusion": []}  # Linux's Westwood+ cuts by another rule
    for run in runs:
        for flow in run.job["flows"]:
            if flow["controller"] in found:
                found[flow["controller"]].append(cuts(run, flow["id"]))
    if not found["fusion"]:
        return None
    figure = Figure(figsize=(7.5, 5))
    ax = figure.subplots()
    x = np.linspace(1, 4, 200)
    ax.plot(x, np.maximum(1 / x, 0.5), color=BLACK, linewidth=1.2, label=r"Fusion: $\max(RTT_{min}/RTT,\ 1/2)$")
    ax.plot(x, 1 / x, color=GREY, linewidth=1, linestyle=":", label=r"TCPW: $RTT_{min}/RTT$")
    ax.axhline(0.5, **EXPECTED, label="Reno: 1/2")
    for controller, parts in found.items():
        if parts:
            ratio, factor = np.concatenate(parts, axis=1)
            ax.plot(ratio, factor, **LOOKS[controller] | {"linestyle": "", "markersize": 5, "markerfacecolor": "none", "alpha": 0.6},
                    label=f"{NAMES[controller]}, measured ({len(ratio)})")
    ax.set(xlabel=r"RTT before the loss over $RTT_{min}$", ylabel="window after the loss over that before", xlim=(0.97, 4), ylim=(0, 1.05))
    ax.legend(loc="upper right")
    return report.Figure(
        "fusion-reduction", "Fig. 1: what a loss leaves of the window",
        "Losses of one flow at random, of Fusion beside Reno, and on the slow path; those with fewer than "
        f"{LEAST} packets left out, at most {CUTS} of a run drawn. Fusion gives up what is queued, but never more than Reno: where "
        "nothing is queued, next to nothing.", figure)
