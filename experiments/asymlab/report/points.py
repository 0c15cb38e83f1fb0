# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The points of figures that tables of pages name, such as {formosa-throughput; Reno at 20}."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from .. import LabError
from . import papers

Point = tuple[float, float, float]  # value, low, high
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
        except (LookupError, ValueError, OSError, csv.Error) as e:
            raise LabError(f"{template}: {{{figure}; {place}}}: {e}") from None
    return by_name


def point(file: Path, series: str, x: float) -> Point:
    """The point in the first panel that has the series."""
    with file.open(newline="") as data:
        rows = [r for r in csv.DictReader(data) if r["series"] == series and r["y"]]
    near = [r for r in rows if r["panel"] == rows[0]["panel"] and abs(float(r["x"]) - x) <= NEAR * abs(x)]
    if len(near) != 1:
        raise LookupError(f"{len(near)} points there")
    value, low, high = (float(near[0][column] or near[0]["y"]) for column in ("y", "low", "high"))
    return value, low, high
