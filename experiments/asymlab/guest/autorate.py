# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A rival of `asymcc uplink`: the law of cake-autorate with the defaults that it documents (master of August 2026).

Six reflectors are pinged in turn. ICMP's timestamps tell one way, in whole milliseconds; without them an RTT counts
half, which is its default. Here one host answers for all of them, and downloads are not shaped.
"""

import contextlib
import itertools
import math
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator

from . import netlink
from .job import Autorate as Spec
from .job import Job
from .net import Namespaces
from .system import LIBC, Failure
from .traffic import PR_SET_TIMERSLACK, Worker

PINGERS, EACH_NS = 6, 50_000_000  # one ping each, so that a reflector has one each 300 ms
LOAD_EVERY = 4  # pings from one look at what is sent to the next
RISE_MOST_S, DELAYED_S, FALL_MOST_S = 0.01, 0.03, 0.06  # of delay beyond the baseline, and the time of a packet
FALLS, RISES = (0.99, 0.75), (1.0, 1.04)  # of the rate: the least and the most
TO_BASE = 0.99, 1.01  # from above and from below
REST_S, DECAY_S = 0.3, 1.0
DELAYED_LEAST = 3  # of the last six answers: then there is a queue
HIGH = 0.75  # of the rate: the load is high
BASELINE_S, SLOWER, FASTER = 0.1, 0.001, 0.9  # of the first answer, and how it follows longer and shorter ones
PACKET_BITS = 8 * 1500
ECHO, TIMESTAMP = (8, 0), (13, 14)  # types of ICMP: request and reply
DAY_MS = 86_400_000
IP_HEADER = 20
SEQUENCES = 1_000 * PINGERS  # those that are not answered yet are fewer by far


class Law:
    """The rate of CAKE, by what pings and the load tell. Times in s, rates in bit/s."""

    def __init__(self, base: float, least: float, most: float):
        self.rate = self.base = base
        self.least, self.most = least, most
        self.baselines = [BASELINE_S] * PINGERS
        self.last = deque([(0.0, False)] * PINGERS, PINGERS)  # delays beyond the baseline, and whether they are long
        self.load, self.fresh = 0.0, False
        self.fall_s = self.change_s = 0.0
        self.cause = "idle"

    def sent(self, rate: float) -> None:
        self.load, self.fresh = rate / self.rate, True

    def answer(self, now_s: float, pinger: int, way_s: float) -> None:
        baseline = self.baselines[pinger]
        baseline += (SLOWER if way_s >= baseline else FASTER) * (way_s - baseline)
        self.baselines[pinger] = baseline
        packet_s = PACKET_BITS / self.rate
        rise_most, delayed, fall_most = (s + packet_s for s in (RISE_MOST_S, DELAYED_S, FALL_MOST_S))
        self.last.append((way_s - baseline, way_s - baseline > delayed))
        mean = sum(delay for delay, _ in self.last) / PINGERS
        rests = now_s <= self.fall_s + REST_S
        if sum(is_long for _, is_long in self.last) >= DELAYED_LEAST:
            self.cause = "queue"
            if not rests:
                self.rate *= _between(FALLS, (mean - delayed) / (fall_most - delayed))
                self.fall_s = self.change_s = now_s
        elif self.load > HIGH:
            self.cause = "growth"
            if self.fresh and not rests:
                self.rate *= _between(RISES, (delayed - mean) / (delayed - rise_most))
                self.fresh, self.change_s = False, now_s
        else:
            self.cause = "idle"
            if now_s > self.change_s + DECAY_S:
                above, below = TO_BASE
                is_above = self.rate > self.base
                self.rate = max(self.base, self.rate * above) if is_above else min(self.base, self.rate * below)
                self.change_s = now_s
        self.rate = min(max(self.rate, self.least), self.most)


def _between(ends: tuple[float, float], share: float) -> float:
    least, most = ends
    return least + min(max(share, 0.0), 1.0) * (most - least)


class Pings:
    """ICMP between a router and a far host."""

    def __init__(self, spec: Spec):
        self.request, self.reply = TIMESTAMP if spec.one_way else ECHO
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.IPPROTO_ICMP)
        self.socket.bind((spec.addr, 0))
        self.socket.connect((spec.far, 0))
        self.left_ns = [0] * SEQUENCES  # when each has left; 0: it is answered

    def send(self, sequence: int) -> None:
        stamps = struct.pack("!III", time.time_ns() // 10**6 % DAY_MS, 0, 0)
        words = struct.unpack("!10H", struct.pack("!BBHHH", self.request, 0, 0, 0, sequence) + stamps)
        folded = sum(words) % 0xFFFF
        self.left_ns[sequence] = time.monotonic_ns()
        self.socket.send(struct.pack("!BBHHH", self.request, 0, 0xFFFF - folded, 0, sequence) + stamps)

    def answers(self) -> Iterator[tuple[int, float]]:
        """The reflector and the way of each answer that has come, s."""
        with contextlib.suppress(BlockingIOError):
            while True:
                data = self.socket.recv(200)[IP_HEADER:]
                kind, _, _, _, sequence = struct.unpack_from("!BBHHH", data)
                if kind != self.reply or sequence >= SEQUENCES or not self.left_ns[sequence]:
                    continue
                left_ms, came_ms = struct.unpack_from("!II", data, 8)
                rtt_s = (time.monotonic_ns() - self.left_ns[sequence]) / 1e9
                self.left_ns[sequence] = 0
                one_way = self.reply == TIMESTAMP[1]
                yield sequence % PINGERS, (came_ms - left_ms) % DAY_MS / 1e3 if one_way else rtt_s / 2


class Autorate:
    """The law on a router's CAKE, ahead of the modem that a hop's queue stands for."""

    def __init__(self, job: Job, ns: Namespaces, spec: Spec, log: str) -> None:
        (self.end,) = (end for end in job.ends if end.dev == spec.dev)
        self.ns, self.spec = ns, spec
        self.log = open(log, "w")
        with ns.enter(self.end.node):
            self.pings = Pings(spec)
        self.worker = Worker(self._follow)
        self.worker.start()

    def _sent_bytes(self) -> int:
        return next(queue.counters["bytes"] for queue in self.ns.queues([self.end])[self.end.dev] if queue.root)

    def _follow(self, worker: Worker) -> None:
        LIBC.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
        spec = self.spec
        law, told_kbit = Law(spec.base_bps, spec.least_bps, spec.most_bps), spec.base_bps // 1000
        due, before, sent = time.monotonic_ns(), 0, self._sent_bytes()
        for sequence in itertools.cycle(range(SEQUENCES)):
            now = time.monotonic_ns()
            if sequence % LOAD_EVERY == 0 and before:
                bytes_ = self._sent_bytes()
                law.sent(8e9 * (bytes_ - sent) / (now - before))
                sent = bytes_
            if sequence % LOAD_EVERY == 0:
                before = now
            self.pings.send(sequence)
            due += EACH_NS
            while (left := due - time.monotonic_ns()) > 0:
                worker.poll(self.pings.socket, select.POLLIN, math.ceil(left / 1e6))
                for pinger, way_s in self.pings.answers():
                    now = time.monotonic_ns()
                    law.answer(now / 1e9, pinger, way_s)
                    self.log.write(f"{now / 1e9:.3f} {law.rate:.0f} 0 {1e3 * law.last[-1][0]:.2f} {law.cause}\n")
                if (kbit := int(law.rate / 1000)) != told_kbit:
                    told_kbit = kbit
                    self.ns.tell(self.end.node, lambda: [netlink.set_cake_rate(self.end.dev, 1000 * kbit)])

    def check(self) -> None:
        if self.worker.over:
            raise Failure(f"cake-autorate's law ended: {self.worker.error}")

    def close(self) -> None:
        self.worker.close()
        self.pings.socket.close()
        self.log.close()
