# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The command `asymlab`: takes one of COMMANDS, and tells how it ended."""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import signal
import sys
from typing import TYPE_CHECKING

from . import LabError
from .paths import BUILD, INSTALLED

BROKEN = 255  # the exit code of an error in the lab itself, before its command is known: no command's answer

if TYPE_CHECKING:
    from .options import Command

# Their modules in commands/, and what they do.
COMMANDS = {
    "image": ("image", "make the guest: a packaged kernel, or one of your own, with the lab's tools"),
    "run": ("run", "run a scenario file"),
    "link": ("link", "which controller fits your link: a table, a picture, a command"),
    "worst": ("worst", "on which path a controller fails most: a search, a scenario, a picture"),
    "dossier": (
        "dossiers",
        "a controller by what RFC 9743 asks: a page with its answers beside those of CUBIC, Reno and BBR",
    ),
    "board": ("dossiers", "the dossiers of many controllers on a kernel, as one table"),
    "profile": ("costs", "exact instruction counts of a run: of a data packet, and fixed"),
    "bench": ("costs", "what each controller costs: exact instructions of an ACK in its own code"),
    "reference": ("traces", "every key that a scenario file may have, as in docs/scenarios.md"),
    "trace": (
        "traces",
        "write a trace of a link that a scenario's `trace` would make (docs/scenarios.md), in Mahimahi's format",
    ),
    "suite": ("suites", "run papers' experiments, check their claims, write the report"),
    "check-kernels": ("kernels", "every controller on several kernels, as KTAP: exit code 1 if anything fails"),
    "explore": (
        "kernels",
        "random paths, flows, controllers and commands, and what must hold in each: exit code 1 if something breaks",
    ),
    "packetdrill": (
        "selftests",
        "the kernel's own TCP tests, packetdrill scripts, in virtual time: exit code 1 if any does not pass",
    ),
    "selftests": (
        "selftests",
        "the kernel's own tests of BPF congestion control, in virtual time: exit code 1 if any does not pass",
    ),
    "compare": (
        "comparison",
        "two kernels, versions or controllers side by side, and the first ACK at which they part",
    ),
    "reality": ("reality", "the same scenarios live on this machine and in the lab, side by side: a page"),
    "bisect": (
        "comparison",
        "which of two kernels another one is like, by a scenario's results: exit code 0 good, 1 bad, 125 neither",
    ),
    "publish": ("published", "keep what a report says of papers in a folder small enough for a repository"),
    "repeat": (
        "published",
        "published rows again: exit code 0 if their runs have the same bytes, 1 if some differ, 2 if they cannot run",
    ),
    "report": ("published", "all that is published, on one page that can be printed and cited"),
}


@functools.cache
def command(name: str) -> Command:
    """Imports its module: only the command that is called needs numpy and the like, half a second of them."""
    module = importlib.import_module(f".commands.{COMMANDS[name][0]}", __package__)
    return next(c for c in module.COMMANDS if c.name == name)


class CommandParser(argparse.ArgumentParser):
    """Has the options of its command once it shall parse."""

    name = ""

    def parse_known_args(self, args=None, namespace=None):
        if self.name:
            called, self.name = command(self.name), ""
            self.description = called.more
            self.set_defaults(parser=self, called=called)
            called.options(self)
        return super().parse_known_args(args, namespace)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="asymlab",
        description="A virtual-time lab for TCP congestion control on asymmetric paths.",
        epilog=f"build/ here is {BUILD}; ASYMLAB_HOME names another." if INSTALLED else None,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=CommandParser)
    for name, (_, about) in COMMANDS.items():
        commands.add_parser(name, help=about, formatter_class=argparse.RawDescriptionHelpFormatter).name = name
    return top


def lacks(e: ImportError | RuntimeError) -> None:
    """A Python may lack a part: _lzma, if its user built it without liblzma, or libstdc++, which numpy loads. A CPU may
    lack what numpy was built for: that of 2.4 wants one of 2009."""
    first: BaseException = e
    while first.__cause__:  # a package's advice of many lines comes last
        first = first.__cause__
    if isinstance(e, RuntimeError) and str(e).startswith("NumPy was built"):
        print(f"asymlab: {' '.join(str(e).split()).rstrip('.')}; an older numpy may serve", file=sys.stderr)
    elif isinstance(e, RuntimeError) or (e.name or "").startswith("asymlab"):
        sys.excepthook(*sys.exc_info())
    else:
        what = f"no module {e.name}" if isinstance(e, ModuleNotFoundError) else first
        print(f"asymlab: {sys.executable}: {what}; install it, or take a Python that has it", file=sys.stderr)


def main() -> None:
    try:
        args, others = parser().parse_known_args()
        if others:
            args.parser.error(f"unrecognized arguments: {' '.join(others)}")
    except SystemExit as e:  # argparse's 2 would be a bad kernel
        sys.exit(max([2, *(command(name).failed for name in sys.argv[1:2] if name in COMMANDS)]) if e.code else e.code)
    except (ImportError, RuntimeError) as e:
        lacks(e)
        sys.exit(BROKEN)
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(BROKEN)
    called: Command = args.called
    os.umask(0o022)

    def stop(*_):
        raise KeyboardInterrupt

    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, stop)
    try:
        if code := called.do(args):
            sys.exit(code)
    except LabError as e:
        print(f"asymlab: {e}", file=sys.stderr)
        sys.exit(called.failed)
    except BrokenPipeError:
        sys.exit(called.failed)
    except OSError as e:
        print(f"asymlab: {e.filename or 'system'}: {e.strerror or e}", file=sys.stderr)
        sys.exit(called.failed)
    except (ImportError, RuntimeError) as e:
        lacks(e)
        sys.exit(called.failed)
    except Exception:  # Python's own 1 would be an answer of some commands
        sys.excepthook(*sys.exc_info())
        sys.exit(called.failed)
    except KeyboardInterrupt:
        from .console import console

        kept = "; finished runs are kept, the same command goes on from there"
        keeps = called.keeps and getattr(args, "on", "lab") == "lab"
        console.print(f"asymlab: interrupted{kept if keeps else ''}")
        sys.exit(130)
