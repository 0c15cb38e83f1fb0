# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Traces of links: when a link may deliver, in the format of Mahimahi (Netravali et al., USENIX ATC 2015).

Each line is a whole number of milliseconds since the trace's begin: then the link may deliver 1500 bytes. A time may
stand on several lines, and no time comes after a later one. The last time is the trace's length: then it begins anew.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import groupby, repeat
from pathlib import Path

import numpy as np

from .. import LabError
from ..paths import BUILD

BYTES = 1500  # of IP packets, that one opportunity carries
LENGTH_MAX = 3_600_000  # ms
FILE_MAX = 2 << 30  # bytes
LINE_MAX = 32  # bytes
TRACES = BUILD / "traces"  # packed, as guests take them; each called by its hash


@dataclass(frozen=True)
class Opportunities:
    """A trace: its different times in ms, and how many opportunities each of them has."""

    digest: str  # of what pack() gives: by it traces are equal
    ms: np.ndarray = field(compare=False, repr=False)
    count: np.ndarray = field(compare=False, repr=False)

    @property
    def period_ms(self) -> int:
        return int(self.ms[-1])

    @cached_property
    def rate_bps(self) -> int:
        """The mean of the whole trace, in bit/s of IP packets."""
        return round(int(self.count.sum()) * BYTES * 8e3 / self.period_ms)

    @cached_property
    def longest_gap_ms(self) -> int:
        """The longest time without an opportunity."""
        return int(max(np.diff(self.ms, prepend=0).max(), 1))

    @cached_property
    def _total(self) -> np.ndarray:
        """Opportunities before each time, and after the last."""
        return np.concatenate([[0], np.cumsum(self.count, dtype=np.int64)])

    def until(self, ms: float) -> int:
        """Opportunities from the trace's begin to that time, which included."""
        turns, rest = divmod(ms, self.period_ms)
        before = np.searchsorted(self.ms, rest, "right")
        return int(turns) * int(self._total[-1]) + int(self._total[before])

    def time_ms(self, number: float) -> float:
        """The time of that opportunity, counted from 1 at the trace's begin; between two of them by a straight line."""
        low, part = divmod(number, 1)
        turns, rest = np.divmod(np.array([low - 1, low], np.int64), self._total[-1])
        times = turns * self.period_ms + self.ms[np.searchsorted(self._total, rest, "right") - 1]
        return float(times[0] + part * (times[1] - times[0]))

    def rate_between(self, begin_ms: float, end_ms: float) -> int:
        """The mean in that time, in bit/s of IP packets."""
        return round((self.until(end_ms) - self.until(begin_ms)) * BYTES * 8e3 / (end_ms - begin_ms))

    def peak_bps(self, window_ms: int = 1000) -> int:
        """The highest mean in any window that begins with an opportunity, in bit/s of IP packets."""
        ms = np.concatenate([self.ms, self.ms.astype(np.int64) + self.period_ms])
        total = np.concatenate([[0], np.cumsum(np.tile(self.count, 2), dtype=np.int64)])
        last = np.searchsorted(ms, self.ms.astype(np.int64) + window_ms, "left")
        return round(int((total[last] - total[: len(self.ms)]).max()) * BYTES * 8e3 / min(window_ms, self.period_ms))

    def longest_ms(self, count: int) -> int:
        """The longest time that so many opportunities in a row take."""
        turns, rest = divmod(count, int(self.count.sum()))
        total = np.cumsum(np.tile(self.count, 2), dtype=np.int64)
        ms = np.concatenate([self.ms, self.ms.astype(np.int64) + self.period_ms])
        first = total[: len(self.ms)] - self.count  # opportunities before each time
        last = np.searchsorted(total, first + rest, "left")
        return turns * self.period_ms + int((ms[last] - self.ms).max()) + self.longest_gap_ms

    def lines(self) -> Iterator[str]:
        """The lines of a file in Mahimahi's format."""
        for ms, count in zip(self.ms, self.count):
            yield from repeat(str(ms), count)

    def pack(self) -> bytes:
        """The guest's form: each time and its opportunities, as u32."""
        return np.column_stack([self.ms, self.count]).astype("<u4").tobytes()


def read(file: Path) -> Opportunities:
    """LabError (one line) if it is no trace. It is read once, as long as it does not change."""
    return _read(file, *identity(file))


def identity(file: Path) -> tuple[int, int, int]:
    """By it a trace's file is the one that was read. LabError if there is none."""
    try:
        about = os.stat(file)
    except (OSError, ValueError) as e:  # a name with a NUL
        raise LabError(f"{file}: {getattr(e, 'strerror', None) or e}") from None
    if not stat.S_ISREG(about.st_mode):
        raise LabError(f"{file}: not a regular file")
    if about.st_size > FILE_MAX:
        raise LabError(f"{file}: {about.st_size} bytes, more than the {FILE_MAX} that a trace may have")
    return about.st_ino, about.st_mtime_ns, about.st_size


@cache
def _read(file: Path, *_: int) -> Opportunities:
    ms, count, line, last = array("I"), array("I"), 1, -1
    try:
        with open(file, "rb") as opened:
            for text, same in groupby(iter(lambda: opened.readline(LINE_MAX), b"")):
                time = _time(file, line, text)
                if time < last:
                    raise LabError(f"{file}: line {line}: {time} after {last}: times must not decrease")
                if time > LENGTH_MAX:
                    raise LabError(f"{file}: line {line}: {time} ms: a trace lasts an hour at most, {LENGTH_MAX} ms")
                lines = sum(1 for _ in same)
                if time == last:  # the same in other letters
                    count[-1] += lines
                else:
                    ms.append(time)
                    count.append(lines)
                line, last = line + lines, time
    except OSError as e:
        raise LabError(f"{file}: {e.strerror}") from None
    if not ms:
        raise LabError(f"{file}: empty: a trace has a line for each delivery of {BYTES} bytes, its time in ms")
    if not ms[-1]:
        raise LabError(f"{file}: it lasts 0 ms: its last time is its length")
    return of(np.frombuffer(ms, np.uint32), np.frombuffer(count, np.uint32))


def _time(file: Path, line: int, text: bytes) -> int:
    if not re.fullmatch(rb"[0-9]{1,10}\r?\n?", text):
        shown = text.decode(errors="replace").rstrip("\r\n")
        raise LabError(f"{file}: line {line}: {shown!r} is not a time in whole milliseconds")
    return int(text)


def of(ms: np.ndarray, count: np.ndarray) -> Opportunities:
    """A trace of these times, each larger than the one before, with so many opportunities each."""
    packed = np.column_stack([ms, count]).astype("<u4").tobytes()
    return Opportunities(hashlib.sha256(packed).hexdigest(), ms, count)


def keep(digest: str, packed: bytes) -> str:
    """The name of its file among those that guests take."""
    file = TRACES / digest
    if not file.exists():
        try:
            TRACES.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=TRACES, delete=False) as part:
                part.write(packed)
            os.replace(part.name, file)
        except OSError as e:
            raise LabError(f"{TRACES}: {e.strerror}") from None
    return f"traces/{digest}"


def kept(digest: str) -> Opportunities | None:
    """One of those; None if it is not here."""
    try:
        data = (TRACES / digest).read_bytes()
    except OSError:
        return None
    pairs = np.frombuffer(data, "<u4").reshape(-1, 2)
    return Opportunities(digest, pairs[:, 0], pairs[:, 1]) if hashlib.sha256(data).hexdigest() == digest else None
