# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reads the file of `asymcc trace` (bpf/tools/trace.h) into arrays.

acks     flow, t [s since time zero], cwnd, ssthresh, srtt_us, rtt_us, in_flight, acked [bytes], pacing [byte/s],
         retrans, delivered, lost, ca_state: the sender's state as each ACK arrives
goodput  flow, t, bytes, segments, not_next: the receiver's, a row a bin
links    dev, t, packets, bytes, pure_acks, qlen_max, qlen_sum, drops: a bottleneck's, a row a bin
state-NAME  flow, t, then the members of controller NAME's private state, in its own units, as each ACK arrives;
         only of runs with run.trace_state
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from .. import LabError
from ..guest.protocol import FLOW_PORT

HEADER = np.dtype(
    [("magic", "S8"), ("version", "<u4"), ("record", "<u4"), ("bin_ns", "<u8"), ("start_ns", "<u8"), ("_", "V32")]
)
ACK = np.dtype(
    [
        ("type", "<u2"),
        ("lport", "<u2"),
        ("rport", "<u2"),
        ("ca_state", "u1"),
        ("flags", "u1"),
        ("t_ns", "<u8"),
        ("cwnd", "<u4"),
        ("ssthresh", "<u4"),
        ("srtt_us", "<u4"),
        ("rtt_us", "<u4"),
        ("in_flight", "<u4"),
        ("acked", "<u4"),
        ("pacing", "<u8"),
        ("retrans", "<u4"),
        ("delivered", "<u4"),
        ("lost", "<u4"),
        ("mss", "<u4"),
    ]
)
GOODPUT = np.dtype(
    [
        ("type", "<u2"),
        ("lport", "<u2"),
        ("rport", "<u2"),
        ("_", "<u2"),
        ("t_ns", "<u8"),
        ("bytes", "<u8"),
        ("segments", "<u4"),
        ("not_next", "<u4"),
        ("cookie", "<u8"),
        ("_2", "V24"),
    ]
)
STATE = np.dtype([("type", "<u2"), ("lport", "<u2"), ("rport", "<u2"), ("part", "<u2"), ("bytes", "V56")])
LINK = np.dtype(
    [
        ("type", "<u2"),
        ("_", "<u2"),
        ("packets", "<u4"),
        ("t_ns", "<u8"),
        ("dev", "S16"),
        ("bytes", "<u8"),
        ("pure_acks", "<u4"),
        ("qlen_max", "<u4"),
        ("qlen_sum", "<u8"),
        ("drops", "<u4"),
        ("unseen", "<u4"),
    ]
)
END = np.dtype(
    [
        ("type", "<u2"),
        ("_", "V6"),
        ("t_ns", "<u8"),
        ("acks", "<u8"),
        ("goodput", "<u8"),
        ("links", "<u8"),
        ("lost", "<u8"),
        ("states", "<u8"),
        ("_2", "V8"),
    ]
)
assert {d.itemsize for d in (HEADER, ACK, STATE, GOODPUT, LINK, END)} == {64}

TABLES = {
    "acks": (
        "flow",
        "t",
        "cwnd",
        "ssthresh",
        "srtt_us",
        "rtt_us",
        "in_flight",
        "acked",
        "pacing",
        "retrans",
        "delivered",
        "lost",
        "ca_state",
    ),
    "goodput": ("flow", "t", "bytes", "segments", "not_next"),
    "links": ("dev", "t", "packets", "bytes", "pure_acks", "qlen_max", "qlen_sum", "drops"),
}

STATE_COLUMNS = ("flow", "t")


