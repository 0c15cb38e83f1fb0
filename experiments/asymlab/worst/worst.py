# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""On which path a controller fails most, or `thin` or `uplink` of asymcc: `asymlab worst NAME`.

It searches a box of paths (rates, RTT, queues, loss, jitter, reordering, uploads, AQM, a change of the rate) for the
one where an aim is worst, and makes the path that it finds plain: what does not matter goes. A search has a seed and a
number of paths; the same command gives the same search, and one that was interrupted goes on. --box FILE is a box of
yours; the default is printed by --box default.

The worst path is a scenario in build/worst, beside a picture of the search: `asymlab run` repeats it.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

from .. import LabError
from ..console import console
from ..controllers import LINUX
from ..machine.image import Image
from ..paths import BUILD, near
from ..plan import objects, scenario
from ..plan.scenario import Case
from ..plan.toml import toml
from ..report.drawing import keep
from ..results.store import Run
from ..run import local
from ..run.cost import survey
from ..run.tasks import Task, plan_runs
from . import box
from .aims import OTHER, TOOLS, Aim, aims_of
from .search import Trial, least, search, together

FOLDER = BUILD / "worst"
WALL_LIMIT_S = 600  # of a run that takes some seconds
SEEDS = 3
AS_BAD = 0.1  # a plainer path may be better by this part of the value


@dataclass(frozen=True)
class Question:
    """The search that somebody asked for."""

    controller: str  # a name, or a file's whole name
    aim: str
    flows: int
    paths: int
    seed: int
    box: box.Box
    given: tuple[tuple[str, int], ...] = ()  # the controller's parameters

    @property
    def of(self) -> Aim:
        return aims_of(self.controller)[self.aim]

    @property
    def name(self) -> str:
        """The beginning of its files' names, which another search does not have."""
        box = [(side.of.name, *list(vars(side).values())[1:]) for side in self.box.sides]
        digest = hashlib.sha256(repr((self.controller, self.paths, box, *self.given)).encode()).hexdigest()
        return f"{self.called}-{self.aim}-{self.flows}-{self.seed}-{digest[:8]}"

    @property
    def called(self) -> str:
        """The controller's name, for a file's without its folder and suffix."""
        name = re.sub(r"[^\w-]", "_", Path(self.controller).name.partition(".")[0])
        return f"{name}_file" if name == OTHER != self.controller else name

    def tree(self, path: dict[str, Any]) -> dict[str, Any]:
        """The scenario: a case for each run."""
        name = self.called if self.given else self.controller
        runs = self.of.runs(name, self.flows)
        trees = {title: box.tree(path, keys["flows"], self.of.routed) for title, keys in runs.items()}
        titles = {title: title.replace(name, self.called) for title in trees}
        points = [{"title": titles[title]} | runs[title] | {"flows": tree["flows"]} for title, tree in trees.items()]
        own = {"controllers": {name: {"object": self.controller} | dict(self.given)}} if self.given else {}
        return next(iter(trees.values())) | own | {"sweep": {"points": points}}


def parameters(words: list[str]) -> tuple[tuple[str, int], ...]:
    """Those of KEY=VALUE; the scenario knows which there are, and their bounds."""
    if wrong := [word for word in words if not re.fullmatch(r"[a-z]\w*=-?\d{1,18}", word)]:
        raise LabError(f"--with {wrong[0][:40]}: KEY=VALUE, a whole number")
    return tuple((key, int(value)) for key, _, value in (word.partition("=") for word in words))


def question(
    controller: str,
    aim: str,
    flows: int | None,
    paths: int,
    seed: int,
    file: Path | None,
    given: tuple[tuple[str, int], ...] = (),
) -> Question:
    area = box.read(file or box.OF_TOOL.get(controller, box.DEFAULT))
    aims = aims_of(controller)
    if aim not in aims:
        raise LabError(f"--aim {aim}: {controller} has {', '.join(aims)}")
    count = flows or aims[aim].flows
    if aim == "share" and count < 2:
        raise LabError("--flows 1: shares are those of two flows or more")
    whole = controller if controller in TOOLS else objects.absolute(controller, LINUX)
    if whole == OTHER and aims[aim].compares:
        others = ", ".join(name for name, other in aims.items() if not other.compares)
        raise LabError(f"--aim {aim}: compares a controller with {OTHER}, so not {OTHER} itself; it has {others}")
    if given and (controller in TOOLS or whole in LINUX):
        raise LabError(f"--with: {controller} takes no parameters; those of bpf/ and files do")
    return Question(whole, aim, count, paths, seed, area, given)


