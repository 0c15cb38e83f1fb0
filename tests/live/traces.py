# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reads what `asymcc trace` writes."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import struct
from pathlib import Path

from tests.live.harness import ASYMCC, program

ACK = struct.Struct("<HHHBBQIIIIIIQIIII")
GOODPUT = struct.Struct("<HHHHQQIIQ24x")
LINK = struct.Struct("<HHIQ16sQIIQII")
END = struct.Struct("<H6xQQQQQQ8x")
STATE_PART = struct.Struct("<HHHH56s")
PAYLOAD = 4
BIN_MS = 50


@dataclasses.dataclass
class Trace:
    acks: list[tuple]
    goodput: list[tuple]
    links: list[tuple]
    states: list[bytes]  # one for each of acks, if there are any
    end: tuple
    line: str

    def link(self, dev: str) -> list[tuple]:
        return [r for r in self.links if r[4].rstrip(b"\0").decode() == dev]


def read_trace(path: Path, line: str) -> Trace:
    data = path.read_bytes()
    assert len(data) % 64 == 0 and data[:8] == b"ASYMCCT1"
    version, size, bin_ns, start = struct.unpack_from("<IIQQ", data, 8)
    assert (version, size, bin_ns) == (1, 64, BIN_MS * 1_000_000)
    records: dict[int, list] = {1: [], 2: [], 3: [], 4: []}
    states = []
    for at in range(64, len(data), 64):
        kind = struct.unpack_from("<H", data, at)[0]
        if kind == 5:
            _, *ports, part, private = STATE_PART.unpack_from(data, at)
            before = struct.unpack_from("<HHHH", data, at - 64)  # its ACK, or the first part
            assert before[:3] == (5 if part else 1, *ports) and part in (0, 1) and (not part or before[3] == 0)
            states.append(states.pop() + private if part else private)
            continue
        record = {1: ACK, 2: GOODPUT, 3: LINK, 4: END}[kind].unpack_from(data, at)
        records[kind].append(record)
        t = record[{1: 5, 2: 4, 3: 3, 4: 1}[kind]]
        assert start - bin_ns <= t and (kind not in (2, 3) or t % bin_ns == 0)
    assert len(records[4]) == 1 and data[-64:-62] == b"\4\0"
    end = records[4][0]
    assert end[2:] == (len(records[1]), len(records[2]), len(records[3]), 0, 2 * len(states))
    assert len(states) in (0, len(records[1])) and all(len(s) == 112 and s[104:] == bytes(8) for s in states)
    assert line == f"acks {end[2]}, goodput bins {end[3]}, link bins {end[4]}, lost {end[5]}\n"
    return Trace(records[1], records[2], records[3], states, end, line)


@contextlib.contextmanager
def tracing(path: Path, *argv):
    with program(ASYMCC, "trace", "--bin-ms", BIN_MS, "-o", path, *argv) as p:
        assert p.stdout.readline() == "tracing\n", p.stderr.read()
        result: list[Trace] = []
        yield result
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=20)
        assert p.returncode == 0 and not err, err
        result.append(read_trace(path, out.splitlines(keepends=True)[0]))  # a word on no connection may follow
