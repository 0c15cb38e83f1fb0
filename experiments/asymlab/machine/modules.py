# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The kernel's modules that a guest has. Their folder may come from anywhere: nothing of it leads out of it."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from .. import LabError
from ..reading import read
from ..shell import sh
from .cpio import Cpio
from .kernel import Kernel, decompress

GUEST_MODULES = re.compile(
    r"kernel/(net/(ipv4/(tcp_[a-z]+|ipip|ip_gre)|sched/(sch|act|cls|em)_\w+|netfilter/(nf_tables|nft_numgen))|"
    r"drivers/net/(veth|ifb|dummy|wireguard/wireguard))\.ko"
)
# No part of a name begins with a dot, so none is "..".
NAME = re.compile(r"([\w+-][\w.,+-]*/)*[\w+-][\w.,+-]*\.ko(\.(xz|zst|gz))?", re.ASCII)
MODULE_MAX, INDEX_MAX = 256 << 20, 16 << 20  # bytes


def add_modules(cpio: Cpio, kernel: Kernel) -> None:
    """The modules a run may ask for and what they depend on, uncompressed, with a fresh index."""
    top = f"lib/modules/{kernel.release}"
    with tempfile.TemporaryDirectory() as tmp:
        some = Path(tmp, top)
        for name in needed_modules(kernel):
            data = part(kernel, name, MODULE_MAX)
            plain = re.sub(r"\.(xz|zst|gz)$", "", name)
            target = some / plain
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data if plain == name else decompress(data, kernel.modules / name, MODULE_MAX))
        for index in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
            if (kernel.modules / index).exists():
                (some / index).write_bytes(part(kernel, index, INDEX_MAX))
        sh("depmod", "-b", tmp, "--", kernel.release)
        for f in sorted(some.rglob("*")):
            if f.is_file():
                cpio.file(f"{top}/{f.relative_to(some)}", f.read_bytes())


def part(kernel: Kernel, name: str, most: int) -> bytes:
    """A file of the modules' folder, by a name without `..`."""
    file = (kernel.modules / name).resolve()
    if not file.is_relative_to(kernel.modules.resolve()):
        raise LabError(f"{kernel.modules / name}: a link that leads out of {kernel.modules}")
    return read(file, most)


def needed_modules(kernel: Kernel) -> list[str]:
    """The files to take, by modules.dep."""
    needed: set[str] = set()
    for line in dependencies(kernel).splitlines():
        name, _, deps = line.partition(":")
        if GUEST_MODULES.match(name):
            needed |= {name, *deps.split()}
    if wrong := sorted(name for name in needed if not NAME.fullmatch(name)):
        raise LabError(f"{kernel.modules / 'modules.dep'}: {wrong[0]!r} is no module of this folder")
    if not any("/veth.ko" in n for n in needed):
        if b"/veth.ko" not in part(kernel, "modules.builtin", INDEX_MAX):
            raise LabError(f"kernel {kernel.release}: no veth module in {kernel.modules}")
    return sorted(needed)


def dependencies(kernel: Kernel) -> str:
    """modules.dep, or what it would be."""
    if (kernel.modules / "modules.dep").exists():
        return part(kernel, "modules.dep", INDEX_MAX).decode(errors="replace")
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp, "lib/modules")
        folder.mkdir(parents=True)
        (folder / kernel.release).symlink_to(kernel.modules.resolve())
        return sh("depmod", "-n", "-b", tmp, "--", kernel.release)