class Lab:
    """Runs paths, and gives their values. `folder`: its own, since other searches go on beside it."""

    def __init__(self, question: Question, guest: Image, jobs: int | None, folder: Path):
        self.question, self.guest, self.jobs = question, guest, jobs
        self.file = folder / f"{question.name}-worst.toml"
        self.failed: list[str] = []
        self.fresh = False  # runs that the store holds are made as well

    def cases(self, path: dict[str, Any]) -> dict[int, list[Case]]:
        """By their seeds: on a path with chance a single run may be bad luck."""
        self.file.write_text(toml(self.question.tree(path)))
        seeds = range(1, SEEDS + 1) if box.chance(path) else (1,)
        return {seed: scenario.load(self.file, seeds=(seed,)) for seed in seeds}

    def judge(self, points: list[box.Point]) -> list[float]:
        return self.values([self.question.box.path(point) for point in points])

    def values(self, paths: list[dict[str, Any]]) -> list[float]:
        planned = [self.tasks(path) for path in paths]
        done = self.run([task for seeds in planned for tasks in seeds for task in tasks])
        values = [[self._value([done.get(task.key) for task in tasks]) for tasks in seeds] for seeds in planned]
        return [math.nan if any(map(math.isnan, of_seeds)) else statistics.median(of_seeds) for of_seeds in values]

    def tasks(self, path: dict[str, Any]) -> list[list[Task]]:
        """Those of each seed."""
        return [plan_runs(cases, self.guest) for cases in self.cases(path).values()]

    def run(self, tasks: list[Task]) -> dict[str, Run]:
        work = survey(tasks, self.fresh)
        done = dict(work.done)
        with contextlib.closing(
            local.runs(work.left, self.guest, self.jobs, lambda _: None, WALL_LIMIT_S, go_on=True)
        ) as under_way:
            for task, result in under_way:
                if isinstance(result, LabError):
                    self.failed.append(str(result))
                else:
                    done[task.key] = result
        return done

    def made(self, path: dict[str, Any]) -> list[list[Run]]:
        """The runs of each seed; KeyError if one failed."""
        tasks = self.tasks(path)
        done = self.run([task for of_seed in tasks for task in of_seed])
        return [[done[task.key] for task in of_seed] for of_seed in tasks]

    def _value(self, runs: list[Run | None]) -> float:
        """NaN where a run failed or is invalid."""
        valid = [run for run in runs if run and run.valid]
        self.failed += [run.record["invalid"][0] for run in runs if run and not run.valid]
        return self.question.of.value(valid, self.question.flows) if len(valid) == len(runs) else math.nan


def plain(path: dict[str, Any], value: float, lab: Lab) -> tuple[dict[str, Any], float]:
    """A path with as little that is odd as keeps the value, and its value. Each quantity that may be a plain path's
    becomes so; numbers keep one digit if they may."""
    sides = {side.of.name: side for side in lab.question.box.sides}  # a digit must not leave the box
    names = [name for name, known in box.OF_NAME.items() if path[name] != known.neutral]
    for name in names:
        neutral = box.OF_NAME[name].neutral
        digit = path[name] if isinstance(path[name], str) else type(path[name])(float(f"{path[name]:.1g}"))
        for v in (v for v in (neutral, digit) if sides[name].has(v) and v != path[name]):
            less = path | {name: v}
            (other,) = lab.values([less])
            if other <= value or lab.question.of.near(other, value, AS_BAD):
                path, value = less, min(value, other)
                break
    return path, value


@dataclass(frozen=True)
class Found:
    """The end of a search: its trials, the worst of them, that path made plain, and its runs by their seeds."""

    trials: list[Trial]
    best: Trial
    path: dict[str, Any]
    seeds: list[list[Run]]


@contextlib.contextmanager
def lab_of(question: Question, guest: Image, jobs: int | None) -> Iterator[Lab]:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=f".{question.name}-") as folder:
        yield Lab(question, guest, jobs, Path(folder))


def find_worst(question: Question, guest: Image, jobs: int | None, picture) -> None:
    """Search, make plain, print. `picture`: draws the trials."""
    with lab_of(question, guest, jobs) as lab:
        found = find(lab)
        print_result(question, found, lab)
        file = lab.file.replace(FOLDER / lab.file.name)
        seeds = f" --seeds {len(found.seeds)}" if len(found.seeds) > 1 else ""
        console.print(keep(FOLDER / f"{question.name}.png", lambda: picture(question, found.trials)))
        console.print(f"repeat: asymlab run {quote(str(near(file)))}{seeds}")


def _generations(lab: Lab) -> Iterator[list[Trial]]:
    question, first = lab.question, []
    begin = question.box.plain(question.seed)
    for generation in together(begin, question.box.ends(begin), lab.judge):
        first += generation
        yield generation
    best = least(first)
    start = replace(best, number=len(first) - 1) if best else None
    yield from search(len(question.box.sides), question.paths, question.seed, lab.judge, start)


def find(lab: Lab) -> Found:
    question = lab.question
    console.print(f"{question.aim}: {question.of.about}; the least is the worst")
    trials: list[Trial] = []
    for generation in _generations(lab):
        trials += generation
        if best := least(trials):
            console.print(f"{len(trials)} of {question.paths} paths, the worst {best.value:.3g}")
    best = least(trials)
    if not best:
        raise LabError(f"no path of {len(trials)} was measured: {lab.failed[0] if lab.failed else 'no reason'}")
    path, _ = plain(question.box.path(best.point), best.value, lab)
    return Found(trials, best, path, lab.made(path))


def print_result(question: Question, found: Found, lab: Lab) -> None:
    best, path, seeds = found.best, found.path, found.seeds
    first = question.box.path(best.point)
    sides = {side.of.name for side in question.box.sides}
    for name, known in box.OF_NAME.items():
        if name in sides or path[name] != known.neutral:
            unit = getattr(known, "unit", "")
            was = "" if first[name] == path[name] else f"   ({first[name]}{unit} as found)"
            console.print(f"  {name:<11} {path[name]}{unit}{was}")
    for runs in seeds:
        value = question.of.value(runs, question.flows)
        carried = ", ".join(f"{run.record['name']} {run.metrics['goodput_bps'] / 1e6:.3f} Mbit/s" for run in runs)
        console.print(f"seed {runs[0].record['seed']}: {value:.3g}; in all {carried}")
    console.print(f"{best.value:.3g} as found{', a median of seeds' * (len(seeds) > 1)}: {question.of.about}")
    console.print(f"result_sha256 {seeds[0][0].record['result_sha256']}, of the first run")
    if lab.failed:
        console.print(f"{len(lab.failed)} runs told nothing, the first: {lab.failed[0]}")
