# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Links that play a trace: bpf/lab/player.bpf.c at a device, and what it must do by the trace itself."""

import bisect
import ctypes
import mmap
import os
import struct
import time
from array import array
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from .job import Bottleneck, End, Job
from .net import Namespaces
from .netlink import index_of
from .system import Failure

BYTES = 1500  # of IP packets, in one opportunity
NS_PER_MS = 10**6
BPF_TC_CUSTOM, ROOT_CLASS = 1 << 2, 1 << 16  # a filter of the qdisc 1:
CONTROL = struct.Struct("<QQIIQIIII")  # struct player of the program


class _Hook(ctypes.Structure):
    """struct bpf_tc_hook of libbpf."""

    _fields_ = [
        ("sz", ctypes.c_size_t),
        ("ifindex", ctypes.c_int),
        ("point", ctypes.c_int),
        ("parent", ctypes.c_uint32),
    ]


class _Options(ctypes.Structure):
    """struct bpf_tc_opts of libbpf."""

    _fields_ = [("sz", ctypes.c_size_t), ("fd", ctypes.c_int)] + [
        (name, ctypes.c_uint32) for name in ("flags", "prog_id", "handle", "priority")
    ]


@cache
def libbpf() -> ctypes.CDLL:
    try:
        lib = ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError:
        raise Failure("libbpf.so.1: not installed; a link with a trace needs it") from None
    for name in ("bpf_object__open", "bpf_object__find_map_by_name", "bpf_object__find_program_by_name"):
        getattr(lib, name).restype = ctypes.c_void_p
    return lib


def _done(what: str, code: int) -> int:
    if code < 0:
        raise Failure(f"player: {what}: {os.strerror(-code)}")
    return code


class Program:
    """A BPF object whose on_packet() tells when packets leave by a device with `prio`. With `close` it is gone."""

    def __init__(self, file: str, sizes: dict[bytes, int]) -> None:
        """`sizes`: entries of its maps."""
        self.lib = libbpf()
        opened = self.lib.bpf_object__open(file.encode())
        if not opened:
            raise Failure(f"player: {file}: {os.strerror(ctypes.get_errno())}")
        self.object = ctypes.c_void_p(opened)
        for name, entries in sizes.items():
            _done("map", self.lib.bpf_map__set_max_entries(self._map(name), entries))
        _done("load", self.lib.bpf_object__load(self.object))

    def _map(self, name: bytes) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.lib.bpf_object__find_map_by_name(self.object, name))

    def memory(self, name: bytes, size: int) -> mmap.mmap:
        return mmap.mmap(self.lib.bpf_map__fd(self._map(name)), size)

    def attach(self, ns: Namespaces, end: End) -> None:
        program = ctypes.c_void_p(self.lib.bpf_object__find_program_by_name(self.object, b"on_packet"))
        with ns.enter(end.node):
            hook = _Hook(ctypes.sizeof(_Hook), index_of(end.dev), BPF_TC_CUSTOM, ROOT_CLASS)
            options = _Options(ctypes.sizeof(_Options), self.lib.bpf_program__fd(program))
            _done(f"{end.dev}", self.lib.bpf_tc_attach(ctypes.byref(hook), ctypes.byref(options)))

    def close(self) -> None:
        self.lib.bpf_object__close(self.object)


class Player:
    """One direction of a link that plays its trace. With `close` the link has none."""

    def __init__(self, ns: Namespaces, end: End, objects: str) -> None:
        assert isinstance(end.shape, Bottleneck) and end.shape.trace
        self.end, self.shape, self.played = end, end.shape, end.shape.trace
        self.trace = Trace(brought(self.played.file, objects, 8 * self.played.entries), self.shape.queue_packets)
        sizes = {b"trace": self.played.entries, b"leaves": self.shape.queue_packets}
        self.program = Program(f"{objects}/player.bpf.o", sizes)
        with self.program.memory(b"trace", 8 * self.played.entries) as memory:
            memory[:] = self.trace.data
        self.control = self.program.memory(b"players", CONTROL.size)
        self.begin(time.monotonic_ns())
        self.program.attach(ns, end)

    def begin(self, zero_ns: int) -> None:
        """The trace begins then, of CLOCK_MONOTONIC: no packet may be in the queue."""
        self.zero_ns = zero_ns
        period = self.played.period_ms * NS_PER_MS
        self.control[:] = CONTROL.pack(
            zero_ns, period, self.played.entries, self.shape.queue_packets, zero_ns, 0, 0, BYTES, 0
        )

    def close(self) -> None:
        self.control.close()
        self.program.close()


def play(job: Job, ns: Namespaces, objects: str) -> list[Player]:
    """The traces of a network that is built."""
    return [Player(ns, end, objects) for end in job.ends if isinstance(end.shape, Bottleneck) and end.shape.trace]


def brought(file: str, objects: str, size: int) -> bytes:
    """A trace that came with the objects."""
    try:
        with open(f"{objects}/{file}", "rb") as f:
            data = f.read()
    except OSError as e:
        raise Failure(f"{file}: {e.strerror}") from None
    if len(data) != size or not data:
        raise Failure(f"{file}: {len(data)} bytes are not {size}")
    return data


# --- by the trace itself -------------------------------------------------------------------


class Packet(NamedTuple):
    came_ns: int
    bytes: int


class Trace:
    """A link by its trace: one packet and one opportunity after the other, as Mahimahi does it.

    The program looks ahead as a packet comes in. This goes along the opportunities.
    """

    def __init__(self, data: bytes, queue: int) -> None:
        self.data, self.queue = data, queue
        pairs = array("I", data)
        self.ms, self.count = pairs[::2], pairs[1::2]
        self.total = [0]
        for count in self.count:
            self.total.append(self.total[-1] + count)

    def before(self, ns: int) -> int:
        """The number of opportunities before that time from the trace's begin."""
        turns, rest = divmod(max(ns, 0), self.ms[-1] * NS_PER_MS)
        if turns and not rest:  # the last time of a round is the first one of the next
            turns, rest = turns - 1, self.ms[-1] * NS_PER_MS
        at = bisect.bisect_left(self.ms, -(-rest // NS_PER_MS))
        return turns * self.total[-1] + self.total[at]

    def time(self, number: int) -> int:
        """The time of an opportunity, ns from the trace's begin."""
        turns, rest = divmod(number, self.total[-1])
        return (turns * self.ms[-1] + self.ms[bisect.bisect_right(self.total, rest) - 1]) * NS_PER_MS

    def leave(self, packets: Iterable[Packet]) -> list[int | None]:
        """When each leaves, ns from the trace's begin; None: it finds the queue full."""
        waiting: list[int] = []  # when those leave that may still wait
        out: list[int | None] = []
        number, left = -1, 0  # the opportunity that is used, and its bytes
        for came, size in packets:
            waiting = [at for at in waiting if at > came]
            if len(waiting) >= self.queue:
                out.append(None)
                continue
            if (first := self.before(came)) > number:
                number, left = first, BYTES
            while size > left:
                size -= left
                number, left = number + 1, BYTES
            left -= size
            out.append(self.time(number))
            waiting.append(self.time(number))
        return out
