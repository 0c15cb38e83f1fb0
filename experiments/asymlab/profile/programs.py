# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Which executable or library a block of user code is of.

Nothing is randomised in a guest, so programs share addresses. A block's bytes and its place in its page tell its file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from ..machine.root import Here
from ..needs import GUEST_TOOLS
from ..paths import BUILT

PAGE = 4096
TELLING = 16  # bytes of code that are hardly in two files at the same place of a page
UNKNOWN = "unknown"
LOAD, EXECUTABLE = 1, 1


def guest_files() -> dict[str, bytes]:
    """The files that an image takes from this machine (machine/build.py). Other versions are not recognised."""
    here = Here()
    python = here.python()
    files = [python, BUILT / "asymcc", *(here.tool(tool).resolve() for tool in GUEST_TOOLS)]
    files += Path(f"/usr/lib/{python.name}/lib-dynload").glob("*.so")
    libs = {lib for file in files for lib in here.libraries(file).values()}
    return {f.name: f.resolve().read_bytes() for f in [*files, *sorted(libs)]}


class Segment:
    """Executable code of a file."""

    def __init__(self, file: str, address: int, code: bytes) -> None:
        self.file, self.address, self.code = file, address, code

    def has(self, base: int, address: int, code: bytes) -> bool:
        at = address - base - self.address
        return 0 <= at and self.code[at : at + len(code)] == code

    def bases(self, address: int, code: bytes) -> Iterable[int]:
        """The addresses at which the file may be in memory, if this is its code."""
        at = self.code.find(code)
        while at >= 0:
            if (self.address + at - address) % PAGE == 0:
                yield address - self.address - at
            at = self.code.find(code, at + 1)


def segments(file: str, elf: bytes) -> list[Segment]:
    (headers,) = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    found = []
    for i in range(count):
        kind, flags, offset, address, _, length = struct.unpack_from("<IIQQQQ", elf, headers + i * size)
        if kind == LOAD and flags & EXECUTABLE:
            found.append(Segment(file, address, elf[offset : offset + length]))
    return found


class Programs:
    def __init__(self, files: dict[str, bytes]) -> None:
        self.segments = [s for name, elf in files.items() for s in segments(name, elf)]
        self.mapped: dict[tuple[Segment, int], None] = {}  # with the base; in the order of discovery

    def name(self, blocks: list[tuple[int, bytes]]) -> list[str]:
        """The file of each block (address, code). The first counts if several have that code."""
        for address, code in sorted(set(blocks), key=lambda b: -len(b[1])):
            if len(code) < TELLING:
                break
            if not self._mapped(address, code):
                found = [(s, base) for s in self.segments for base in s.bases(address, code)]
                if len(found) == 1:
                    self.mapped[found[0]] = None
        return [self._mapped(*block) or UNKNOWN for block in blocks]

    def _mapped(self, address: int, code: bytes) -> str | None:
        return next((s.file for s, base in self.mapped if s.has(base, address, code)), None)