def _records(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The records of a trace, and their types. LabError if it is cut off, or records were lost."""
    if len(data) < 128 or len(data) % 64:
        raise LabError("trace: cut off")
    header = np.frombuffer(data, HEADER, 1)[0]
    if header["magic"] != b"ASYMCCT1" or header["version"] != 1 or header["record"] != 64:
        raise LabError(f"trace: not a version 1 trace ({header['magic']!r} {header['version']})")
    body = np.frombuffer(data, "V64", offset=64)
    kind = np.frombuffer(data, "<u2", offset=64)[::32]
    end = body[kind == 4].view(END)
    if len(end) != 1:
        raise LabError("trace: cut off")
    if end["lost"][0] > len(body) // 1000:  # a few change no metric, and the next record makes good for them
        raise LabError(f"trace: {end['lost'][0]} records of {len(body)} lost")
    return body, kind


def acks_of(file: Path | str) -> np.ndarray:
    """The ACK records in a file that `asymcc trace -o FILE` wrote: a row each, with that machine's ports and clock."""
    body, kind = _records(Path(file).read_bytes())
    return body[kind == 1].view(ACK)


def parse(data: bytes, zero_ns: int) -> dict[str, np.ndarray]:
    """The three tables of a lab's trace, and `state` with the private states as they are: flow, t, bytes (112 a row).

    LabError if the file is cut off or records were lost.
    """
    body, kind = _records(data)
    tables = {}
    for name, number, dtype in (("acks", 1, ACK), ("goodput", 2, GOODPUT), ("links", 3, LINK)):
        rows = body[kind == number].view(dtype)
        columns = {c: rows[c] for c in TABLES[name] if c in rows.dtype.names}
        if name == "links":
            columns["dev"] = rows["dev"].astype("U16")
        columns["t"] = (rows["t_ns"].astype("i8") - zero_ns) / 1e9
        if name != "links":  # the flow's own port is the client's
            port = rows["lport"] if name == "acks" else rows["rport"]
            columns["flow"] = port.astype("i4") - FLOW_PORT
        table = np.empty(len(rows), [(c, columns[c].dtype) for c in TABLES[name]])
        for c in TABLES[name]:
            table[c] = columns[c]
        tables[name] = table[table["flow"] >= 0] if name != "links" else table
    tables["state"] = _states(body, kind, zero_ns)
    return tables


def _states(body: np.ndarray, kind: np.ndarray, zero_ns: int) -> np.ndarray:
    """One row per ACK record that has both parts of the state behind it; what is left of others is dropped."""
    at = np.flatnonzero((kind[:-2] == 1) & (kind[1:-1] == 5) & (kind[2:] == 5))
    ack, parts = body[at].view(ACK), [body[at + 1].view(STATE), body[at + 2].view(STATE)]
    whole = np.ones(len(at), bool)
    for number, part in enumerate(parts):
        whole &= (part["part"] == number) & (part["lport"] == ack["lport"]) & (part["rport"] == ack["rport"])
    rows = np.empty(len(at), [("flow", "i4"), ("t", "f8"), ("bytes", "V112")])
    rows["flow"] = ack["lport"].astype("i4") - FLOW_PORT
    rows["t"] = (ack["t_ns"].astype("i8") - zero_ns) / 1e9
    rows["bytes"] = np.stack([part["bytes"] for part in parts], axis=1).view("V112")[:, 0]
    return rows[whole & (rows["flow"] >= 0)]


def decode(state: np.ndarray, flows: list[dict], controllers: dict[str, dict]) -> dict[str, np.ndarray]:
    """A table `state-NAME` for each controller that declares its state, with a column per member.

    state: parse()'s; flows: the job's; controllers: what `asymcc show NAME --json` says of each.
    """
    tables = {}
    for name, shown in controllers.items():
        if not (members := shown["state"]):
            continue
        for m in members:
            if not (
                re.fullmatch("[a-z0-9_]+", m["name"])
                and m["bytes"] in (1, 2, 4, 8)
                and 0 <= m["offset"] <= 112 - m["bytes"]
            ):
                raise LabError(f"controller {name}: no member of a state: {str(m)[:100]}")
        columns = ["flow", "t", *(m["name"] for m in members)]
        if len(set(columns)) < len(columns):
            raise LabError(f"controller {name}: two members of its state have one name, or one is called flow or t")
        layout = np.dtype(
            {
                "names": columns[2:],
                "formats": [f"<{'i' if m['signed'] else 'u'}{m['bytes']}" for m in members],
                "offsets": [m["offset"] for m in members],
                "itemsize": 112,
            }
        )
        rows = state[np.isin(state["flow"], [f["id"] for f in flows if f["controller"] == name])]
        values = np.ascontiguousarray(rows["bytes"]).view(layout)
        table = np.empty(len(rows), [("flow", "i4"), ("t", "f8"), *((c, layout[c]) for c in columns[2:])])
        for c in columns:
            table[c] = rows[c] if c in ("flow", "t") else values[c]
        tables[f"state-{name}"] = table
    return tables
