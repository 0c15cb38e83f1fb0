# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How figures look, and what a figure of the report is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..needs import lack
from ..paths import near

if TYPE_CHECKING:  # matplotlib takes half a second; only who draws pays
    import matplotlib.figure

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "legend.fontsize": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 6,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "asymlab",
    "svg.fonttype": "path",
}


@dataclass(frozen=True)
class Figure:
    id: str  # file name, unique among all papers
    title: str
    caption: str
    figure: matplotlib.figure.Figure


@contextmanager
def style() -> Iterator[None]:
    """Draw and save inside this: the report's look, whatever the user's matplotlibrc says."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def keep(file: Path, draw: Callable[[], bytes]) -> str:
    """Write a picture beside an answer that does without it; the line that tells where it is, or what it takes."""
    if reason := lack("report"):
        return f"no picture: {reason}"
    file.write_bytes(draw())
    return f"picture: {near(file)}"


def thin(t, y, points: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """A long series in `points` points that draw alike: lowest and highest of each stretch."""
    t, y = np.asarray(t), np.asarray(y)
    if len(y) <= points:
        return t, y
    edges = np.linspace(0, len(y), points // 2 + 1).astype(int)
    keep = sorted({i for a, b in zip(edges, edges[1:]) for i in (a + y[a:b].argmin(), a + y[a:b].argmax())})
    return t[keep], y[keep]
