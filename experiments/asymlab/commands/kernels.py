# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tries controllers on kernels."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from ..conformance.explore import explore
from ..conformance.kernels import check
from ..conformance.kernels.outcome import KERNELS
from ..options import Command, add_machine_options, given_file, image_of, positive


def check_kernels_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("names", nargs="*", metavar="OBJECT", help="these only: of bpf/, or files such as ./mine.bpf.o")
    p.add_argument(
        "--kernel",
        action="append",
        default=[],
        metavar="KERNEL",
        help="a series, `newest` of the distribution's, or `running`, this machine's own, as root; "
        f"repeatable [{', '.join(KERNELS)}]",
    )
    add_machine_options(p, image=False)
    p.add_argument("--record", action="store_true", help="write docs/kernels.json and the table of docs/kernels.md")


def do_check_kernels(args) -> int:
    return not check.check(args.kernel, args.names, args.jobs, args.fresh, args.record)


def explore_options(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "files", nargs="*", type=given_file, metavar="FILE", help="judge these scenarios instead of drawn ones"
    )
    p.add_argument("--seed", type=positive, default=1, help="of what is drawn [%(default)s]")
    p.add_argument("--count", type=positive, default=20, help="scenarios [%(default)s]")
    p.add_argument(
        "--controller", action="append", default=[], metavar="NAME", help="these of bpf/, or files; repeatable [all]"
    )
    p.add_argument("--uplink", action="store_true", help="the same paths with `asymcc uplink`, in place of `thin`")
    add_machine_options(p, fresh=False)


def do_explore(args) -> int:
    guest = image_of(args)
    paths, tally = explore.Paths(args.seed, args.controller, guest, args.uplink), explore.Tally()
    if args.files:
        rounds: Iterable[explore.Trees] = [explore.read(args.files)]
    elif guest.covers:
        rounds = paths.rounds(args.count, tally)
    else:
        rounds = [paths.drawn(args.count)]
    return bool(explore.explore(rounds, args.jobs, guest, tally).broken)


COMMANDS = (
    Command("check-kernels", check_kernels_options, do_check_kernels, more=check.__doc__, failed=2),
    Command("explore", explore_options, do_explore, more=explore.__doc__, failed=2),
)
