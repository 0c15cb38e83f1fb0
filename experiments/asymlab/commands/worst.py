# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Finds the path where a controller fails most."""

from __future__ import annotations

import argparse

from ..options import Command, add_machine_options, given_file, image_of, positive, seed
from ..worst import box, worst
from ..worst.aims import AIMS

PATHS = 300


def worst_options(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "controller", metavar="CONTROLLER", help="a controller of bpf/, Linux's own, or a file: ./mine.bpf.o"
    )
    about = "; ".join(f"{name}: {aim.about}" for name, aim in AIMS.items())
    p.add_argument("--aim", choices=AIMS, default="goodput", help=f"what shall be least: {about} [%(default)s]")
    p.add_argument("--flows", type=positive, help="of the controller, at a time [1; share: 4]")
    p.add_argument("--paths", type=positive, default=PATHS, help="how many it tries, about [%(default)s]")
    p.add_argument("--seed", type=seed, default=1, help="another one searches in another way [%(default)s]")
    p.add_argument("--box", type=given_file, metavar="FILE", help="the paths to search; `default`: print the lab's")
    add_machine_options(p, fresh=False)


def do_worst(args) -> None:
    if args.box and str(args.box) == "default":
        return print(box.DEFAULT.read_text(), end="")
    from ..worst.picture import picture

    question = worst.question(args.controller, args.aim, args.flows, args.paths, args.seed, args.box)
    worst.find_worst(question, image_of(args), args.jobs, picture)


COMMANDS = (Command("worst", worst_options, do_worst, more=worst.__doc__),)
