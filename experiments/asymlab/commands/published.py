# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What is published: `asymlab publish`, `asymlab report` and `asymlab repeat`."""

from __future__ import annotations

from pathlib import Path

from ..console import console
from ..machine.image import current_image
from ..options import add, add_lab_options, run_lab
from ..paths import BUILD, REPORT, RESULTS, near
from ..report import part, publish, published, repeat, tables


def add_publish(commands) -> None:
    p = add(
        commands,
        "publish",
        do_publish,
        "keep what a report says of papers in a folder small enough for a repository",
        publish.__doc__,
    )
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


# --- report -------------------------------------------------------------------------------


def add_report(commands) -> None:
    p = add(commands, "report", do_report, "all that is published, on one page that can be printed and cited")
    p.add_argument(
        "--published", action="store_true", required=True, help="of the published results; there is no other"
    )
    p.add_argument("--from", dest="source", type=Path, default=RESULTS, metavar="DIR", help="of these [docs/results]")
    p.add_argument(
        "--to", type=Path, default=BUILD / "published.html", metavar="FILE", help="where [build/published.html]"
    )


def do_report(args) -> None:
    published.write_page(args.source, args.to)
    console.print(f"page: {near(args.to)}")


# --- repeat -------------------------------------------------------------------------------


def add_repeat(commands) -> None:
    p = add(
        commands,
        "repeat",
        do_repeat,
        "published rows again: exit code 0 if their runs have the same bytes, 1 if some differ, 2 if they cannot run",
        repeat.__doc__,
    )
    p.add_argument("paper", metavar="PAPER", help="whose published runs")
    p.add_argument("claims", nargs="*", metavar="CLAIM", help="of these rows only, by their ids [all runs]")
    p.add_argument(
        "--from", dest="source", type=Path, default=RESULTS, metavar="DIR", help="where it is published [docs/results]"
    )
    add_lab_options(p, image=False)


def do_repeat(args) -> int | None:
    there = part.read(args.source / args.paper)
    runs = repeat.chosen(there, args.claims)
    guest = current_image(there.about.image_name)
    made = repeat.plan(there, runs, guest)
    made.say_differences()
    kept = 0 if args.fresh else made.kept()
    if done := run_lab(args, made.tasks, guest):
        return not made.same(done, kept)
    return None
