# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A board: what RFC 9743 asks, of many controllers, on one kernel after the other.

It is a dossier with a column for each of them: the same paths, questions and seeds, and the same runs in the store. So
an interrupted board goes on where it was, and `asymlab dossier NAME` finds its runs there. CUBIC is always among them,
since most questions compare with it.

DIR has board.jsonl, a line for each controller and kernel, and board.md, which is made of it. Rows of other
kernels and controllers stay, and each row tells the seeds, the image and the questions that it was made with.
"""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from rich.table import Table
from rich.text import Text

from .. import LabError, controllers, reading
from ..console import console
from ..controllers import LINUX, built_in
from ..machine.image import DEFAULT_KERNEL, UML, Image
from ..machine.kernel import series
from ..paths import BUILD, BUILT, near
from ..plan import objects
from ..report.judged import MEANINGS, SYMBOLS
from ..report.names import ImageLabel
from ..report.records import first_error
from ..report.report import provenance
from ..report.terminal import STYLES
from ..results.store import Run
from ..run import registered
from ..table import centre, left, markdown, right, terminal
from . import dossier, page
from .answers import SCENARIOS, Plan, Section, called, judged, questions

FOLDER = BUILD / "board"
TOLD = 3  # objections of a row
LINE = 120  # columns of a line of names
SIZE_MAX = 64 << 20  # bytes of board.jsonl
Word = Literal["holds", "fails", "undecided", "not measured"]
PAGE = """\
# The board: what RFC 9743 asks, of many controllers

