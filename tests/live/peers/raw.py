# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""TCP ends without a kernel: what comes to their addresses arrives here by a device, and they answer as they like.

A guest of the lab imports it as well, whose standard library has few modules.
"""

import fcntl
import os
import socket
import struct
import subprocess

DEVICE = "peer"
OURS = {socket.AF_INET: "10.77.0.2", socket.AF_INET6: "fd77::2"}  # no kernel listens there: nothing sends RST
KERNEL = {socket.AF_INET: "10.77.0.1", socket.AF_INET6: "fd77::1"}
MTU = 1500

TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 1, 0x1000, 0x4000
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING, ETH_P_ALL, SO_RCVBUFFORCE = 263, 15, 23, 3, 33
CSUM, TSO4, TSO6 = 1, 2, 4  # long segments come in one piece, their checksums not yet filled in
VNET = struct.Struct("=BBHHHH")

FIN, SYN, RST, PSH, ACK, URG, ECE, CWR, AE = (1 << i for i in range(9))
ACE = AE | CWR | ECE
NOT_ECT, ECT1, ECT0, CE = range(4)
HANDSHAKE = {NOT_ECT: 2, ECT1: 3, ECT0: 4, CE: 6}  # RFC 9768, 3.1: the first ACE tells of the SYN-ACK's ECN field
ACCECN1, ACCECN_BYTES, OPTIONS_MAX = 174, 11, 40
M32 = 0xFFFFFFFF

PERIOD = 65521  # prime: bytes out of place are bytes wrong
PATTERN = b"".join((i * 2654435761 & M32).to_bytes(4, "big") for i in range(PERIOD))[:PERIOD]
TWICE = PATTERN * 5


def stream(offset: int, n: int) -> bytes:
    """The bytes that are sent from this offset on, at most 256 KiB of them."""
    start = offset % PERIOD
    return TWICE[start : start + n]


def less(a: int, b: int) -> bool:
    return 0 < (b - a & M32) < 0x80000000


class Random:
    """Draws that are the same from the same name. Guests have no module for it."""

    def __init__(self, name: str) -> None:
        self.state = int.from_bytes(name.encode(), "big")

    def below(self, n: int) -> int:
        """n: 2^31 at most."""
        self.state = self.state * 0x5851F42D4C957F2D + 0x14057B7EF767814F & (1 << 64) - 1
        return (self.state >> 33) * n >> 31


def signed(n: int) -> int:
    return (n + 0x80000000 & M32) - 0x80000000


def sum16(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - ((total & 0xFFFF) + (total >> 16))


def ip_header(family: int, source: bytes, target: bytes, length: int, ecn: int = 0) -> bytes:
    """The header before a TCP segment of this length."""
    if family == socket.AF_INET6:
        return struct.pack("!IHBB", 6 << 28 | ecn << 20, length, 6, 64) + source + target
    plain = struct.pack("!BBHHHBBH", 0x45, ecn, 20 + length, 0, 0x4000, 64, 6, 0) + source + target
    return plain[:10] + sum16(plain).to_bytes(2, "big") + plain[12:]


def tcp_header(source: int, target: int, seq: int, ack: int, flags: int, window: int, options: bytes) -> bytes:
    """Without its checksum. `options` fill whole words."""
    size = (20 + len(options)) << 2 | flags >> 8
    return struct.pack("!HHIIBBHHH", source, target, seq & M32, ack & M32, size, flags & 0xFF, window, 0, 0) + options


def segment_in(data: bytes, ip: int = 0) -> tuple[int, int, int] | None:
    """The start and the end of the TCP segment in the IP packet that begins there, and its ECN field."""
    if data[ip] >> 4 == 4:
        start, end = ip + 4 * (data[ip] & 15), ip + int.from_bytes(data[ip + 2 : ip + 4], "big")
        return (start, end, data[ip + 1] & CE) if data[ip + 9] == 6 else None
    end = ip + 40 + int.from_bytes(data[ip + 4 : ip + 6], "big")
    return (ip + 40, end, data[ip + 1] >> 4 & CE) if data[ip + 6] == 6 else None


class Device:
    """A device of this process's namespace. `fd` takes and gives packets, each with a header of VNET before it."""

    frames = {socket.AF_INET: b"", socket.AF_INET6: b""}  # of the link, before an IP packet
    fd: int

    def __init__(self) -> None:
        self.ends: dict[int, End] = {}  # by port
        self.sent = self.received = 0
        self.link = len(self.frames[socket.AF_INET])

    @staticmethod
    def ip(*commands: str) -> None:
        for words in commands:
            subprocess.run(["ip", *words.split()], check=True, timeout=10)

    def up(self) -> None:
        self.ip(
            "link set lo up",
            f"link set {DEVICE} mtu {MTU} up",
            f"addr add {KERNEL[socket.AF_INET]}/24 dev {DEVICE}",
            f"addr add {KERNEL[socket.AF_INET6]}/64 dev {DEVICE} nodad",
        )

    def write(self, packet: bytes) -> None:
        self.sent += 1
        os.write(self.fd, packet)

    def drain(self) -> int:
        """All that the kernel has sent, to whom it is for."""
        count = 0
        while True:
            try:
                data = os.read(self.fd, 70000)
            except BlockingIOError:
                self.received += count
                return count
            count += 1
            place = segment_in(data, VNET.size + self.link)
            if place and (one := self.ends.get(int.from_bytes(data[place[0] + 2 : place[0] + 4], "big"))):
                one.take(data, *place)


