# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The initramfs's format."""

from __future__ import annotations

from pathlib import Path


class Cpio:
    """A newc archive with fixed times and owners: the same content gives the same bytes."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[int, bytes, tuple[int, int]]] = {}

    def file(self, name: str, data: bytes, mode: int = 0o644) -> None:
        self._parents(name)
        self.entries[name.lstrip("/")] = (0o100000 | mode, data, (0, 0))

    def link(self, name: str, target: str) -> None:
        self._parents(name)
        self.entries[name.lstrip("/")] = (0o120777, target.encode(), (0, 0))

    def dir(self, name: str) -> None:
        self._parents(name)
        self.entries.setdefault(name.strip("/"), (0o040755, b"", (0, 0)))

    def device(self, name: str, major: int, minor: int) -> None:
        self._parents(name)
        self.entries[name.lstrip("/")] = (0o020600, b"", (major, minor))

    def _parents(self, name: str) -> None:
        for parent in reversed(Path(name.strip("/")).parents):
            if str(parent) != ".":
                self.entries.setdefault(str(parent), (0o040755, b"", (0, 0)))

    def pack(self) -> bytes:
        out = bytearray()
        entries = sorted(self.entries.items())
        for ino, (name, (mode, data, (major, minor))) in enumerate(
            entries + [("TRAILER!!!", (0, b"", (0, 0)))], start=1
        ):
            raw = name.encode() + b"\0"
            fields = (ino, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(raw), 0)
            out += b"070701" + b"".join(b"%08X" % f for f in fields) + raw
            out += b"\0" * (-len(out) % 4) + data
            out += b"\0" * (-len(out) % 4)
        return bytes(out)


def content(archive: bytes, name: str) -> bytes:
    """The bytes of a file in such an archive. KeyError if there is none."""
    at = 0
    while archive[at : at + 6] == b"070701":
        size, length = (int(archive[at + 6 + 8 * field : at + 14 + 8 * field], 16) for field in (6, 11))
        begin = at + 110 + length + -(at + 110 + length) % 4
        if archive[at + 110 : at + 109 + length] == name.encode():
            return archive[begin : begin + size]
        at = begin + size + -(begin + size) % 4
    raise KeyError(name)
