# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The worst paths of many controllers, on one page: `asymlab worst --table`.

DIR has worst.jsonl, a line for each search, and worst.md, which is made of it. An interrupted table goes on where it
was, and a search whose controller, kernel, box or number of paths has changed is made anew.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from .. import LabError
from ..console import console
from ..controllers import LINUX
from ..machine.image import Image
from ..machine.kernel import series
from ..paths import RESULTS, near
from ..plan import objects
from ..report import jsonl, report
from ..results.store import Run
from ..table import left, markdown, right
from . import box
from .aims import AIMS, OTHER
from .worst import AS_BAD, Question, find, lab_of, question

DATA, PAGE = "worst.jsonl", "worst.md"
OF_ALL = ("goodput", "loss", "share")
OF_OTHER = ("queue", "loss", "share")  # it is not compared with itself
EVERY = 3  # each third controller is searched again, by another seed
HASH = 12  # digits that are shown
HEAD = """\
# Worst paths

Look here for the path on which a controller fails most, of those that a search tried.
[lab.md](../lab.md#the-worst-path) tells how it searches.
Each search tried some {paths} paths of the [default box](../../experiments/asymlab/worst/box.toml): each quantity alone
at its ends, then the worst of them together.
The path that is left is plain, and as bad to a tenth, or worse.
On a path with chance the value is the median of three seeds.
`asymlab worst NAME --aim AIM --again` makes the runs of a row again, in seconds, and compares their hashes.
`asymlab worst NAME --aim AIM --paths {paths}` searches again, and draws the search.
`asymlab worst --table docs/results --paths {paths}` makes this page, and goes on with controllers that have no row yet.

Linux {kernel}, image {image}.
Rates are those of the data; {other} is the controller that others are compared with.
A hash is that of a row's first run, which has seed 1.
"""


