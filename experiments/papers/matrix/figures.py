# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Heat maps of the competition matrix, from valid runs; a pair without one stays empty."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from asymlab.report import drawing
from asymlab.report.plot import label

from . import claims as matrix

PATH = "3 Mbit/s, 80 ms, buffer of one BDP (30 packets), two flows; 12 s measured."


def figures(results) -> list[drawing.Figure]:
    with drawing.style():
        drawn = [draw(results, rate) for rate in matrix.RATES for draw in (share, jain, harm)]
    return [f for f in drawn if f]


def heat_map(values: dict[tuple[str, str], float], title: str, colours: str, row: str, column: str) -> Figure | None:
    """values: (row, column) -> number in [0, 1]; None if there are none."""
    if not values:
        return None
    order = list(dict.fromkeys(c for pair in values for c in pair))  # the scenario's
    table = np.array([[values.get((a, b), np.nan) for b in order] for a in order])
    figure = Figure(figsize=(9, 8.4))
    ax = figure.subplots()
    image = ax.imshow(table, cmap=colours, vmin=0, vmax=1)
    for (i, j), value in np.ndenumerate(table):
        if not np.isnan(value):
            r, g, b, _ = image.cmap(image.norm(value))
            ax.text(
                j,
                i,
                f"{value:.2f}",
                ha="center",
                va="center",
                fontsize=7.5,
                color="black" if 0.3 * r + 0.59 * g + 0.11 * b > 0.5 else "white",
            )
    names = [label(c) for c in order]
    ax.set(
        title=title, xticks=range(len(order)), yticks=range(len(order)), yticklabels=names, ylabel=row, xlabel=column
    )
    ax.set_xticklabels(names, rotation=45, ha="right", rotation_mode="anchor")
    ax.grid(False)
    figure.colorbar(image, ax=ax, shrink=0.7)
    return figure


def _figure(kind: str, rate: str, title: str, caption: str, drawn: Figure | None) -> drawing.Figure | None:
    return drawn and drawing.Figure(
        f"matrix-{kind}-{rate}", f"{title}: {matrix.RATES[rate]}", f"{PATH} {caption}", drawn
    )


def share(results, rate):
    drawn = heat_map(
        matrix.shares(results, rate),
        "Share of the pair's goodput that the row has beside the column",
        "PuOr",
        "has",
        "beside",
    )
    return _figure(
        "share", rate, "Shares", "0.5 is an equal share; on the diagonal the larger of two equals' shares.", drawn
    )


def jain(results, rate):
    drawn = heat_map(matrix.jains(results, rate), "Jain index of the two goodputs", "cividis", "", "")
    return _figure("jain", rate, "Jain index", "1 is equal, 0.5 is one flow alone.", drawn)


def harm(results, rate):
    drawn = heat_map(
        matrix.harms(results, rate),
        "Harm: of what the row has alone, lost beside the column",
        "cividis_r",
        "loses",
        "beside",
    )
    return _figure(
        "harm",
        rate,
        "Harm",
        "0.5 is what an equal share costs a controller that fills the link alone; 0 is no harm. "
        "Harm as in Ware et al. 2019, with goodput as the measure.",
        drawn,
    )
