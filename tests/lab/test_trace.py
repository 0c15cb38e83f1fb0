# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reading trace files: made-up ones, with records in every order."""

from __future__ import annotations

import numpy as np
import pytest

from asymlab import LabError
from asymlab.guest.protocol import FLOW_PORT
from asymlab.results import tables, trace

ZERO = 10**9


def ack(flow: int, t_s: float, cwnd: int = 1) -> bytes:
    row = np.zeros(1, trace.ACK)
    row["type"], row["lport"], row["rport"], row["cwnd"], row["t_ns"] = (
        1,
        FLOW_PORT + flow,
        5201 + flow,
        cwnd,
        ZERO + round(t_s * 1e9),
    )
    return row.tobytes()


def part(flow: int, number: int, private: bytes) -> bytes:
    row = np.zeros(1, trace.STATE)
    row["type"], row["lport"], row["rport"], row["part"], row["bytes"] = (
        5,
        FLOW_PORT + flow,
        5201 + flow,
        number,
        private,
    )
    return row.tobytes()


def whole(flow: int, t_s: float, fill: int) -> bytes:
    return ack(flow, t_s) + part(flow, 0, bytes([fill]) * 56) + part(flow, 1, bytes([fill + 1]) * 56)


def parse(*records: bytes) -> dict[str, np.ndarray]:
    header, end = np.zeros(1, trace.HEADER), np.zeros(1, trace.END)
    header["magic"], header["version"], header["record"], end["type"] = b"ASYMCCT1", 1, 64, 4
    return trace.parse(header.tobytes() + b"".join(records) + end.tobytes(), ZERO)


def rows(state: np.ndarray) -> list[tuple]:
    """(flow, t, first byte of the first part, of the second)."""
    return [(r["flow"], r["t"], r["bytes"].tobytes()[0], r["bytes"].tobytes()[56]) for r in state]


def test_two_parts_make_the_state_of_the_ack_before_them():
    parts = parse(whole(0, 0.5, 10), ack(1, 0.6), whole(1, 0.7, 20), whole(0, 0.8, 30))
    assert rows(parts["state"]) == [(0, 0.5, 10, 11), (1, 0.7, 20, 21), (0, 0.8, 30, 31)]
    assert list(parts["acks"]["flow"]) == [0, 1, 1, 0]
    assert len(parse(ack(0, 1))["state"]) == len(parse()["state"]) == 0


A, P0, P1 = ack(0, 1), part(0, 0, b"a" * 56), part(0, 1, b"b" * 56)


@pytest.mark.parametrize(
    "records",
    [
        [A, P0],
        [A, P1],
        [P0, P1],
        [A, P1, P0],
        [A, P0, P0],
        [A, P1, P1],
        [A, P0, ack(0, 2), P1],
        [A, part(1, 0, b"a" * 56), P1],
        [A, P0, part(1, 1, b"b" * 56)],
    ],
    ids=range(9),
)
def test_an_incomplete_pair_is_dropped_and_takes_no_other_with_it(records):
    state = parse(whole(1, 0.5, 10), *records, whole(0, 2.5, 20))["state"]
    assert rows(state) == [(1, 0.5, 10, 11), (0, 2.5, 20, 21)]


MEMBERS = [
    {"name": "on", "offset": 0, "bytes": 1, "signed": False},
    {"name": "across", "offset": 52, "bytes": 8, "signed": False},
    {"name": "diff", "offset": 100, "bytes": 4, "signed": True},
]


def test_decoded_by_each_controllers_layout(tmp_path):
    private = bytearray(112)
    private[0], private[52:60], private[100:104] = (
        1,
        (2**40 + 3).to_bytes(8, "little"),
        (-5).to_bytes(4, "little", signed=True),
    )
    records = [part(0, 0, bytes(private[:56])), part(0, 1, bytes(private[56:]))]
    state = parse(ack(0, 0.5), *records, whole(1, 0.6, 0), whole(2, 0.7, 7))["state"]
    flows = [{"id": i, "controller": c} for i, c in enumerate(("ours", "reno", "other"))]
    states = trace.decode(
        state, flows, {"ours": {"state": MEMBERS}, "other": {"state": MEMBERS[:1]}, "plain": {"state": []}}
    )
    assert sorted(states) == ["state-other", "state-ours"]
    tables.write(states, tmp_path)
    ours = tables.read(tmp_path, "state-ours")
    assert ours.dtype.names == ("flow", "t", "on", "across", "diff") and ours.tolist() == [(0, 0.5, 1, 2**40 + 3, -5)]
    assert [ours.dtype[m] for m in ("on", "across", "diff")] == [np.uint8, np.uint64, np.int32]
    assert tables.read(tmp_path, "state-other").tolist() == [(2, 0.7, 7)]


@pytest.mark.parametrize("name", ["on", "t", "flow"])
def test_a_name_that_two_columns_would_have(name):
    twice = [*MEMBERS, {"name": name, "offset": 8, "bytes": 4, "signed": False}]
    with pytest.raises(LabError, match="controller ours: two members"):
        trace.decode(parse()["state"], [], {"ours": {"state": twice}})


def test_acks_of_any_machine_keep_their_ports(tmp_path):
    header, end = np.zeros(1, trace.HEADER), np.zeros(1, trace.END)
    header["magic"], header["version"], header["record"], end["type"] = b"ASYMCCT1", 1, 64, 4
    file = tmp_path / "t"
    https = np.frombuffer(bytearray(ack(0, 1, 7)), trace.ACK)
    https["lport"] = 443
    file.write_bytes(header.tobytes() + https.tobytes() + ack(0, 2, 8) + end.tobytes())
    assert trace.acks_of(file)[["lport", "cwnd"]].tolist() == [(443, 7), (FLOW_PORT, 8)]
    file.write_bytes(b"x" * 200)
    with pytest.raises(LabError, match="cut off"):
        trace.acks_of(file)