class Row(BaseModel):
    """A search: a line of worst.jsonl."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    controller: str
    aim: str
    seed: int
    paths: int  # that it was to try
    search: str  # a hash of all that determines it
    kernel: str
    image: str
    value: float  # of the path that is left
    path: dict[str, float | str]  # what is not as on a plain path
    runs: list[str] = Field(min_length=1)  # hashes of its runs' results

    @field_validator("aim")
    @classmethod
    def _known(cls, aim: str) -> str:
        if aim not in AIMS:
            raise ValueError(f"there is {', '.join(AIMS)}")
        return aim

    @field_validator("path")
    @classmethod
    def _whole(cls, path: dict[str, float | str]) -> dict[str, float | str]:
        if not {"rate", "rtt"} <= path.keys() <= box.OF_NAME.keys():
            raise ValueError("no path of a box")
        return path

    @property
    def whole(self) -> dict[str, Any]:
        whole = {name for name, known in box.OF_NAME.items() if isinstance(known, box.Quantity) and known.whole}
        path = {name: int(value) if name in whole else value for name, value in self.path.items()}
        return {name: known.neutral for name, known in box.OF_NAME.items()} | path


def read(folder: Path) -> list[Row]:
    return jsonl.read(folder / DATA, Row, "search")


# --- the searches ----------------------------------------------------------------------------


def asked(names: list[str], guest: Image, paths: int, seed: int, file: Path | None) -> list[Question]:
    """First the searches of all, and then the second ones."""
    whole = names or [*objects.built_for(series(guest.kernel)), *LINUX]
    first, second = [], []
    for at, name in enumerate(dict.fromkeys(whole)):
        for aim in OF_OTHER if name == OTHER else OF_ALL:
            first.append(question(name, aim, None, paths, seed, file))
            if at % EVERY == 0:
                second.append(question(name, aim, None, paths, seed + 1, file))
    return first + second


def search_all(questions: list[Question], guest: Image, jobs: int | None, to: Path) -> None:
    """Make what is not there, and write both files after each."""
    before = {one.search: one for one in read(to)}
    rows: list[Row] = []
    for at, one in enumerate(questions, 1):
        with lab_of(one, guest, jobs) as lab:
            keys = [task.key for of_seed in lab.tasks(one.box.path((0.5,) * len(one.box.sides))) for task in of_seed]
            name = hashlib.sha256(" ".join((one.name, *keys)).encode()).hexdigest()[:HASH]
            if name not in before:
                console.print(f"search {at} of {len(questions)}: {one.called}, {one.aim}, seed {one.seed}")
                found = find(lab)
                runs = [run for of_seed in found.seeds for run in of_seed]
                before[name] = Row(
                    controller=one.called,
                    aim=one.aim,
                    seed=one.seed,
                    paths=one.paths,
                    search=name,
                    **provenance(runs),
                    value=short(median(one, found.seeds)),
                    path={k: v for k, v in found.path.items() if v != box.OF_NAME[k].neutral},
                    runs=[run.record["result_sha256"][:HASH] for run in runs],
                )
        rows.append(before[name])
        write(to, rows + [row for row in before.values() if row not in rows and at < len(questions)])
    console.print(f"table: {near(to / PAGE)}")


def median(of: Question, seeds: list[list[Run]]) -> float:
    return statistics.median(of.of.value(runs, of.flows) for runs in seeds)


def provenance(runs: list[Run]) -> dict[str, str]:
    of = report.provenance(runs)
    return {"kernel": of["kernel"], "image": of["image"]}


def short(value: float) -> float:
    return float(f"{value:.4g}")


def write(to: Path, rows: list[Row]) -> None:
    jsonl.write(to / DATA, rows)
    try:
        (to / PAGE).write_text(text(rows))
    except OSError as e:
        raise LabError(f"{to / PAGE}: {e.strerror}") from None


def again(controller: str, aim: str, guest: Image, jobs: int | None) -> bool:
    """Make the runs of a row again. Whether their hashes are the same."""
    there = [one for one in read(RESULTS) if (one.controller, one.aim) == (controller, aim)]
    if not there:
        raise LabError(f"{near(RESULTS / DATA)}: no search of {controller} for {aim}")
    row = min(there, key=lambda one: one.seed)
    of = question(row.controller, row.aim, None, row.paths, row.seed, None)
    with lab_of(of, guest, jobs) as lab:
        lab.fresh = True
        seeds = lab.made(row.whole)
    made = [run.record["result_sha256"][:HASH] for of_seed in seeds for run in of_seed]
    console.print(f"{words(row.whole)}: {row.aim} {of.of.shown(median(of, seeds)):.3g}, {of.of.told}")
    same = sum(a == b for a, b in zip(made, row.runs))
    console.print(f"{same} of {len(row.runs)} runs have the bytes of those that were published, the first {made[0]}")
    return made == row.runs


# --- the page --------------------------------------------------------------------------------


def text(rows: list[Row]) -> str:
    counts = sorted({row.paths for row in rows})
    kernel, image = (", ".join(sorted({getattr(row, of) for row in rows})) for of in ("kernel", "image"))
    paths = " or ".join(map(str, counts))
    lines = HEAD.format(paths=paths, kernel=kernel, image=image, other=OTHER.upper()).splitlines()
    first = min(row.seed for row in rows)
    others = {(row.controller, row.aim): row for row in rows if row.seed != first}
    lines += ["", *ruggedness([row for row in rows if row.seed == first], others)]
    for aim in dict.fromkeys((*OF_ALL, *OF_OTHER)):
        if there := [row for row in rows if (row.aim, row.seed) == (aim, first)]:
            lines += ["", *of_aim(aim, sorted(there, key=lambda row: row.value), others)]
    return "\n".join(lines) + "\n"


def ruggedness(rows: list[Row], others: dict[tuple[str, str], Row]) -> Iterator[str]:
    """How near second searches come."""
    pairs = [(row, others[row.controller, row.aim]) for row in rows if (row.controller, row.aim) in others]
    if not pairs:
        return
    there = {aim: [AIMS[a.aim].near(b.value, a.value, AS_BAD) for a, b in pairs if a.aim == aim] for aim in AIMS}
    told = ", ".join(f"{aim} {sum(found)} of {len(found)}" for aim, found in there.items() if found)
    count = sum(map(sum, there.values()))
    yield f"Another seed searched {len(pairs)} times: {count} come to within a tenth of the first search ({told})."
    if count < 0.9 * len(pairs):
        yield "So the landscape is rugged: these are bad paths, and worse ones exist."


def of_aim(aim: str, rows: list[Row], others: dict[tuple[str, str], Row]) -> Iterator[str]:
    of = AIMS[aim]
    yield f"## {aim.capitalize()}: {of.told}"
    yield ""
    table = []
    for row in rows:
        other = others.get((row.controller, aim))
        again = number(of.shown(other.value)) if other else ""
        table.append([f"`{row.controller}`", number(of.shown(row.value)), again, words(row.whole), row.runs[0]])
    columns = [*left("controller"), *right("worst", "by another seed"), *left("path", "hash of its run")]
    yield from markdown(columns, table)


def number(value: float) -> str:
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"


def words(path: dict[str, Any]) -> str:
    """A path in plain words."""
    said = [f"{path['rate'] / 1000:.3g} Mbit/s", f"{path['rtt']:g} ms", f"queue {path['queue']:g} BDP"]
    if path["ratio"] > 1:
        said.append(f"ACKs have 1/{path['ratio']:g}")
    if path["back_queue"] != box.OF_NAME["back_queue"].neutral:
        said.append(f"their queue {path['back_queue']:g}")
    if path["loss"]:
        said.append(f"{path['loss']:g} % lost" + (f" in bursts of {path['burst']:g}" if path["burst"] > 1 else ""))
    if path["jitter"]:
        said.append(f"{path['jitter']:g} ms of jitter")
    elif path["reorder"]:
        said.append(f"{path['reorder']:g} % overtake")
    if path["uploads"]:
        said.append(f"{path['uploads']:g} upload{'s' * (path['uploads'] > 1)}")
    if not math.isclose(path["change"], 1):
        said.append(f"rate x {path['change']:g} half-way")
    said += ["an ACK a packet"] * (path["ack"] == "every")
    return ", ".join(said + ([str(path["aqm"])] if path["aqm"] != "none" else []))
