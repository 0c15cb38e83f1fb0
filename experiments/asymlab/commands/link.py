# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Finds the controller that fits a link."""

from __future__ import annotations

import argparse

from ..console import console
from ..link import link, real
from ..link.path import DEFAULT
from ..options import Command, add_lab_options, image_of, positive, run_lab


def link_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("--rate", help="of the bottleneck, toward the receiver of the data: 50mbit")
    p.add_argument("--trace", metavar="FILE", help="in place of --rate: what `asymlab trace` writes, or Mahimahi's")
    p.add_argument("--reverse", metavar="RATE", help="of the ACKs' direction [as --rate]")
    p.add_argument("--rtt", metavar="TIME", help="with empty queues: 80ms")
    p.add_argument("--jitter", metavar="TIME", help="of the delay, each way, in order [2ms, or 10%% of the RTT]")
    p.add_argument("--like", metavar="NAME", help="a link of real life; the other options change it; `list`: tell them")
    p.add_argument("--upload", action="store_true", help="with --like: the data go toward the net")
    p.add_argument(
        "--queue", type=positive, metavar="PACKETS", help="limit of both queues [one bandwidth-delay product]"
    )
    p.add_argument("--loss", metavar="SHARE", help="of the data, at random: 0.1%% [0%%]")
    p.add_argument("--flows", type=positive, default=1, help="of each controller, at a time [%(default)s]")
    p.add_argument("--alone", action="store_true", help="one transfer at a time: no upload, nothing of others")
    p.add_argument("--tuned", action="store_true", help="the hosts' socket buffers limit nobody")
    p.add_argument("--duration", metavar="TIME", help="of a run, virtual [as much as two minutes allow]")
    controllers = (
        "a controller of bpf/, Linux's own, or a file such as ./mine.bpf.o, with :PRESET and +thin behind it or not"
    )
    controllers += f" [{' '.join(DEFAULT)}]"
    p.add_argument("controllers", nargs="*", metavar="CONTROLLER", help=controllers)
    add_lab_options(p)


def do_link(args) -> None:
    if args.like == "list":
        return console.print(real.table(), *real.sources(), sep="\n")
    path = link.asked(args)
    guest = image_of(args)
    tasks = link.plan(path, args.controllers, guest)
    if args.dry_run or args.shard:  # all that may be asked
        run_lab(args, tasks, guest)
        return
    link.answer(path, args.controllers, tasks, guest, lambda more: run_lab(args, more, guest))


COMMANDS = (Command("link", link_options, do_link, more=link.__doc__),)
