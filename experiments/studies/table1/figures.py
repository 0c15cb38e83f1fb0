# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The figure of Table 1, edition 2026: what each has beside each."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from asymlab.palette import BLACK
from asymlab.report import drawing, papers
from asymlab.report.judged import interval
from asymlab.report.plot import heat_map

fusion = papers.module("fusion", "measures")
OLD = ("reno", "fusion", "areno", "ctcp", "highspeed", "bic")
NEW = ("cubic", "bbr", "taichung", "fast")
NAMES = fusion.NAMES | {"bbr": "BBR", "taichung": "Taichung"}


def runs_of(results, a: str, b: str) -> list:
    """The valid runs of a pair, which stands once."""
    first, second = sorted((a, b), key=(OLD + NEW).index)
    return results.valid("T26", flows__0__controller=first, flows__1__controller=second)


def paper_cell(row: str, column: str) -> float | None:
    known = fusion.VARIANTS
    return fusion.TABLE_1[row][known.index(column)] if row in known and column in known else None


def cells(results):
    kinds = OLD + NEW
    ours, half, paper = (np.full((len(kinds), len(kinds)), np.nan) for _ in range(3))
    for i, row in enumerate(kinds):
        for j, column in enumerate(kinds):
            runs = runs_of(results, row, column)
            if not runs:
                return None
            mean, low, _ = interval([fusion.kind_of(run, row) for run in runs])
            ours[i, j], half[i, j] = mean, mean - low
            if (found := paper_cell(row, column)) is not None:
                paper[i, j] = found
    figure = Figure(figsize=(9, 7.5), layout="constrained")
    ax = figure.subplots()
    texts = {}
    for at, value in np.ndenumerate(ours):
        texts[at] = f"{value:.0f}" + (f" ±{half[at]:.0f}" if half[at] > 0 else "")
        if not np.isnan(paper[at]):
            texts[at] += f"\n2007: {paper[at]:.0f}"
    image = heat_map(ax, ours, [NAMES[c] for c in kinds], texts, 7, cmap="PuOr", vmin=0, vmax=96)
    ax.set_xlabel("beside")
    ax.tick_params(axis="x", labelrotation=30)
    ax.axhline(len(OLD) - 0.5, color=BLACK, linewidth=1)
    ax.axvline(len(OLD) - 0.5, color=BLACK, linewidth=1)
    figure.colorbar(image, ax=ax, shrink=0.8, label="Mbit/s")
    return drawing.Figure(
        "table1-2026",
        "TCP-Fusion's Table 1, edition 2026",
        "The row's flow beside the column's, Mbit/s, with half the 95 % interval, and the paper's number of "
        "2007. 100 Mbit/s, 40 ms, a buffer of one BDP, no random loss. Lines part those of 2007 from those of today.",
        figure,
    )


FIGURES = (cells,)
