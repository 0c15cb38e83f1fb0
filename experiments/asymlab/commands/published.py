# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Published results: keep them, show them on one page, make their runs again."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import LabError
from ..console import console
from ..machine.image import UML, current_image, label_of
from ..machine.vm import ENGINES
from ..options import Command, add_lab_options, run_lab, seed, seeds
from ..paths import BUILD, REPORT, RESULTS, near
from ..reality import page as reality
from ..report import part, publish, published, repeat, resample, tables


def publish_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("names", nargs="*", metavar="PAPER", help="none: all that the report has runs of")
    p.add_argument("--to", type=Path, default=RESULTS, metavar="DIR", help="where they are replaced [docs/results]")
    p.add_argument("--report", type=Path, default=REPORT, metavar="DIR", help="folder of the report [build/report]")
    p.add_argument("--tables", action="store_true", help="only fill the tables of the pages beside DIR, from DIR")
    p.add_argument("--front", action="store_true", help="only write all pages in DIR anew, from the data there")
    p.add_argument("--figures", action="store_true", help="draw the figures anew that pages beside DIR show")


def do_publish(args) -> None:
    if args.tables:
        tables.write(args.to)
    if args.front:
        publish.write_front(args.to)
    if not (args.tables or args.front):
        publish.publish(args.report, args.to, args.names, args.figures)


def repeat_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("paper", metavar="PAPER", help="whose published runs")
    p.add_argument("claims", nargs="*", metavar="CLAIM", help="of these rows only, by their ids [all runs]")
    p.add_argument(
        "--from", dest="source", type=Path, default=RESULTS, metavar="DIR", help="where it is published [docs/results]"
    )
    other = "by other seeds, from this one on: does each named row keep its word? 1 if one is decided the other way"
    p.add_argument("--first-seed", type=seed, metavar="N", help=other)
    p.add_argument("--seeds", type=seeds, metavar="N", help="how many of those [as the rows have]")
    p.add_argument("--engine", choices=ENGINES, help="by other seeds, on this engine's image [the published one's]")
    p.add_argument("--keep", metavar="WHY", help="write the outcome into DIR's again.md; WHY: they were chosen")
    add_lab_options(p, image=False)


def do_repeat(args) -> int | None:
    there = part.read(args.source / args.paper)
    if args.first_seed or args.seeds or args.keep or args.engine:
        return do_resample(args, there)
    guest = current_image(there.about.image_name)
    runs = repeat.chosen(there, args.claims, guest)
    plan = repeat.plan(there, runs, guest)
    plan.say_differences()
    count = 0 if args.fresh else plan.kept()
    if done := run_lab(args, plan.tasks, guest):
        return not plan.same(done, count)
    return None


def do_resample(args, there: part.Part) -> int | None:
    if not (args.first_seed and args.claims):
        raise LabError("repeat: --seeds, --engine and --keep go with --first-seed, and that with names of rows")
    published = there.about.image_name
    guest = current_image(label_of(published.removesuffix(UML), args.engine) if args.engine else published)
    work = resample.plan(there, args.claims, guest, args.first_seed, args.seeds)
    done = run_lab(args, work.tasks, guest)
    if not done:
        return None
    rows = work.told(work.judged(done), args.keep or "")
    resample.say(rows)
    if args.keep:
        resample.keep(rows, args.source)
    return any(one.kept == resample.OTHER for one in rows)


def report_options(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--published", action="store_true", required=True, help="of the published results; there is no other"
    )
    p.add_argument("--from", dest="source", type=Path, default=RESULTS, metavar="DIR", help="of these [docs/results]")
    p.add_argument(
        "--to", type=Path, default=BUILD / "published.html", metavar="FILE", help="where [build/published.html]"
    )


def do_report(args) -> None:
    published.write_page(args.source, args.to, reality.published(args.source))
    console.print(f"page: {near(args.to)}")


COMMANDS = (
    Command("publish", publish_options, do_publish, more=publish.__doc__),
    Command("repeat", repeat_options, do_repeat, more=repeat.__doc__, failed=2),
    Command("report", report_options, do_report),
)
