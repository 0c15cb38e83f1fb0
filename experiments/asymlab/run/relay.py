# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The delays of links on a live host whose kernel has no netem: TAP devices, and this process between two and two.

Queues are the kernel's own. The process knows no loss, no jitter and no overtaking, and its clock is that of a process:
on a quiet machine a packet is late by some 0.05 ms at each link.

Its first line is a list of devices: namespace, name, MAC and MTU. Then each is a command: the number of a device, and
the delay in us of what leaves by it. It ends with its input.
"""

import contextlib
import fcntl
import json
import os
import select
import socket
import struct
import time
from collections import deque

from ..guest.net import join
from ..guest.system import LIBC

TUN = "/dev/net/tun"
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
SIOCSIFMTU, SIOCSIFHWADDR, SIOCSIFTXQLEN, ETHER = 0x8922, 0x8924, 0x8943, 1
PR_SET_TIMERSLACK = 29
ROOM = 10_000  # packets that wait for the process
BATCH = 64  # packets that it takes from a device at once
PACKET_MAX = 1 << 16


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
        self.source, self.sink, self.delay_ns = source, sink, 0
        self.waiting: deque[tuple[int, bytes]] = deque()  # due when, and the packet

    def take(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(BATCH):
                packet = os.read(self.source, PACKET_MAX)
                self.waiting.append((time.monotonic_ns() + self.delay_ns, packet))

    def give(self, now: int) -> None:
        while self.waiting and self.waiting[0][0] <= now:
            with contextlib.suppress(OSError):  # a device that is down takes none
                os.write(self.sink, self.waiting.popleft()[1])


def main() -> None:
    commands = open(0, "rb", buffering=0)
    try:
        fds = [tap(*end) for end in json.loads(commands.readline())]
    except OSError as e:
        return print(f"{e.filename or TUN}: {e.strerror}", flush=True)
    print("ready", flush=True)
    ways = {fd: Way(fd, fds[number ^ 1]) for number, fd in enumerate(fds)}
    LIBC.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    with contextlib.suppress(OSError):  # before what else runs
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
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
            number, delay_us = map(int, line.split())
            ways[fds[number]].delay_ns = delay_us * 1000
        now = time.monotonic_ns()
        for way in ways.values():
            way.give(now)


if __name__ == "__main__":
    main()
