# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Formosa's options, and a receiver around a driver."""

import struct

from .driver import line
from .streams import MS

SEG = 960
NAME = "formosa"
A, T, P, F = 0x80, 0x40, 0x20, 0x10
FLAGS = A | T | P
DATA, ANSWER = 12, 8  # bytes of the options of a sender, and of a receiver
CALL = {
    "syn": 1,
    "connect": 3,
    "active": 4,
    "passive": 5,
    "listen": 11,
}  # BPF_SOCK_OPS_..._CB; syn: TIMEOUT_INIT, before a SYN leaves
WRITE, PARSE = 0x40, 0x20  # ..._HDR_OPT_CB_FLAG
CURRENT_MSS, COOKIE = 1, 2  # BPF_WRITE_HDR_TCP_...
FIN, SYN, RST, PSH, ACK, ECE = 1, 2, 4, 8, 16, 64

HELLO = bytes.fromhex("fd04f0a0")
RECEIVER = {"syn": HELLO}


def data(number, flags=0, srtt_us=40_000, stamp=0):
    return bytes.fromhex("fd0cf0a1") + struct.pack(">BBHI", flags, number % 256, srtt_us // 64, stamp % 2**32)


def answer(number, signal=0, flags=0, queue_us=0):
    return bytes.fromhex("fd08f0a2") + struct.pack(">BBH", flags | signal % 16, number % 256, queue_us // 64)


WILD = [data(1, A), data(9, P | T), data(9) + answer(1, 3), b"\xfd\x06\xf0\xa1" + bytes(4)]


def fields_of_data(raw):
    """flags, round, srtt in 64 us, stamp"""
    assert raw[:4] == bytes.fromhex("fd0cf0a1") and len(raw) >= 12
    return struct.unpack(">BBHI", raw[4:12])


def fields_of_answer(raw):
    """flags and signal, round, queue in 64 us"""
    assert raw[:4] == bytes.fromhex("fd08f0a2") and len(raw) == 8
    return struct.unpack(">BBH", raw[4:8])


def ip_packet(ack, flags=ACK, options=b"", payload=b"", version=4, seq=1):
    tcp = (
        struct.pack(">HHIIBBHHH", 80, 9, seq % 2**32, ack % 2**32, (20 + len(options)) // 4 << 4, flags, 500, 0, 0)
        + options
        + payload
    )
    if version == 4:
        return b"\x45\x00" + struct.pack(">H", 20 + len(tcp)) + bytes(5) + b"\x06" + bytes(10) + tcp
    return b"\x60" + bytes(3) + struct.pack(">HB", len(tcp), 6) + bytes(33) + tcp


def signed(value, bits=64):
    return value - (1 << bits) if value >> (bits - 1) else value


class Receiver:
    """The kernel's receiving half: what is in order, what waits, when it would send an ACK."""

    def __init__(self, driver, params=None, every=2, first=1, **keys):
        """An ACK at least for each `every` packets that come in order."""
        self.driver, self.every = driver, every
        self.next, self.blocks, self.unacked = first, [], 0
        driver.start(params, **{"syn": HELLO, "other": 1, "app": 0, "rcv_nxt": first, "rcv_wup": first} | keys)

    def queue(self, seq, length):
        """True if the data is new and in order."""
        end = seq + length
        if seq > self.next:
            touching = [b for b in self.blocks if b[0] <= end and seq <= b[1]]
            self.blocks = [b for b in self.blocks if b not in touching]
            self.blocks.insert(0, (min([seq, *(b[0] for b in touching)]), max([end, *(b[1] for b in touching)])))
            return False
        in_order, self.next = end > self.next and not self.blocks, max(self.next, end)
        for block in sorted(self.blocks):
            if block[0] <= self.next:
                self.next = max(self.next, block[1])
                self.blocks.remove(block)
        return in_order

    def take(self, now, seq, options, length=SEG):
        """A segment comes. The ACKs that go on the wire: number, SACK blocks, option."""
        keys = {"now": now, "rcv_nxt": self.next, "seq": seq, "len": length}
        _, event, state = self.driver.batch([line("read", options=options, **keys), line("ack", n=0), "state"])
        number, passed, option = event.get("ack", (0, 0, ""))
        acks = [(number, self.blocks[:3], bytes.fromhex(option))] * passed
        self.unacked += 1
        again = seq + length <= self.next
        if self.queue(seq, length) and not state["tp"]["pending"] & 16 and self.unacked < self.every:
            return acks
        return acks + self.acknowledge(now, again=(seq, seq + length) if again else None)

    def acknowledge(self, now, again=None, **keys):
        """The kernel sends an ACK, which may be dropped. `again`: data that was here already (RFC 2883)."""
        blocks, self.unacked = ([again] if again else []) + self.blocks[: 2 if again else 3], 0
        sack = (
            b"\x01\x01\x05" + bytes([2 + 8 * len(blocks)]) + b"".join(struct.pack(">II", *b) for b in blocks)
            if blocks
            else b""
        )
        room = 28 - len(sack)
        packet = ip_packet(self.next, options=b"\x01\x01\x08\x0a" + bytes(8) + sack)
        keys = {"now": now, "rcv_nxt": self.next, "rcv_wup": self.next, "pending": 0} | keys
        done = self.driver.batch([line("poke", **keys), line("write", len=0, room=room), line("egress", packet=packet)])
        return [(self.next, self.blocks[:3], bytes.fromhex(done[1]["options"]))] * done[2]["pass"]


ALL = 2**32 - 1
NO_SSTHRESH = 2**31 - 1
SECOND = 10**6
OPEN, DISORDER, CWR, RECOVERY, LOSS = range(5)


def end_round(sender, signal=None, number=None, rtt=40 * MS, queue_us=0, **keys):
    """The receiver answers the first packet of the round: all up to it is acknowledged. W after it."""
    ca, tp, wire = (sender.state()[part] for part in ("ca", "tp", "wire"))
    n = (ca["round_end"] - tp["snd_una"]) % 2**32 // SEG + 1
    now = tp["now"] + rtt
    signal = wire["signal_seen"] if signal is None else signal
    sender.read(
        options=answer(wire["round"] if number is None else number, signal, F, queue_us),
        ack=(tp["snd_una"] + n * SEG) % 2**32,
        now=now,
    )
    sender.ack(n=n, rtt=rtt, **keys)
    return sender.state()["ca"]["w"]


def at_w(sender, w, params=None, ssthresh=None, **keys):
    """A sender amid a transfer with this W, its first packet of the round answered."""
    sender.start(params, synack=HELLO, app=0, now=0, **keys)
    sender.poke(ca__w=w, ca__w_last=w, ca__ssthresh=ssthresh or w, snd_cwnd=w, ca__cwnd=w, wire__budget=w)
    sender.send(app=ALL)
    snd_wnd = sender.state()["tp"]["snd_wnd"]
    sender.poke(snd_wnd=0)  # no growth by this round of one packet
    end_round(sender)
    sender.poke(ca__w=w, ca__w_last=w, wire__budget=w, snd_wnd=snd_wnd)


def room(driver, **keys):
    return driver.write(mode=CURRENT_MSS, **keys)["reserved"]


class Stream:
    """Packets by number to a receiver; tells which of them were answered on the wire."""

    def __init__(self, driver, params=None, every=1, **keys):
        self.receiver, self.now, self.driver = Receiver(driver, params, every, **keys), 0, driver

    def __call__(self, *packets, number=1, flags=0, gap=MS):
        answered = []
        for packet in packets:
            self.now += gap
            acks = self.receiver.take(self.now, 1 + packet * SEG, data(number, flags, stamp=self.now))
            answered += [packet] * len(acks)
        return answered


def quiet(driver, **keys):
    """A receiver that has just answered, and its next ACK."""
    send = Stream(driver, every=10**6, **keys)
    send(0, 1, 2)
    return send.receiver, 3 * MS


def passes(driver, *args, **keys):
    owned = keys.pop("owned", 1)
    return driver.egress(packet=ip_packet(*args, **keys), owned=owned)["pass"]
