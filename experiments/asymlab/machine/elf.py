# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The libraries and the dynamic linker that a program of 64 bits asks for. Nothing of it is run."""

from __future__ import annotations

import struct
from dataclasses import dataclass

HEADER = struct.Struct("<16sHHIQQQIHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")
ENTRY = struct.Struct("<qQ")
LOAD, DYNAMIC, INTERPRETER = 1, 2, 3
NEEDED, STRINGS = 1, 5
ENTRIES_MAX, NAME_MAX = 4096, 255


@dataclass(frozen=True)
class Needs:
    interpreter: str  # "": none
    libraries: tuple[str, ...]


def needs(data: bytes) -> Needs | None:
    """None: it is no ELF of 64 bits. ValueError: a damaged one."""
    if data[:6] != b"\x7fELF\2\1":
        return None
    try:
        return _needs(data)
    except (struct.error, UnicodeDecodeError):
        raise ValueError("a damaged program (ELF)") from None


def _needs(data: bytes) -> Needs:
    _, _, _, _, _, at, _, _, _, size, count = HEADER.unpack_from(data)
    segments = [SEGMENT.unpack_from(data, at + i * size) for i in range(count)]
    interpreter, entries = "", []
    for kind, _, offset, _, _, length, _, _ in segments:
        if kind == INTERPRETER:
            interpreter = _text(data, offset)
        elif kind == DYNAMIC:
            rows = (ENTRY.unpack_from(data, offset + i * ENTRY.size) for i in range(min(length // 16, ENTRIES_MAX)))
            for tag, value in rows:
                if tag == 0:
                    break
                entries.append((tag, value))
    strings = next((_offset(segments, value) for tag, value in entries if tag == STRINGS), 0)
    return Needs(interpreter, tuple(_text(data, strings + value) for tag, value in entries if tag == NEEDED))


def _offset(segments: list[tuple], address: int) -> int:
    """In the file, of an address in memory."""
    for kind, _, offset, begin, _, length, _, _ in segments:
        if kind == LOAD and begin <= address < begin + length:
            return offset + address - begin
    raise struct.error


def _text(data: bytes, at: int) -> str:
    end = data.find(b"\0", at, at + NAME_MAX)
    if end < 0:
        raise struct.error
    return data[at:end].decode()
