# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A search as a picture: its values in their order, and over each quantity of the box. And what it found."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..palette import BLUE, GREY, ORANGE, SKY, VERMILLION
from ..report.drawing import Figure, style
from ..report.report import saved
from .box import Range, Values
from .search import Trial

if TYPE_CHECKING:
    from .worst import Question

COLUMNS, PANELS = 4, 6  # side by side
DOT: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 2.5, "alpha": 0.6}


def picture(question: Question, trials: list[Trial]) -> bytes:
    """A PNG."""
    import matplotlib.figure

    known = [t for t in trials if math.isfinite(t.value)]
    sides = question.box.sides
    rows = math.ceil((len(sides) + 2) / COLUMNS)
    with style():
        figure = matplotlib.figure.Figure(figsize=(12, 2.4 * rows))
        grid = figure.add_gridspec(rows, COLUMNS)
        order = figure.add_subplot(grid[0, :2])
        order.plot([t.number for t in known], [t.value for t in known], color=GREY, **DOT)
        best = [min(t.value for t in known[: i + 1]) for i in range(len(known))]
        order.plot([t.number for t in known], best, drawstyle="steps-post")
        order.set(xlabel="path", ylabel="value", title="the search (line: the worst yet)")
        for i, side in enumerate(sides):
            ax = figure.add_subplot(grid[divmod(i + 2, COLUMNS)], sharey=order)
            draw(ax, side, [(side.value(t.point[i]), t.value) for t in known])
        figure.suptitle(f"{question.called}: {question.of.about}", x=0.01, ha="left", fontsize="medium")
        return saved(Figure("worst", question.of.about, "", figure), "png", dpi=120)


def draw(ax, side: Range | Values, pairs: list[tuple]) -> None:
    if isinstance(side, Values):
        ax.set_xticks(range(len(side.values)), side.values)
        pairs = [(side.values.index(x), y) for x, y in pairs]
    elif side.low:
        ax.set_xscale("log")
    elif side.high:
        ax.set_xscale("symlog", linthresh=side.high / 100)
    ax.plot([x for x, _ in pairs], [y for _, y in pairs], **DOT)
    ax.tick_params(axis="x", which="minor", labelbottom=False)
    unit = f", {side.of.unit}" if isinstance(side, Range) and side.of.unit else ""
    ax.set(xlabel=side.of.name + unit)


def panels(aim: str, rows: list[tuple[str, dict[str, list[float]]]]) -> bytes:
    """A PNG: of each controller the goodput of its flows over time, Mbit/s in each second. That of another is grey."""
    import matplotlib.figure

    lines = math.ceil(len(rows) / PANELS)
    with style():
        figure = matplotlib.figure.Figure(figsize=(2.1 * PANELS, 1.35 * lines))
        for ax, (controller, series) in zip(figure.subplots(lines, PANELS, squeeze=False).flat, rows):
            for (name, rates), colour in zip(series.items(), (BLUE, VERMILLION, ORANGE, SKY)):
                other = name.partition(" ")[0] != controller
                ax.plot([at + 0.5 for at in range(len(rates))], rates, color=GREY if other else colour, linewidth=1)
            ax.set_title(controller, fontsize="small", pad=2)
            ax.set_ylim(bottom=0)
            ax.tick_params(labelsize="x-small", pad=1)
        for ax in figure.axes[len(rows) :]:
            ax.remove()
        figure.supxlabel("s", fontsize="small")
        figure.supylabel("Mbit/s", fontsize="small")
        return saved(Figure(f"worst-{aim}", aim, "", figure), "png", dpi=80)
