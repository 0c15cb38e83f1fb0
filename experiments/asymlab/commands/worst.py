# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Finds the path where a controller fails most."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import LabError
from ..options import Command, add_machine_options, given_file, image_of, positive, seed
from ..worst import box, table, worst
from ..worst.aims import AIMS
from ..worst.picture import picture

PATHS = 300


def worst_options(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "controllers",
        metavar="CONTROLLER",
        nargs="*",
        help="one of bpf/, of Linux's own, or a file: ./mine.bpf.o; or thin or uplink",
    )
    about = "; ".join(f"{name}: {aim.about}" for name, aim in AIMS.items())
    p.add_argument("--aim", choices=AIMS, default="goodput", help=f"what shall be least: {about} [%(default)s]")
    p.add_argument("--flows", type=positive, help="of the controller, at a time [1; share: 4]")
    p.add_argument(
        "--with", dest="given", action="append", default=[], metavar="KEY=VALUE", help="a parameter of it; repeatable"
    )
    p.add_argument("--paths", type=positive, default=PATHS, help="how many it tries, about [%(default)s]")
    p.add_argument("--seed", type=seed, default=1, help="another one searches in another way [%(default)s]")
    p.add_argument("--box", type=given_file, metavar="FILE", help="the paths to search; `default`: print the lab's")
    p.add_argument("--table", type=Path, metavar="DIR", help="many controllers [all] by three aims, on a page there")
    p.add_argument(
        "--again",
        action="store_true",
        help="make the runs of the published page's row anew; of all of DIR, with --table",
    )
    add_machine_options(p, fresh=False)


def do_worst(args) -> int | None:
    if args.box and str(args.box) == "default":
        return print(box.DEFAULT.read_text(), end="")
    if args.given and (args.table or args.again):
        raise LabError("--with: is for a search of one controller")
    if args.table and args.again:
        return not table.all_again(image_of(args), args.jobs, args.table)
    if args.table:
        guest = image_of(args)
        questions = table.asked(args.controllers, guest, args.paths, args.seed, args.box)
        table.search_all(questions, guest, args.jobs, args.table)
        return None
    if len(args.controllers) != 1:
        raise LabError("worst: one CONTROLLER; --table DIR takes many")
    (name,) = args.controllers
    if args.again:
        return not table.again(name, args.aim, image_of(args), args.jobs)
    given = worst.parameters(args.given)
    question = worst.question(name, args.aim, args.flows, args.paths, args.seed, args.box, given)
    worst.find_worst(question, image_of(args), args.jobs, picture)
    return None


COMMANDS = (Command("worst", worst_options, do_worst, more=worst.__doc__, failed=2),)
