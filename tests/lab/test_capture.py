# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Captures by hand: what is read from a packet, and what is no capture."""

import struct

import pytest

from asymlab import LabError
from asymlab.guest.capture import PCAP
from asymlab.results import capture
from tests.shared import packet

DATA = bytes([253, 12, 0xF0, 0xA1, 0x80, 7, 0, 1, 0, 0, 0, 9])


def written(tmp_path, *packets, header=PCAP):
    file = tmp_path / "forward.pcap"
    file.write_bytes(
        header + b"".join(struct.pack("<IIII", 100 + i, 500_000_000, len(p), 60) + p for i, p in enumerate(packets))
    )
    return file


def test_segments_are_read_and_the_rest_is_left_out(tmp_path):
    file = written(tmp_path, packet(DATA), packet(protocol=17), b"", packet(flags=capture.SYN, payload=0))
    rows = capture.read(file, 99 * 10**9)
    assert list(rows["t"]) == [1.5, 4.5] and list(rows["payload"]) == [5, 0] and list(rows["bytes"]) == [57, 40]
    assert (
        list(rows["sport"]) == [61000] * 2 and list(rows["seq"]) == [2**32 - 1] * 2 and rows["flags"][1] == capture.SYN
    )
    assert rows["options"][0].tobytes() == DATA.ljust(40, b"\0")
    assert len(capture.read(written(tmp_path), 0)) == 0


def test_an_option_is_found_behind_others_and_only_whole(tmp_path):
    lines = [
        DATA,
        b"\1\1\5\x0a" + bytes(8) + DATA,
        b"\1\1",
        b"\0" + DATA,
        DATA[:2] + b"\xf0\xa2" + DATA[4:],
        b"\5\0" + DATA,
    ]
    rows = capture.read(written(tmp_path, *(packet(o) for o in lines)), 0)
    has, found = capture.option(rows["options"], 253, 12, 0xF0A1)
    assert list(has) == [True, True] + 4 * [False] and [f.tobytes() for f in found] == [DATA, DATA]


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda b: b[:-1], "cut off"),
        (lambda b: b[:30], "cut off"),
        (lambda b: b"", "not a capture"),
        (lambda b: b"\0" * len(b), "not a capture"),
    ],
)
def test_damaged_files(tmp_path, change, words):
    file = written(tmp_path, packet())
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(LabError, match=words):
        capture.read(file, 0)
