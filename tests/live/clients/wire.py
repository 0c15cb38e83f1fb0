# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A wire with delay between two network namespaces, for kernels without netem.

    wire.py SECONDS NETNS DEVICE NETNS DEVICE

Both devices are TUN; what leaves by one arrives at the other, the same time later each way. Says `ready` once they are
there.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import fcntl
import os
import select
import struct
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 1, 0x1000, 0x40000000


def end(netns: str, device: str) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{netns}") as ns:
        if libc.setns(ns.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {netns}")
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
    return fd


def carry(delay: float, ends: tuple[int, int]) -> None:
    ways = [(ends[0], ends[1], collections.deque()), (ends[1], ends[0], collections.deque())]
    while True:
        due = min((held[0][0] for _, _, held in ways if held), default=None)
        select.select(ends, [], [], None if due is None else max(0.0, due - time.monotonic()))
        now = time.monotonic()
        for source, _, held in ways:
            with contextlib.suppress(BlockingIOError):
                while True:
                    held.append((now + delay, os.read(source, 65536)))
        for _, sink, held in ways:
            while held and held[0][0] <= now:
                os.write(sink, held.popleft()[1])


if __name__ == "__main__":
    # The wire does not wait for the machine's other work.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    both = end(*sys.argv[2:4]), end(*sys.argv[4:6])
    print("ready", flush=True)
    carry(float(sys.argv[1]), both)
