# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Goodput against delay, a mark for each controller."""

from __future__ import annotations

import textwrap

from .. import controllers
from ..palette import GREY
from ..report.drawing import Figure, style
from ..report.report import saved
from .answer import Row, most
from .path import THIN, Link, split

MARK = 9  # points


def picture(link: Link, rows: list[Row]) -> bytes:
    """A PNG of the valid runs."""
    import matplotlib.figure

    with style():
        figure = matplotlib.figure.Figure(figsize=(8, 4.5))
        ax = figure.subplots()
        full, base_ms = most(link, rows[0].run) / 1e6, link.rtt_us / 1e3
        ax.axhline(full, color=GREY, linewidth=0.8, linestyle=(0, (5, 3)))
        for row in rows:
            record, thinned = controllers.of(row.base), row.name.endswith(THIN)
            look = record.look | {"linestyle": "none", "markersize": MARK, "clip_on": False}
            if thinned:  # around the mark of the same sender, if nothing has changed
                look |= {"markerfacecolor": "none", "markersize": 1.6 * MARK}
            label = record.label + ", fewer ACKs" * thinned
            if preset := split(row.name)[1]:
                label, look = f"{label}, {preset}", look | {"fillstyle": "bottom"}
            ax.plot([row.rtt * 1e3 - base_ms], [row.goodput / 1e6], label=label, **look)
        longest = max(row.rtt * 1e3 - base_ms for row in rows)
        ax.set(xlabel=f"mean RTT above the {base_ms:g} ms of empty queues, ms", xlim=(0, max(1.05 * longest, 1)))
        ax.set(ylabel="goodput, Mbit/s (dashed: a full link)", ylim=(0, 1.05 * full))
        figure.suptitle(textwrap.fill(link.said(), 100), x=0.01, ha="left", fontsize="medium")
        figure.legend(loc="outside right center")
        return saved(Figure("link", link.said(), "", figure), "png", dpi=150)
