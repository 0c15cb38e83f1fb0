# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Executes tasks, here or on a cluster: those that the store does not hold, with progress and a clean stop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator

from rich.progress import BarColumn, Progress, TextColumn

from .. import LabError
from ..console import console
from ..machine.image import Image
from ..results import store
from . import cluster, local
from .cost import Forecast, shard, survey
from .tasks import Task


def execute(
    tasks: list[Task],
    image: Image,
    jobs: int | None = None,
    fresh: bool = False,
    scheduler: str | None = None,
    canary: str | None = None,
    told: Callable[[dict[str, store.Run]], None] = lambda done: None,
) -> dict[str, store.Run]:
    """Run what the store does not hold, here or on a scheduler's workers (cluster.py); returns all by key. `told` gets
    those that there are, after each.

    LabError after the first failure, when the runs under way have been stopped; KeyboardInterrupt likewise.
    Finished runs are kept.
    """
    work = survey(tasks, fresh)
    done = dict(work.done)
    if not work.left:
        return done
    console.print(work.line(None if scheduler else min(local.places(jobs), len(work.left))))
    left = Forecast(work)
    under_way: Generator[tuple[Task, store.Run | LabError]]
    if scheduler:
        trial = cluster.canary(image)
        expected = canary or execute([trial], image)[trial.key].record["result_sha256"]
        under_way = cluster.runs(work.left, image, scheduler, trial, expected, left.started)
    else:
        under_way = local.runs(work.left, image, jobs, left.started)
    with (
        contextlib.closing(under_way),
        Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            left,
            console=console,
            disable=not console.is_terminal,
        ) as bar,
    ):
        shown = bar.add_task("runs", total=work.cost, count=f"{len(done)}/{len(tasks)}")
        for task, result in under_way:
            if isinstance(result, LabError):
                raise result
            done[task.key] = result
            left.ended(task)
            count = f"{len(done)}/{len(tasks)}"
            bar.update(shown, completed=left.ended_cost, description=task.name, count=count)
            if not console.is_terminal:
                forecast = str(left) if len(done) < len(tasks) else ""
                line = f"{count} {task.name} ({result.record['wall_s']:.0f} s)"
                console.print(", ".join(filter(None, (line, forecast))))
            told(done)
    return done


def execute_shard(tasks: list[Task], which: tuple[int, int], *args, **kw) -> list[store.Run]:
    """Fill the store with one shard's runs, and say how far the others are."""
    number, shards = which
    part = shard(tasks, number, shards)
    done = execute(part, *args, **kw)
    others = [t for t in tasks if t.key not in done]
    there = sum((store.STORE / t.key).exists() for t in others)
    missing = len(others) - there
    line = f"shard {number}/{shards}: its {len(part)} runs are in {store.STORE}"
    if others:
        line += f"; of the other shards' {len(others)} there are {there}"
    rest = f"{missing} of them are missing" if missing else "the same command without --shard goes on from here"
    console.print(f"{line}: {rest}")
    return list(done.values())
