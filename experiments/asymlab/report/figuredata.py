# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The numbers of a drawn figure, read back from what was drawn: what the reader sees is what the file has.

panel, x_axis, y_axis   title and axes' labels of the part of the figure
series                  as in the legend; of a heat map its row
at                      the name that x has on the axis, if it is not a number
x, y                    of a heat map y is the value
low, high               ends of an error bar or of a filled band; of a bar stacked on another where it stands; else
                        empty
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("panel", "x_axis", "y_axis", "series", "at", "x", "y", "low", "high")


def rows(figure: Figure) -> list[tuple]:
    """In the order of COLUMNS; an empty number is None."""
    names = styles(figure)
    found = []
    for number, ax in enumerate((a for a in figure.axes if a.get_label() != "<colorbar>"), 1):
        panel = ax.get_title("left") or ax.get_title() or f"panel {number}"
        labels = tuple(
            own(ax) or shared(ax, axis, own) for axis, own in (("x", type(ax).get_xlabel), ("y", type(ax).get_ylabel))
        )
        ticks = tick_names(ax.xaxis)
        for series, *values in artists(ax, names):
            for x, y, low, high in zip(*(np.asarray(v, float).ravel() for v in values)):
                # A point that it does not draw has no row.
                if np.isfinite(x) and np.isfinite((y, low, high)).any():
                    numbers = [float(v) if np.isfinite(v) else None for v in (x, y, low, high)]
                    found.append((panel, *labels, series, ticks.get(round(x, 6), ""), *numbers))
    return found


class Names:
    """The series of one part of the figure."""

    def __init__(self, known: dict):
        self.known = known
        self.unnamed = 0

    def of(self, label, like=None) -> str:
        if label and not label.startswith("_"):
            return label
        if like is not None and style(like) in self.known:  # named in another panel's legend
            return self.known[style(like)]
        self.unnamed += 1
        return f"series {self.unnamed}"


def nothing(x) -> np.ndarray:
    return np.full(np.shape(x), np.nan)


def artists(ax: Axes, known: dict) -> Iterator[tuple]:
    """(series, x, y, low, high) of each line, bar chart, band, scatter and image."""
    names = Names(known)
    taken: set = set()
    yield from containers(ax, names, taken)
    yield from lines(ax, names, taken)
    yield from collections(ax, names, taken)
    for image in ax.images:
        values: np.ndarray = np.ma.filled(np.ma.asarray(image.get_array(), float), np.nan)
        left, right, bottom, top = image.get_extent()
        if image.origin == "upper":
            bottom, top = top, bottom
        height, width = values.shape[:2]
        if values.ndim == 2:
            yield from grid(
                ax,
                values,
                left + (np.arange(width) + 0.5) * (right - left) / width,
                bottom + (np.arange(height) + 0.5) * (top - bottom) / height,
            )


def containers(ax: Axes, names: Names, taken: set) -> Iterator[tuple]:
    """Lines with error bars, and bars; what they are made of is taken."""
    from matplotlib.container import BarContainer, ErrorbarContainer

    for container in ax.containers:
        if isinstance(container, ErrorbarContainer):
            line, caps, bars = container
            taken.update((line, *caps, *bars))
            if line is None:
                continue
            x, y = (np.asarray(v, float) for v in line.get_data())
            low, high = nothing(x), nothing(x)
            if container.has_yerr:
                ends(bars[-1], low, high)
            yield names.of(container.get_label(), line), x, y, low, high
        elif isinstance(container, BarContainer):
            taken.update(container.patches)
            yield names.of(container.get_label(), container.patches[0] if container.patches else None), *bar(container)


def ends(bars, low: np.ndarray, high: np.ndarray) -> None:
    for i, segment in enumerate(bars.get_segments()):
        if len(segment):
            low[i], high[i] = segment[:, 1].min(), segment[:, 1].max()


def bar(container) -> tuple:
    """(x, y, low, high)"""
    if container.orientation == "horizontal":
        x = [b.get_x() + b.get_width() for b in container]
        return x, [b.get_y() + b.get_height() / 2 for b in container], nothing(x), nothing(x)
    x = [b.get_x() + b.get_width() / 2 for b in container]
    y = [b.get_y() + b.get_height() for b in container]
    low, high = nothing(x), nothing(x)
    if any(b.get_y() for b in container):  # stacked on others
        low = np.array([b.get_y() for b in container], float)
        high, y = np.array(y, float), [b.get_height() for b in container]
    if (error := container.errorbar) is not None and error.has_yerr:
        ends(error.lines[2][-1], low, high)
    return x, y, low, high


