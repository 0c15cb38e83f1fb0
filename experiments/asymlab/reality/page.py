# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The page of `asymlab reality`, from its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.table import Column

from ..controllers import of
from ..paths import EXPERIMENTS
from ..table import left, markdown, right
from .rows import LIVE, MEASURES, Kind, Measure, Row, kinds, mean, read

ALONE = {"RE-EXACT": "Exact times, and 2 ms of jitter", "RE-LATE": "Jitter as small as a live machine's"}  # in the lab
PAGE = """\
# Lab and reality

Look here to know which of the lab's numbers you may take for real.
Each scenario ran live, in real time on a machine's own kernel, and in the lab's engines.
Live a process delays the packets between TAP devices ([experiments.md](../experiments.md#run-a-scenario-of-your-own)).
A live run in which that process was late for a packet in a hundred by 1 ms or more does not count.
`make reality` makes this page, and what was expected stood in `experiments/reality/kinds.toml` before the runs.
"""


def text(rows: list[Row], kinds: list[Kind]) -> str:
    valid = [one for one in rows if not one.wrong]
    lines = [*PAGE.splitlines(), "", *where(rows), ""]
    lines += ["## By kind", "", *by_kind(valid, kinds), ""]
    lines += ["## Pair by pair", "", *pairs(valid), ""]
    for id, heading in ALONE.items():
        if there := [one for one in valid if one.id == id]:
            lines += [f"## {heading}", "", *alone(there), ""]
    return "\n".join(lines).rstrip() + "\n"


def where(rows: list[Row]) -> Iterator[str]:
    """Kernels, runs, lateness."""
    for on in ("live", "uml", "qemu"):
        here = [one for one in rows if one.on == on]
        if here:
            kernels = ", ".join(sorted({one.kernel for one in here}))
            yield f"- {on}: Linux {kernels}, {sum(not one.wrong for one in here)} runs"
    late = [one.late for one in rows if one.late and not one.wrong]
    if late:
        yield f"- The live links were late by {max(p99 for p99, _ in late):.2g} ms at most for 99 % of a run's packets,"
        yield f"  and by {max(most for _, most in late):.2g} ms for the latest of all."
    if wrong := [one for one in rows if one.wrong]:
        yield f"- Runs that do not count: {len(wrong)}. The first: {wrong[0].case}: {wrong[0].wrong}."


def engines(rows: list[Row]) -> list[str]:
    return [on for on in ("uml", "qemu") if any(one.on == on for one in rows)]


def cases(rows: list[Row]) -> dict[str, dict[str, list[Row]]]:
    """The runs of each case that has live ones, by where they ran."""
    names = dict.fromkeys(one.case for one in rows if one.on == LIVE)
    return {
        name: {on: [r for r in rows if (r.case, r.on) == (name, on)] for on in (LIVE, *engines(rows))} for name in names
    }


def by_kind(rows: list[Row], kinds: list[Kind]) -> Iterator[str]:
    yield "The largest difference over the pairs of a kind, live over lab; in bold, what was not expected."
    yield "Packets that were sent again count as ten, if they were fewer."
    yield ""
    yield from markdown(*kind_table(rows, kinds))


def published(folder: Path) -> tuple[list[str], list[list[str]]] | None:
    """Headers and rows of that table, of a folder's live runs; None without any."""
    valid = [one for one in read(folder / "reality.jsonl") if not one.wrong]
    if not valid:
        return None
    columns, rows = kind_table(valid, kinds(EXPERIMENTS / "reality" / "kinds.toml"))
    return [str(column.header) for column in columns], rows


