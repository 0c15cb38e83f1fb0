# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reads what run.capture keeps: a pcap of TCP headers, times in ns, packets from the IP header on."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from .. import LabError
from ..reading import read as read_file

MAGIC, RAW_IP = 0xA1B23C4D, 101
SIZE_MAX = 1 << 30  # bytes
# t: seconds since time zero; sport, dport, seq, ack, flags: TCP's; payload: bytes; options: as on the wire
PACKET = np.dtype(
    [
        ("t", "f8"),
        ("sport", "u2"),
        ("dport", "u2"),
        ("seq", "u4"),
        ("ack", "u4"),
        ("flags", "u1"),
        ("bytes", "u2"),
        ("payload", "u2"),
        ("options", "V40"),
    ]
)
FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10


def read(file: Path, zero_unix_ns: int) -> np.ndarray:
    """The TCP packets of a capture, a row each."""
    data = read_file(file, SIZE_MAX)
    if len(data) < 24 or (struct.unpack_from("<I", data)[0], struct.unpack_from("<I", data, 20)[0]) != (MAGIC, RAW_IP):
        raise LabError(f"{file}: not a capture of the lab")
    rows, at = [], 24
    while at < len(data):
        if at + 16 > len(data) or at + 16 + (length := struct.unpack_from("<I", data, at + 8)[0]) > len(data):
            raise LabError(f"{file}: cut off")
        sec, nsec = struct.unpack_from("<II", data, at)
        if row := tcp(data[at + 16 : at + 16 + length]):
            rows.append(((sec * 10**9 + nsec - zero_unix_ns) / 1e9, *row))
        at += 16 + length
    return np.array(rows, PACKET)


def tcp(packet: bytes) -> tuple | None:
    """PACKET's columns but the time, None of what is no TCP segment."""
    version = packet[0] >> 4 if packet else 0
    ip = {4: 4 * (packet[0] & 15), 6: 40}.get(version, 0) if packet else 0
    if ip < 20 or len(packet) < ip + 20 or packet[9 if version == 4 else 6] != 6:
        return None
    total = struct.unpack_from(">H", packet, 2)[0] if version == 4 else 40 + struct.unpack_from(">H", packet, 4)[0]
    sport, dport, seq, ack, offset, flags = struct.unpack_from(">HHIIBB", packet, ip)
    header = 4 * (offset >> 4)
    if header < 20 or total < ip + header:
        return None
    return sport, dport, seq, ack, flags, total, total - ip - header, packet[ip + 20 : ip + header].ljust(40, b"\0")


def option(options: np.ndarray, kind: int, length: int, exid: int) -> tuple[np.ndarray, np.ndarray]:
    """Experimental options, RFC 6994, of this kind, length and ExID: (the rows that have one; its bytes, of those)."""
    wanted = bytes([kind, length]) + struct.pack(">H", exid)
    found = [_find(row.tobytes(), wanted) for row in options]
    return np.array([f is not None for f in found], bool), np.array([f for f in found if f is not None], f"V{length}")


def _find(options: bytes, wanted: bytes) -> bytes | None:
    at = 0
    while at < len(options) and options[at]:
        if options[at : at + 4] == wanted:
            return options[at : at + wanted[1]]
        length = 1 if options[at] == 1 else options[at + 1] if at + 1 < len(options) else 0
        if not length or (options[at] != 1 and length < 2):
            return None
        at += length
    return None
