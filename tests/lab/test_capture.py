# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Captures: what is read from a packet, what is no capture, and all packets of a run in one file."""

import re
import struct
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from asymlab import LabError
from asymlab.guest.capture import PCAP
from asymlab.results import capture, pcapng, store
from tests.scenarios import hop
from tests.shared import asymlab, packet, run

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
    has, options = capture.option(rows["options"], 253, 12, 0xF0A1)
    assert list(has) == [True, True] + 4 * [False] and [f.tobytes() for f in options] == [DATA, DATA]


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


# --- pcapng --------------------------------------------------------------------------------


def blocks(data: bytes) -> list[tuple[int, bytes]]:
    """Each block's type and body; its length stands at both ends."""
    parts, at = [], 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert length % 4 == 0 and struct.unpack_from("<I", data, at + length - 4) == (length,)
        parts.append((kind, data[at + 8 : at + length - 4]))
        at += length
    return parts


def packets(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """Each with its interface, time, length, and what is kept of it."""
    heads = [(struct.unpack_from("<IIIII", body), body) for kind, body in blocks(data) if kind == pcapng.PACKET]
    return [(number, high << 32 | low, length, b[20 : 20 + kept]) for (number, high, low, kept, length), b in heads]


def made_up(tmp_path, key="a", acks=()) -> SimpleNamespace:
    record = {"name": "X 1% seed 1", "command": "asymlab run x", "result_sha256": "ab", "key": key}
    table = np.array(list(acks), np.dtype([("t", "f8")]))
    return SimpleNamespace(folder=tmp_path, job=SimpleNamespace(watch=[1, 2]), record=record, acks=table)


def test_one_file_has_the_packets_of_all_hops_in_their_order(tmp_path):
    one = written(tmp_path, packet(DATA), packet()).read_bytes()
    for name in ("forward.pcap", "reverse.pcap", "forward-2.pcap"):
        (tmp_path / name).write_bytes(one)
    (tmp_path / "reverse-2.pcap").write_bytes(PCAP)
    line = pcapng.write(made_up(tmp_path), made_up(tmp_path), tmp_path / "out")
    assert line.endswith("X-1-seed-1.pcapng, of a second run: it is the run itself")
    data = (tmp_path / "out" / "X-1-seed-1.pcapng").read_bytes()
    names = [re.search(rb"hop \d (forward|reverse)", body)[0] for kind, body in blocks(data) if kind == 1]
    assert names == [b"hop 1 forward", b"hop 1 reverse", b"hop 2 forward", b"hop 2 reverse"]
    assert blocks(data)[0][0] == 0x0A0D0D0A and b"X 1% seed 1: asymlab run x" in blocks(data)[0][1]
    assert [(n, t) for n, t, *_ in packets(data)] == [(n, t * 10**9 + 5 * 10**8) for t in (100, 101) for n in (0, 1, 2)]
    assert [kept for *_, kept in packets(data)] == [packet(DATA)] * 3 + [packet()] * 3


def test_what_a_capture_changed_is_told(tmp_path):
    a, b, c = (made_up(tmp_path, key, acks) for key, acks in (("a", (1, 2)), ("b", (1, 2.000026)), ("c", (1,))))
    assert pcapng.difference(a, b) == "1 of its 2 ACKs come at another time, by 26 us at most"
    assert pcapng.difference(a, c) == "it has 1 ACKs, and the run has 2"


@pytest.mark.lab
def test_a_run_has_the_same_bytes_with_pcapng(scenario_file, tmp_path):
    file = scenario_file(hops=2 * [hop()])
    plain = run(file)
    p = asymlab("run", file, "--engine", "uml", "--pcapng", tmp_path, "--fresh")
    assert p.returncode == 0, p.stderr
    (name,) = tmp_path.glob("*.pcapng")
    assert f"packets in {name}, of a second run: " in p.stderr.replace("\n", " ")
    again = store.find(plain.record["key"])
    assert again.record["result_sha256"] == plain.record["result_sha256"] and again.folder == plain.folder
    assert not list(plain.folder.glob("*.pcap"))
    rows = packets(name.read_bytes())
    per_hop = Counter(number for number, *_ in rows)
    assert set(per_hop) == {0, 1, 2, 3} and per_hop[0] > per_hop[2] - 50 > 100
    assert [t for _, t, *_ in rows] == sorted(t for _, t, *_ in rows)
