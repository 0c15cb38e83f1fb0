# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The figure of BBRv3 beside BBR: what others have beside each."""

from __future__ import annotations

from statistics import fmean

from matplotlib.figure import Figure

from asymlab.report import drawing
from asymlab.report.plot import EXPECTED, label, marked

from . import claims as bbr3


def figures(results) -> list[drawing.Figure]:
    with drawing.style():
        drawn = beside(results)
    return [drawn] if drawn else []


def beside(results) -> drawing.Figure | None:
    figure = Figure(figsize=(6.5, 4))
    ax = figure.subplots()
    for bbr in bbr3.BOTH:
        found = [(y, bbr3.beside(c, bbr).valid(results)) for y, c in enumerate(bbr3.BESIDE)]
        points = [(fmean(map(bbr3.share, runs)), y) for y, runs in found if runs]
        if not points:
            return None
        ax.plot(*zip(*points), **marked(bbr, linestyle="none", markersize=8, label=f"beside {label(bbr)}"))
    ax.axvline(0.5, **EXPECTED)
    ax.set(xlabel="share of what both have", xlim=(0, 1), ylim=(len(bbr3.BESIDE) - 0.5, -0.5))
    ax.set(yticks=range(len(bbr3.BESIDE)), yticklabels=[label(c) for c in bbr3.BESIDE])
    ax.legend()
    return drawing.Figure(
        "bbr3-shares",
        "What a controller has beside BBR and beside BBRv3",
        "100 Mbit/s, 40 ms, a queue of one BDP, as Table 1. 0.5 (dashed) is an equal share; means of the seeds.",
        figure,
    )
