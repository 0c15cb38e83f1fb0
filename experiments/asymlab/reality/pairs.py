# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Lab and reality: the same scenarios live, in real time on this machine's kernel, and in each engine.

The set `full` of FILE is what the lab runs, and `quick` what runs live as well, once in each pass. The live runs need
root, and have the CPU before all other programs. The lab takes each engine that has an image.

DIR has reality.jsonl, a line for each run, and reality.md, which is made of it. kinds.toml beside FILE has what was
expected. Live runs that are there are not made again: an interrupted command goes on, and more passes add to them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from .. import LabError
from ..console import console
from ..machine.image import Image, current_image, is_made, label_of
from ..paths import BUILD, EXPERIMENTS, near
from ..plan import scenario
from ..plan.scenario import Case
from ..report.jsonl import write
from ..run.execute import execute
from ..run.host import execute_on_host
from ..run.tasks import plan_on_host, plan_runs
from . import page
from .rows import LIVE, Row, Where, kinds, read, row

FILE = EXPERIMENTS / "reality" / "cases.toml"
FOLDER = BUILD / "reality"
PRIORITY = 20  # of real time, while a run is live
TRIES = 2  # of a live run that does not count


def images(label: str) -> list[Image]:
    """One of each engine that has it, the fast one first."""
    labels = [label_of(label, engine) for engine in ("uml", "qemu")]
    return [current_image(one) for one in filter(is_made, labels)] or [current_image(labels[0])]  # it says how


def run(file: Path, label: str, passes: int, folder: Path, jobs: int | None) -> None:
    """Make the runs that are missing, and the page."""
    if passes and os.geteuid() != 0:
        raise LabError("reality: live runs need root; --passes 0 makes the lab's alone")
    cases = scenario.load(file, "full")
    live = [case for case in scenario.load(file, "quick") if case.seeds]
    if not any(case.seeds for case in cases) or not live:
        raise LabError(f"{file}: needs a case with seeds in both sets: the lab runs `full`, and `quick` runs live")
    expected, at = kinds(file.parent / "kinds.toml"), folder / "reality.jsonl"
    names = {case.name for case in (*cases, *live)}
    rows = [one for one in read(at) if one.case in names]
    for number, guest in enumerate(images(label)):
        wanted = cases if number == 0 else [c for c in cases if c.name in {case.name for case in live}]
        rows = [one for one in rows if one.on != guest.engine] + in_lab(wanted, guest, jobs)
        write(at, rows)
    for number in range(1, passes + 1):
        for case in live:
            lived(case, number, rows, at)
    order = {case.name: place for place, case in enumerate(cases)}
    rows.sort(key=lambda one: (order.get(one.case, len(order)), (LIVE, "uml", "qemu").index(one.on), one.seed))
    write(at, rows)
    try:
        (folder / "reality.md").write_text(page.text(rows, expected))
    except OSError as e:
        raise LabError(f"{folder}: {e.strerror}; the runs are kept") from None
    console.print(f"page: {near(folder / 'reality.md')}")


def title(case: Case) -> str:
    return " ".join(map(str, case.point.values())) or case.scenario.title


def in_lab(cases: list[Case], guest: Image, jobs: int | None) -> list[Row]:
    """Two cases may have the same run."""
    console.print(f"engine {guest.engine}:")
    tasks = [task for case in cases for task in plan_runs([case], guest)]
    done = execute(list({task.key: task for task in tasks}.values()), guest, jobs)
    on: Where = "uml" if guest.engine == "uml" else "qemu"
    return [row(done[task.key], task, title(task.case), on, digest(task.case)) for task in tasks]


def digest(case: Case) -> str:
    """Another one, if the scenario is another: a new key of all scenarios changes none."""
    return hashlib.sha256(case.scenario.model_dump_json(exclude_defaults=True).encode()).hexdigest()[:12]


def lived(case: Case, number: int, rows: list[Row], at: Path) -> None:
    """One live run, if there are not so many that count."""
    (task,) = plan_on_host([replace(case, seeds=(number,))])
    scenario = digest(case)
    if sum((one.case, one.on, one.scenario, one.wrong) == (case.name, LIVE, scenario, "") for one in rows) >= number:
        return
    for _ in range(TRIES):
        console.print(f"{task.name}: live, {task.job.duration_s:g} s after its set-up")
        with before_all_others():
            run = execute_on_host(task)
        rows.append(row(run, task, title(case), LIVE, scenario))
        write(at, rows)
        if not rows[-1].wrong:
            return
        console.print(f"{task.name}: does not count: {rows[-1].wrong}")


@contextlib.contextmanager
def before_all_others() -> Iterator[None]:
    """Programs that are started here have the CPU before all without real time."""
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(OSError):  # the links tell whether they were late
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, priority)
