# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""rtnetlink: links, addresses, neighbours and routes of a namespace, and the counters of its queues.

A process of `ip` or `tc` for each takes 20 times as long, nearly all of it to start. Shaping is left to tc, which turns
rates and odds into what the kernel counts in; but for DualPI2, which the guest's tc does not know.
"""

import os
import re
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from .protocol import is_v6
from .system import Failure

NEWLINK, GETLINK, NEWADDR, NEWROUTE, NEWNEIGH, NEWQDISC, GETQDISC = 16, 18, 20, 24, 28, 36, 38
REQUEST, ACK, DUMP, REPLACE, EXCLUSIVE, CREATE = 1, 4, 0x300, 0x100, 0x200, 0x400
ERROR, DONE, INTERRUPTED, WITH_WORDS = 2, 3, 0x10, 0x200
SOL_NETLINK, CAP_ACK, EXT_ACK = 270, 10, 11
AT_ONCE = 50  # requests in one message: their answers have room in the socket
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINKINFO, IFLA_NET_NS_FD, IFLA_GSO_MAX_SEGS = 1, 3, 4, 18, 28, 40
IFLA_GSO_MAX_SIZE, IFLA_GRO_MAX_SIZE = 41, 58
NO_DAD, UP, PERMANENT, MAIN_TABLE, BY_ADMIN, UNICAST, ROOT = 2, 1, 0x80, 254, 3, 1, 0xFFFFFFFF
METRICS = {"lock": 1, "mtu": 2, "advmss": 8, "quickack": 15, "congctl": 16}
TCA_KIND, TCA_OPTIONS, TCA_STATS2, NESTED = 1, 2, 7, 0x8000
STATS_APP = 4
GRED_MAX_P = 4
CAKE_RATE, CAKE_ATM, CAKE_FLOWS, CAKE_OVERHEAD, CAKE_MPU, CAKE_FILTER = 2, 4, 5, 6, 14, 16
CAKE_FRAMINGS = ("", "atm", "ptm")
CAKE_ISOLATIONS = ("flowblind", "srchost", "dsthost", "hosts", "flows", "dual-srchost", "dual-dsthost", "")
DUALPI2 = {
    "limit": (1, "I"),
    "memory": (2, "I"),
    "target": (3, "I"),
    "tupdate": (4, "I"),
    "step": (8, "I"),
    "coupling": (10, "B"),
}
GENERIC, CONTROL, GET_FAMILY, FAMILY_ID, FAMILY_NAME = 16, 16, 3, 1, 2
NETEM_REORDER, NETEM_LOSS, NETEM_LATENCY, NETEM_JITTER, NETEM_SLOT, LOSS_GILBERT_ELLIOT = 3, 5, 10, 11, 12, 2


class Request(NamedTuple):
    what: str  # in the words of the tool
    kind: int
    flags: int
    body: bytes
    tool: str = "ip"


class Queue(NamedTuple):
    """A queueing discipline; `options` as the kernel tells them."""

    kind: str
    root: bool
    counters: dict[str, int]
    options: bytes
    own: bytes  # counters of its kind


def attribute(kind: int, *data: bytes) -> bytes:
    value = b"".join(data)
    return struct.pack("HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def attributes(data: bytes) -> dict[int, bytes]:
    values, at = {}, 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("HH", data, at)
        values[kind & 0x3FFF] = data[at + 4 : at + length]
        at += max(4, length + -length % 4)
    return values


def _u32(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("I", value))


def family(addr: str) -> socket.AddressFamily:
    return socket.AF_INET6 if is_v6(addr) else socket.AF_INET


def _ip(text: str) -> bytes:
    try:
        return socket.inet_pton(family(text), text)
    except OSError:
        raise Failure(f"{text}: not an IP address") from None


def _mac(text: str) -> bytes:
    if not re.fullmatch("([0-9a-f]{2}:){5}[0-9a-f]{2}", text):
        raise Failure(f"{text}: not a MAC address")
    return bytes.fromhex(text.replace(":", ""))


# --- requests ------------------------------------------------------------------------------


def _link(index: int = 0, flags: int = 0, change: int = 0) -> bytes:
    return struct.pack("BxHiII", socket.AF_UNSPEC, 0, index, flags, change)


def new_pair(a: "Device", b: "Device", mtu: int) -> Request:
    """A veth of two ends, each in its namespace."""
    peer = _link() + b.attributes(mtu)
    info = attribute(IFLA_LINKINFO, attribute(1, b"veth\0"), attribute(2, attribute(1, peer)))
    what = f"link add {a.name} mtu {mtu} address {a.mac} type veth peer name {b.name} mtu {mtu} address {b.mac}"
    return Request(what, NEWLINK, CREATE | EXCLUSIVE, _link() + a.attributes(mtu) + info)


def new_device(dev: str, mtu: int, kind: str, own: bytes, words: str) -> Request:
    """One alone, in the namespace of this process. `own`: attributes of its kind, which `words` tell."""
    info = attribute(1, kind.encode() + b"\0") + attribute(2, own)
    body = _link() + attribute(IFLA_IFNAME, dev.encode() + b"\0") + _u32(IFLA_MTU, mtu) + attribute(IFLA_LINKINFO, info)
    return Request(f"link add {dev} mtu {mtu} type {kind}{words}", NEWLINK, CREATE | EXCLUSIVE, body)


class Device(NamedTuple):
    name: str
    mac: str
    namespace: int  # a file descriptor

    def attributes(self, mtu: int) -> bytes:
        return (
            attribute(IFLA_IFNAME, self.name.encode() + b"\0")
            + _u32(IFLA_NET_NS_FD, self.namespace)
            + _u32(IFLA_MTU, mtu)
            + attribute(IFLA_ADDRESS, _mac(self.mac))
        )


def index_of(dev: str) -> int:
    """The number of a device in the namespace of this process."""
    try:
        return socket.if_nametoindex(dev)
    except OSError as e:
        raise Failure(f"{dev}: {e.strerror}") from None


def set_up(dev: str) -> Request:
    return Request(f"link set {dev} up", NEWLINK, 0, _link(index_of(dev), UP, UP))


def one_packet_at_once(dev: str) -> Request:
    return Request(f"link set {dev} gso_max_segs 1", NEWLINK, 0, _link(index_of(dev)) + _u32(IFLA_GSO_MAX_SEGS, 1))


def set_segments(dev: str, most: int) -> Request:
    sizes = _u32(IFLA_GSO_MAX_SIZE, most) + _u32(IFLA_GRO_MAX_SIZE, most)
    return Request(f"link set {dev} gso_max_size {most} gro_max_size {most}", NEWLINK, 0, _link(index_of(dev)) + sizes)


def add_address(dev: str, addr: str, bits: int) -> Request:
    ip = _ip(addr)
    flags = NO_DAD if is_v6(addr) else 0
    body = struct.pack("BBBBi", family(addr), bits, flags, 0, index_of(dev)) + attribute(2, ip) + attribute(1, ip)
    return Request(f"addr add {addr}/{bits} dev {dev}", NEWADDR, CREATE | EXCLUSIVE, body)


def set_neighbour(dev: str, addr: str, mac: str) -> Request:
    body = struct.pack("BxxxiHBB", family(addr), index_of(dev), PERMANENT, 0, 0)
    body += attribute(1, _ip(addr)) + attribute(2, _mac(mac))
    return Request(f"neigh replace {addr} lladdr {mac} dev {dev}", NEWNEIGH, CREATE | REPLACE, body)


def add_route(dst: str, via: str, dev: str, words: str, replace: bool = False) -> Request:
    """`words`: more of it, as `ip route` takes them."""
    to, _, bits = ("/0" if dst == "default" else dst).partition("/")
    what = f"route {'replace' if replace else 'add'} {dst} via {via} dev {dev} {words}".strip()
    body = struct.pack("BBBBBBBBI", family(via), int(bits), 0, 0, MAIN_TABLE, BY_ADMIN, 0, UNICAST, 0)
    if int(bits):
        body += attribute(1, _ip(to))
    body += attribute(5, _ip(via)) + _u32(4, index_of(dev))
    if words:
        body += attribute(8, *_metrics(what, words.split()))
    return Request(what, NEWROUTE, CREATE | (REPLACE if replace else EXCLUSIVE), body)


def _metrics(what: str, words: list[str]) -> Iterator[bytes]:
    locked, left = 0, iter(words)
    try:
        for name in left:
            kind, value = METRICS[name], next(left)
            if value == "lock":
                locked |= 1 << kind
                value = next(left)
            yield attribute(kind, value.encode()) if name == "congctl" else _u32(kind, int(value))
    except (LookupError, StopIteration, ValueError):
        raise Failure(f"{what}: not understood; a route takes {', '.join(METRICS)}") from None
    if locked:
        yield _u32(METRICS["lock"], locked)


def add_dualpi2(dev: str, options: dict[str, int]) -> Request:
    """Behind the bucket, as tc makes the others: parent 1:1, handle 10:."""
    words = " ".join(f"{key} {value}" for key, value in options.items())
    given = b"".join(attribute(DUALPI2[key][0], struct.pack(DUALPI2[key][1], v)) for key, v in options.items())
    body = struct.pack("BxxxiIII", socket.AF_UNSPEC, index_of(dev), 0x10 << 16, 1 << 16 | 1, 0)
    body += attribute(TCA_KIND, b"dualpi2\0") + attribute(TCA_OPTIONS | NESTED, given)
    what = f"qdisc add dev {dev} parent 1:1 handle 10: dualpi2 {words}"
    return Request(what, NEWQDISC, CREATE | EXCLUSIVE, body, "tc")


def set_cake_rate(dev: str, rate_bps: int) -> Request:
    """The CAKE is the device's own queue."""
    body = struct.pack("BxxxiIII", socket.AF_UNSPEC, index_of(dev), 1 << 16, ROOT, 0)
    options = attribute(TCA_OPTIONS | NESTED, attribute(CAKE_RATE, struct.pack("Q", rate_bps // 8)))
    what = f"qdisc change dev {dev} root cake bandwidth {rate_bps}bit"
    return Request(what, NEWQDISC, 0, body + attribute(TCA_KIND, b"cake\0") + options, "tc")


# --- the conversation ----------------------------------------------------------------------


class Netlink:
    """With the kernel, of the namespace that this process is in when it begins."""

    def __init__(self, protocol: int = 0) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        for option in (CAP_ACK, EXT_ACK):
            self.socket.setsockopt(SOL_NETLINK, option, 1)
        self.socket.connect((0, 0))  # the kernel alone

    def __enter__(self) -> "Netlink":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, node: str, requests: list[Request]) -> None:
        """In this order; Failure names the first that the kernel refuses, with its words."""
        for at in range(0, len(requests), AT_ONCE):
            some = requests[at : at + AT_ONCE]
            self._send([(r.kind, r.flags | ACK, r.body) for r in some])
            refused = {number: words for number, words in self._answers(len(some)) if words}
            for number, words in sorted(refused.items()):
                raise Failure(f"{node}: {some[number].tool} {some[number].what}: {words}")

    def _send(self, messages: list[tuple[int, int, bytes]]) -> None:
        data = b""
        for number, (kind, flags, body) in enumerate(messages):
            data += struct.pack("IHHII", 16 + len(body), kind, flags | REQUEST, number, 0) + body
            data += bytes(-len(data) % 4)
        self.socket.send(data)

    def _receive(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Kind, flags, number and body of each message of a datagram."""
        data, at = self.socket.recv(1 << 16), 0
        while at + 16 <= len(data):
            length, kind, flags, number, _ = struct.unpack_from("IHHII", data, at)
            yield kind, flags, number, data[at + 16 : at + length]
            at += max(16, length + -length % 4)

    def _answers(self, wanted: int) -> Iterator[tuple[int, str]]:
        """Number and complaint of each request; no complaint: it is done."""
        while wanted:
            for _, flags, number, body in self._receive():
                wanted -= 1
                yield number, _complaint(flags, body)

    def get(self, kind: int, body: bytes, what: str) -> bytes:
        """The one answer to a question."""
        self._send([(kind, 0, body)])
        ((answer, flags, _, body),) = self._receive()
        if answer == ERROR:
            raise Failure(f"{what}: {_complaint(flags, body)}")
        return body

    def family(self, name: str) -> int:
        """The number of a family of generic netlink: of requests to it."""
        asked = struct.pack("BBxx", GET_FAMILY, 1) + attribute(FAMILY_NAME, name.encode() + b"\0")
        (number,) = struct.unpack("H", attributes(self.get(CONTROL, asked, name)[4:])[FAMILY_ID])
        return number

    def segments(self, dev: str) -> tuple[int, int]:
        """Bytes of the largest that a device takes, and hands on."""
        link = attributes(self.get(GETLINK, _link(index_of(dev)), dev)[16:])
        gso, gro = (struct.unpack("I", link[kind])[0] for kind in (IFLA_GSO_MAX_SIZE, IFLA_GRO_MAX_SIZE))
        return gso, gro

    def queues(self) -> dict[int, list[Queue]]:
        """Those of each device, by its index."""
        queues: dict[int, list[Queue]] = {}
        self._send([(GETQDISC, DUMP, struct.pack("BxxxiIII", socket.AF_UNSPEC, 0, 0, 0, 0))])
        while True:
            for kind, flags, _, body in self._receive():
                if kind == ERROR or flags & INTERRUPTED:
                    raise Failure(f"queues: {_complaint(flags, body) if kind == ERROR else 'changed meanwhile'}")
                if kind == DONE:
                    return queues
                index, _, parent = struct.unpack_from("iII", body, 4)
                queues.setdefault(index, []).append(_queue(parent == ROOT, attributes(body[20:])))


def gred(options: bytes) -> float:
    """The probability of a GRED, in its first virtual queue: tc tells it with six digits."""
    return struct.unpack_from("I", attributes(options)[GRED_MAX_P])[0] / 2**32


def cake(options: bytes) -> dict[str, int | str]:
    """The options of a CAKE, by the names of the job."""
    values = attributes(options)
    (rate,) = struct.unpack("Q", values[CAKE_RATE])
    kinds = (CAKE_ATM, CAKE_FLOWS, CAKE_MPU, CAKE_FILTER)
    framing, isolation, mpu, filters = (struct.unpack("I", values[kind])[0] for kind in kinds)
    return {
        "rate_bps": 8 * rate,
        "ack_filter": filters > 0,
        "aggressive": filters > 1,
        "overhead": struct.unpack("i", values[CAKE_OVERHEAD])[0],
        "mpu": mpu,
        "framing": CAKE_FRAMINGS[framing],
        "isolation": CAKE_ISOLATIONS[isolation],
    }


def dualpi2(options: bytes) -> dict[str, int]:
    """The options of a DualPI2, by the names of the job."""
    values = attributes(options)
    return {key: struct.unpack(form, values[kind])[0] for key, (kind, form) in DUALPI2.items() if kind in values}


def netem(options: bytes) -> dict[str, float]:
    """The options of a netem: shares, times in us, and the odds of Gilbert's model that a burst begins and ends."""
    _, _, loss, gap, duplicate, _ = struct.unpack_from("6I", options)
    more = attributes(options[24:])
    (reorder,) = struct.unpack_from("I", more.get(NETEM_REORDER, bytes(4)))
    latency_ns, jitter_ns = (struct.unpack("q", more[kind])[0] for kind in (NETEM_LATENCY, NETEM_JITTER))
    begin, end = struct.unpack_from("II", attributes(more.get(NETEM_LOSS, b"")).get(LOSS_GILBERT_ELLIOT, bytes(8)))
    odds = {"loss": loss, "duplicate": duplicate, "reorder": reorder if gap == 1 else 0, "begin": begin, "end": end}
    shares = {key: value / 0xFFFFFFFF for key, value in odds.items()}
    return {**shares, "delay_us": latency_ns / 1000, "jitter_us": jitter_ns / 1000}


def slot_us(options: bytes) -> float:
    """Time between two groups of packets of a netem; 0: it has none."""
    least, most = struct.unpack_from("qq", attributes(options[24:]).get(NETEM_SLOT, bytes(16)))
    return least / 1000 if least == most else 0.0


def _complaint(flags: int, body: bytes) -> str:
    """An answer's complaint: the kernel's own words, or those of its number."""
    error = -struct.unpack_from("i", body)[0]
    if not error:
        return ""
    words = attributes(body[20:]).get(1, b"").rstrip(b"\0").decode(errors="replace") if flags & WITH_WORDS else ""
    return f"Error: {words}" if words else os.strerror(error)


def _queue(root: bool, values: dict[int, bytes]) -> Queue:
    stats = attributes(values.get(TCA_STATS2, b""))
    bytes_, packets = struct.unpack_from("QI", stats[1])
    qlen, backlog, drops = struct.unpack_from("III", stats[3])
    counters = {"bytes": bytes_, "packets": packets, "drops": drops, "backlog": backlog, "qlen": qlen}
    kind, own = values[TCA_KIND].rstrip(b"\0").decode(), stats.get(STATS_APP, b"")
    return Queue(kind, root, counters, values.get(TCA_OPTIONS, b""), own)
