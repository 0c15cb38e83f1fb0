# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Talks to router.c, which is `asymcc thin --dev` on the host; makes packets; and a model of what may be dropped."""

import ipaddress
import json
import os
import struct
import subprocess

from .driver import CFLAGS, HERE, OUT, TOP, run

FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = (1 << bit for bit in range(8))
NO_TAG = 0xFFFF
STAMPS = b"\x01\x01\x08\x0a"
HOST, SERVER = "192.0.2.7", "198.51.100.9"
HOST6, SERVER6 = "2001:db8::7", "2001:db8:1::9"


def build(name="router", fuzzes=False, top=TOP, out=OUT):
    """The program for this machine, with sanitizers; or for libFuzzer, too. `top` has the sources, or changed ones."""
    binary = out / name
    law = top.glob("loader/uses/uplink_law.*")
    sources = [HERE / f"{name}.c", HERE / "router.h", *HERE.glob("fake/**/*.h"), *top.glob("bpf/**/*.[ch]"), *law]
    if binary.exists() and all(s.stat().st_mtime < binary.stat().st_mtime for s in sources):
        return binary
    out.mkdir(parents=True, exist_ok=True)
    made = binary.with_name(f"{name}.{os.getpid()}")
    flags = [*CFLAGS, "-fsanitize=float-cast-overflow"]
    if not fuzzes:
        flags = [flag.replace("fuzzer,", "") for flag in flags if "coverage" not in flag and "profile" not in flag]
    run("clang", *flags, f"-I{HERE}/fake", f"-I{top}/bpf", f"-I{top}/loader", "-o", made, HERE / f"{name}.c", "-lm")
    made.replace(binary)
    return binary


