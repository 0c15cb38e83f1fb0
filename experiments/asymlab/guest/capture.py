# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Captures of the hops, as pcap files."""

import contextlib
import ctypes
import os
import socket
import struct
import threading
from collections.abc import Sequence
from typing import IO

from .job import Job
from .net import Namespaces
from .system import SO_TIMESTAMPNS, Failure

SNAP = 100  # bytes kept of a packet: IPv6 and TCP headers are at most these, without options of IP
PCAP = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAP, 101)  # in ns; packets start at the IP header
BUFFER = 32 << 20  # bytes of packets that may wait, each with some 2 kB
READ_S = 0.1
STACK = 256 << 10  # bytes of the thread's: a guest takes all of it at once
ETH_P_ALL, SO_ATTACH_FILTER, SO_RCVBUFFORCE, SOL_PACKET, PACKET_STATISTICS = 3, 26, 33, 263, 6
LOAD, EQUAL, KEEP, KIND = 0x30, 0x15, 0x06, 0xFFFFF004  # of a byte; then jump; so many bytes; the packet's type
# Outgoing packets only: load the packet type, compare with PACKET_OUTGOING, keep SNAP or nothing.
OUTGOING = ((LOAD, 0, 0, KIND), (EQUAL, 0, 1, socket.PACKET_OUTGOING), (KEEP, 0, 0, SNAP), (KEEP, 0, 0, 0))


def tap(ns: Namespaces, node: str, dev: str, code: Sequence[tuple[int, int, int, int]], buffer: int) -> socket.socket:
    """A socket for the packets of a device that a filter keeps, from their IP headers on."""
    with ns.enter(node):
        s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    text = b"".join(struct.pack("=HBBI", *instruction) for instruction in code)
    kept = ctypes.create_string_buffer(text, len(text))
    s.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HxxxxxxP", len(code), ctypes.addressof(kept)))
    s.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, buffer)
    s.setblocking(False)
    s.bind((dev, ETH_P_ALL))
    return s


def statistics(s: socket.socket) -> tuple[int, int]:
    """Packets that came to a tap since this was asked, and those of them that it had no room for."""
    packets, lost = struct.unpack("II", s.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    return packets, lost


SIDES = ("forward", "reverse")


def name_of(side: str, hop: int) -> str:
    """The name of a hop's file. Hops count from 1 at the left."""
    return f"{side}.pcap" if hop == 1 else f"{side}-{hop}.pcap"


def _bytes(packet: bytes) -> int:
    """Its length, as its IP header has it."""
    if packet[0] >> 4 == 6:
        return 40 + int.from_bytes(packet[4:6], "big")
    return int.from_bytes(packet[2:4], "big")


class Capture:
    """Headers of the packets that leave the hops' queues, each direction into a file of its own.

    A packet's time is the kernel's as it goes to the device. A thread collects what has come every
    READ_S: some 17 us of the guest's CPU a packet, which stands in a run's share of busy CPU.
    """

    def __init__(self, job: Job, ns: Namespaces, out: str):
        self.ends: list[tuple[socket.socket, IO[bytes]]] = []
        self.done = threading.Event()
        node = {end.dev: end.node for end in job.ends}
        for k, hop in enumerate(job.watch, 1):
            for side, dev in zip(SIDES, (hop.forward.dev, hop.reverse.dev)):
                file = open(f"{out}/{name_of(side, k)}", "wb")
                self.ends.append((tap(ns, node[dev], dev, OUTGOING, BUFFER), file))
                file.write(PCAP)
        threading.stack_size(STACK)
        self.thread = threading.Thread(target=self._collect, daemon=True)
        self.thread.start()

    def _collect(self) -> None:
        while not self.done.wait(READ_S):
            self._drain()

    def _drain(self) -> None:
        for s, file in self.ends:
            with contextlib.suppress(BlockingIOError):
                while True:
                    data, control, _, _ = s.recvmsg(SNAP, 64)
                    sec, nsec = struct.unpack("qq", control[0][2])
                    file.write(struct.pack("<IIII", sec, nsec, len(data), _bytes(data)) + data)

    def finish(self) -> None:
        self.done.set()
        self.thread.join()
        self._drain()
        for s, file in self.ends:
            if lost := statistics(s)[1]:
                raise Failure(f"{os.path.basename(file.name)}: {lost} packets lost")
        self.close()

    def close(self) -> None:
        self.done.set()
        self.thread.join()
        for s, file in self.ends:
            s.close()
            file.close()
        self.ends = []
