# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The tables of the papers' pages, filled from published results.

A page of docs/ or docs/notebooks/ has a table of a paper between two lines, <!-- table PAPER WORD --> and
<!-- end of table -->. The same table stands in experiments/papers/PAPER/tables.md below the line <!-- table WORD -->,
with names for its numbers:

{FA-T2a}                            our value of a verdict
{FA-T2a; .3f; interval}             in this format, with its 95 % interval if there is one
{FA-T2a; mark}                      with the mark of its verdict
{FA-T2a; paper}                     the paper's value
{formosa-throughput; Reno at 20}    of a figure's data: a series, where x is (nearly) this
"""

from __future__ import annotations

import re
from pathlib import Path

from .. import LabError
from . import papers, part
from .judged import SYMBOLS
from .part import Part
from .records import DATA

TABLE = re.compile(r"(<!-- table (\w+) (\w+) -->\n)(.*?)(<!-- end of table -->\n)", re.DOTALL)


def write(results: Path) -> None:
    """Fill the tables of the pages beside the folder of results."""
    names = sorted(file.parent.name for file in results.glob(f"*/{DATA}"))
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
            texts[page] = text = filled(text, part.read(results / paper))
    return texts


def filled(page: str, results: Part) -> str:
    """A page with the tables of one paper, from its published results."""
    template = papers.folder(results.name) / "tables.md"
    parts = re.split(r"<!-- table (\w+) -->\n", template.read_text())
    tables = dict(zip(parts[1::2], parts[2::2]))

    def number(name: re.Match) -> str:
        try:
            return looked_up(name[1], results)
        except (LookupError, ValueError, TypeError) as e:
            raise LabError(f"{template}: {name[0]}: {e}") from None

    def table(place: re.Match) -> str:
        if place[2] != results.name:
            return place[0]
        if place[3] not in tables:
            raise LabError(f"{template}: no table {place[3]}, which a page has a place for")
        return place[1] + re.sub(r"\{([^{}]+)\}", number, tables[place[3]]).strip() + "\n" + place[5]

    return TABLE.sub(table, page)


def looked_up(name: str, results: Part) -> str:
    """The number that a name in braces stands for."""
    what, *options = (part.strip() for part in name.split(";"))
    if options and (point := results.points.get(f"{what}; {options[0]}")):
        (value, low, high), to = point, "to"
    elif "paper" in options:
        return form(verdict(what, results.verdicts)["paper_value"], options)
    else:
        row = verdict(what, results.verdicts)
        value, low, high, to = row["value"], row["low"], row["high"], "to" if row["sampled"] else "or"
    text = form(value, options)
    ends = form(low, options), form(high, options)
    if "interval" in options and ends[0] != ends[1]:
        text += f" ({ends[0]} {to} {ends[1]})"
    return f"{text} {SYMBOLS[verdict(what, results.verdicts)['verdict']]}" if "mark" in options else text


def form(value: float | None, options: list[str]) -> str:
    if value is None:
        raise LookupError("it has no value")
    text = format(value, next((option for option in options if option.startswith(".")), ".3g"))
    return text.replace("%", " %")


def verdict(id: str, verdicts: list[dict]) -> dict:
    row = next((v for v in verdicts if v["id"] == id), None)
    if not row:
        raise LookupError("no such verdict, and no such point of a figure; publish it anew")
    return row