class Router:
    """One device. Records wait until an answer is asked for."""

    def __init__(self):
        self.process = subprocess.Popen([build()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self):
        self.process.stdin.close()
        return self.process.wait()

    def packets(self, records):
        """[(leaves, time in us, packet, keys)]: did each pass? The pipes hold a thousand answers."""
        answers = []
        for start in range(0, len(records), 1000):
            part = records[start : start + 1000]
            self._do(b"".join(record(*r) for r in part) + b"F")
            answers += [answer == 0x31 for answer in self.process.stdout.read(len(part) + 1)[: len(part)]]
            assert len(answers) == start + len(part), "it died"
        return answers

    def leaves(self, now, packet, **keys):
        return self.packets([(True, now, packet, keys)])[0]

    def comes(self, now, packet, **keys):
        return self.packets([(False, now, packet, keys)])[0]

    def _do(self, raw):
        self.process.stdin.write(raw)
        self.process.stdin.flush()

    def begin(self, **params):
        """Everything anew, with these parameters beside the defaults."""
        self._do(b"N")
        assert self.process.stdout.read(1) == b"1"
        for name, value in {**DEFAULTS, **params}.items():
            self._do(struct.pack("<cQH", b"S", value % 2**64, len(name)) + name.encode())
            assert self.process.stdout.read(1) == b"1"

    def counters(self):
        self._do(b"C")
        counted = json.loads(self.process.stdout.readline())
        assert self.process.stdout.read(1) == b"1"
        return counted


DEFAULTS = {"thins": 1, "acks_per_rtt": 16, "least_per_rtt": 2, "waits_only": 1, "max_packets": 16, "reverse_kbit": 0}
DEFAULTS |= {"overhead": 0, "mpu": 0, "atm": 0, "ethernet": 1}


def record(leaves, now, packet, keys):
    tag, gso, own = keys.get("tag", NO_TAG), keys.get("gso", 0), keys.get("own", 0)
    return struct.pack("<cQHHBH", b"E" if leaves else b"I", now, tag, gso, own, len(packet)) + packet


def stamps(tsval, tsecr):
    return STAMPS + struct.pack(">II", tsval % 2**32, tsecr % 2**32)


def sack(*edges):
    return b"\x01\x01\x05" + bytes([2 + 4 * len(edges)]) + struct.pack(f">{len(edges)}I", *(e % 2**32 for e in edges))


def tcp(source, dest, seq, ack, flags=ACK, window=500, options=b"", payload=b"", accurate=0):
    words = (20 + len(options)) // 4
    head = struct.pack(">HHIIBBHHH", source, dest, seq % 2**32, ack % 2**32, words << 4 | accurate, flags, window, 0, 0)
    return head + options + payload


def ip(source, dest, segment, tos=0, fragment=0x4000, options=b"", protocol=6):
    """IPv4 or IPv6, by the addresses."""
    a, b = ipaddress.ip_address(source), ipaddress.ip_address(dest)
    if a.version == 4:
        words, length = (20 + len(options)) // 4, 20 + len(options) + len(segment)
        head = struct.pack(">BBHHHBBH", 4 << 4 | words, tos, length % 65536, 1, fragment, 64, protocol, 0)
        return head + a.packed + b.packed + options + segment
    return struct.pack(">IHBB", 6 << 28 | tos << 20, len(segment), protocol, 64) + a.packed + b.packed + segment


def frame(packet, vlans=(), session=None):
    """Ethernet, with tags, and PPPoE if there is a session."""
    proto = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    inner = packet
    if session is not None:
        inner = struct.pack(">BBHHH", 0x11, 0, session, len(packet) + 2, 0x57 if proto == 0x86DD else 0x21) + packet
        proto = 0x8864
    for tag in reversed(vlans):
        inner = struct.pack(">HH", tag, proto) + inner
        proto = 0x8100
    return bytes(12) + struct.pack(">H", proto) + inner


# --- the model: RFC 791, 8200, 9293, 2516, 802.1Q, with no word of the program ---------------------------------------


def inside(packet):
    """The IP packet of a frame; None: there is none."""
    kind, rest = packet[12:14], packet[14:]
    while kind in (b"\x81\x00", b"\x88\xa8") and len(rest) >= 4:
        kind, rest = rest[2:4], rest[4:]
    if kind == b"\x88\x64" and len(rest) >= 8 and rest[:2] == b"\x11\x00":
        kind, rest = {b"\x00\x21": b"\x08\x00", b"\x00\x57": b"\x86\xdd"}.get(rest[6:8]), rest[8:]
    versions = {b"\x08\x00": 4, b"\x86\xdd": 6}
    return rest if rest and kind in versions and rest[0] >> 4 in (4, 6) else None


def segment_of(packet):
    """The TCP segment of a frame that is whole, and no fragment."""
    at = inside(packet)
    if at is None:
        return None
    if at[0] >> 4 == 4:
        if len(at) < 20 or at[0] != 0x45 or at[9] != 6:
            return None
        length, fragment = struct.unpack(">HxxH", at[2:8])
        if fragment & 0x3FFF or length > len(at) or length < 40:
            return None
        return at[20:length]
    if len(at) < 40 or at[6] != 6:
        return None
    (length,) = struct.unpack(">H", at[4:6])
    return at[40 : 40 + length] if 20 <= length <= len(at) - 40 else None


def is_plain_ack(packet):
    """May it be dropped? No data, no flag but ACK and ECN's, no option but timestamps, SACK and AccECN's counters."""
    segment = segment_of(packet)
    if segment is None or len(segment) != (segment[12] >> 4) * 4 or len(segment) < 20:
        return False
    if segment[13] & (FIN | SYN | RST | PSH | ACK | URG) != ACK:
        return False
    at, end = 20, len(segment)
    while at < end:
        if segment[at] == 1:
            at += 1
            continue
        if segment[at] == 0:
            return not any(segment[at:])
        if at + 2 > end or segment[at + 1] < 2 or at + segment[at + 1] > end or segment[at] not in (5, 8, 172, 174):
            return False
        at += segment[at + 1]
    return True
