# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What `asymlab suite` prints at its end."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table
from rich.text import Text

from ..console import console
from ..paths import REPORT
from . import papers
from .html import interval, number, word
from .sentences import by_measured, counts
from .verdicts import SYMBOLS

STYLES = {
    "reproduced": "green",
    "not reproduced": "bold red",
    "inconclusive": "yellow",
    "holds": "green",
    "fails": "bold red",
    "undecided": "yellow",
    "not measured": "dim",
}


def print_papers(verdicts: list[dict], wall_s: float, folder: Path = REPORT) -> None:
    """A line a paper that was run: how many of its claims are reproduced, how many checks hold; and where they are."""
    table = Table(box=None, header_style="bold", padding=(0, 1))
    table.add_column("paper", overflow="fold")
    for name in SYMBOLS:
        table.add_column(name, justify="right", min_width=max(map(len, name.split())))
    measured, others = by_measured(verdicts)
    for paper in measured:
        found = counts(v["verdict"] for v in verdicts if v["paper"] == paper)
        cells = (Text(str(n), style=STYLES[word] if n else "dim") for word, n in found.items())
        table.add_row(papers.about(paper)[0], *cells)
    console.print(table)
    if others:
        console.print(f"not in this set: {', '.join(papers.about(paper)[0] for paper in others)}")
    print_end(verdicts, wall_s, folder)


def print_verdicts(verdicts: list[dict], wall_s: float, folder: Path = REPORT) -> None:
    """The verdicts as a table, a row each."""
    table = Table(box=None, header_style="bold", padding=(0, 1))
    for column in ("", "claim", "paper", "measured", "verdict"):
        right = column in ("paper", "measured")
        table.add_column(column, justify="right" if right else "left", no_wrap=column in ("", "paper", "verdict"))
    for v in verdicts:
        claim = Text(f"{v['source']}: {v['claim']}")
        if v["reason"]:
            claim.append(f"\n{v['reason']}", style="italic")
        table.add_row(
            Text(v["id"]),
            claim,
            number(v["paper_value"]),
            "\n".join(filter(None, (number(v["value"]), interval(v)))),
            Text(word(v), style=STYLES[v["verdict"]]),
        )
    console.print(table)
    print_end(verdicts, wall_s, folder)


def print_end(verdicts: list[dict], wall_s: float, folder: Path) -> None:
    """All counts, and where the report is."""
    found = counts(v["verdict"] for v in verdicts)
    place = folder.resolve()
    if place.is_relative_to(Path.cwd()):
        place = place.relative_to(Path.cwd())
    console.print(f"{', '.join(f'{n} {word}' for word, n in found.items())}; {wall_s:.0f} s")
    console.print(f"each verdict: {place / 'verdicts.csv'}, or `asymlab suite --rows`")
    console.print(f"report: {place / 'index.html'}")
