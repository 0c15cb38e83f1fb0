# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The kernel's own tests."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import LabError
from ..conformance.packetdrill import packetdrill
from ..conformance.selftests import selftests
from ..options import Command, add_engine_option, add_machine_options, positive


def add_test_options(p: argparse.ArgumentParser, keep: str) -> None:
    p.add_argument("--repeat", type=positive, default=1, help="runs of each, which must have the same bytes [1]")
    p.add_argument("--limit", type=positive, default=packetdrill.LIMIT_S, metavar="S", help="wall time [%(default)s]")
    p.add_argument("--keep", type=Path, metavar="DIR", help=keep)
    add_machine_options(p, image=False, fresh=False)
    add_engine_option(p, "uml")


def packetdrill_options(p: argparse.ArgumentParser) -> None:
    which = f"a script, or a folder of some (*.pkt) [{packetdrill.SELFTESTS} of the kernel's source]"
    p.add_argument("scripts", nargs="*", type=Path, metavar="SCRIPT", help=which)
    where = f"the program, which you build (docs/testing.md) [{packetdrill.BINARY}, or that of PATH]"
    p.add_argument("--packetdrill", type=Path, metavar="FILE", help=where)
    p.add_argument("--image", help=f"of the engine uml, its kernel with CONFIG_TUN [{packetdrill.LABEL}]")
    us = "--tolerance_usecs of each script [1: it takes no 0]"
    p.add_argument("--tolerance", type=positive, default=1, metavar="US", help=us)
    p.add_argument("--needs", action="store_true", help="of each that fails by a time: the tolerance it passes with")
    p.add_argument("--controller", action="append", default=[], metavar="NAME", help="of bpf/, or a file: loaded first")
    p.add_argument("--json", type=Path, metavar="FILE", help="write the results for machines")
    add_test_options(p, "write what packetdrill says, each packet with its time")


def do_own_tests(args) -> int:
    if args.engine != "uml":
        raise LabError(f"{args.command}: is for the engine uml, where a program takes no time")
    return not {"packetdrill": packetdrill.drill, "selftests": selftests.selftests}[args.command](args)


def selftests_options(p: argparse.ArgumentParser) -> None:
    where = "source of a kernel [that of the image's package, which is fetched where it is not unpacked]"
    p.add_argument("tree", nargs="?", type=Path, metavar="TREE", help=where)
    only = f"of {selftests.FOLDER}/prog_tests [{' '.join(selftests.TESTS)}]"
    p.add_argument("--test", action="append", metavar="NAME", help=only)
    p.add_argument("--image", default=selftests.LABEL, help="of the engine uml [%(default)s]")
    add_test_options(p, "write what each run says")


COMMANDS = (
    Command("packetdrill", packetdrill_options, do_own_tests, more=packetdrill.__doc__, failed=2, keeps=False),
    Command("selftests", selftests_options, do_own_tests, more=selftests.__doc__, failed=2, keeps=False),
)
