# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The dynamic linker's cache of a guest: /etc/ld.so.cache, in glibc's format 1.1.

Without it the linker looks for each library in folders named after levels of the CPU first (glibc-hwcaps/x86-64-v3).
How many those are depends on the CPU, and each look that fails takes virtual time in User Mode Linux. ldconfig writes
the same, but for another root than its own it must be root.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable

from .arch import Arch

PLACE = "etc/ld.so.cache"
HEADER = struct.Struct("<20sIIB3xI12x")  # magic and version, entries, bytes of strings, little-endian, no extensions
ENTRY = struct.Struct("<iIIIQ")  # flags, name and path (offsets in the file), no OS version, no CPU
LITTLE_ENDIAN = 2
FLAGS = {"amd64": 0x0303, "arm64": 0x0A03}  # a library of glibc's, of 64 bits


def order(name: str) -> list[tuple[int, int]]:
    """A key that sorts as the linker compares names: digits as numbers, and behind any other character."""
    return [
        (1, int(part)) if part.isdigit() else (0, ord(part)) for part in re.findall(r"[0-9]+|[^0-9]", name, re.ASCII)
    ]


def pack(libraries: Iterable[str], arch: Arch) -> bytes:
    """The cache of libraries by their paths in the guest. The linker looks for a file's name."""
    named = sorted(((path.rpartition("/")[2], path) for path in libraries), key=lambda one: order(one[0]), reverse=True)
    start = HEADER.size + len(named) * ENTRY.size
    strings, entries = bytearray(), bytearray()
    for name, path in named:
        whole = f"/{path}"
        at = start + len(strings)
        entries += ENTRY.pack(FLAGS[arch.name], at + len(whole) - len(name), at, 0, 0)
        strings += whole.encode() + b"\0"
    return HEADER.pack(b"glibc-ld.so.cache1.1", len(named), len(strings), LITTLE_ENDIAN, 0) + bytes(entries + strings)
