# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs papers' experiments, and judges them."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from ..options import Command, add_lab_options, image_of, run_lab, seeds
from ..paths import REPORT
from ..report import papers, report, suite, terminal


def suite_options(p: argparse.ArgumentParser) -> None:
    names = f"full suites ({', '.join(papers.names())}, all); none: the quick set of each"
    p.add_argument("names", nargs="*", metavar="NAME", help=names)
    p.add_argument("--seeds", type=seeds, help="seeds of each case, instead of the set's number")
    p.add_argument("--first-seed", type=seeds, default=1, help="the first of them: others are fresh samples [1]")
    some = "only the cases whose name fits, such as 'FU-9 *'; repeatable. Such a report is not published"
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help=some)
    p.add_argument("--report", type=Path, default=REPORT, metavar="DIR", help="where the report goes [build/report]")
    p.add_argument("--rows", action="store_true", help="print each verdict, instead of a line for each paper")
    without = "no page for each run in the report: drawing them takes half a second each"
    p.add_argument("--no-pages", dest="run_pages", action="store_false", help=without)
    add_lab_options(p)


def do_suite(args) -> None:
    guest = image_of(args)
    if not args.shard and not args.dry_run:
        report.check(args.report)  # before hours of runs
    began = time.monotonic()
    plan = suite.plan(args.names, guest, args.seeds, args.first_seed, args.only)
    if done := run_lab(args, plan.all, guest, suite.as_they_end(plan, terminal.print_counts)):
        verdicts = suite.judge(plan, done, guest, args.report, args.run_pages)
        show = terminal.print_verdicts if args.rows else terminal.print_papers
        show(verdicts, time.monotonic() - began, args.report)


COMMANDS = (Command("suite", suite_options, do_suite),)
