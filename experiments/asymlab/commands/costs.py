# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Counts instructions."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import LabError
from ..console import console
from ..options import Command, add_case_options, add_machine_options, cases_of, image_of, positive
from ..paths import EXPERIMENTS
from ..plan import objects, scenario
from ..profile import bench, profile


def profile_options(p: argparse.ArgumentParser) -> None:
    add_case_options(p)
    p.add_argument(
        "--short", metavar="TIME", help="duration of the second run [halfway from the last change to the end]"
    )
    p.add_argument("--top", type=positive, default=20, metavar="N", help="parts of each kind to show [%(default)s]")
    p.add_argument("--csv", type=Path, metavar="FILE", help="write all parts, modules by function")
    add_machine_options(p, fresh=False, engine="qemu")


def do_profile(args) -> None:
    case = profile.one(cases_of(args))
    short = profile.one(cases_of(args, settings={"run.duration": args.short or f"{profile.shorter(case)}us"}))
    costs = profile.profile(case, short, image_of(args), args.jobs)
    profile.show(costs, args.top)
    if args.csv:
        profile.write_csv(costs, args.csv)


def bench_options(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "controllers",
        nargs="*",
        metavar="CONTROLLER",
        help="these, or ./mine.bpf.o [all of experiments/bench/cases.toml:ack]",
    )
    add_machine_options(p, fresh=False, engine="qemu")


def do_bench(args) -> None:
    usual, l4s = (EXPERIMENTS / "bench" / name for name in ("cases.toml:ack", "cases.toml:ack-l4s"))
    files = [name for name in args.controllers if objects.is_file(name)]
    names = [name for name in args.controllers if name not in files]
    if modules := [name for name in files if objects.parsed(name).module]:
        raise LabError(f"{modules[0]}: the instructions of a module are not counted apart from those of the kernel")
    home = {case.scenario.flows[0].controller: file for file in (usual, l4s) for case in scenario.load(file)}
    if unknown := sorted(set(names) - home.keys()):
        raise LabError(f"{unknown[0]}: no controller of {usual}; there are {', '.join(sorted(home))}, and files")
    guest, costs = image_of(args), []
    if files:
        costs = bench.bench(bench.of_files(files, usual), guest, [], args.jobs)
    for file in (usual, l4s):
        some = [name for name in names if home[name] == file]
        if some or not args.controllers and file == usual:
            costs += bench.bench(file, guest, some, args.jobs)
    console.print(bench.table(costs))


COMMANDS = (
    Command("profile", profile_options, do_profile, more=profile.__doc__),
    Command("bench", bench_options, do_bench, more=bench.__doc__),
)
