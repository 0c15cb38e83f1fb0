# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ACC+SA's options, and a sender of packets to its receiver."""

import struct

from .formosa import ALL, SEG, Receiver
from .streams import MS

NAME = "accsa"
NEEDS_ECN = 6  # BPF_SOCK_OPS_...
FLAGS = T = 0x80
DATA, ANSWER = 12, 0  # bytes of the options of a sender, and of a receiver

HELLO = bytes.fromhex("fd04f0a3")
SENDER = {"synack": HELLO, "ecn_flags": 1}
RECEIVER = {"syn": HELLO, "ecn_flags": 1}


def data(una, marks=0, cwnd=1000, flags=0):
    return bytes.fromhex("fd0cf0a4") + struct.pack(">BBHI", flags, marks % 256, cwnd, una % 2**32)


def fields_of_data(text):
    """flags, marks, cwnd, una"""
    raw = bytes.fromhex(text)
    assert raw[:4] == bytes.fromhex("fd0cf0a4") and len(raw) == 12
    return struct.unpack(">BBHI", raw[4:])


WILD = [data(1, 3, flags=T), data(10**6, 1), data(1)[:1] + b"\x08" + data(1)[2:]]


def at_w(driver, cwnd, ssthresh=2, params=None, **keys):
    """A sender whose window is full."""
    driver.start(params, **SENDER, now=0, app=0)
    driver.poke(snd_cwnd=cwnd, snd_ssthresh=ssthresh, ca__w=cwnd, ca__cwnd=cwnd, **keys)
    return driver.send(app=ALL)


class Stream:
    """Packets by number to a receiver, each with an option; tells which of them were answered on the wire."""

    def __init__(self, driver, params=None, every=1, dk=None, **keys):
        self.receiver, self.now, self.driver = Receiver(driver, params, every, **RECEIVER | keys), 0, driver
        self.next, self.una, self.marks = 0, 1, 0
        if dk:
            self(1)
            driver.poke(wire__dk=dk, wire__round=10**9)

    def __call__(self, count=1, at=None, gap=MS, length=SEG, cwnd=1000, flags=0):
        """Packets from `at` on, or the next: the numbers of those that were answered."""
        answered = []
        for packet in range(self.next if at is None else at, (self.next if at is None else at) + count):
            self.now += gap
            option = data(self.una, self.marks, cwnd, flags)
            answered += [packet] * len(self.receiver.take(self.now, 1 + packet * SEG, option, length))
            self.next = max(self.next, packet + 1)
        return answered

    @property
    def dk(self):
        return self.driver.state()["wire"]["dk"]

    def round_trip(self, marks=0):
        """A packet whose sender has an ACK that was sent after the round trip began, and is told of marks."""
        self.una, self.marks = self.receiver.next, self.marks + marks
        self()
        self.una = self.receiver.next
        return self.dk


def quiet(driver, **keys):
    """A receiver that has answered lately, and its next ACK."""
    send = Stream(driver, every=10**6, dk=16, **keys)
    send(2)
    return send.receiver, send.now
