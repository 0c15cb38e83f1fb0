# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Sets two kernels, versions or controllers side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import LabError
from ..options import (
    Command,
    add_case_options,
    add_engine_option,
    add_machine_options,
    cases_of,
    given_file,
    percent,
    runs_on,
    seeds,
)
from ..report import bisect, compare


def compare_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("sides", nargs="+", type=Path, metavar="A B | FILE", help="two folders; with --image a scenario")
    p.add_argument(
        "--image", action="append", default=[], metavar="IMAGE", help="twice: compare the scenario on these images"
    )
    add_case_options(p, file=False)
    p.add_argument("--repeat", type=seeds, default=3, help="seeds of each case of the scenario [%(default)s]")
    p.add_argument(
        "--tolerance", type=percent, default=percent("5"), metavar="PERCENT", help="of metrics with one seed [5]"
    )
    p.add_argument("--all", dest="everything", action="store_true", help="show metrics that are the same as well")
    p.add_argument("--html", type=Path, metavar="FILE", help="write the comparison as a page")
    p.add_argument("--json", type=Path, metavar="FILE", help="write it for machines")
    add_machine_options(p, image=False)
    add_engine_option(p, None)


def do_compare(args) -> int:
    if len(args.image) not in (0, 2) or len(args.sides) != (1 if args.image else 2):
        raise LabError("compare: takes two folders, or one scenario and --image twice")
    if args.image:
        args.file = given_file(str(args.sides[0]))
        cases = cases_of(args, args.repeat)
        a, b = (compare.of_runs(label, args.file.name, runs_on(label, cases, args)) for label in args.image)
    else:
        a, b = (compare.load(folder) for folder in args.sides)
    return compare.run(a, b, args.tolerance, args.everything, args.html, args.json)


def bisect_options(p: argparse.ArgumentParser) -> None:
    add_case_options(p)
    p.add_argument("now", metavar="IMAGE", help="the kernel's image (`asymlab image --tree ... --name IMAGE`)")
    p.add_argument("--good", required=True, metavar="IMAGE", help="of a kernel that is good")
    p.add_argument("--bad", required=True, metavar="IMAGE", help="of one that is bad")
    p.add_argument(
        "--by",
        metavar="METRIC",
        help=f"the metric that decides, one of {', '.join(compare.METRICS)}, or a time such as 'program page.took' "
        "[that which tells them best apart]",
    )
    p.add_argument("--repeat", type=seeds, default=3, help="seeds of each case [%(default)s]")
    add_machine_options(p, image=False)
    add_engine_option(p, None)


def do_bisect(args) -> int:
    cases = cases_of(args, args.repeat)
    good, bad, now = (runs_on(label, cases, args) for label in (args.good, args.bad, args.now))
    return bisect.judge(bisect.measure(good, bad, args.by), now)


COMMANDS = (
    Command("compare", compare_options, do_compare, more=compare.__doc__, failed=2),
    Command("bisect", bisect_options, do_bisect, more=bisect.__doc__, failed=bisect.WRONG),
)
