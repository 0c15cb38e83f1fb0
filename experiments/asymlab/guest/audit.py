# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The controllers in the kernel: what they leave behind, what it says meanwhile, what it refuses."""

import contextlib
import ctypes
import errno
import json
import os
import struct
import subprocess
import time

from .job import Refusals
from .system import LIBC, sh

LOG_WARNING = 4
BPF = {"x86_64": 321, "aarch64": 280}  # the system call
FD_BY_ID = {"prog": 13, "map": 14}  # its commands
HALF_OPEN_S = 40  # a SYN-ACK that nobody answers is repeated after 1, 3, 7, 15 and 31 s, and forgotten after 63
Objects = dict[tuple[str, int], str]  # (kind, id): name


def in_kernel() -> Objects:
    """The controllers' programs and registrations that the kernel has now."""
    kinds = {"prog": ("struct_ops", "sock_ops", "cgroup_skb"), "map": ("struct_ops",)}
    return {
        (kind, o["id"]): f"{kind} {o['id']} {o.get('name', '')}"
        for kind, types in kinds.items()
        for o in json.loads(sh("bpftool", "-j", kind, "show"))
        if o.get("type") in types
    }


def is_there(kind: str, number: int) -> bool:
    """Asked of the kernel itself: to start bpftool takes a guest 10 ms."""
    which = ctypes.create_string_buffer(struct.pack("III", number, 0, 0), 12)
    fd = LIBC.syscall(ctypes.c_long(BPF[os.uname().machine]), FD_BY_ID[kind], which, len(which))
    if fd >= 0:
        os.close(fd)
    elif ctypes.get_errno() != errno.ENOENT:
        raise OSError(ctypes.get_errno(), f"{kind} {number}: {os.strerror(ctypes.get_errno())}")
    return fd >= 0


def left_over(mine: Objects) -> list[str]:
    """Names of those of `mine` that the kernel still has; it frees a program some time after its last socket.

    A handshake that is under way holds its listener, even a closed one, and so the cgroup with its programs, until the
    SYN-ACK would be repeated.
    """
    end = time.monotonic() + HALF_OPEN_S
    while (left := [key for key in mine if is_there(*key)]) and time.monotonic() < end:
        time.sleep(0.5)
    return sorted(mine[key] for key in left)


class KernelLog:
    """The kernel's words from now on at the level of a warning or worse."""

    def __init__(self) -> None:
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def finish(self) -> list[str]:
        lines = []
        with contextlib.suppress(BlockingIOError):
            while True:
                head, _, text = os.read(self.fd, 8192).decode(errors="replace").partition(";")
                if int(head.split(",")[0]) & 7 <= LOG_WARNING:
                    lines.append(text.splitlines()[0])
        os.close(self.fd)
        return lines


class Audit:
    """From before the controllers are loaded until all is taken down."""

    def __init__(self) -> None:
        self.log = KernelLog()
        self.before = in_kernel()
        self.ours: Objects = {}

    def look(self) -> None:
        """Whatever came into the kernel since the begin is ours."""
        self.ours.update({key: name for key, name in in_kernel().items() if key not in self.before})

    def finish(self) -> dict:
        left = left_over(self.ours)
        return {"loaded": sorted(self.ours.values()), "left": left, "kernel_log": self.log.finish()}


def refusals(job: Refusals) -> dict[str, dict]:
    """The kernel shall refuse each command: its exit code, its words, and what is left of it then."""
    outcomes = {}
    for name, argv in job.refused.items():
        p = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=60)
        left = {key: what for key, what in in_kernel().items() if "refused" in what}
        outcomes[name] = {"code": p.returncode, "words": p.stdout + p.stderr, "left": left_over(left)}
    return outcomes