def lines(ax: Axes, names: Names, taken: set) -> Iterator[tuple]:
    for line in ax.lines:
        if line in taken:
            continue
        label = str(line.get_label())
        x, y = (np.asarray(v, float) for v in (line.get_xdata(), line.get_ydata()))
        in_x, in_y = line.get_transform().contains_branch_seperately(ax.transData)
        if in_x and in_y:
            yield names.of(label, line), x, y, nothing(x), nothing(x)
        elif in_x:  # from top to bottom
            yield ("vertical line" if label.startswith("_") else label), x[:1], [np.nan], [-np.inf], [0.0]
        elif in_y:  # from left to right
            across = ax.get_xlim()
            name = "horizontal line" if label.startswith("_") else label
            yield name, across, np.repeat(y[:1], 2), nothing(across), nothing(across)


def collections(ax: Axes, names: Names, taken: set) -> Iterator[tuple]:
    """Bands, points, and grids of cells."""
    from matplotlib.collections import FillBetweenPolyCollection, PathCollection, QuadMesh

    for drawn in ax.collections:
        if drawn in taken:
            continue
        if isinstance(drawn, FillBetweenPolyCollection):
            x, low, high = (
                np.concatenate(part) if part else np.empty(0) for part in zip(*map(band, drawn.get_paths()))
            )
            yield names.of(drawn.get_label(), drawn), x, nothing(x), low, high
        elif isinstance(drawn, PathCollection):
            x, y = np.ma.filled(np.ma.asarray(drawn.get_offsets(), float), np.nan).T
            yield names.of(drawn.get_label(), drawn), x, y, nothing(x), nothing(x)
        elif isinstance(drawn, QuadMesh):
            corners: np.ndarray = np.asarray(drawn.get_coordinates())
            cells: np.ma.MaskedArray = np.ma.asarray(drawn.get_array())
            middle = (corners[:-1, :-1] + corners[1:, 1:]) / 2
            yield from grid(ax, cells.reshape(middle.shape[:2]), middle[0, :, 0], middle[:, 0, 1])


def grid(ax: Axes, values: np.ndarray, x: np.ndarray, y: np.ndarray) -> Iterator[tuple]:
    ticks = tick_names(ax.yaxis)
    for at, line in zip(y, values):
        empty = np.full(len(x), np.nan)
        yield ticks.get(round(at, 6), f"{at:g}"), x, line, empty, empty


def band(path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x, low, high) of a polygon of fill_between: one edge there, the other one back."""
    points = path.vertices[:-1]  # the last closes it
    n = len(points) // 2
    there, back = points[1:n], points[n + 1 :][::-1]
    return there[:, 0], np.minimum(there[:, 1], back[:, 1]), np.maximum(there[:, 1], back[:, 1])


def tick_names(axis) -> dict[float, str]:
    """The names of ticks that have no numbers."""
    from matplotlib.category import StrCategoryFormatter
    from matplotlib.ticker import FixedFormatter, FuncFormatter

    formatter = axis.get_major_formatter()
    if not isinstance(formatter, (FixedFormatter, FuncFormatter, StrCategoryFormatter)):
        return {}
    at = axis.get_majorticklocs()
    return {round(float(x), 6): text for x, text in zip(at, formatter.format_ticks(at)) if text}


def shared(ax: Axes, axis: str, label) -> str:
    """The label of an axis that stands at another panel."""
    group = ax.get_shared_x_axes() if axis == "x" else ax.get_shared_y_axes()
    return next((text for other in group.get_siblings(ax) if (text := label(other))), "")


def style(artist) -> tuple:
    """How it looks, by which a legend in another panel names it."""
    from matplotlib import colors
    from matplotlib.lines import Line2D

    if isinstance(artist, Line2D):
        return (
            "line",
            colors.to_hex(artist.get_color()),
            str(artist.get_linestyle()),
            str(artist.get_marker()),
            str(vars(artist)["_unscaled_dash_pattern"]),
        )
    face = np.atleast_2d(artist.get_facecolor())
    return "area", tuple(face[0]) if len(face) else (), str(artist.get_hatch())


def styles(figure: Figure) -> dict[tuple, str]:
    """Look -> label of all that has a label somewhere; looks with several labels are left out."""
    found: dict[tuple, set] = {}
    for ax in figure.axes:
        for artist in (*ax.lines, *ax.collections, *ax.patches):
            label = str(artist.get_label())
            if label and not label.startswith("_"):
                found.setdefault(style(artist), set()).add(label)
        for container in ax.containers:
            label, first = str(container.get_label()), container[0]
            if label and not label.startswith("_") and first is not None:
                found.setdefault(style(first), set()).add(label)
    return {look: labels.pop() for look, labels in found.items() if len(labels) == 1}


def as_csv(figure: Figure) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([f"{v:.9g}" if isinstance(v, float) else v for v in row] for row in rows(figure))
    return out.getvalue().encode()
