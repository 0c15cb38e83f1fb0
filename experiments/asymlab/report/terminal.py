# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The tables that `asymlab suite` prints at its end."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from ..console import console
from ..paths import REPORT
from ..table import left, right, terminal
from . import papers
from .html import interval, number, word
from .judged import NOT_MADE, SYMBOLS
from .sentences import by_measured, counts

STYLES = {
    "reproduced": "green",
    "not reproduced": "bold red",
    "inconclusive": "yellow",
    "holds": "green",
    "fails": "bold red",
    "undecided": "yellow",
    "not measured": "dim",
}


def print_counts(verdicts: list[dict]) -> None:
    """A paper's, in a line, while the runs of others go on."""
    numbers = counts(v["verdict"] for v in verdicts)
    said = [f"{n} {word}" for word, n in numbers.items() if n and word != "not measured"]
    if said:
        console.print(f"{papers.about(verdicts[0]['paper'])[0]}: {', '.join(said)}")


def print_papers(verdicts: list[dict], wall_s: float, folder: Path = REPORT) -> None:
    """A line a paper that was run: how many of its claims are reproduced, how many checks hold; and where they are."""
    columns = left("paper", overflow="fold")
    for name in SYMBOLS:
        columns += right(name, min_width=max(map(len, name.split())))
    rows: list[tuple[str | Text, ...]] = []
    measured, others = by_measured(verdicts)
    for paper in measured:
        numbers = counts(v["verdict"] for v in verdicts if v["paper"] == paper)
        cells = (Text(str(n), style=STYLES[word] if n else "dim") for word, n in numbers.items())
        rows.append((papers.about(paper)[0], *cells))
    console.print(terminal(columns, rows, padding=(0, 1)))
    if others:
        console.print(f"not in this set: {', '.join(papers.about(paper)[0] for paper in others)}")
    print_end(verdicts, wall_s, folder)


def print_verdicts(verdicts: list[dict], wall_s: float, folder: Path = REPORT) -> None:
    """The verdicts as a table, a row each, but of those whose runs `--only` left out."""
    columns = left("", no_wrap=True) + left("claim") + right("paper", no_wrap=True) + right("measured")
    rows: list[tuple[str | Text, ...]] = []
    for v in (v for v in verdicts if v["reason"] != NOT_MADE):
        claim = Text(f"{v['source']}: {v['claim']}")
        if v["reason"]:
            claim.append(f"\n{v['reason']}", style="italic")
        row = (
            Text(v["id"]),
            claim,
            number(v["paper_value"]),
            "\n".join(filter(None, (number(v["value"]), interval(v)))),
            Text(word(v), style=STYLES[v["verdict"]]),
        )
        rows.append(row)
    console.print(terminal(columns + left("verdict", no_wrap=True), rows, padding=(0, 1)))
    print_end(verdicts, wall_s, folder)


def print_end(verdicts: list[dict], wall_s: float, folder: Path) -> None:
    """All counts, and where the report is."""
    numbers = counts(v["verdict"] for v in verdicts)
    place = folder.resolve()
    if place.is_relative_to(Path.cwd()):
        place = place.relative_to(Path.cwd())
    console.print(f"{', '.join(f'{n} {word}' for word, n in numbers.items())}; {wall_s:.0f} s")
    console.print(f"each verdict: {place / 'verdicts.csv'}, or `asymlab suite --rows`")
    console.print(f"report: {place / 'index.html'}")
