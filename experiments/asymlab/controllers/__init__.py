# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The controllers: which there are, and what is recorded of each.

Each file of this folder has RECORDS, and is found because it is here.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from functools import cache
from pathlib import Path

from ..controller import Controller

STRUCT_OPS = b"\0.struct_ops\0"  # the section's name in an object's BTF


def built_in(folder: Path) -> list[str]:
    """An object is a controller if it has a struct_ops, as asymcc has it. The others are asymcc's tools."""
    return sorted(f.name.removesuffix(".bpf.o") for f in folder.glob("*.bpf.o") if _has_ops(f, f.stat().st_mtime_ns))


@cache
def _has_ops(file: Path, _written_ns: int) -> bool:
    """Asked for each run of a plan; a file is read again once it is another."""
    return STRUCT_OPS in file.read_bytes()


def _register() -> dict[str, Controller]:
    found: dict[str, Controller] = {}
    files: dict[str, str] = {}
    for file in sorted((f.name for f in pkgutil.iter_modules(__path__)), key=lambda name: (name != "linux", name)):
        for record in importlib.import_module(f"{__name__}.{file}").RECORDS:
            if record.name in found:
                other = "Linux" if found[record.name].linux else f"controllers/{files[record.name]}.py"
                sys.exit(f"asymlab: controllers/{file}.py: {other} has a {record.name!r} already: choose another name")
            found[record.name], files[record.name] = record, file
    return found


REGISTER = _register()
LINUX = tuple(record.name for record in REGISTER.values() if record.linux)


def of(name: str) -> Controller:
    """Its record; one of defaults if it has none."""
    return REGISTER.get(name) or Controller(name)
