# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""TCP segments made by hand: what strangers send, and peers that are no kernel. IPv4 and IPv6."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import struct
from dataclasses import dataclass, field

from tests.live.peers import raw
from tests.live.peers.raw import ACK, FIN, RST, SO_RCVBUFFORCE, SOL_PACKET, SYN

CLONE_NEWNET, PACKET_QDISC_BYPASS = 0x40000000, 20
LIBC = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def inside(ns: str):
    """This process in a named network namespace: sockets made there stay there."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{ns}", os.O_RDONLY)
    try:
        assert not LIBC.setns(there, CLONE_NEWNET), os.strerror(ctypes.get_errno())
        yield
    finally:
        LIBC.setns(home, CLONE_NEWNET)
        os.close(there)
        os.close(home)


def family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


@dataclass
class Segment:
    src: str
    dst: str
    sport: int
    dport: int
    seq: int = 0
    ack: int = 0
    flags: int = ACK
    options: bytes = b""
    payload: bytes = b""
    ecn: int = 0
    window: int = 65535

    @property
    def end(self) -> int:
        return (self.seq + len(self.payload) + bool(self.flags & SYN) + bool(self.flags & FIN)) % 2**32

    def option(self, kind: int, start: bytes = b"") -> bytes | None:
        """The bytes behind `start` in the option of this kind that begins with it."""
        at, options = 0, self.options
        while at < len(options) and options[at]:
            size = 1 if options[at] == 1 else options[at + 1]
            if options[at] == kind and options[at + 2 : at + size].startswith(start):
                return options[at + 2 + len(start) : at + size]
            at += size
        return None

    def packet(self) -> bytes:
        options = self.options + bytes(-len(self.options) % 4)
        tcp = (
            raw.tcp_header(self.sport, self.dport, self.seq, self.ack, self.flags, self.window, options) + self.payload
        )
        v = family(self.src)
        ends = socket.inet_pton(v, self.src), socket.inet_pton(v, self.dst)
        whole = b"".join(ends) + struct.pack(">II", 6, len(tcp)) + tcp
        tcp = tcp[:16] + raw.sum16(whole + bytes(len(whole) % 2)).to_bytes(2, "big") + tcp[18:]
        return raw.ip_header(v, *ends, len(tcp), self.ecn) + tcp


def parse(packet: bytes) -> Segment | None:
    place = raw.segment_in(packet)
    if not place:
        return None
    at, size, _ = place
    v, begin, n = (socket.AF_INET6, 8, 16) if packet[0] >> 4 == 6 else (socket.AF_INET, 12, 4)
    ends = [socket.inet_ntop(v, packet[start : start + n]) for start in (begin, begin + n)]
    sport, dport, seq, ack, offset, flags, window = struct.unpack(">HHIIBBH", packet[at : at + 16])
    data = at + (offset >> 4) * 4
    return Segment(*ends, sport, dport, seq, ack, flags, packet[at + 20 : data], packet[data:size], window=window)


class Port:
    """A device in a namespace, and whoever is at the other end of its cable. Frames do not wait in the device's
    queue."""

    def __init__(self, ns: str, dev: str, to: str):
        """`to`: the Ethernet address at the other end."""
        with inside(ns):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
            self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 25)
            self.socket.bind((dev, 3))
        self.socket.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
        self.dev, self.to = dev, bytes.fromhex(to.replace(":", ""))

    def send(self, segment: Segment) -> None:
        protocol = 0x86DD if family(segment.src) == socket.AF_INET6 else 0x0800
        self.socket.sendto(segment.packet(), (self.dev, protocol, 0, 0, self.to))

    def receive(self, timeout: float, **wanted) -> Segment | None:
        """The next that comes in and has these members; None when none has come for so long."""
        self.socket.settimeout(timeout)
        while True:
            try:
                packet, (_, protocol, direction, *_) = self.socket.recvfrom(65536)
            except TimeoutError:
                return None
            segment = parse(packet) if direction != socket.PACKET_OUTGOING and protocol in (0x0800, 0x86DD) else None
            if segment and all(getattr(segment, k) == v for k, v in wanted.items()):
                return segment

    def close(self) -> None:
        self.socket.close()


@dataclass
class Peer:
    """One end of a connection, by hand: it keeps what arrives, and says what it is told to."""

    port: Port
    mine: tuple[str, int]
    theirs: tuple[str, int]
    seq: int = 1_000_000
    ack: int = 0
    came: dict[int, bytes] = field(default_factory=dict)

    def segment(self, **keys) -> Segment:
        return Segment(
            self.mine[0], self.theirs[0], self.mine[1], self.theirs[1], **({"seq": self.seq, "ack": self.ack} | keys)
        )

    def send(self, **keys) -> None:
        self.port.send(self.segment(**keys))

    def receive(self, timeout: float = 10) -> Segment | None:
        got = self.port.receive(timeout, src=self.theirs[0], dst=self.mine[0], sport=self.theirs[1], dport=self.mine[1])
        if got and got.payload:
            self.came[got.seq] = got.payload
        return got

    def connect(self, options: bytes, flags: int = SYN, ecn: int = 0) -> Segment:
        """The SYN-ACK that answers; the handshake is complete."""
        self.send(flags=flags, ack=0, options=options, ecn=ecn)
        synack = self.receive()
        assert synack and synack.flags & (SYN | ACK) == SYN | ACK, synack
        self.seq, self.ack = synack.ack, synack.end
        self.send()
        return synack

    def accept(self, syn: Segment, options: bytes) -> None:
        """Answers a SYN."""
        self.ack = syn.end
        self.send(flags=SYN | ACK, options=options)
        self.seq += 1
        third = self.receive()
        assert third and third.ack == self.seq, third

    def reset(self) -> None:
        """Else the other end's kernel waits for us for minutes, and with it whatever its controller holds."""
        self.send(flags=RST | ACK)

    def data(self, start: int) -> bytes:
        """The bytes that have arrived from this number on, without a gap."""
        got, at = b"", start
        while at in self.came:
            got += self.came[at]
            at = (at + len(self.came[at])) % 2**32
        return got


@contextlib.contextmanager
def watching(pair, ns: str):
    """A port that receives what the other namespace sends to this one, and sends there."""
    own, other = ((pair.server, pair.dev_s), (pair.client, pair.dev_c))[:: 1 if ns == pair.server else -1]
    mac = json.loads(pair.sh(other[0], "ip", "-j", "link", "show", other[1]).stdout)[0]["address"]
    port = Port(*own, mac)
    try:
        yield port
    finally:
        port.close()
