# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The connections of programs, and the ports that they cannot have.

TCP's connections are counted by the tracer, all of them by their packets at the queues.

`connections.bin` in the output folder has records of RECORD, as bpf/lab/connections.bpf.c has them, in their order.
"""

import ctypes
import os
import re
import struct
from collections.abc import Collection, Iterator

from ..job import Job
from ..net import Namespaces, build_network
from ..player import libbpf
from ..protocol import FLOW_PORT
from ..system import Failure, sh
from ..tracer import Tracer
from ..traffic import SERVER_PORT

FILE = "connections.bin"
OBJECT = "connections.bpf.o"
# src, dst, src_port, dst_port, protocol, device, bin; first_ns, last_ns, bytes, payload, delay_ns, delay_max_ns, count
KEY, VALUE = struct.Struct("=16s16sHHBB2xI"), struct.Struct("=6QI4x")
RECORD_BYTES = KEY.size + VALUE.size
MAX = 65536  # records
DEVICE = struct.Struct("=I4xQ")
AT_ONCE = 4096  # records in a call
PROGRAMS, MAPS = (b"on_enqueue", b"on_dequeue"), (b"devices", b"ways", b"lost")


def batched(data: bytes, size: int, count: int) -> list[bytes]:
    return [data[size * i : size * (i + 1)] for i in range(count)]


class Connections:
    """Counts the packets at each watched queue, from now on."""

    def __init__(self, job: Job, objects: str) -> None:
        lib = libbpf()
        lib.bpf_program__attach.restype = ctypes.c_void_p
        opened = ctypes.c_void_p(lib.bpf_object__open(f"{objects}/{OBJECT}".encode()))
        if not opened or (code := lib.bpf_object__load(opened)):
            raise Failure(f"{OBJECT}: {os.strerror(-code if opened else ctypes.get_errno())}")
        self.maps = {
            name: lib.bpf_map__fd(ctypes.c_void_p(lib.bpf_object__find_map_by_name(opened, name))) for name in MAPS
        }
        devices = [way.dev for hop in job.watch for way in (hop.forward, hop.reverse)]
        for number, dev in enumerate(devices):
            key, value = dev.encode().ljust(16, b"\0"), DEVICE.pack(number, job.bin_ms * 10**6)
            if code := lib.bpf_map_update_elem(self.maps[b"devices"], key, value, 0):
                raise Failure(f"{OBJECT}: {dev}: {os.strerror(-code)}")
        for name in PROGRAMS:
            program = ctypes.c_void_p(lib.bpf_object__find_program_by_name(opened, name))
            if not lib.bpf_program__attach(program):
                raise Failure(f"{OBJECT}: {name.decode()}: {os.strerror(ctypes.get_errno())}")

    def records(self) -> bytes:
        """All of them, by the order of their bytes and not of the map. Failure if there was no room for some."""
        lib, rows, code = libbpf(), list[bytes](), 0
        keys, values = (ctypes.create_string_buffer(AT_ONCE * part.size) for part in (KEY, VALUE))
        place, before = ctypes.c_uint32(), None
        while not code:
            count = ctypes.c_uint32(AT_ONCE)
            code = lib.bpf_map_lookup_batch(
                self.maps[b"ways"], before, ctypes.byref(place), keys, values, ctypes.byref(count), None
            )
            before = ctypes.byref(place)
            parts = zip(*(batched(part.raw, size.size, count.value) for part, size in ((keys, KEY), (values, VALUE))))
            rows += [key + value for key, value in parts]
        lost = ctypes.c_uint64()
        lib.bpf_map_lookup_elem(self.maps[b"lost"], ctypes.byref(ctypes.c_uint32()), ctypes.byref(lost))
        if lost.value:
            raise Failure(
                f"{lost.value} packets of programs were not counted: {MAX} wait, or so many connections have a bin"
            )
        return b"".join(sorted(rows))


class ConnectionTracer(Tracer):
    """A tracer of all TCP ports, which also counts packets at the queues."""

    ports = "1-65535"

    def __init__(self, job: Job, objects: str, path: str) -> None:
        super().__init__(job, objects, path)
        self.connections = Connections(job, objects)
        self.file = f"{os.path.dirname(path)}/{FILE}"

    def finish(self) -> str:
        with open(self.file, "wb") as f:
            f.write(self.connections.records())
        return super().finish()


# --- the ports of the lab ------------------------------------------------------------------

USER = 65534  # of all programs
CHAIN = "inet lab programs"
TABLE = f"add table inet lab\nadd chain {CHAIN} {{ type filter hook output priority 0; }}\n"


def _span(ports: list[int]) -> str:
    return f"{min(ports)}-{max(ports)}" if len(ports) > 1 else str(*ports)


def _of_lab(job: Job) -> Iterator[str]:
    """Matches of nft: the ports by which the lab tells its own flows and loads from what programs send."""
    ip = "ip6" if job.v6 else "ip"
    if job.flows:
        sources = _span([FLOW_PORT + flow.id for flow in job.flows])
        yield from (f"tcp {side} {sources}" for side in ("sport", "dport"))
    receivers: dict[str, list[int]] = {}
    for flow in job.flows:
        receivers.setdefault(flow.dst_addr, []).append(SERVER_PORT + flow.id)
    yield from (f"{ip} daddr {addr} tcp dport {_span(ports)}" for addr, ports in receivers.items())
    yield from (f"{ip} daddr {load.dst_addr} udp dport {SERVER_PORT}" for load in job.background)


def build_guarded(job: Job, ns: Namespaces, there: Collection[str]) -> None:
    """The network, in which packets of programs from or to these ports are dropped where they begin: else they count as
    the lab's, or take its receivers."""
    build_network(job, ns, there)
    rules = "".join(f"add rule {CHAIN} meta skuid {USER} {match} counter drop\n" for match in _of_lab(job))
    for node in sorted({program.node for program in vars(job)["programs"]}) if rules else ():
        with ns.enter(node):
            sh("nft", "-f", "-", text=TABLE + rules)


def dropped(job: Job, ns: Namespaces, node: str) -> int:
    """Packets of its programs."""
    if not any(_of_lab(job)):
        return 0
    with ns.enter(node):
        return sum(map(int, re.findall(r"counter packets (\d+)", sh("nft", "list", "chain", *CHAIN.split()))))
