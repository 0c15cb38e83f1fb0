# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figures for TCP-Fusion at 100 Mbit/s."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from asymlab.palette import BLACK, BLUE, GREEN, VERMILLION
from asymlab.report import drawing
from asymlab.report.measures import goodput_of
from asymlab.report.plot import colour, label, marked, points, steps
from asymlab.report.verdicts import interval

from . import claims as paper


def figures(results) -> list[drawing.Figure]:
    with drawing.style():
        drawn = [draw(results) for draw in (loss, beside_reno, three)]
    return [f for f in drawn if f]


def loss(results):
    """Fig. 4."""
    figure = Figure(figsize=(7.5, 5))
    ax = figure.subplots()
    for i, c in enumerate(paper.VARIANTS):
        runs = {
            float(p.removesuffix("%")) / 100: found for p in paper.LOSSES if (found := paper.alone(c, p).valid(results))
        }
        if runs:
            points(ax, runs, goodput_of, 1.04 ** (i - 3), **marked(c))
    if not ax.lines:
        return None
    ax.set(xscale="log", xlabel="random loss rate", ylabel="goodput, Mbit/s", ylim=(0, 100))
    ax.legend()
    return drawing.Figure(
        "fusion100-loss",
        "Fig. 4: one flow under random loss",
        "The paper's path: 100 Mbit/s, 40 ms, a buffer of one BDP. Points a little apart sideways.",
        figure,
    )


def beside_reno(results):
    """Table 1's column of Reno."""
    found = {c: paper.beside(c, "F100-T1").valid(results) for c in paper.VARIANTS}
    found = {c: runs for c, runs in found.items() if runs}
    if not found:
        return None
    figure = Figure(figsize=(7.5, 4))
    ax = figure.subplots()
    mean, low, high = np.array([interval([goodput_of(r, 1) for r in runs]) for runs in found.values()]).T
    x = np.arange(len(found))
    ax.set_axisbelow(True)
    ax.bar(
        x, mean, yerr=[mean - low, high - mean], capsize=3, width=0.6, color=[colour(c) for c in found], label="here"
    )
    theirs = [paper.fusion.TABLE_1["reno"][paper.VARIANTS.index(c)] for c in found]
    ax.plot(x, theirs, linestyle="", marker="D", color=BLACK, label="paper")
    ax.set_xticks(x, [label(c) for c in found])
    ax.set(ylabel="goodput of Reno, Mbit/s", ylim=(0, 60), xlabel="beside")
    ax.legend()
    return drawing.Figure(
        "fusion100-table1",
        "Table 1: what a Reno flow has beside each",
        "The paper's path, no random loss: 100 Mbit/s, 40 ms, a buffer of one BDP.",
        figure,
    )


def three(results):
    """Fig. 8."""
    found = {c: runs for c in ("fusion", "highspeed") if (runs := results.valid("F100-8", flows__controller=c))}
    if not found:
        return None
    figure = Figure(figsize=(7.5, 3 * len(found)))
    axes = figure.subplots(len(found), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for ax, (c, runs) in zip(axes, found.items()):
        for flow, (paint, line) in enumerate(((BLUE, "-"), (VERMILLION, "--"), (GREEN, "-."))):
            acks = runs[0].acks[runs[0].acks["flow"] == flow]
            steps(ax, acks["t"], acks["cwnd"], color=paint, linestyle=line, label=f"flow {flow + 1}", linewidth=1)
        mean = [np.mean([goodput_of(r, flow) for r in runs]) for flow in range(3)]
        index = np.mean([paper.three_jain(r) for r in runs])
        ax.set_title(
            f"{label(c)}: " + ", ".join(f"{goodput:.1f}" for goodput in mean) + f" Mbit/s, Jain index {index:.3f}"
        )
        ax.set_ylabel("cwnd, packets")
    axes[0].legend(loc="upper right", ncols=3)
    axes[-1].set_xlabel("time, s")
    return drawing.Figure(
        "fusion100-three",
        "Fig. 8: three flows of a kind",
        "100 Mbit/s, 82 ms, a buffer of 333 packets, starts at 0, 50, 100 s; windows of the first seed, goodputs and "
        "the mean Jain index from 110 s on. The paper: Fusion 36.6, 31.2, 33.5, HSTCP 51.1, 28.7, 16.5 Mbit/s.",
        figure,
    )
