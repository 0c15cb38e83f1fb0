# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The tables of the papers' pages, filled from published results.

A page of docs/ or docs/notebooks/ has a table of a paper between two lines, <!-- table PAPER WORD --> and
<!-- end of table -->. The same table stands in experiments/papers/PAPER/tables.md below the line <!-- table WORD -->,
with names for its numbers:

{FA-T2a}                            our value of a verdict
{FA-T2a; .3f; interval}             in this format, with its 95 % interval if there is one
{FA-T2a; paper}                     the paper's value
{formosa-throughput; Reno at 20}    of a figure's data: a series, where x is (nearly) this
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from .. import LabError
from . import papers, part
from .part import Part

TABLE = re.compile(r"(<!-- table (\w+) (\w+) -->\n)(.*?)(<!-- end of table -->\n)", re.DOTALL)
NEAR = 0.1  # points of a figure stand a little apart sideways


def write(results: Path) -> None:
    """Fill the tables of the pages beside the folder of results."""
    names = sorted(file.parent.name for file in results.glob("*/part.json"))
    if not names:
        raise LabError(f"{results}: no published results; `asymlab publish` makes them")
    for page, text in pages(results, results.parent, names).items():
        page.write_text(text)


def pages(results: Path, folder: Path, names: list[str]) -> dict[Path, str]:
    """The pages in the folder that have tables of the named papers, with these tables as the results are."""
    texts = {}
    for page in (*sorted(folder.glob("*.md")), *sorted(folder.glob("notebooks/*.md"))):
        text = page.read_text()
        for paper in sorted({place[2] for place in TABLE.finditer(text)} & set(names)):
            texts[page] = text = filled(text, part.read(results / paper), results / paper / "figures")
    return texts


def filled(page: str, results: Part, figures: Path) -> str:
    """A page with the tables of one paper, from its published results and the folder of its figures' data."""
    template = papers.PAPERS / results.name / "tables.md"
    parts = re.split(r"<!-- table (\w+) -->\n", template.read_text())
    tables = dict(zip(parts[1::2], parts[2::2]))

    def number(name: re.Match) -> str:
        try:
            return looked_up(name[1], results.verdicts, figures)
        except (LookupError, ValueError, TypeError, OSError, csv.Error) as e:
            raise LabError(f"{template}: {name[0]}: {e}") from None

    def table(place: re.Match) -> str:
        if place[2] != results.name:
            return place[0]
        if place[3] not in tables:
            raise LabError(f"{template}: no table {place[3]}, which a page has a place for")
        return place[1] + re.sub(r"\{([^{}]+)\}", number, tables[place[3]]).strip() + "\n" + place[5]

    return TABLE.sub(table, page)


def looked_up(name: str, verdicts: list[dict], figures: Path) -> str:
    """What a name in braces stands for."""
    what, *options = (part.strip() for part in name.split(";"))
    file = figures / f"{what}.csv"
    if file.exists():
        series, _, x = options[0].rpartition(" at ")
        found = point(file, series, float(x))
    elif "paper" in options:
        return form(verdict(what, verdicts)["paper_value"], options)
    else:
        found = verdict(what, verdicts)
    text = form(found["value"], options)
    if "interval" in options and found["low"] != found["high"]:
        text += f" ({form(found['low'], options)} to {form(found['high'], options)})"
    return text


def form(value: float | None, options: list[str]) -> str:
    if value is None:
        raise LookupError("it has no value")
    text = format(value, next((option for option in options if option.startswith(".")), ".3g"))
    return text.replace("%", " %")


def verdict(id: str, verdicts: list[dict]) -> dict:
    found = next((v for v in verdicts if v["id"] == id), None)
    if not found:
        raise LookupError("no such verdict, and no such figure with a CSV file")
    return found


def point(file: Path, series: str, x: float) -> dict:
    """Of the first panel that has the series: value, low, high at x."""
    with file.open(newline="") as data:
        rows = [r for r in csv.DictReader(data) if r["series"] == series and r["y"]]
    near = [r for r in rows if r["panel"] == rows[0]["panel"] and abs(float(r["x"]) - x) <= NEAR * abs(x)]
    if len(near) != 1:
        raise LookupError(f"{len(near)} points there")
    value, low, high = (float(near[0][column] or near[0]["y"]) for column in ("y", "low", "high"))
    return {"value": value, "low": low, "high": high}
