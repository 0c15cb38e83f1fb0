# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A suite: the scenarios of a paper (papers.py), or of several; their runs, judged and reported."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from .. import LabError
from ..console import console
from ..machine import qemu
from ..machine.image import Image
from ..paths import EXPERIMENTS
from ..plan import scenario
from ..results.store import Run
from ..run.tasks import Task, lack, plan_runs
from . import papers, report, sentences
from .absent import Absent
from .judged import Judged, Results

BENCH = EXPERIMENTS / "bench" / "cases.toml:five-flows"


def speed(image: Image, runs: list[Run], bench: Run) -> dict[str, str]:
    """The lab's own speed, measured when the runs were made."""
    wall, virtual = (sum(r.record["wall_s"] for r in runs), sum(r.job.duration_s for r in runs))
    return {
        "boot to first packet, median": f"{statistics.median(r.record['boot_s'] or math.nan for r in runs):.1f} s",
        bench.record["title"]: f"{bench.record['wall_s']:.1f} s on one core, boot included",
        "all runs, one core": f"{wall:.0f} s for {virtual:.0f} virtual seconds ({virtual / wall:.1f} to 1)",
        "image": f"{sum(f.stat().st_blocks for f in image.folder.iterdir()) * 512 / 1e6:.0f} MB on disk",
        "memory of a machine": f"{qemu.MEMORY_MB} MB",
    }


@dataclass(frozen=True)
class Plan:
    """The runs of some suites."""

    which: str  # the set
    only: list[str]  # patterns that choose some of its cases; none: all
    tasks: dict[str, list[Task]]  # by paper
    every: dict[str, list[Task]]  # these, and those that `only` leaves out
    bench: Task

    @property
    def all(self) -> list[Task]:
        """Each once."""
        return list({t.key: t for ts in (*self.tasks.values(), [self.bench]) for t in ts}.values())


def plan(names: list[str], image: Image, seeds: int | None = None, first: int = 1, only: Sequence[str] = ()) -> Plan:
    """No name: the quick set of every paper. `seeds`: of each case that is in the set, instead of the set's number.
    `first`: the first seed of each case. `only`: the cases whose name one of these shell patterns fits; LabError if one
    fits none. A case that the image's kernel cannot run is left out, with a line."""
    which = "full" if names else "quick"
    known = papers.names()
    for name in names:
        if name not in (*known, "all"):
            raise LabError(f"suite {name}: there are {', '.join(known)}, all")

    def cases(file) -> list[scenario.Case]:
        loaded = scenario.load(file, which)
        return [replace(c, seeds=tuple(range(first, first + (seeds or len(c.seeds))))) for c in loaded if c.seeds]

    of = {
        p: [case for file in papers.scenarios(p) for case in cases(file)]
        for p in known
        if not names or "all" in names or p in names
    }
    for pattern in only:
        if not any(fnmatchcase(case.name, pattern) for planned in of.values() for case in planned):
            raise LabError(f"--only {pattern}: fits no case; they are called as {next(iter(of.values()))[0].name!r}")

    why = {id(case): words for planned in of.values() for case in planned if (words := lack(case, image))}
    if why:
        console.print(f"left out: {len(why)} cases that this kernel cannot run, the first: {next(iter(why.values()))}")
        only = only or ["*"]  # a report of some cases replaces the rows of these alone

    def chosen(case: scenario.Case) -> bool:
        fits = not only or any(fnmatchcase(case.name, pattern) for pattern in only)
        return fits and id(case) not in why

    # A run that two scenarios have is a task of both; two files of one scenario may name the same seeds.
    every = {
        p: list({(case.scenario.id, t.key): t for case in planned for t in plan_runs([case], image, True)}.values())
        for p, planned in of.items()
    }
    tasks = {
        p: tasks_of_paper
        for p, all in every.items()
        if (tasks_of_paper := [t for t in all if chosen(t.case)]) or not only
    }
    return Plan(which, list(only), tasks, every, plan_runs(scenario.load(BENCH, which), image)[0])


def verdicts_of(work: Plan, paper: str, done: dict[str, Run]) -> tuple[list[Judged], list[dict]]:
    """A paper's claims, judged, and what the report says of them."""
    every = [(t, done[t.key] if t.key in done else Absent.of(t)) for t in work.every[paper]]
    rows = papers.judged(paper, Results(paper, every))
    return rows, sentences.verdicts(rows, papers.causes(paper))


def as_they_end(work: Plan, tell: Callable[[list[dict]], None]) -> Callable[[dict[str, Run]], None]:
    """Takes the runs that there are, and tells each paper's verdicts as soon as its own are among them."""
    wait = {paper: {t.key for t in tasks} for paper, tasks in work.tasks.items()}

    def told(done: dict[str, Run]) -> None:
        for paper in [paper for paper, keys in wait.items() if keys <= done.keys()]:
            del wait[paper]
            tell(verdicts_of(work, paper, done)[1])

    return told


def judge(work: Plan, done: dict[str, Run], image: Image, folder: Path, run_pages: bool = True) -> list[dict]:
    """Judge the runs, write the report."""
    claims, verdicts, figures = [], [], []
    for paper, tasks in work.tasks.items():
        rows, said = verdicts_of(work, paper, done)
        claims += rows
        verdicts += said
        results = Results(paper, [(t, done[t.key]) for t in tasks])
        figures += [(paper, f) for f in report.figures_of(papers.module(paper, "figures"), results)]
    runs = list(done.values())
    report.write(
        verdicts,
        figures,
        runs,
        work.which,
        work.only,
        speed(image, runs, done[work.bench.key]),
        folder=folder,
        claims=claims,
        of={paper: [t.key for t in tasks] for paper, tasks in work.tasks.items()},
        image_name=image.folder.name,
        run_pages=run_pages,
    )
    return verdicts
