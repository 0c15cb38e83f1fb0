# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The figure of BBRv3 beside BBR: what others have beside each."""

from __future__ import annotations

from statistics import fmean

from matplotlib.figure import Figure

from asymlab.report import drawing
from asymlab.report.measures import share
from asymlab.report.plot import EXPECTED, label, marked

BOTH = ("bbr", "bbr3")
BESIDE = ("reno", "fusion", "areno", "ctcp", "highspeed", "bic", "cubic", "taichung", "fast")


def beside(results) -> drawing.Figure | None:
    figure = Figure(figsize=(6.5, 4))
    ax = figure.subplots()
    for bbr in BOTH:
        found = [
            (y, results.valid("B3-T26", flows__0__controller=c, flows__1__controller=bbr)) for y, c in enumerate(BESIDE)
        ]
        points = [(fmean(map(share, runs)), y) for y, runs in found if runs]
        if not points:
            return None
        ax.plot(*zip(*points), **marked(bbr, linestyle="none", markersize=8, label=f"beside {label(bbr)}"))
    ax.axvline(0.5, **EXPECTED)
    ax.set(xlabel="share of what both have", xlim=(0, 1), ylim=(len(BESIDE) - 0.5, -0.5))
    ax.set(yticks=range(len(BESIDE)), yticklabels=[label(c) for c in BESIDE])
    ax.legend()
    return drawing.Figure(
        "bbr3-shares",
        "A controller's share beside BBR and beside BBRv3",
        "100 Mbit/s, 40 ms, a queue of one BDP, as Table 1. 0.5 (dashed) is an equal share; means of the seeds.",
        figure,
    )


FIGURES = (beside,)
