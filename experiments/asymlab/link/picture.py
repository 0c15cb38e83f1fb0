# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Goodput against delay with the link alone, and against CUBIC's beside it: a mark for each controller."""

from __future__ import annotations

import textwrap

from .. import controllers
from ..palette import GREY
from ..report.drawing import Figure, style
from ..report.report import saved
from .path import THIN, Link, split
from .row import HALF, Row, full

MARK = 9  # points
AWAY = 0.35  # opacity of what cannot share the link


def picture(link: Link, rows: list[Row]) -> bytes:
    """A PNG of the valid runs."""
    import matplotlib.figure

    met = [row for row in rows if row.beside and not row.beside.invalid]
    with style():
        figure = matplotlib.figure.Figure(figsize=(12 if met else 8, 4.5))
        axes = figure.subplots(1, 2 if met else 1, squeeze=False)[0]
        draw_alone(axes[0], link, rows)
        if met:
            draw_beside(axes[1], met)
        figure.suptitle(textwrap.fill(link.said(), 100), x=0.01, ha="left", fontsize="medium")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
        return saved(Figure("link", link.said(), "", figure), "png", dpi=150)


def draw_alone(ax, link: Link, rows: list[Row]) -> None:
    most, base_ms = full(rows[0].run) / 1e6, link.rtt_us / 1e3
    ax.axhline(most, color=GREY, linewidth=0.8, linestyle=(0, (5, 3)))
    for row in rows:
        ax.plot([row.rtt * 1e3 - base_ms], [row.goodput / 1e6], label=called(row), **look(row))
    longest = max(row.rtt * 1e3 - base_ms for row in rows)
    ax.set(xlabel=f"mean RTT above the {base_ms:g} ms of empty queues, ms", xlim=(0, max(1.05 * longest, 1)))
    ax.set(ylabel="goodput, Mbit/s (dashed: a full link)", ylim=(0, 1.05 * most))
    ax.set_title("alone" if link.alone else "alone (pale: not advised)")


def draw_beside(ax, met: list[Row]) -> None:
    """A flow's goodput against that of a CUBIC flow. Right of and above the dashes is room for both."""
    pairs = [(row, row.beside) for row in met if row.beside]
    usual = pairs[0][1].usual / 1e6
    for row, beside in pairs:
        ax.plot([beside.left / 1e6], [beside.own / 1e6], **look(row))
    fair = full(met[0].run) / 2 / pairs[0][1].flows / 1e6
    for line, at in ((ax.axvline, HALF * usual), (ax.axhline, HALF * fair)):
        line(at, color=GREY, linewidth=0.8, linestyle=(0, (5, 3)))
    most = 1.05 * max(2 * fair, *(v / 1e6 for _, beside in pairs for v in (beside.own, beside.left)))
    ax.set(xlabel="goodput that a CUBIC flow has beside it, Mbit/s", xlim=(0, most))
    ax.set(ylabel="its own, Mbit/s", ylim=(0, most))
    ax.set_title(f"beside CUBIC, the less of two runs (dashed: {HALF:.0%} of a fair share)")


def look(row: Row) -> dict:
    found = controllers.of(row.base).look | {"linestyle": "none", "markersize": MARK, "clip_on": False}
    if row.name.endswith(THIN):  # around the mark of the same sender, if nothing has changed
        found |= {"markerfacecolor": "none", "markersize": 1.6 * MARK}
    if split(row.name)[1]:
        found |= {"fillstyle": "bottom"}
    return found | ({} if row.serves else {"alpha": AWAY})


def called(row: Row) -> str:
    label = controllers.of(row.base).label + ", fewer ACKs" * row.name.endswith(THIN)
    preset = split(row.name)[1]
    return f"{label}, {preset}" if preset else label
