# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The points of figures that tables of pages name, such as {formosa-throughput; Reno at 20}."""

from __future__ import annotations

import math
import re
from pathlib import Path

from .. import LabError
from . import papers
from .records import Point, rows

NAME = re.compile(r"\{([\w-]+); ([^;{}]+ at [^;{}]+)[^{}]*\}")
NEAR = 0.1  # points of a figure stand a little apart sideways


def points(paper: str, figures: Path) -> dict[str, Point]:
    """Those that the paper's tables.md names, by the data of a report's figures."""
    template = papers.folder(paper) / "tables.md"
    by_name = {}
    for figure, place in NAME.findall(template.read_text() if template.exists() else ""):
        series, _, x = place.rpartition(" at ")
        try:
            by_name[f"{figure}; {place}"] = point(figures / f"{figure}.csv", series, float(x))
        except (LookupError, ValueError, OSError) as e:
            raise LabError(f"{template}: {{{figure}; {place}}}: {e}") from None
    return by_name


def point(file: Path, series: str, x: float) -> Point:
    """The point in the first panel that has the series."""
    drawn = [r for r in rows(file, ("panel", "series", "x", "y", "low", "high")) if r["series"] == series and r["y"]]
    near = [r for r in drawn if r["panel"] == drawn[0]["panel"] and abs(float(r["x"]) - x) <= NEAR * abs(x)]
    near = [r for r in near if float(r["x"]) == x] or near
    if len(near) != 1:
        raise LookupError(f"{len(near)} points there")
    value, low, high = (float(near[0][column] or near[0]["y"]) for column in ("y", "low", "high"))
    if not all(map(math.isfinite, (value, low, high))):
        raise ValueError("it is not finite")
    return value, low, high
