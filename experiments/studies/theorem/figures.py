# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The figure of the theorem with m packets an ACK: all of it on one curve, and FAST where the ACKs' queue is finite."""

from __future__ import annotations

from statistics import fmean

import numpy as np
from matplotlib.figure import Figure

from asymlab.palette import BLACK
from asymlab.report import drawing
from asymlab.report.plot import marked, ticks_at

from . import measures as theorem

SHARES = (0.02, 0.05, 0.1, 0.2, 0.5, 1)


def of_link(runs) -> float:
    return fmean(map(theorem.throughput, runs)) / theorem.C_F


def curve(results):
    grid = {
        c: [
            (m / k, of_link(runs))
            for m in theorem.M
            for rate, k in theorem.K_F.items()
            if (runs := theorem.at(c, m, rate).valid(results))
        ]
        for c in theorem.NAMES
    }
    finite = [
        (theorem.finite_m(queue) / k, of_link(runs))
        for queue in theorem.QUEUES
        for rate, k in theorem.K_F.items()
        if (runs := theorem.finite(queue, rate).valid(results))
    ]
    if not all(grid.values()) or not finite:
        return None
    figure = Figure(figsize=(7.5, 4.6))
    axes = figure.subplots(1, 2, sharey=True, width_ratios=(1.5, 1))
    x = np.geomspace(0.02, 200, 200)
    for ax, title in zip(axes, ("Infinite queues, m = 1 to 64", "FAST, a queue of 5 to 400 ACKs")):
        ax.plot(x, np.minimum(1, x), color=BLACK, linewidth=1, label="min(1, m / k_f)")
        ax.set(title=title, xlabel="m / k_f", xscale="log", yscale="log", ylim=(0.02, 1.2))
        ticks_at(ax.yaxis, SHARES)
    for c, points in grid.items():
        axes[0].plot(*zip(*points, strict=True), **marked(c, linestyle="", markerfacecolor="none", markersize=5))
    axes[1].plot(*zip(*finite, strict=True), **marked("fast", linestyle="", markerfacecolor="none", markersize=5))
    axes[0].set_ylabel("throughput over c_f")
    axes[0].legend(loc="lower right")
    return drawing.Figure(
        "theorem-m",
        "Theorem 1 with m packets an ACK",
        "20 Mbit/s, 40 ms, k_f = 0.4 to 40. Left: the receiver answers each m-th packet. Right: the queue of ACKs is "
        "finite, and m is alpha over its length.",
        figure,
    )


FIGURES = (curve,)
