# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs scenarios."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import LabError
from ..console import console
from ..options import Command, add_case_options, add_lab_options, cases_of, image_of, run_lab, seeds
from ..report import pages
from ..results import pcapng, xplot
from ..run.host import execute_on_host
from ..run.summary import print_draws, print_runs
from ..run.tasks import plan_on_host, plan_runs


def run_options(p: argparse.ArgumentParser) -> None:
    add_case_options(p)
    p.add_argument("--repeat", type=seeds, help="seeds from --seed (or 1) on, this many")
    p.add_argument(
        "--on",
        choices=("lab", "host"),
        default="lab",
        help="lab: in virtual time; host: in namespaces of this machine's kernel, as root [%(default)s]",
    )
    packets = "also run it with captures of all hops, and keep their packets there, a pcapng file a run"
    p.add_argument("--pcapng", type=Path, metavar="DIR", help=packets)
    p.add_argument("--xplot", type=Path, metavar="DIR", help="write a file for xplot there, for each flow")
    p.add_argument("--no-pages", dest="run_pages", action="store_false", help="draw no page for each run")
    add_lab_options(p)


def do_run(args) -> None:
    cases = cases_of(args, args.repeat)
    if args.on == "host":
        alone = ("jobs", "fresh", "dry_run", "shard", "scheduler", "canary", "pcapng", "xplot")
        if options := [o for o in alone if getattr(args, o)]:
            raise LabError(f"--{options[0].replace('_', '-')}: is for runs in the lab, not for --on host")
        runs = []
        for task in plan_on_host(cases):
            console.print(f"{task.name}: {task.job.duration_s:g} s on this machine, after its set-up")
            runs.append(execute_on_host(task))
        print_runs(runs, pages.up_to_date(runs, args.jobs) if args.run_pages else {})
        return
    guest = image_of(args)
    tasks = plan_runs(cases, guest)
    captured = plan_runs(cases_of(args, args.repeat, {"run.capture": True}), guest) if args.pcapng else []
    if done := run_lab(args, list({t.key: t for t in (*tasks, *captured)}.values()), guest):
        runs = [done[t.key] for t in tasks]
        if runs := print_draws(runs):
            print_runs(runs, pages.up_to_date(runs, args.jobs) if args.run_pages else {})
        for run, task in zip(runs, captured):
            console.print(pcapng.write(run, done[task.key], args.pcapng))
        for run in runs if args.xplot else ():
            console.print(xplot.write(run, args.xplot))


COMMANDS = (Command("run", run_options, do_run),)
