# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The delays of links on a live host whose kernel has no netem: TAP devices, and this process between two and two.

Queues are the kernel's own. Chance draws loss and jitter for each packet, and no packet overtakes another. Its clock is
that of a process: on a quiet machine a packet is late by some 0.05 ms at each link.

Its first line is a list of devices: namespace, name, MAC and MTU. Then each is a command. One has the number of a
device, and of what leaves by it the delay and the jitter in us, and the share that is lost. The other, a word, asks how
late packets were since it was asked last. The process ends with its input.
"""

import contextlib
import fcntl
import json
import os
import random
import select
import socket
import struct
import time
from collections import Counter, deque

from ..guest.net import join
from ..guest.system import LIBC

TUN = "/dev/net/tun"
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
SIOCSIFMTU, SIOCSIFHWADDR, SIOCSIFTXQLEN, ETHER = 0x8922, 0x8924, 0x8943, 1
PR_SET_TIMERSLACK = 29
ROOM = 10_000  # packets that wait for the process
BATCH = 64  # packets that it takes from a device at once
PACKET_MAX = 1 << 16
LATE = "late"
COARSE_US = 10  # lateness is counted in steps of so much


def tap(namespace: str, dev: str, mac: str, mtu: int) -> int:
    """A new device in a namespace. It lives as long as the file is open."""
    with open(namespace, "rb") as at:
        join(at.fileno(), namespace)
    name = dev.encode()
    fd = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name, IFF_TAP | IFF_NO_PI))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, SIOCSIFHWADDR, struct.pack("16sH6s16x", name, ETHER, bytes.fromhex(mac.replace(":", ""))))
        fcntl.ioctl(s, SIOCSIFMTU, struct.pack("16si20x", name, mtu))
        fcntl.ioctl(s, SIOCSIFTXQLEN, struct.pack("16si20x", name, ROOM))
    return fd


class Way:
    """From one device to its peer."""

    def __init__(self, source: int, sink: int) -> None:
        self.source, self.sink = source, sink
        self.delay_ns = self.jitter_ns = 0
        self.loss = 0.0
        self.waiting: deque[tuple[int, bytes]] = deque()  # due when, and the packet

    def take(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(BATCH):
                packet = os.read(self.source, PACKET_MAX)
                due = time.monotonic_ns() + self.delay_ns
                if self.jitter_ns:
                    due += random.randint(-self.jitter_ns, self.jitter_ns)
                if not self.loss or random.random() >= self.loss:
                    self.waiting.append((due, packet))

    def give(self, now: int, late: Counter[int]) -> None:
        before = 0  # the packet ahead was due then
        while self.waiting and self.waiting[0][0] <= now:
            due, packet = self.waiting.popleft()
            before = max(before, due)
            late[(now - before) // (1000 * COARSE_US)] += 1
            with contextlib.suppress(OSError):  # a device that is down takes none
                os.write(self.sink, packet)


def lateness(late: Counter[int]) -> dict[str, int]:
    """How late packets leave, us. The process wakes as late for those that come in, and cannot see it."""
    count, passed = late.total(), 0
    told = {"packets": count, "mean_us": 0, "p99_us": 0, "max_us": 0}
    for step, packets in sorted(late.items()):
        us = (step + 1) * COARSE_US
        if passed < 0.99 * count:
            told["p99_us"] = us
        passed += packets
        told["mean_us"] += us * packets
        told["max_us"] = us
    return told | {"mean_us": told["mean_us"] // max(count, 1)}


def main() -> None:
    commands = open(0, "rb", buffering=0)
    try:
        fds = [tap(*end) for end in json.loads(commands.readline())]
    except OSError as e:
        return print(f"{e.filename or TUN}: {e.strerror}", flush=True)
    print("ready", flush=True)
    ways = {fd: Way(fd, fds[number ^ 1]) for number, fd in enumerate(fds)}
    LIBC.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    with contextlib.suppress(OSError):  # before what else runs, those that started it too
        above = os.sched_param(os.sched_getparam(0).sched_priority + 1)
        os.sched_setscheduler(0, os.SCHED_FIFO, above)
    late: Counter[int] = Counter()
    while True:
        due = min((way.waiting[0][0] for way in ways.values() if way.waiting), default=None)
        pause = None if due is None else max(0, due - time.monotonic_ns()) / 1e9
        ready, _, _ = select.select([0, *fds], [], [], pause)
        for fd in ready:
            if fd:
                ways[fd].take()
                continue
            if not (line := commands.readline()):
                return None
            if line.strip() == LATE.encode():
                print(json.dumps(lateness(late)), flush=True)
                late.clear()
                continue
            number, delay_us, jitter_us, loss = line.split()
            way = ways[fds[int(number)]]
            way.delay_ns, way.jitter_ns, way.loss = int(delay_us) * 1000, int(jitter_us) * 1000, float(loss)
        now = time.monotonic_ns()
        for way in ways.values():
            way.give(now, late)


if __name__ == "__main__":
    main()
