# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A controller by what RFC 9743 asks, and many of them as a table."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..dossier import board, dossier
from ..options import Command, add_lab_options, image_of, run_lab, seeds


def dossier_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("name", metavar="NAME", help="a controller of bpf/, one of Linux's own, or a file: ./mine.bpf.o")
    p.add_argument("--seeds", type=seeds, help="of each question [3]")
    p.add_argument("--to", type=Path, metavar="DIR", help="where it goes [build/dossier/NAME]")
    add_lab_options(p)


def do_dossier(args) -> None:
    guest = image_of(args)
    plan = dossier.plan(args.name, guest, args.seeds, args.to)
    if done := run_lab(args, plan.tasks, guest):
        dossier.write(plan, done)


def board_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("names", nargs="*", metavar="NAME", help="as of `dossier` [all that are built, and Linux's own]")
    p.add_argument("--seeds", type=seeds, help="of each question [3]")
    p.add_argument("--to", type=Path, metavar="DIR", default=board.FOLDER, help="where it goes [build/board]")
    add_lab_options(p)


def do_board(args) -> None:
    guest = image_of(args)
    board.read(args.to / "board.jsonl")  # before hours of runs
    plan = board.plan(args.names, guest, args.seeds)
    if done := run_lab(args, plan.tasks, guest):
        board.write(plan, done, guest, args.to)


COMMANDS = (
    Command("dossier", dossier_options, do_dossier, more=dossier.__doc__),
    Command("board", board_options, do_board, more=board.__doc__),
)
