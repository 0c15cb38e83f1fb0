# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Drawing functions that the figures of several papers share."""

from __future__ import annotations

import numpy as np
from matplotlib.ticker import NullLocator, ScalarFormatter

from .. import controllers
from ..palette import BLACK
from ..results.store import Run
from .drawing import thin
from .judged import interval

EXPECTED = {"color": BLACK, "linestyle": (0, (5, 3)), "linewidth": 1}


def marked(controller: str, **changes) -> dict:
    """A controller as named points on a line."""
    return controllers.of(controller).look | {"label": label(controller)} | changes


def look(controller: str, **changes) -> dict:
    """A controller as a named line."""
    return marked(controller, marker="") | changes


def label(controller: str) -> str:
    return controllers.of(controller).label


def colour(controller: str) -> str:
    return controllers.of(controller).look["color"]


def in_cell(image, i: int, j: int, value: float, text: str, size: float) -> None:
    """Text on the cell of row i and column j of a heat map, in what reads on its colour."""
    r, g, b, _ = image.cmap(image.norm(value))
    ink = "black" if 0.3 * r + 0.59 * g + 0.11 * b > 0.5 else "white"
    image.axes.text(j, i, text, ha="center", va="center", fontsize=size, color=ink)


def points(ax, runs: dict[float, list[Run]], measure, aside: float = 1, **look) -> None:
    """Means over the seeds against the keys, with 95 % intervals if there are several; set aside by a factor."""
    mean, low, high = np.array([interval([measure(r) for r in rs]) for rs in runs.values()]).T
    several = any(len(rs) > 1 for rs in runs.values())
    ax.errorbar(
        np.array(list(runs)) * aside,
        mean,
        yerr=[mean - low, high - mean] if several else None,
        capsize=3,
        elinewidth=0.8,
        **look,
    )


def steps(ax, t, y, span: tuple[float, float] | None = None, **look) -> None:
    """A value that holds until the next; with a span, only what shows in it."""
    t, y = np.asarray(t), np.asarray(y)
    if span:
        first, last = np.searchsorted(t, span[0]), np.searchsorted(t, span[1])
        shown = slice(max(first - 1, 0), last + 1)
        t, y = t[shown], y[shown]
    changes = np.append(True, np.diff(y) != 0)[: len(y)]
    kept_t, kept_y = thin(t[changes], y[changes])
    ax.plot(np.append(kept_t, t[-1:]), np.append(kept_y, y[-1:]), drawstyle="steps-post", **look)


def plain(axis) -> None:
    """Numbers on a log axis as they are, and at the given ticks only."""
    axis.set_major_formatter(ScalarFormatter())
    axis.set_minor_locator(NullLocator())