def kind_table(rows: list[Row], kinds: list[Kind]) -> tuple[list[Column], list[list[str]]]:
    """Columns and rows, of valid runs."""
    of_case = cases(rows)
    table = []
    for kind in kinds:
        there = [ways for ways in of_case.values() if ways[LIVE][0].id in kind.cases]
        if not there:
            continue
        for on in engines(rows):
            cells = [f"{kind.title} ({len(there)})" if on == engines(rows)[0] else "", on]
            table.append(cells + [largest(there, kind, column, on) for column in range(len(MEASURES))])
        table.append(["", "live itself", *(largest(there, kind, column, LIVE) for column in range(len(MEASURES)))])
        bounds = [(getattr(kind, name), shape) for name, _, _, _, shape in MEASURES]
        table.append(["", "expected", *("" if b is None else written(shape, b) for b, shape in bounds)])
    return left("kind (pairs)", "") + right(*(column for _, column, *_ in MEASURES)), table


def written(shape: str, value: float) -> str:
    return shape.format(value).replace("%", " %")


def largest(there: list[dict[str, list[Row]]], kind: Kind, column: int, on: str) -> str:
    """Over the cases; of `live` between two passes."""
    name, _, measure, differ, shape = MEASURES[column]
    bound = getattr(kind, name)
    found = []
    for ways in there:
        live = [value for one in ways[LIVE] if (value := measure(one)) is not None]
        if on == LIVE:
            found += [differ(max(live), min(live))] if len(live) > 1 else []
        elif live and (lab := mean(ways[on], measure)) is not None:
            found.append(differ(mean(ways[LIVE], measure) or 0.0, lab))
    if not found:
        return ""
    cell = written(shape, max(found))
    return f"**{cell}**" if on != LIVE and bound is not None and max(found) > bound else cell


COLUMNS: tuple[tuple[str, Measure, str], ...] = (
    ("Mbit/s", lambda r: r.goodput, ".2f"),
    ("share, %", lambda r: r.share if len(r.goodputs) > 1 else None, ".0f"),
    ("RTT, ms", lambda r: r.rtt, ".1f"),
    ("p95", lambda r: r.p95, ".1f"),
    ("queue, ms", lambda r: r.queue, ".1f"),
    ("sent again", lambda r: r.again, ".0f"),
    ("done, s", lambda r: r.done, ".2f"),
)


def pairs(rows: list[Row]) -> Iterator[str]:
    yield f"Means of the runs: {' / '.join((LIVE, *engines(rows)))}."
    yield "Share, RTT and completion are the first flow's; the last column is how late the live links were."
    yield ""
    table = []
    for name, ways in cases(rows).items():
        cells = []
        for _, measure, shape in COLUMNS:
            values = [mean(of_way, measure) for of_way in ways.values()]
            there = any(value is not None for value in values)
            cells.append(" / ".join("–" if v is None else format(v, shape) for v in values) if there else "")
        late = max((one.late[0] for one in ways[LIVE] if one.late), default=None)
        table.append([name, *cells, "" if late is None else f"{late:.2f}"])
    yield from markdown(left("") + right(*(c for c, *_ in COLUMNS), "late (99 %), ms"), table)


def alone(rows: list[Row]) -> Iterator[str]:
    """A path that the lab alone ran, in several ways. A point's title is `PATH: WAY CONTROLLER`."""
    lab = engines(rows)[0]
    columns = [column for column in COLUMNS if column[0] not in ("share, %", "done, s")]
    table: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for one in rows:
        if one.on == lab:
            path, _, rest = one.title.partition(": ")
            way, _, controller = rest.rpartition(" ")
            table.setdefault((path, controller), {}).setdefault(way, []).append(one)
    yield f"By `{lab}`: {' / '.join(next(iter(table.values())))}."
    yield ""
    lines = []
    for (path, controller), ways in table.items():
        values = [[mean(of_way, measure) or 0.0 for of_way in ways.values()] for _, measure, _ in columns]
        shown = [" / ".join(format(v, shape) for v in of_way) for of_way, (_, _, shape) in zip(values, columns)]
        lines.append([path, of(controller).label, *shown])
    yield from markdown(left("path", "") + right(*(c for c, *_ in columns)), lines)
