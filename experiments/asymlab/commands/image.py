# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Makes guests."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import LabError
from ..machine.arch import ARCHES, NATIVE, named
from ..machine.boot import CLOCK_FACTOR
from ..machine.build import build_image, build_uml_image
from ..machine.image import DEFAULT_KERNEL
from ..options import Command, add_engine_option, given_file


def image_options(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--kernel", default=DEFAULT_KERNEL, help="series (6.1, 6.12), package name, or a vmlinuz file [%(default)s]"
    )
    p.add_argument("--modules", type=Path, help="with a vmlinuz: the folder that holds its kernel/ modules")
    p.add_argument("--tree", type=Path, metavar="FOLDER", help="engine uml: a kernel's source of your own to build")
    p.add_argument("--name", help="what to call the image [the series or file name]")
    p.add_argument(
        "--config", type=given_file, metavar="FILE", help="engine uml: settings of the kernel besides the lab's"
    )
    p.add_argument("--fresh", action="store_true", help="engine uml: take no kernel that you built in another tree")
    add_engine_option(p, "qemu")
    p.add_argument("--arch", choices=ARCHES, default=NATIVE.name, help="whose kernel and programs it has [%(default)s]")
    p.add_argument(
        "--clock",
        type=int,
        choices=(1, CLOCK_FACTOR),
        default=CLOCK_FACTOR,
        help="clock factor: 10^9 instructions a second, or ten times as many if the kernel takes it [%(default)s]",
    )


def do_image(args) -> None:
    qemu_alone = {"--modules": args.modules, "--arch": args.arch != NATIVE.name, "--clock": args.clock != CLOCK_FACTOR}
    if args.engine == "uml":
        if options := [option for option, value in qemu_alone.items() if value]:
            raise LabError(f"{options[0]}: is for the engine qemu")
        build_uml_image(args.kernel, args.tree, args.name, fresh=args.fresh, config=args.config)
        return
    if args.fresh:
        raise LabError("--fresh: is for the engine uml, which builds its kernel")
    if args.config:
        raise LabError("--config: is for the engine uml, which builds its kernel")
    if args.tree:
        raise LabError("--tree: is for the engine uml, which builds its kernel; give --kernel VMLINUZ --modules DIR")
    build_image(args.kernel, args.modules, args.name, faster=args.clock > 1, arch=named(args.arch))


COMMANDS = (Command("image", image_options, do_image),)
