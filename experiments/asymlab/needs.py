# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The packages of the machine that the lab needs, and the one line that installs what is missing.

A need is a program, by its name, or a file, by its place.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable

from . import LabError
from .paths import INSTALLED

TRIPLET = f"{os.uname().machine}-linux-gnu"
STDIO, LIBELF = "/usr/include/stdio.h", "/usr/include/libelf.h"
HELPERS, TYPES = "/usr/include/bpf/bpf_helpers.h", f"/usr/include/{TRIPLET}/asm/types.h"
# Debian's packages; the Makefile has them, too.
PACKAGES = {
    "bpftool": ("bpftool",),
    "bubblewrap": ("bwrap",),
    "clang": ("clang",),
    "llvm": ("llvm-strip",),
    "libbpf-dev": (HELPERS,),
    "libc6-dev": (STDIO, TYPES),
    "gcc": ("gcc", "nm", "strip", "readelf"),
    "make": ("make",),
    "flex": ("flex",),
    "bison": ("bison",),
    "bc": ("bc",),
    "libelf-dev": (LIBELF,),
    "dwarves": ("pahole",),
    "iproute2": ("tc", "ip"),
    "nftables": ("nft",),
    "kmod": ("modprobe", "depmod"),
    "lz4": ("lz4",),
    "zstd": ("zstd",),
    "python3": ("/usr/bin/python3",),
    "qemu-system-x86": ("qemu-system-x86_64",),
    "qemu-system-arm": ("qemu-system-aarch64",),
    "qemu-utils": ("qemu-img",),
    "device-tree-compiler": ("dtc",),
    "util-linux": ("setpriv", "taskset", "prlimit", "setarch"),
}
OF = {need: package for package, has in PACKAGES.items() for need in has}
GUEST_TOOLS = ("tc", "nft", "modprobe", "bpftool")  # which each guest has
IMAGE = (*GUEST_TOOLS, "depmod", "zstd", "/usr/bin/python3")  # zstd: what Debian 13 packs a kernel with
UML_KERNEL = ("gcc", "make", "flex", "bison", "bc", "pahole", "nm", "strip", "bwrap", STDIO, LIBELF)
OBJECTS = ("bpftool",)  # that somebody brings: it tells how large their maps are
COMPILING = ("clang", "llvm-strip", HELPERS, TYPES)


def there(need: str) -> bool:
    return os.path.exists(need) if need.startswith("/") else shutil.which(need) is not None


def check(needs: Iterable[str], option: str = "", instead: str = "") -> None:
    """LabError with all that is missing. option: of `make deps`; instead: what else the user may do."""
    if lacks := [need for need in needs if not there(need)]:
        raise LabError(f"{', '.join(lacks)}: not installed; {how(lacks, option)}{instead and f'. {instead}'}")


EXTRAS = {"report": "matplotlib", "cluster": "distributed"}  # of pyproject.toml: what some installations do without


def lack(extra: str) -> str:
    """The line that tells how to install what an extra brings; nothing if it is there."""
    package = EXTRAS[extra]
    if importlib.util.find_spec(package):
        return ""
    return f"{package}: not installed; run: {sys.executable} -m pip install {package}"


def check_extra(extra: str) -> None:
    if line := lack(extra):
        raise LabError(line)


def building(option: str = "") -> str:
    """How to get loader and objects that are not there."""
    if INSTALLED:
        return "the package was built for another machine, or is damaged: install it again, or build a clone"
    return f"run `make build{option}`"


def how(lacks: Iterable[str], option: str = "") -> str:
    """How to install what is missing."""
    packages = sorted({OF[need] for need in lacks if need in OF})
    if not INSTALLED:
        return f"`make deps{option}` installs what is missing"
    if not packages:
        return "install it"
    return f"run: sudo apt-get install -y --no-install-recommends {' '.join(packages)}"
