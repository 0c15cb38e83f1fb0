# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The command `asymlab`: takes one of COMMANDS, and tells how it ended."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from . import LabError
from .commands import (
    comparison,
    costs,
    dossiers,
    image,
    kernels,
    link,
    published,
    run,
    selftests,
    suites,
    traces,
    worst,
)
from .console import console
from .options import Command
from .paths import BUILD, INSTALLED

COMMANDS = (
    *(
        *image.COMMANDS,
        *run.COMMANDS,
        *link.COMMANDS,
        *worst.COMMANDS,
        *dossiers.COMMANDS,
        *costs.COMMANDS,
        *traces.COMMANDS,
    ),
    *(*suites.COMMANDS, *kernels.COMMANDS, *selftests.COMMANDS, *comparison.COMMANDS, *published.COMMANDS),
)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="asymlab",
        description="A virtual-time lab for TCP congestion control on asymmetric paths.",
        epilog=f"What is called build/ here is {BUILD}; ASYMLAB_HOME names another." if INSTALLED else None,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        p = commands.add_parser(
            command.name,
            help=command.about,
            description=command.more,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        p.set_defaults(parser=p, called=command)
        command.options(p)
    return top


def main() -> None:
    try:
        args, others = parser().parse_known_args()
        if others:
            args.parser.error(f"unrecognized arguments: {' '.join(others)}")
    except SystemExit as e:  # argparse's 2 would be a bad kernel
        sys.exit(max([2, *(c.failed for c in COMMANDS if c.name in sys.argv[1:2])]) if e.code else e.code)
    command: Command = args.called
    os.umask(0o022)

    def stop(*_):
        raise KeyboardInterrupt

    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, stop)
    try:
        if code := command.do(args):
            sys.exit(code)
    except LabError as e:
        print(f"asymlab: {e}", file=sys.stderr)
        sys.exit(command.failed)
    except BrokenPipeError:
        sys.exit(command.failed)
    except OSError as e:
        print(f"asymlab: {e.filename or 'system'}: {e.strerror or e}", file=sys.stderr)
        sys.exit(command.failed)
    except KeyboardInterrupt:
        kept = "; finished runs are kept, the same command goes on from there"
        keeps = command.keeps and getattr(args, "on", "lab") == "lab"
        console.print(f"asymlab: interrupted{kept if keeps else ''}")
        sys.exit(130)