class Tun(Device):
    def __init__(self) -> None:
        super().__init__()
        self.fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(self.fd, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI | IFF_VNET_HDR))
        fcntl.ioctl(self.fd, TUNSETOFFLOAD, CSUM | TSO4 | TSO6)
        self.ip(f"link set {DEVICE} txqueuelen 60000")
        self.up()


class Veth(Device):
    """For kernels without TUN: the other end of a pair of devices, which no stack looks at."""

    OWN, NOBODY = "02:00:00:00:00:01", "02:00:00:00:00:02"
    BOTH = bytes.fromhex((OWN + NOBODY).replace(":", ""))
    frames = {socket.AF_INET: BOTH + b"\x08\x00", socket.AF_INET6: BOTH + b"\x86\xdd"}

    def __init__(self) -> None:
        super().__init__()
        self.ip(f"link add {DEVICE} address {self.OWN} type veth peer name wire", "link set wire up")
        self.up()
        self.ip(*(f"neigh add {address} lladdr {self.NOBODY} dev {DEVICE}" for address in OURS.values()))
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(ETH_P_ALL))
        self.socket.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
        self.socket.bind(("wire", 0))
        self.fd = self.socket.fileno()


class End:
    """A peer's end of one connection that the kernel accepts: it asks, it is sent PATTERN, and it acknowledges as its
    attack will have it."""

    def __init__(
        self,
        tun: Device,
        family: int,
        port: int,
        to: int,
        mss: int = 1400,
        window: int = 1 << 20,
        stamps: bool = True,
        sack: bool = True,
        ecn: bool = False,
        accurate: bool = False,
    ) -> None:
        self.tun, self.family, self.port, self.to = tun, family, port, to
        self.mss, self.window, self.stamps, self.sack, self.ecn = mss, window, stamps, sack, ecn
        self.accurate = accurate  # it asks for AccECN (RFC 9768), and tells what it has got by `tell`
        self.packets_ce, self.bytes_of = 5, {NOT_ECT: 0, ECT1: 1, ECT0: 1, CE: 0}
        self.tell = self.as_it_is
        self.seq = port * 1000003 + 1 & M32
        self.first = self.next = self.high = 0  # of the kernel's bytes: the first, the next expected, the last seen
        self.early: dict[int, int] = {}  # what came before its time: start to end
        self.open = self.closed = self.wrong = False
        self.segments = 0
        self.clock = 1  # our TSval
        self.tsval = 0  # the kernel's last
        source, target = (socket.inet_pton(family, a[family]) for a in (OURS, KERNEL))
        link = tun.frames[family]
        before = VNET.pack(1, 0, 0, 0, len(link) + (20 if family == socket.AF_INET else 40), 16) + link
        self.head = lambda length: before + ip_header(family, source, target, length)
        self.heads: dict[int, bytes] = {}
        tun.ends[port] = self
        self.call()

    def call(self) -> None:
        options = (
            struct.pack("!BBH", 2, 4, self.mss) + b"\x01\x03\x03\x07" + (b"\x01\x01\x04\x02" if self.sack else b"")
        )
        asks = ACE if self.accurate else ECE | CWR if self.ecn else 0
        self.send(SYN | asks, seq=self.port * 1000003, ack=0, window=65535, options=options)

    def send(
        self,
        flags: int = ACK,
        ack: int | None = None,
        seq: int | None = None,
        window: int | None = None,
        options: bytes = b"",
        tsecr: int | None = None,
        payload: bytes = b"",
    ) -> None:
        if self.stamps:
            options = (
                struct.pack("!BBBBII", 1, 1, 8, 10, self.clock & M32, (self.tsval if tsecr is None else tsecr) & M32)
                + options
            )
        if self.accurate and not flags & SYN:
            ace, *counted = self.tell()
            flags = flags & ~ACE | (ace & 4 and AE) | (ace & 2 and CWR) | (ace & 1 and ECE)
            if counted and len(options) + ACCECN_BYTES < OPTIONS_MAX:
                options += bytes((ACCECN1, ACCECN_BYTES)) + b"".join((n & 0xFFFFFF).to_bytes(3, "big") for n in counted)
        options += b"\x01" * (-len(options) % 4)
        length = 20 + len(options) + len(payload)
        head = self.heads.get(length) or self.heads.setdefault(length, self.head(length))
        shown = (self.window if window is None else window) >> (0 if flags & SYN else 7)
        seq, ack = self.seq if seq is None else seq, self.next if ack is None else ack
        tcp = tcp_header(self.port, self.to, seq, ack, flags, min(shown, 65535), options)
        self.tun.write(head + tcp + payload)

    def as_it_is(self) -> tuple[int, ...]:
        """ACE, and bytes that came as ECT(1), marked, and as ECT(0)."""
        return self.packets_ce, self.bytes_of[ECT1], self.bytes_of[CE], self.bytes_of[ECT0]

    def sacks(self, *blocks: tuple[int, int]) -> bytes:
        return b"".join(
            [b"\x01\x01\x05", bytes([2 + 8 * len(blocks)]), *(struct.pack("!II", a & M32, b & M32) for a, b in blocks)]
        )

    def take(self, data: bytes, tcp: int, end: int, ecn: int) -> None:
        (seq,) = struct.unpack_from("!I", data, tcp + 4)
        flags, begin = data[tcp + 13], tcp + 4 * (data[tcp + 12] >> 4)
        at = tcp + 20
        while self.stamps and at < begin and data[at]:
            if data[at] == 8:
                (self.tsval,) = struct.unpack_from("!I", data, at + 2)
            at += 1 if data[at] == 1 else max(data[at + 1], 2)
        if flags & RST:
            self.closed = True
        elif flags & SYN:
            self.first = self.next = self.high = seq + 1 & M32
            self.open = True
            tell, self.tell = self.tell, lambda: (HANDSHAKE[ecn],)
            self.send()
            self.tell = tell
        elif end > begin:
            self.segments += 1
            n = end - begin
            self.bytes_of[ecn] += n
            if ecn == CE:
                self.packets_ce += -(-n // self.mss)
            self.wrong |= data[begin:end] != stream(seq - self.first & M32, n)  # a few MB: no wrap
            last = seq + n & M32
            if less(self.high, last):
                self.high = last
            self.early[seq] = max(self.early.get(seq, 0), n)
            while n := self.early.pop(self.next, 0):
                self.next = self.next + n & M32
            for start in [s for s in self.early if less(s, self.next)]:
                n = self.early.pop(start)
                if less(self.next, start + n & M32):
                    self.next = start + n & M32

    @property
    def arrived(self) -> int:
        """In order."""
        return self.next - self.first & M32
