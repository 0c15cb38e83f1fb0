# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Drawing functions that the figures of several papers share."""

from __future__ import annotations

import numpy as np
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

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


def ticks_at(axis, values) -> None:
    """Ticks on a log axis at these numbers only."""
    axis.set_major_locator(FixedLocator(values))
    axis.set_minor_locator(NullLocator())
    axis.set_ticklabels([f"{value:g}" for value in values])


def heat_map(ax, values: np.ndarray, names: list[str], texts: dict[tuple[int, int], str], size: float, **colours):
    """A square of cells with their texts, the same names on both axes; the image, for a colour bar."""
    image = ax.imshow(values, **colours)
    for (i, j), text in texts.items():
        in_cell(image, i, j, values[i, j], text, size)
    ax.set(xticks=range(len(names)), yticks=range(len(names)), xticklabels=names, yticklabels=names)
    ax.grid(False)
    return image


def bars(ax, groups: dict[str, list[float]], names: list[str]) -> None:
    """Bars with their numbers, those of a place side by side: one of each group."""
    width = 0.8 / len(groups)
    for n, (group, heights) in enumerate(groups.items()):
        at = [i + (n - (len(groups) - 1) / 2) * width for i in range(len(heights))]
        ax.bar_label(ax.bar(at, heights, width=0.95 * width, label=group), fmt="%.1f", fontsize=8)
    ax.set_xticks(range(len(names)), names)
