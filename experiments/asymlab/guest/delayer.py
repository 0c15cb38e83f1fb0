# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Ways whose delay and losses change: bpf/lab/delayer.bpf.c at a device, and what it must do by the trace itself.

While the rest of the network is checked they have neither; each is checked apart.
"""

import bisect
import socket
import struct
import time

from .check import PROBE_PORT, as_wanted, neighbours, stamped_receive
from .job import Delays, End, Job
from .net import Namespaces
from .player import NS_PER_MS, Program, brought
from .protocol import Check, ip_udp

CONTROL, PART = struct.Struct("<qQQQII"), struct.Struct("<IIQ")  # struct delayer and struct part of the program
NS_PER_US, STATE = 1000, (1 << 64) - 1
PLACES, NEAR_NS = 8, 2_000_000  # of the trace, at most, that are looked at: so near to a begin or an end of a part
PACKETS = (100, 50, 25, 12, 6)  # that leave there; fewer, if the part ended meanwhile
SIZE = 200  # bytes of one
WAIT_S = 0.2  # longer than the last packet may take


class Trace:
    """A way by its trace: one packet after the other."""

    def __init__(self, data: bytes, period_ms: int, seed: int) -> None:
        self.data, self.period_ns, self.state, self.last_ns = data, period_ms * NS_PER_MS, seed, 0
        self.parts = list(PART.iter_unpack(data))[:-1]  # the last one is the end
        self.begins = [at * NS_PER_MS for at, _, _ in self.parts]

    def part(self, since_ns: int) -> int:
        """The number of the part that holds then, ns from the trace's begin."""
        return bisect.bisect_right(self.begins, max(since_ns, 0) % self.period_ns) - 1

    def cross(self, since_ns: int) -> int | None:
        """When a packet has come across that leaves then; None: it is lost."""
        _, delay_us, lost = self.parts[self.part(since_ns)]
        for shift in (13, -7, 17):
            self.state ^= (self.state << shift if shift > 0 else self.state >> -shift) & STATE
        if self.state >> 32 < lost:
            return None
        self.last_ns = max(self.last_ns, since_ns + delay_us * NS_PER_US)
        return self.last_ns


class Delayer:
    """One direction of a hop with a trace of delays. With `close` it has none."""

    def __init__(self, ns: Namespaces, end: End, objects: str) -> None:
        assert isinstance(end.shape, Delays)
        self.end, self.shape = end, end.shape
        self.data = brought(self.shape.file, objects, PART.size * self.shape.entries)
        self.program = Program(f"{objects}/delayer.bpf.o", {b"parts": self.shape.entries})
        with self.program.memory(b"parts", len(self.data)) as memory:
            memory[:] = self.data
        self.control = self.program.memory(b"delayers", CONTROL.size)
        self.program.attach(ns, end)

    def begin(self, zero_ns: int, state: int = 0) -> None:
        """The trace begins then, of CLOCK_MONOTONIC, and its draws as well: no packet may be under way."""
        period = self.shape.period_ms * NS_PER_MS
        self.control[:] = CONTROL.pack(zero_ns, period, state or self.shape.seed, 0, self.shape.entries, 0)

    def halt(self) -> None:
        """From now on packets pass at once."""
        self.control[:] = bytes(CONTROL.size)

    def close(self) -> None:
        self.control.close()
        self.program.close()


def delay(job: Job, ns: Namespaces, objects: str) -> list[Delayer]:
    """The ways with a delay that changes, of a network that is built."""
    return [Delayer(ns, end, objects) for end in job.ends if isinstance(end.shape, Delays)]


# --- by the trace itself -------------------------------------------------------------------


def check_delays(job: Job, ns: Namespaces, delayers: list[Delayer]) -> list[dict]:
    """How many packets were sent, and come across when the trace says so, or are lost by its draws."""
    peers = {end.dev: peer for link in job.links for end, peer in (link.ends, link.ends[::-1])}
    return [_check(ns, delayer, peers[delayer.end.dev]) for delayer in delayers]


def _check(ns: Namespaces, delayer: Delayer, peer: End) -> dict:
    trace = Trace(delayer.data, delayer.shape.period_ms, delayer.shape.seed)
    sockets = neighbours(ns, delayer.end, peer)
    found = [_burst(delayer, trace, at, *sockets, peer.addr) for at in _places(trace)]
    for s in sockets:
        s.close()
    sent, good = (sum(counts) for counts in zip(*found))
    what = Check.DELAYS.what(delayer.end.dev)
    return {"what": what, "expected": sent, "measured": good, "ok": sent == good}


def _places(trace: Trace) -> list[int]:
    """Times of the trace, ns: in its first part and its last, in those of the longest delay and the most losses, and in
    some between; by turns just after a part has begun, and just before it ends the next time."""
    count = len(trace.parts)
    found = {max(range(count), key=lambda i: trace.parts[i][column]) for column in (1, 2)}
    found |= {i * (count - 1) // (PLACES - 3) for i in range(PLACES - 2)}
    ends = [*trace.begins[1:], trace.period_ns]
    near = [min(NEAR_NS, (end - begin) // 4) for begin, end in zip(trace.begins, ends)]
    after, before = ([at + n for at, n in zip(trace.begins, near)], [at - n for at, n in zip(ends, near)])
    return [trace.period_ns + before[i] if turn % 2 else after[i] for turn, i in enumerate(sorted(found))]


def _burst(
    delayer: Delayer, trace: Trace, at_ns: int, sender: socket.socket, receiver: socket.socket, to: str
) -> tuple[int, int]:
    """Packets that leave then, back to back, and those of them that do as the trace says."""
    for count in PACKETS:
        zero_ns = time.monotonic_ns() - at_ns
        trace.last_ns = 0
        delayer.begin(zero_ns, trace.state)
        times = [time.monotonic_ns() - zero_ns]
        for i in range(count):
            sender.sendto(struct.pack("<I", i).ljust(SIZE - ip_udp(to), b"\0"), (to, PROBE_PORT))
            times.append(time.monotonic_ns() - zero_ns)
        wanted = [trace.cross(t) for t in times[:-1]]
        came = _come(receiver, count - wanted.count(None), max(trace.last_ns, times[-1]), zero_ns)
        delayer.halt()
        if trace.part(times[0]) == trace.part(times[-1]):
            break
    return count, sum(as_wanted(at, came.get(i)) for i, at in enumerate(wanted))


def _come(receiver: socket.socket, count: int, last_ns: int, zero_ns: int) -> dict[int, int]:
    """When each came, ns from the trace's begin."""
    to_trace = time.time_ns() - time.monotonic_ns() + zero_ns
    came: dict[int, int] = {}
    receiver.settimeout(max(0.0, (last_ns + zero_ns - time.monotonic_ns()) / 1e9) + WAIT_S)
    while (len(came) < count or not count) and (got := stamped_receive(receiver)):
        came.setdefault(struct.unpack_from("<I", got[0])[0], got[1] - to_trace)
    return came
