# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Traces of ways: a delay, one way, and a share of losses that change over the time.

Each line has three numbers: a time in whole milliseconds since the trace's begin, the delay in milliseconds from then
on, and the share of packets, 0 to 1, that are lost. The first time is 0, and each is later than the one before. The
last time is the trace's length: then it begins anew.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np

from .. import LabError
from .opportunities import LENGTH_MAX, identity

DELAY_MAX = 10_000  # ms
LINE_MAX = 64  # bytes
LINE = re.compile(rb"([0-9]{1,10})[ \t]+([0-9]{1,10}(?:\.[0-9]{1,3})?)[ \t]+([0-9](?:\.[0-9]{1,12})?)[ \t]*\r?\n?")
PART = np.dtype([("at_ms", "<u4"), ("delay_us", "<u4"), ("lost", "<u8")])  # the guest's form; lost: of 2^32 packets


@dataclass(frozen=True)
class Delays:
    """A trace: since when, the delay, and how many of 2^32 packets are lost."""

    digest: str  # of pack(): by it traces are equal
    parts: np.ndarray = field(compare=False, repr=False)  # of PART; the last one holds for no time

    @property
    def period_ms(self) -> int:
        return int(self.parts["at_ms"][-1])

    @property
    def longest_us(self) -> int:
        return int(self.parts["delay_us"][:-1].max())

    @property
    def most_lost(self) -> float:
        """The largest share."""
        return float(self.parts["lost"][:-1].max()) / 2**32

    def lines(self) -> Iterator[str]:
        """The lines of a file."""
        for at, delay, lost in self.parts.tolist():
            yield f"{at} {delay / 1000:.10g} {_plain(lost / 2**32)}"

    def pack(self) -> bytes:
        return self.parts.tobytes()


def _plain(share: float) -> str:
    """Its digits, as many as tell 2^-32."""
    return f"{share:.10f}".rstrip("0").rstrip(".")


def of(at_ms: Sequence[int], delay_us: Sequence[int], lost: Sequence[int]) -> Delays:
    """A trace of these parts."""
    parts = np.empty(len(at_ms), PART)
    parts["at_ms"], parts["delay_us"], parts["lost"] = at_ms, delay_us, lost
    return Delays(hashlib.sha256(parts.tobytes()).hexdigest(), parts)


def lost_of(share: Decimal | float) -> int:
    """How many of 2^32 packets."""
    return round(share * 2**32)


def read(file: Path) -> Delays:
    """LabError (one line) if it is no trace. It is read once, as long as it does not change."""
    return _read(file, *identity(file))


@cache
def _read(file: Path, *_: int) -> Delays:
    rows = array("I"), array("I"), array("Q")
    try:
        with open(file, "rb") as opened:
            for number, text in enumerate(iter(lambda: opened.readline(LINE_MAX), b""), 1):
                for column, value in zip(rows, _row(f"{file}: line {number}", text, rows[0][-1] if rows[0] else None)):
                    column.append(value)
    except OSError as e:
        raise LabError(f"{file}: {e.strerror}") from None
    if len(rows[0]) < 2:
        raise LabError(
            f"{file}: fewer than two lines: the first one's time is 0, and the last one's the trace's length"
        )
    return of(*rows)


def _row(where: str, text: bytes, before: int | None) -> tuple[int, int, int]:
    found = LINE.fullmatch(text)
    if not found:
        shown = text.decode(errors="replace").rstrip("\r\n")
        raise LabError(
            f"{where}: {shown!r} is not a time in whole ms, a delay in ms and a share of losses, such as '20 32.5 0.01'"
        )
    at, delay, lost = int(found[1]), Decimal(found[2].decode()), Decimal(found[3].decode())
    if before is None and at:
        raise LabError(f"{where}: begins at {at} ms: the first line's time is 0")
    if before is not None and at <= before:
        raise LabError(f"{where}: {at} after {before}: each time is later than the one before")
    if at > LENGTH_MAX:
        raise LabError(f"{where}: {at} ms: a trace lasts an hour at most, {LENGTH_MAX} ms")
    if delay > DELAY_MAX:
        raise LabError(f"{where}: a delay of {delay} ms: at most {DELAY_MAX} ms")
    if lost > 1:
        raise LabError(f"{where}: a share of {lost}: at most 1, which loses all packets")
    return at, int(delay * 1000), lost_of(lost)
