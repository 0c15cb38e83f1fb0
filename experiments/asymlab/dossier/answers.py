# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The answers of a dossier: each question's, of the controller and of its rivals, by the heading of the RFC."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from types import ModuleType

from .. import controllers
from ..paths import EXPERIMENTS
from ..plan import objects
from ..report.judged import Judged, Results
from ..results.store import Run
from ..run.tasks import Task
from .absolute import Absolute, mean

SCENARIOS = EXPERIMENTS / "dossier"
NOT_TRIED = "not tried"  # the word of a heading without questions


def questions() -> ModuleType:
    """headings.py."""
    spec = util.spec_from_file_location("asymlab_dossier_headings", SCENARIOS / "headings.py")
    assert spec and spec.loader
    loaded = util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def called(name: str) -> str:
    """A controller's name; of a path its file's."""
    return objects.file_of(name, Path()).call if objects.is_file(name) else name


@dataclass(frozen=True)
class Plan:
    name: str
    engine: str
    rivals: tuple[str, ...]
    folder: Path
    tasks: list[Task]

    @property
    def names(self) -> list[str]:
        """The controller, and those of whom it is not one."""
        return list(dict.fromkeys((self.name, *self.rivals)))

    @property
    def labels(self) -> list[str]:
        return [controllers.of(called(name)).label for name in self.names]


@dataclass(frozen=True)
class Answer:
    """To one question, of the controller and of each rival."""

    rows: dict[str, Judged]  # by controller, the dossier's first
    files: list[str]  # scenarios of its runs
    absolute: dict[str, Absolute | None]  # by controller; of the same runs

    @property
    def own(self) -> Judged:
        return next(iter(self.rows.values()))


@dataclass(frozen=True)
class Section:
    section: str
    title: str
    left: str
    answers: list[Answer]

    @property
    def absolute(self) -> list[tuple[str, dict[str, Absolute | None]]]:
        """(the questions that share runs, their numbers)."""
        shared: dict[tuple[str, ...], list[Answer]] = {}
        for answer in self.answers:
            shared.setdefault(tuple(answer.own.runs), []).append(answer)
        return [(", ".join(a.own.id for a in same), same[0].absolute) for same in shared.values()]

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(file for answer in self.answers for file in answer.files))

    def word(self, name: str) -> str:
        """The word for all answers of a controller: fails if one does, else undecided if one is, else holds."""
        words = [answer.rows[name].verdict for answer in self.answers]
        return next((word for word in ("fails", "not measured", "undecided", "holds") if word in words), NOT_TRIED)


def judged(made: Plan, done: dict[str, Run]) -> list[Section]:
    results = Results("dossier", [(task, done[task.key]) for task in made.tasks])
    of = {name: questions().headings(name) for name in made.names}
    file = {task.case.scenario.id: task.case.file.name for task in made.tasks}

    def answers(at: int) -> Iterator[Answer]:
        for rows in zip(*(of[name][at].checks for name in made.names), strict=True):
            if not rows[0].value.planned(results):
                continue  # this kernel lacks what it takes
            said = [row.judged(results) for row in rows]
            files = [file[id] for id in said[0].family.split()]
            plain = [mean(done[key] for key in row.runs) for row in said]
            yield Answer(dict(zip(made.names, said, strict=True)), files, dict(zip(made.names, plain, strict=True)))

    return [Section(h.section, h.title, h.left, list(answers(at))) for at, h in enumerate(of[made.name])]
