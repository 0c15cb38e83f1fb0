# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Options that several commands of `asymlab` have: how a value is read, and the runs that they ask for."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import LabError
from .console import console
from .machine import vm
from .machine.image import DEFAULT_KERNEL, Image, current_image, engine_of, label_of
from .paths import brought
from .plan import objects, scenario
from .plan.topology import objects_needed
from .results.store import Run
from .run import cost, local
from .run.execute import execute, execute_shard
from .run.tasks import Task, plan_runs


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def seed(text: str) -> int:
    value = positive(text)
    if value >= 2**63:
        raise argparse.ArgumentTypeError("must be below 2^63")
    return value


def seeds(text: str) -> int:
    value = positive(text)
    if value > scenario.SEEDS_MAX:
        raise argparse.ArgumentTypeError(f"must be {scenario.SEEDS_MAX} or less")
    return value


def passes(text: str) -> int:
    if text.startswith("-"):
        raise argparse.ArgumentTypeError("must be 0 or more")
    return 0 if text == "0" else seeds(text)


def one_of(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError("must be I/N, I from 1 to N, which is below 100000")
    return int(found[1]), int(found[2])


def sha256(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise argparse.ArgumentTypeError("must be the result_sha256 of a canary run, 64 hexadecimal digits")
    return text


def percent(text: str) -> float:
    value = float(text.removesuffix("%"))
    if not 0 <= value < 100:
        raise argparse.ArgumentTypeError("must be a percentage, 0 or more and below 100")
    return value / 100


def given_file(text: str) -> Path:
    return brought(Path(text))


@dataclass(frozen=True)
class Command:
    """One of `asymlab`."""

    name: str
    options: Callable[[argparse.ArgumentParser], None]
    do: Callable[[Any], int | None]  # the exit code, if it is not 0
    more: str | None = None  # its description
    failed: int = 1  # the exit code of an error; 2 where 1 says that something differs
    keeps: bool = True  # finished runs stay where it is interrupted


def add_machine_options(
    p: argparse.ArgumentParser, image: bool = True, fresh: bool = True, engine: str | None = None
) -> None:
    """`engine`: the default one; None: found out."""
    p.add_argument("--jobs", type=positive, help="virtual machines at a time [one per core]")
    if image:
        p.add_argument("--image", default=DEFAULT_KERNEL, help="image to boot [%(default)s]")
        add_engine_option(p, engine)
    if fresh:
        p.add_argument("--fresh", action="store_true", help="repeat runs even if the store holds them")


def engine(text: str) -> str:
    """Also of a default, which is not looked up among choices."""
    if text not in vm.ENGINES:
        raise argparse.ArgumentTypeError(f"{text!r} (or ASYMLAB_ENGINE): there are {' and '.join(vm.ENGINES)}")
    return text


def add_engine_option(p: argparse.ArgumentParser, otherwise: str | None) -> None:
    about = "qemu: the distribution's kernel, exact costs; uml: one that is built, up to 30 times faster"
    about += f" [{otherwise or 'uml where its image is made, else qemu'}]"
    default = os.environ.get("ASYMLAB_ENGINE") or otherwise
    p.add_argument("--engine", type=engine, metavar="{qemu,uml}", default=default, help=about)


def image_of(args) -> Image:
    """An engine that nobody has named is told."""
    guest = current_image(label_of(args.image, args.engine or engine_of(args.image)))
    if not args.engine:
        console.print(f"engine {guest.engine}, image {guest.folder.name}: --engine takes the other")
    return guest


def add_lab_options(p: argparse.ArgumentParser, image: bool = True) -> None:
    add_machine_options(p, image)
    p.add_argument("--dry-run", action="store_true", help="say what would run and what it would cost, run nothing")
    part = "only this part of the runs, and only into the store: for job arrays"
    p.add_argument("--shard", type=one_of, metavar="I/N", help=part)
    p.add_argument("--scheduler", metavar="ADDRESS", help="run on the workers of this Dask scheduler (tcp://HOST:8786)")
    p.add_argument(
        "--canary", type=sha256, metavar="HASH", help="what those workers' canary run must give [what it gives here]"
    )


def run_lab(
    args, tasks: list[Task], guest: Image, told: Callable[[dict[str, Run]], None] = lambda done: None
) -> dict[str, Run] | None:
    """The runs, or None if the options ask for less than all of them. `told`: as of execute()."""
    cases = {task.case.name: task.case for task in tasks}.values()
    ours = {str(of) for case in cases for name, of in objects_needed(case).items() if of and name not in case.files}
    for words in objects.stale(ours):
        console.print(f"note: {words}")
    if args.dry_run:
        if args.shard:
            tasks = cost.shard(tasks, *args.shard)
        work = cost.survey(tasks, args.fresh)
        console.print(work.table())
        console.print(work.line(local.places(args.jobs)))
        return None
    options = (guest, args.jobs, args.fresh, args.scheduler, args.canary)
    if args.shard:
        execute_shard(tasks, args.shard, *options)
        return None
    return execute(tasks, *options, told)


def runs_on(label: str, cases: list[scenario.Case], args) -> list[Run]:
    """The runs of the cases on an image."""
    guest = current_image(label_of(label, args.engine or engine_of(label)))
    tasks = plan_runs(cases, guest)
    done = execute(tasks, guest, args.jobs, args.fresh)
    return [done[task.key] for task in tasks]


def add_case_options(p: argparse.ArgumentParser, file: bool = True) -> None:
    if file:
        p.add_argument("file", type=given_file)
    p.add_argument("--seed", type=seed, help="one seed instead of the set's")
    p.add_argument(
        "--set", dest="which", choices=scenario.SETS, default="quick", help="which of the file's sets [%(default)s]"
    )
    p.add_argument("--at", action="append", default=[], metavar="KEY=VALUE", help="only this point of the sweep")


def cases_of(args, repeat: int | None = None, settings: dict[str, Any] | None = None) -> list[scenario.Case]:
    """`repeat`: seeds; `settings`: keys of the scenario and what they have instead."""
    seeds = None
    if args.seed or repeat:
        first = args.seed or 1
        seeds = tuple(range(first, first + (repeat or 1)))
    cases = scenario.load(args.file, args.which, seeds, settings)
    if not any(case.seeds for case in cases):
        raise LabError(
            f"{args.file}: no runs in the {args.which} set; --set takes another, --seed one run of each case"
        )
    for item in args.at:
        key, _, value = item.partition("=")
        swept = list(dict.fromkeys(k for c in cases for k in c.point))
        if key not in swept:
            raise LabError(f"--at {item}: {args.file} sweeps {', '.join(swept) or 'nothing'}")
        values = {str(c.point[key]): None for c in cases if key in c.point}
        chosen = [c for c in cases if key in c.point and str(c.point[key]) == value]
        if not chosen:
            raise LabError(f"--at {item}: values are {', '.join(values)}")
        cases = chosen
    return cases