Look here to compare congestion controls by what a referee asks.
Each row is a [dossier](../testing.md#what-rfc-9743-asks).
That has the questions, the answers in numbers, and their bounds.
A word of a heading is the worst of its questions'.
A referee objects to what no run tells, and then to the answers that are farthest from their bounds.
A controller for one kind of path may fail headings that it was never made for.
A row of one seed tells one run: it has no interval, nothing is undecided, and its symbols are in brackets.
`asymlab board` makes this page; [testing.md](../testing.md#many-controllers-in-one-table) says how.
"""


def plan(names: list[str], guest: Image, seeds: int | None) -> Plan:
    """None named: all that are built and that this kernel takes, and Linux's own."""
    wanted = [objects.absolute(name, LINUX) for name in names] or [*objects.built_for(series(guest.kernel)), *LINUX]
    first = questions().STANDARD
    rivals = tuple(name for name in dict.fromkeys(wanted) if name != first)
    return dossier.of(first, rivals, guest, seeds, BUILD / "dossier" / "board")


def write(made: Plan, done: dict[str, Run], guest: Image, to: Path) -> None:
    """Print the rows, and write both files."""
    sections = judged(made, done)
    about = provenance(list({task.key: done[task.key] for task in made.tasks}.values()))
    of = {
        "label": guest.folder.name,
        "engine": guest.engine,
        "kernel": about["kernel"],
        "image": about["image"],
        "seeds": len({task.seed for task in made.tasks}),
        "questions": registered.commit(SCENARIOS),
    }
    mine = [row(made, sections, name) | {"of": of} for name in made.names]
    console.print(table(sections, mine))
    rows = merged(read(to / "board.jsonl"), mine)
    try:
        to.mkdir(parents=True, exist_ok=True)
        (to / "board.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
        (to / "board.md").write_text(text(rows))
    except OSError as e:
        raise LabError(f"{to}: {e.strerror}; the runs are kept, the same command writes it anew") from None
    console.print(f"board: {near(to / 'board.md')}")


# --- the data --------------------------------------------------------------------------------


def row(made: Plan, sections: list[Section], name: str) -> dict:
    """A controller's words and answers, and the worst answer of each heading that fails, the worst of all first."""
    rows = [(section.section, answer.rows[name]) for section in sections for answer in section.answers]
    failed = [(page.to_bound(one) or 0, section, one.id) for section, one in rows if one.verdict == "fails"]
    worst: dict[str, str] = {}
    for _, section, id in sorted(failed):
        worst.setdefault(section, id)
    return {
        "controller": called(name),
        "called": str(near(Path(name))) if objects.is_file(name) else name,
        "words": {section.section: section.word(name) for section in sections if section.answers},
        "failed": list(worst.values()),
        "answers": {one.id: [one.verdict, *map(rounded, one.interval)] for _, one in rows},
    }


def rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


class Made(BaseModel):
    """How a row was made."""

    model_config = ConfigDict(extra="forbid", strict=True)
    label: ImageLabel
    engine: Literal["qemu", "uml"]
    kernel: str
    image: str
    seeds: int
    questions: str


class Row(BaseModel):
    """A line of board.jsonl."""

    model_config = ConfigDict(extra="forbid", strict=True)
    controller: str
    called: str
    words: dict[str, Word]
    failed: list[str]
    answers: dict[str, tuple[Word, float | None, float | None, float | None]]
    of: Made

    @model_validator(mode="after")
    def _answered(self) -> Self:
        if wrong := [id for id in self.failed if id not in self.answers or self.answers[id][1] is None]:
            raise ValueError(f"{wrong[0]!r} has failed and has no value")
        return self


def read(file: Path) -> list[dict]:
    """The rows that are there; LabError names the first line that is none."""
    if not file.exists():
        return []
    rows: list[dict] = []
    try:
        for line in reading.read(file, SIZE_MAX).decode().splitlines():
            Row.model_validate_json(line)
            rows.append(json.loads(line))
    except (OSError, ValueError, RecursionError) as e:
        wrong = first_error(e) if isinstance(e, ValidationError) else type(e).__name__
        what = f"line {len(rows) + 1} is no row of a board ({wrong})"
        raise LabError(f"{file}: cannot be read: {what}; remove it") from None
    return rows


def merged(before: list[dict], mine: list[dict]) -> list[dict]:
    """By kernel, the first that was asked first; then ours, the rivals, Linux's own, and others' objects."""
    of = mine[0]["of"]
    named = {one["controller"] for one in mine}

    def stays(r: dict) -> bool:
        here = r["of"]["label"] == of["label"]
        return not here or r["of"]["kernel"] == of["kernel"] and r["controller"] not in named

    kept = [r for r in before if stays(r)]
    labels = list(dict.fromkeys(r["of"]["label"] for r in (*before, *mine)))
    order = {name: at for at, name in enumerate((*built_in(BUILT), *LINUX))}

    def place(r: dict) -> tuple[int, int, str]:
        return labels.index(r["of"]["label"]), order.get(r["controller"], len(order)), r["controller"]

    return sorted([*kept, *mine], key=place)


# --- the page --------------------------------------------------------------------------------


def objections(one: dict) -> str:
    """In one line: what no run tells, then what is farthest from its bound."""
    ours = questions()
    said = [ours.KNOWN[one["controller"]]] if one["controller"] in ours.KNOWN else []
    said += [ours.OBJECTIONS.get(id, f"{id}: {{}}").format(short(one["answers"][id][1])) for id in one["failed"][:TOLD]]
    if (more := len(one["failed"]) - TOLD) > 0:
        said.append(f"{more} more heading{'s' * (more > 1)}")
    return "; ".join(said) or "nothing that fails here"


def short(value: float) -> str:
    """Two digits tell enough."""
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"


def repeat(one: dict) -> str:
    """The command of a row."""
    of = one["of"]
    kernel = of["label"].removesuffix(UML)
    words = ["asymlab", "dossier", one["called"], "--seeds", str(of["seeds"]), "--engine", of["engine"]]
    return shlex.join([*words, *(["--image", kernel] if kernel != DEFAULT_KERNEL else [])])


def symbol(one: dict, section: str) -> str:
    """In brackets if one run decided."""
    mark = SYMBOLS[one["words"].get(section, "not measured")]
    return f"({mark})" if one["of"]["seeds"] == 1 else mark


def table(sections: list[Section], rows: list[dict]) -> Table:
    """In the terminal."""
    asked = [section.section for section in sections if section.answers]
    lines: list[list[str | Text]] = [
        [
            controllers.of(one["controller"]).label,
            *(Text(symbol(one, section), style=STYLES[one["words"][section]]) for section in asked),
        ]
        for one in rows
    ]
    return terminal(left("", *asked), lines)


def text(rows: list[dict]) -> str:
    """A column for each heading that has questions, though the last kernel may lack what they take."""
    headings = questions().headings(questions().STANDARD)
    asked = [(heading.section, heading.title) for heading in headings if heading.checks]
    words = [(SYMBOLS[word], word, meaning) for meaning, _, word in MEANINGS]
    lines = [*PAGE.splitlines(), "", *markdown(left("", "word", "the 95 % interval over the seeds"), words)]
    lines += ["", *markdown(left("column", "RFC 9743"), asked), ""]
    unanswered = [f"- {s.section} {s.title}" for s in headings if not s.checks]
    lines += ["The lab does not answer these headings:", "", *unanswered, ""]
    by_kernel: dict[str, list[dict]] = {}
    for one in rows:
        by_kernel.setdefault(one["of"]["label"], []).append(one)
    for mine in by_kernel.values():
        lines += of_kernel([section for section, _ in asked], mine)
    first, *others = by_kernel.values()
    for other in others:
        lines += differences(first, other)
    return "\n".join(lines).rstrip() + "\n"


def of_kernel(asked: list[str], rows: list[dict]) -> Iterator[str]:
    of = rows[0]["of"]
    yield f"## Linux {of['kernel']}"
    yield ""
    yield f"Engine `{of['engine']}`."
    yield ""
    symbols = [[f"`{one['controller']}`", *(symbol(one, section) for section in asked)] for one in rows]
    yield from markdown(left("controller") + centre(*asked), symbols)
    yield ""
    yield from never(rows)
    made = [
        (
            f"`{one['controller']}`",
            str(one["of"]["seeds"]),
            one["of"]["image"],
            one["of"]["questions"] or "installed",
            f"`{repeat(one)}`",
            objections(one),
        )
        for one in rows
    ]
    columns = left("controller") + right("seeds") + left("image", "questions", "the row again")
    yield from markdown([*columns, *left("what a referee objects to")], made)
    yield ""


def never(rows: list[dict]) -> Iterator[str]:
    """The questions that fail for no controller, and those that are asked no longer."""
    asked = {check.id for heading in questions().headings(questions().STANDARD) for check in heading.checks}
    failing: dict[str, int] = {}
    for one in rows:
        for id, (word, *_) in one["answers"].items():
            failing[id] = failing.get(id, 0) + (word == "fails")
    if silent := [f"`{id}`" for id, count in failing.items() if not count]:
        yield f"{len(silent)} of {len(failing)} questions fail for none of these {len(rows)} controllers:"
        yield from lines_of(silent)
        yield ""
    if gone := [f"`{id}`" for id in failing if id not in asked]:
        yield "Answered here, and asked no longer:"
        yield from lines_of(gone)
        yield ""


def lines_of(names: list[str]) -> list[str]:
    """One sentence, and no name in two lines."""
    sentence = ", ".join(name.replace(" ", "\0") for name in names) + "."
    return [line.replace("\0", " ") for line in textwrap.wrap(sentence, LINE)]


def differences(first: list[dict], other: list[dict]) -> Iterator[str]:
    """The questions that two kernels answer by opposite words, of as many seeds."""
    a, b = first[0]["of"], other[0]["of"]
    before = {(one["controller"], one["of"]["seeds"]): one["answers"] for one in first}
    both = [
        (one["controller"], id, then, now)
        for one in other
        for id, now in one["answers"].items()
        if (then := before.get((one["controller"], one["of"]["seeds"]), {}).get(id))
    ]
    if not both:
        return
    yield f"## What Linux {b['kernel']} answers otherwise than {a['kernel']}"
    yield ""
    turned = [found for found in both if {found[2][0], found[3][0]} == {"holds", "fails"}]
    undecided = sum(then[0] != now[0] for *_, then, now in both) - len(turned)
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(found[0] for found in both))
    yield f"Both were asked the same questions, with as many seeds, of {names}."
    yield f"{len(turned)} of {len(both)} answers are the opposite."
    yield f"{undecided} more have another word, since one of both kernels leaves them undecided."
    if turned:
        yield ""
        rows = [
            [f"`{name}`", id, *(f"{short(value)} {SYMBOLS[word]}" for word, value, *_ in answers)]
            for name, id, *answers in turned
        ]
        yield from markdown(left("controller", "question") + right(a["kernel"], b["kernel"]), rows)
    yield ""
