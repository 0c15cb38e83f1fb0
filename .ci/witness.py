# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A plugin of pytest for machines whose kernel keeps its init from tracers: .ci/run loads it.

Such a kernel handles a packet that comes while init is on a CPU without tracing and struct_ops programs, and cgroup
programs see it (docs/operating.md). So a program on the root cgroup counts those that come or leave while the current
process is 1. A live test that fails while this count rises runs again, twice at most, and the summary says so.
Elsewhere the plugin does nothing.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

LIBC = ctypes.CDLL(None, use_errno=True)
SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
MAP_CREATE, MAP_LOOKUP, PROG_LOAD, LINK_CREATE = 0, 1, 5, 28
ARRAY, CGROUP_SKB, INGRESS, EGRESS = 2, 8, 0, 1
GET_CURRENT_PID_TGID = 14


def insn(code: int, dst: int = 0, src: int = 0, off: int = 0, imm: int = 0) -> bytes:
    return struct.pack("<BBhi", code, src << 4 | dst, off, imm)


def program(map_fd: int) -> bytes:
    return b"".join(
        [
            insn(0x85, imm=GET_CURRENT_PID_TGID),  # r0 = tgid << 32 | pid
            insn(0x77, dst=0, imm=32),
            insn(0x55, dst=0, off=4, imm=1),  # not 1: out
            insn(0x18, dst=1, src=2, imm=map_fd),
            insn(0),  # r1 = &count
            insn(0xB7, dst=2, imm=1),
            insn(0xDB, dst=1, src=2),  # lock *r1 += r2
            insn(0xB7, dst=0, imm=1),  # let it pass
            insn(0x95),
        ]
    )


def bpf(command: int, attributes: bytes) -> int:
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"))
    result = LIBC.syscall(SYS_BPF, command, buffer, 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"bpf command {command}")
    return result


class Witness:
    """The links are this process's: with it they are gone."""

    def __init__(self, cgroup: str):
        self.map = bpf(MAP_CREATE, struct.pack("<IIII", ARRAY, 4, 8, 1))
        code, licence = ctypes.create_string_buffer(program(self.map)), ctypes.create_string_buffer(b"GPL")
        root = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY)
        self.links = []
        for attach in (INGRESS, EGRESS):
            prog = bpf(
                PROG_LOAD,
                struct.pack(
                    "<IIQQIIQII16sII",
                    CGROUP_SKB,
                    (len(code) - 1) // 8,
                    ctypes.addressof(code),
                    ctypes.addressof(licence),
                    0,
                    0,
                    0,
                    0,
                    0,
                    b"witness",
                    0,
                    attach,
                ),
            )
            self.links.append(bpf(LINK_CREATE, struct.pack("<IIII", prog, root, attach, 0)))
            os.close(prog)
        os.close(root)

    def count(self) -> int:
        key, value = ctypes.c_uint32(0), ctypes.c_uint64(0)
        bpf(MAP_LOOKUP, struct.pack("<IIQQQ", self.map, 0, ctypes.addressof(key), ctypes.addressof(value), 0))
        return value.value


@functools.cache
def watching() -> Witness | None:
    """On a kernel that keeps its init from tracers, what counts the packets that it handles without us."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    cgroup = next((m[1] for m in mounts if m[2] == "cgroup2"), None)
    return (
        Witness(cgroup)
        if cgroup and os.geteuid() == 0 and "init_private" in Path("/proc/kallsyms").read_text()
        else None
    )


def left_out() -> int:
    """Packets so far that no tracing and no struct_ops program was shown."""
    return there.count() if (there := watching()) else 0


# --- the plugin ----------------------------------------------------------------------------

TRIES = 3


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Instead of pytest's own, for live tests on such a kernel."""
    if Path(item.nodeid.partition("::")[0]).parent.name != "live" or not watching():
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for attempt in range(1, TRIES + 1):
        before = left_out()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        missed = left_out() - before
        if attempt == TRIES or not missed or not any(r.failed for r in reports):
            break
        again = f"tried again: {item.nodeid}: {missed} packets were handled without BPF"
        reports = []
        item.user_properties.append(("again", again))
        item._initrequest()  # fixtures anew
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter) -> None:
    said = {
        text
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, text in getattr(report, "user_properties", ())
        if name == "again"
    }
    for text in sorted(said):
        terminalreporter.write_line(text)
