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
from functools import partial
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
from ..report.drawing import keep
from ..results.metrics import goodput_bins
from ..results.store import Run
from ..table import left, markdown, right
from . import box
from .aims import AIMS, OTHER
from .picture import panels
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
On a path with chance the value is the median of three seeds, and a picture shows that one.
When a gap closes, all data that waited behind it count in that second.
`asymlab worst NAME --aim AIM --again` makes the runs of a row again, in seconds, and compares their hashes;
`--image` names the kernel of a row that is not of the first.
`asymlab worst NAME --aim AIM --paths {paths}` searches again, and draws the search.
`asymlab worst --table docs/results --paths {paths}` makes this page, and goes on with controllers that have no row yet.

{kernels}.
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
    series: dict[str, list[float]] = {}  # each flow's goodput, Mbit/s in each second, where the value is the median

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
                before[name] = Row(
                    controller=one.called,
                    aim=one.aim,
                    seed=one.seed,
                    paths=one.paths,
                    search=name,
                    **provenance(found.seeds),
                    value=short(median(one, found.seeds)),
                    path={k: v for k, v in found.path.items() if v != box.OF_NAME[k].neutral},
                    runs=hashes(found.seeds),
                    series=rates_of(one, middle(one, found.seeds)),
                )
        rows.append(before[name])
        write(to, rows + [row for row in before.values() if row not in rows and at < len(questions)])
    console.print(f"table: {near(to / PAGE)}")


def median(of: Question, seeds: list[list[Run]]) -> float:
    return statistics.median(of.of.value(runs, of.flows) for runs in seeds)


def middle(of: Question, seeds: list[list[Run]]) -> list[Run]:
    """The runs of the seed whose value is the median."""
    return sorted(seeds, key=lambda runs: of.of.value(runs, of.flows))[len(seeds) // 2]


def hashes(seeds: list[list[Run]]) -> list[str]:
    return [run.record["result_sha256"][:HASH] for of_seed in seeds for run in of_seed]


def rates_of(of: Question, runs: list[Run]) -> dict[str, list[float]]:
    """By controller, and by number where it has several flows."""
    return {
        name if of.flows == 1 else f"{name} {flow + 1}": rates_by_second(run, flow)
        for name, run in zip(of.of.runs(of.called, of.flows), runs)
        for flow in range(of.flows)
    }


def rates_by_second(run: Run, flow: int) -> list[float]:
    """A flow's goodput in each whole second, Mbit/s."""
    bins = goodput_bins(run.goodput, flow, run.job.duration_s, run.job.bin_ms / 1e3)
    each = 1000 // run.job.bin_ms
    return [round(float(rate), 3) for rate in bins[: len(bins) // each * each].reshape(-1, each).mean(axis=1) / 1e6]


def provenance(seeds: list[list[Run]]) -> dict[str, str]:
    of = report.provenance([run for of_seed in seeds for run in of_seed])
    return {"kernel": of["kernel"], "image": of["image"]}


def short(value: float) -> float:
    return float(f"{value:.4g}")


def write(to: Path, rows: list[Row]) -> None:
    jsonl.write(to / DATA, rows)
    try:
        (to / PAGE).write_text(text(rows))
    except OSError as e:
        raise LabError(f"{to / PAGE}: {e.strerror}") from None
    for aim, drawn in pictured(rows).items():
        keep(to / picture_of(aim), partial(panels, aim, [(row.controller, row.series) for row in drawn]))


def again(controller: str, aim: str, guest: Image, jobs: int | None) -> bool:
    """Make the runs of a row again. Whether their hashes are the same."""
    there = [one for one in read(RESULTS) if (one.controller, one.aim) == (controller, aim)]
    if not there:
        raise LabError(f"{near(RESULTS / DATA)}: no search of {controller} for {aim}")
    row = min(there, key=lambda one: one.seed)
    return made_again(row, guest, jobs).runs == row.runs


def all_again(guest: Image, jobs: int | None, to: Path) -> bool:
    """Make the runs of all rows of a kernel again, and draw them. Whether all hashes are the same."""
    rows, same = read(to), True
    for at, row in enumerate(rows):
        if row.kernel == guest.kernel:
            console.print(f"{row.controller}, {row.aim}, seed {row.seed}")
            made = made_again(row, guest, jobs)
            same &= made.runs == row.runs
            rows[at] = made if made.runs == row.runs else row
    write(to, rows)
    return same


def made_again(row: Row, guest: Image, jobs: int | None) -> Row:
    of = question(row.controller, row.aim, None, row.paths, row.seed, None)
    with lab_of(of, guest, jobs) as lab:
        lab.fresh = True
        seeds = lab.made(row.whole)
    made = hashes(seeds)
    console.print(f"{words(row.whole)}: {row.aim} {of.of.shown(median(of, seeds)):.3g}, {of.of.told}")
    same = sum(a == b for a, b in zip(made, row.runs))
    console.print(f"{same} of {len(row.runs)} runs have the bytes of those that were published, the first {made[0]}")
    return row.model_copy(update={"runs": made, "series": rates_of(of, middle(of, seeds))} | provenance(seeds))


# --- the page --------------------------------------------------------------------------------


def text(rows: list[Row]) -> str:
    counts = sorted({row.paths for row in rows})
    kernels = sorted({f"Linux {row.kernel}, image {row.image}" for row in rows})
    paths = " or ".join(map(str, counts))
    lines = HEAD.format(paths=paths, kernels="; ".join(kernels), other=OTHER.upper()).splitlines()
    first = min(row.seed for row in rows)
    others = {(row.controller, row.aim): row for row in rows if row.seed != first}
    lines += ["", *ruggedness([row for row in rows if row.seed == first], others)]
    usual = statistics.mode(row.kernel for row in rows)
    for aim in dict.fromkeys((*OF_ALL, *OF_OTHER)):
        if there := sorted_by_value(rows, aim):
            lines += ["", *of_aim(aim, there, others, usual)]
    return "\n".join(lines) + "\n"


def sorted_by_value(rows: list[Row], aim: str) -> list[Row]:
    """The first searches for an aim, the worst before."""
    first = min(row.seed for row in rows)
    return sorted((row for row in rows if (row.aim, row.seed) == (aim, first)), key=lambda row: row.value)


def pictured(rows: list[Row]) -> dict[str, list[Row]]:
    """Those of each aim that have a picture."""
    return {aim: there for aim in OF_ALL if (there := [row for row in sorted_by_value(rows, aim) if row.series])}


def picture_of(aim: str) -> str:
    return f"worst-{aim}.png"


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


def of_aim(aim: str, rows: list[Row], others: dict[tuple[str, str], Row], usual: str) -> Iterator[str]:
    """`usual`: the kernel that is not told."""
    of = AIMS[aim]
    yield f"## {aim.capitalize()}: {of.told}"
    yield ""
    if aim in pictured(rows):
        yield f"![Goodput over time on each controller's worst path]({picture_of(aim)})"
        yield ""
    table = []
    for row in rows:
        other = others.get((row.controller, aim))
        again = number(of.shown(other.value)) if other else ""
        path = words(row.whole) + f", Linux {row.kernel}" * (row.kernel != usual)
        table.append([f"`{row.controller}`", number(of.shown(row.value)), again, path, row.runs[0]])
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
