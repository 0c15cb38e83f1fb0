# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Published rows by other seeds: does each keep its word?

A row is judged anew, by seeds that none of its published runs has, on this tree's image and controllers. Only the runs
that it reads are made. The outcome may be kept beside the published results: a line for each row in again.jsonl.xz, and
again.md is made of it.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from .. import LabError
from ..console import console
from ..machine.image import Image
from ..plan.scenario import Case
from ..results.store import Run
from ..run import registered
from ..run.tasks import Task, plan_runs
from ..table import left, markdown
from . import papers, suite
from .absent import Absent
from .claim import Claim
from .judged import MEANINGS, SYMBOLS, Judged, Results, number
from .part import Part
from .records import FOR_TEXT, first_error, unpacked

DATA = "again.jsonl.xz"
SHOWN = 20  # rows for one reason; of more those that keep their word are counted alone
OPEN = {*MEANINGS[-1][1:], "not measured"}  # the words of a row that is not decided
SAME, SETTLED, UNDECIDED, OTHER = "the same", "decided now", "not decided now", "the other word"
PAGE = """\
# Published rows by other seeds

Look here to see whether a published word hangs on its seeds.
Each row ran again by seeds that its published runs do not have, on the image and the controllers of the named commit.
The engine is that of the published runs, if the reason names no other.
These runs alone make its second word: they are not joined with the published ones.
`asymlab repeat PAPER ROW --first-seed N --seeds N` repeats a row.
"""


