# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The templates of all pages, and the form of numbers and names in them."""

from __future__ import annotations

import base64
import re
from functools import cache
from typing import TYPE_CHECKING

from ..paths import TEMPLATES
from .judged import CHECKS, MEANINGS, SYMBOLS, number

if TYPE_CHECKING:
    import jinja2


def interval(v: dict) -> str:
    """The interval of a verdict's value, or why it has none; empty if there was one run only."""
    if v["value"] is None or v["n"] == 1:
        return ""
    if v["distinct"] == 1:
        return "one value"
    if v["worst"]:
        return "worst run"
    return f"{number(v['low'])} {'to' if v['sampled'] else 'or'} {number(v['high'])}"


def runs(v: dict) -> str:
    """How many runs, seeds and values a verdict rests on."""
    counts = ((v["n"], "run"), (v["seeds"], "seed"), (v["distinct"], "value"))
    return ", ".join(f"{count} {what}{'s' * (count > 1)}" for count, what in counts)


def word(v: dict) -> str:
    """The word of a verdict with its symbol, and that it rests on one run."""
    return f"{SYMBOLS[v['verdict']]} {v['verdict']}" + " (one run)" * (v["n"] == 1)


def natural(text: str) -> list:
    """Sort key by which 2mbit comes before 10mbit."""
    return [
        (0, float(part), "") if i % 2 else (1, 0, part) for i, part in enumerate(re.split(r"(\d+(?:\.\d+)?)", text))
    ]


@cache
def environment() -> jinja2.Environment:
    """The environment of all pages. It keeps the templates: to compile one takes as long as to draw a page."""
    import jinja2

    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    env.filters |= {
        "number": number,
        "interval": interval,
        "runs": runs,
        "base64": lambda data: base64.b64encode(data).decode(),
        "fixed": lambda value, digits=3, scale=1: "–" if value is None else f"{value * scale:.{digits}f}",
        "groupby_kept": grouped,
    }
    env.globals |= {"symbols": SYMBOLS, "meanings": MEANINGS, "checks": CHECKS}
    return env


def grouped(items: list[dict], key: str) -> list[tuple[str, list[dict]]]:
    """By the key's value, in the order of its first appearance."""
    groups: dict[str, list[dict]] = {}
    for item in items:
        groups.setdefault(item[key], []).append(item)
    return list(groups.items())
