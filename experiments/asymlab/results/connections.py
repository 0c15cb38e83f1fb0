# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The connections of a run's programs: each direction that carries data is like a flow of the lab.

A direction has a number behind those of the flows. By it the tables `acks` and `goodput` have its rows (trace.py), and
the table `packets` those of its packets at the queues: flow, dev, t, packets, bytes, delay_s (the mean), delay_max_s.
The goodput is the receiver's if it is TCP, else the payload that left the last queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import numpy as np

from ..guest.programs import WithPrograms
from ..guest.programs.connections import RECORD_BYTES
from ..guest.protocol import FLOW_PORT
from .metrics import percentiles
from .trace import ACK, GOODPUT

RECORD = np.dtype(
    [("src", "V16"), ("dst", "V16"), ("src_port", "<u2"), ("dst_port", "<u2"), ("protocol", "u1"), ("device", "u1")]
    + [("_", "V2"), ("bin", "<u4"), *((name, "<u8") for name in ("first_ns", "last_ns", "bytes", "payload"))]
    + [("delay_ns", "<u8"), ("delay_max_ns", "<u8"), ("count", "<u4"), ("_2", "V4")]
)
assert RECORD.itemsize == RECORD_BYTES
PACKETS = [("flow", "i4"), ("dev", "U16"), ("t", "f8"), ("packets", "i8"), ("bytes", "i8")]
PACKETS += [("delay_s", "f8"), ("delay_max_s", "f8")]
TCP = 6
PROTOCOLS = {1: "icmp", TCP: "tcp", 17: "udp", 58: "icmp6"}
MAPPED = bytes(10) + b"\xff\xff"
MOST = 1000  # directions: those with the most bytes


@dataclass(frozen=True)
class Way:
    """A direction of a connection, and its packets at the queues."""

    src: str  # a host
    dst: str
    src_port: int
    dst_port: int
    protocol: int
    rows: np.ndarray  # of RECORD

    @property
    def last(self) -> np.ndarray:
        """Those of the queue that it passes last."""
        firsts = {device: self.rows["first_ns"][self.rows["device"] == device].min() for device in self.devices}
        return self.rows[self.rows["device"] == max(firsts, key=lambda device: (firsts[device], device))]

    @property
    def devices(self) -> list[int]:
        return sorted({*map(int, self.rows["device"])})


def of_run(job: WithPrograms, data: bytes, trace: bytes, zero_ns: int, arrays: dict[str, np.ndarray]) -> list[dict]:
    """A record of each direction; their rows come into the tables. `data`: the guest's file; `trace`: the tracer's.

    ValueError if the file is none of a guest's."""
    bodies = {"acks": (1, ACK, "lport", "rport"), "goodput": (2, GOODPUT, "rport", "lport")}
    traced = {}
    for name, (kind, dtype, sender, receiver) in bodies.items():
        rows = np.frombuffer(trace, dtype, offset=64)
        rows = rows[rows["type"] == kind]
        traced[name] = rows, rows[sender].astype("u4") << 16 | rows[receiver]
        arrays[name] = arrays[name][arrays[name]["flow"] < len(job.flows)]
    records: list[dict] = []
    seen: set[int] = set()
    parts: dict[str, list[np.ndarray]] = {"acks": [], "goodput": [], "packets": []}
    for number, way in enumerate(_ways(job, data), len(job.flows)):
        ports = way.src_port << 16 | way.dst_port
        # The tracer tells ports alone: of two connections with the same ones it counts for the first.
        known = way.protocol == TCP and ports not in seen
        seen.add(ports)
        of = {
            name: _rows(rows[keys == ports], arrays[name].dtype, number, zero_ns)
            for name, (rows, keys) in traced.items()
            if known
        }
        if way.protocol != TCP:
            of["goodput"] = _payload(way.last, arrays["goodput"].dtype, number, zero_ns, job.bin_ms)
        of["packets"] = _packets(way.rows, job, number, zero_ns)
        for name, rows in of.items():
            parts[name].append(rows)
        records.append(_record(number, way, of, zero_ns))
    empty = np.empty(0, PACKETS)
    for name, more in parts.items():
        arrays[name] = np.concatenate([arrays.get(name, empty), *more])
    return records