class Again(BaseModel):
    """A row by other seeds: a line of again.jsonl.xz."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    paper: str
    row: str
    claim: str
    why: str  # it was chosen
    published: str  # its word, value and runs
    here: str
    kept: str
    seeds: str
    commit: str
    image: str


class Looked(Results):
    """The cases that somebody looks up."""

    def __init__(self, paper: str, found: list[tuple[Task, Run]]):
        super().__init__(paper, found)
        self.cases: set[str] = set()

    def chosen(self, id: str, point: dict[str, Any]) -> list[tuple[Task, Run]]:
        there = super().chosen(id, point)
        self.cases |= {task.case.name for task, _ in there}
        return there


@dataclass(frozen=True)
class Plan:
    """Some rows of a part, and the runs of other seeds that they read."""

    part: Part
    rows: list[Judged]
    claims: list[Claim]  # of the rows
    tasks: list[Task]
    image: Image
    seeds: str

    def judged(self, done: dict[str, Run]) -> list[Judged]:
        results = Results(self.part.name, [(task, done[task.key]) for task in self.tasks])
        return [claim.judged(results) for claim in self.claims]

    def told(self, new: list[Judged], why: str) -> list[Again]:
        commit, image = registered.head(but="again.*") or "unknown", self.image.hash[:12]
        return [
            Again(
                paper=self.part.name,
                row=row.id,
                claim=f"{row.source}: {row.claim}",
                why=why,
                published=word(old),
                here=word(row),
                kept=kept(old, row),
                seeds=self.seeds,
                commit=commit,
                image=image,
            )
            for old, row in zip(self.rows, new, strict=True)
        ]


def kept(old: Judged, new: Judged) -> str:
    if old.verdict == new.verdict:
        return SAME
    if new.verdict in OPEN:
        return UNDECIDED
    return SETTLED if old.verdict in OPEN else OTHER


def word(row: Judged) -> str:
    """Its word, value, interval and runs."""
    if row.unmeasured:
        return f"{row.verdict} ({row.unmeasured})"
    spread = "the worst" if row.worst else f"{number(row.low)} to {number(row.high)}" if row.sampled else "no sample"
    return f"{SYMBOLS[row.verdict]} {row.verdict}: {number(row.value)} ({spread}; runs: {row.n})"


def plan(part: Part, names: list[str], image: Image, first: int, seeds: int | None) -> Plan:
    """`seeds`: of each case; None: as many as that of the rows with the most has. LabError if a published run of a row
    has one of them."""
    rows, claims = {c.id: c for c in part.claims}, {c.id: c for c in papers.claims(part.name)}
    for name in names:
        if name not in rows or name not in claims:
            raise LabError(f"{part.name}: no row {name!r}; there are {', '.join(c for c in rows if c in claims)}")
    count = seeds or max(rows[name].seeds for name in names) or 1
    numbers = tuple(range(first, first + count))
    if used := sorted({s.seed for name in names for s in rows[name].samples} & {*numbers}):
        raise LabError(f"{part.name}: published runs have the seed {used[0]}; --first-seed takes a later one")
    cases = [replace(case, seeds=numbers) for case in cases_of(part.name, [claims[name] for name in names], image)]
    told = f"{numbers[0]} to {numbers[-1]}"
    return Plan(part, [rows[n] for n in names], [claims[n] for n in names], plan_runs(cases, image), image, told)


def cases_of(paper: str, claims: list[Claim], image: Image) -> list[Case]:
    """Those whose runs the claims read, of what they compare with as well."""
    tasks = suite.plan([paper], image, 1).every[paper]
    looked = Looked(paper, [(task, Absent.of(task)) for task in tasks])
    for claim in claims:
        claim.judged(looked)
    return [task.case for task in tasks if task.case.name in looked.cases]


def say(rows: list[Again]) -> None:
    for one in rows:
        console.print(f"{one.row}: published {one.published}; seeds {one.seeds} {one.here}: {one.kept}")


# --- what is kept ------------------------------------------------------------------------


def read(file: Path) -> list[Again]:
    if not file.exists():
        return []
    rows = []
    for at, line in enumerate(lines_of(file), 1):
        try:
            rows.append(TypeAdapter(Again).validate_json(line))
        except ValidationError as e:
            raise LabError(f"{file}: line {at} is no row: {first_error(e)}") from None
    return rows


def lines_of(file: Path) -> list[str]:
    try:
        return unpacked(file).decode().splitlines()
    except ValueError as e:
        raise LabError(f"{file.parent}/{e}") from None


def keep(rows: list[Again], folder: Path) -> None:
    """The rows of others stay; one that is there for the same reason, by the same seeds, is replaced."""
    every = {(one.paper, one.row, one.why, one.seeds): one for one in [*read(folder / DATA), *rows]}
    ordered = [every[key] for key in sorted(every)]
    data = "".join(json.dumps(one.model_dump()) + "\n" for one in ordered)
    (folder / DATA).write_bytes(lzma.compress(data.encode(), filters=FOR_TEXT))
    (folder / "again.md").write_text(text(ordered))


def by_reason(rows: list[Again]) -> list[tuple[str, str, list[Again]]]:
    """Why some were chosen, how many kept their words, and the rows themselves."""
    groups = []
    for why in dict.fromkeys(one.why for one in rows):
        there = [one for one in rows if one.why == why]
        counts = {kept: sum(one.kept == kept for one in there) for kept in (SAME, SETTLED, UNDECIDED, OTHER)}
        told = ", ".join(f"{kept} {n}" for kept, n in counts.items() if n)
        left_out = f" Rows of the same word are in {DATA}." if len(there) > SHOWN else ""
        shown = [one for one in there if one.kept != SAME or not left_out]
        said = f"Rows: {len(there)}. {told[:1].upper()}{told[1:]}.{left_out}"
        groups.append((f"{why[:1].upper()}{why[1:]}", said, shown))
    return groups


def text(rows: list[Again]) -> str:
    """again.md."""
    lines = [*PAGE.splitlines(), ""]
    for why, told, there in by_reason(rows):
        lines += [f"## {why}", "", told, ""]
        table = [
            [one.paper, one.row, one.claim, one.published, f"{one.here}; seeds {one.seeds}", one.kept, one.commit]
            for one in there
        ]
        lines += [*markdown(left("", "row", "claim", "published", "by other seeds", "word", "commit"), table), ""]
    return "\n".join(lines).rstrip() + "\n"
