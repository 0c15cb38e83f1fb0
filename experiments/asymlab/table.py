# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tables: of the same columns and rows one for a terminal, or one in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from . import printable

RULES = {"left": "---", "right": "---:", "center": ":---:"}


class Markup(str):
    """A cell that is Markdown already."""


def left(*headers: str, **options: Any) -> list[Column]:
    """Columns of words. `options`: those of rich."""
    return [Column(header, **options) for header in headers]


def right(*headers: str, **options: Any) -> list[Column]:
    """Columns of numbers."""
    return [Column(header, justify="right", **options) for header in headers]


def centre(*headers: str) -> list[Column]:
    """Columns of symbols."""
    return [Column(header, justify="center") for header in headers]


def terminal(columns: Sequence[Column], rows: Iterable[Sequence[str | Text]], **options: Any) -> Table:
    """For a console. A cell that is a text of rich has its own colour."""
    table = Table(box=None, header_style="bold", **options)
    for column in columns:
        table.add_column(
            column.header,
            justify=column.justify,
            overflow=column.overflow,
            no_wrap=column.no_wrap,
            min_width=column.min_width,
        )
    for row in rows:
        table.add_row(*row)
    return table


def markdown(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[str]:
    """Its lines."""
    header = _line([str(column.header) for column in columns]).replace("|  |", "| |")
    return [header, _line([RULES[column.justify] for column in columns]), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell if isinstance(cell, Markup) else escaped(cell) for cell in cells)} |"


def escaped(text: str) -> str:
    """For a list or a table of Markdown: the text makes no link, no element and no other cell, and moves no cursor."""
    text = printable(text.replace("\n", " ")).replace("\\", "\\\\")
    return re.sub(r"\](?=[(\[:])", r"\\]", text).replace("|", "\\|").replace("<", "&lt;")
