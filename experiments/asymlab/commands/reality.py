# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Sets live runs and the lab's side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..machine.image import DEFAULT_KERNEL
from ..options import Command, given_file, passes, positive
from ..reality import pairs


def reality_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("file", nargs="?", type=given_file, default=pairs.FILE, help="[experiments/reality/cases.toml]")
    p.add_argument("--passes", type=passes, default=2, help="live runs of each case, 0 to 100 [%(default)s]")
    p.add_argument("--to", type=Path, metavar="DIR", default=pairs.FOLDER, help="where it goes [build/reality]")
    p.add_argument("--image", default=DEFAULT_KERNEL, help="image of each engine [%(default)s]")
    p.add_argument("--jobs", type=positive, help="virtual machines at a time [one per core]")


def do_reality(args) -> None:
    pairs.run(args.file, args.image, args.passes, args.to, args.jobs)


COMMANDS = (Command("reality", reality_options, do_reality, more=pairs.__doc__),)