def _ways(job: WithPrograms, data: bytes) -> list[Way]:
    """The directions between hosts of programs that carry data and are no flow of the lab, by the time of their first
    packet."""
    if len(data) % RECORD_BYTES:
        raise ValueError("connections: cut off")
    rows = np.frombuffer(data, RECORD)
    if len(rows) and rows["device"].max() >= 2 * len(job.watch):
        raise ValueError("connections: at a queue that is not there")
    names = {_packed(address): name for name, address in job.names.items()}
    groups: dict[tuple, list[int]] = {}
    for at, row in enumerate(rows):
        key = (row["src"].tobytes(), row["dst"].tobytes(), *(int(row[c]) for c in ("src_port", "dst_port", "protocol")))
        groups.setdefault(key, []).append(at)
    ways = [
        Way(names[src], names[dst], src_port, dst_port, protocol, rows[at])
        for (src, dst, src_port, dst_port, protocol), at in groups.items()
        if {src, dst} <= names.keys() and not _of_lab(src_port, dst_port, len(job.flows)) and rows["payload"][at].any()
    ]
    largest = sorted(ways, key=lambda way: -int(way.last["payload"].sum()))[:MOST]
    return sorted(largest, key=lambda way: (int(way.rows["first_ns"].min()), way.src_port, way.dst_port))


def _packed(address: str) -> bytes:
    return ip_address(address).packed.rjust(16, b"\0") if ":" in address else MAPPED + ip_address(address).packed


def _of_lab(src_port: int, dst_port: int, flows: int) -> bool:
    return any(FLOW_PORT <= port < FLOW_PORT + flows for port in (src_port, dst_port))


def _rows(rows: np.ndarray, dtype: np.dtype, number: int, zero_ns: int) -> np.ndarray:
    table = np.empty(len(rows), dtype)
    for column in dtype.names or ():
        if column in (rows.dtype.names or ()):
            table[column] = rows[column]
    table["flow"] = number
    table["t"] = (rows["t_ns"].astype("i8") - zero_ns) / 1e9
    return table


def _payload(rows: np.ndarray, dtype: np.dtype, number: int, zero_ns: int, bin_ms: int) -> np.ndarray:
    table = np.zeros(len(rows), dtype)
    table["flow"], table["bytes"], table["segments"] = number, rows["payload"], rows["count"]
    table["t"] = (rows["bin"].astype("i8") * bin_ms * 10**6 - zero_ns) / 1e9
    return table


def _packets(rows: np.ndarray, job: WithPrograms, number: int, zero_ns: int) -> np.ndarray:
    devices = np.array([way.dev for hop in job.watch for way in (hop.forward, hop.reverse)], "U16")
    table = np.empty(len(rows), PACKETS)
    table["flow"], table["dev"] = number, devices[rows["device"]]
    table["t"] = (rows["bin"].astype("i8") * job.bin_ms * 10**6 - zero_ns) / 1e9
    table["packets"], table["bytes"] = rows["count"], rows["bytes"]
    table["delay_s"] = rows["delay_ns"] / 1e9 / np.maximum(rows["count"], 1)
    table["delay_max_s"] = rows["delay_max_ns"] / 1e9
    return table


def _record(number: int, way: Way, of: dict[str, np.ndarray], zero_ns: int) -> dict[str, Any]:
    """Its numbers. The goodput is that between its first and its last packet; the queue delay that of all queues."""
    last, each = way.last, [way.rows[way.rows["device"] == device] for device in way.devices]
    start, end = int(last["first_ns"].min()), int(last["last_ns"].max())
    payload = int(of["goodput"]["bytes"].sum()) if "goodput" in of else int(last["payload"].sum())
    record = {
        "flow": number,
        "protocol": PROTOCOLS.get(way.protocol, str(way.protocol)),
        **{"src": way.src, "src_port": way.src_port, "dst": way.dst, "dst_port": way.dst_port},
        "start_s": (start - zero_ns) / 1e9,
        "end_s": (end - zero_ns) / 1e9,
        "bytes": payload,
        "goodput_bps": payload * 8e9 / (end - start) if end > start else 0.0,
        "packets": int(last["count"].sum()),
        "queue_delay_mean_s": sum(
            float(rows["delay_ns"].sum()) / 1e9 / max(int(rows["count"].sum()), 1) for rows in each
        ),
        "queue_delay_max_s": max(float(rows["delay_max_ns"].max()) / 1e9 for rows in each),
    }
    acks = of.get("acks")
    if acks is not None and len(acks):
        record["rtt_s"] = percentiles(acks["rtt_us"][acks["rtt_us"] > 0])
        record["cwnd_mean"] = float(acks["cwnd"].mean())
        record["retransmits"] = int(acks["retrans"].max())
    return record


def name_of(connection: dict) -> str:
    """It in words, such as "server:80 > laptop:40000"."""
    return "{src}:{src_port} > {dst}:{dst_port}".format_map(connection)


def largest(connections: list[dict], most: int) -> Iterator[dict]:
    """Those with the most bytes, in their order."""
    chosen = {of["flow"] for of in sorted(connections, key=lambda of: -of["bytes"])[:most]}
    return (of for of in connections if of["flow"] in chosen)
