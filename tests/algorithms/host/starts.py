# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
The two slow starts again, in floating point and without rings: RFC 9406, section 4.2, and SEARCH of
draft-chung-ccwg-search-09. Times in us, windows in packets, volumes in bytes.
"""

from dataclasses import dataclass, field
from math import ceil, inf


@dataclass
class Ack:
    """It acknowledges `packets`, and leaves `flight` of them; snd_nxt is what was sent before it came."""

    now: float
    packets: int
    rtt: float
    snd_una: int
    snd_nxt: int
    flight: int = 0


@dataclass
class HyStart:
    """RFC 9406, in its words and its order: first the window, then what the ACK tells. L is infinity."""

    cwnd: float
    snd_nxt: int
    mode: str = "slow start"
    last: float = inf
    current: float = inf
    samples: int = 0
    baseline: float = inf
    rounds: int = 0
    changes: int = 0
    window_end: int = field(init=False)

    def __post_init__(self):
        self.window_end = self.snd_nxt

    def ack(self, ack: Ack) -> None:
        if ack.snd_una > self.window_end:
            self.end_round(ack)
        if self.mode == "congestion avoidance":
            return
        self.cwnd += ack.packets / (1 if self.mode == "slow start" else 4)
        self.current = min(self.current, ack.rtt)
        self.samples += 1
        if self.samples >= 8 and self.mode == "CSS" and self.current < self.baseline:
            self.enter("slow start", inf)
        elif self.samples >= 8 and self.mode == "slow start" and inf not in (self.current, self.last):
            if self.current >= self.last + max(4000, min(self.last // 8, 16000)):
                self.enter("CSS", self.current)

    def enter(self, mode, baseline):
        self.mode, self.baseline, self.rounds = mode, baseline, 0
        self.changes += 1

    def end_round(self, ack):
        self.rounds += self.mode == "CSS"
        if self.rounds == 5:
            self.enter("congestion avoidance", inf)
        self.window_end, self.last, self.current, self.samples = ack.snd_nxt, self.current, inf, 0


@dataclass
class Search:
    """The draft's bins of all time, each its end's (delivered, sent) in bytes; then its drain."""

    cwnd: float
    mss: int
    bins: list = field(default_factory=list)
    bin_us: float = 0
    bin_end: float = 0
    target: int = 0
    arrived: int = 0
    mode: str = "slow start"
    changes: int = 0

    def ack(self, ack: Ack) -> None:
        if self.mode == "congestion avoidance":
            return
        if not self.target:
            self.look(ack)
        if self.target:
            self.drain(ack)
        else:
            self.cwnd += ack.packets

    def look(self, ack):
        if not self.bins:
            self.bin_us = 3.5 * ack.rtt / 10
            self.bin_end = ack.now + self.bin_us
            self.bins = [(ack.snd_una, ack.snd_nxt)]
            return
        if ack.now <= self.bin_end:
            return
        passed = int((ack.now - self.bin_end) // self.bin_us) + 1
        if passed > 10:
            self.bins = []
            return
        self.bins += [self.bins[-1]] * (passed - 1) + [(ack.snd_una, ack.snd_nxt)]
        self.bin_end += passed * self.bin_us
        curr = len(self.bins) - 1
        prev, fraction = curr - int(ack.rtt // self.bin_us), ack.rtt % self.bin_us / self.bin_us
        if prev <= 10 or curr - prev >= 15:
            return
        delivered = self.bins[curr][0] - self.bins[curr - 10][0]
        sent = self.sent(prev) * (1 - fraction) + self.sent(prev - 1) * fraction
        if sent and (sent - delivered) / sent >= 0.26:
            self.target = max((self.bins[curr][0] - self.bins[curr - ceil(10 / 3.5)][0]) // self.mss, 10)

    def sent(self, to):
        return self.bins[to][1] - self.bins[to - 10][1]

    def drain(self, ack):
        self.arrived += ack.packets
        left = max(ack.flight + self.arrived // 3, self.target)
        self.arrived %= 3
        self.cwnd = min(self.cwnd, left)
        if left == self.target:
            self.mode = "congestion avoidance"
