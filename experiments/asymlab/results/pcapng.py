# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""All captures of a run in one pcapng file (draft-ietf-opsawg-pcapng), with an interface for each hop and way.

A capture is a part of a run's identity, and its set-up takes some us of the guest's. So the run as it was asked for is
one, and that which is captured another; difference() tells how far the two are apart.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np

from .. import LabError
from ..guest.capture import SIDES, SNAP, name_of
from ..reading import read
from .capture import RAW_IP, SIZE_MAX
from .store import Run

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6  # blocks
COMMENT, APPLICATION, NAME, RESOLUTION = 1, 4, 2, 9  # options
NANOSECONDS = b"\x09"


def block(kind: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def options(**values: tuple[int, bytes]) -> bytes:
    return b"".join(struct.pack("<HH", code, len(v)) + padded(v) for code, v in values.values()) + bytes(4)


def file_of(run: Run) -> bytes:
    """The packets of all hops, in the order of their times."""
    about = f"{run.record['name']}: {run.record['command']}; result_sha256 {run.record['result_sha256']}"
    said = options(comment=(COMMENT, about.encode()), application=(APPLICATION, b"asymlab"))
    out = [block(SECTION, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + said)]
    packets: list[tuple[int, int, int, bytes]] = []
    ends = [(hop, side) for hop in range(1, len(run.job.watch) + 1) for side in SIDES]
    for number, (hop, side) in enumerate(ends):
        named = options(name=(NAME, f"hop {hop} {side}".encode()), resolution=(RESOLUTION, NANOSECONDS))
        out.append(block(INTERFACE, struct.pack("<HHI", RAW_IP, 0, SNAP) + named))
        packets += records(run.folder / name_of(side, hop), number)
    for ns, number, length, data in sorted(packets, key=lambda packet: packet[0]):
        head = struct.pack("<IIIII", number, ns >> 32, ns & 0xFFFFFFFF, len(data), length)
        out.append(block(PACKET, head + padded(data)))
    return b"".join(out)


def records(file: Path, number: int) -> list[tuple[int, int, int, bytes]]:
    """Each packet of a pcap file: its time, its interface's number, its length, and its first bytes."""
    data, at, found = read(file, SIZE_MAX), 24, []
    while at < len(data):
        sec, ns, kept, length = struct.unpack_from("<IIII", data, at)
        found.append((sec * 10**9 + ns, number, length, data[at + 16 : at + 16 + kept]))
        at += 16 + kept
    return found


def difference(plain: Run, captured: Run) -> str:
    """Between the run that was asked for and the one that was captured, in words."""
    a, b = plain.acks, captured.acks
    if plain.record["key"] == captured.record["key"]:
        return "it is the run itself"
    if len(a) != len(b):
        return f"it has {len(b)} ACKs, and the run has {len(a)}"
    late = np.abs(a["t"] - b["t"]) * 1e6
    return (
        f"{int((late > 0.5).sum())} of its {len(a)} ACKs come at another time, by {late.max(initial=0):.0f} us at most"
    )


def named(run: Run) -> str:
    """Its name, as a part of a file's."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", run.record["name"])


def write(plain: Run, captured: Run, folder: Path) -> str:
    """The file, and a line that tells of it."""
    file = folder / f"{named(plain)}.pcapng"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_bytes(file_of(captured))
    except OSError as e:
        raise LabError(f"{file}: {e.strerror}") from None
    return f"{plain.record['name']}: packets in {file}, of a second run: {difference(plain, captured)}"
