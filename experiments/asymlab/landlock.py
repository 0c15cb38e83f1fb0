# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A cage without namespaces (Landlock, from Linux 6.12 on): a process confines itself, and becomes the inmate.

    python3 -I -S landlock.py '{"read": [...], "run": [...], "write": [...], "filter": FD}' PROGRAM WORD...

It opens no file but those: `read` and `write` name files or folders, `run` programs. It signals and traces no process
but its own, binds and connects no TCP port, and has no capability. Sockets of other kinds are for the seccomp filter,
which comes by a file descriptor. It may learn whether a file is there, and its size. Numbers: linux/landlock.h,
linux/prctl.h, linux/capability.h.
"""

import ctypes
import json
import os
import signal
import stat
import struct
import sys

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION = 1  # flag: CREATE_RULESET tells what the kernel has
WANTED = 6  # the first that keeps signals in
RUN, WRITE, READ, READ_FOLDER, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
ALL_FILES, ALL_TCP, SCOPES = (1 << 16) - 1, (1 << 2) - 1, (1 << 2) - 1  # scopes: abstract sockets and signals
OF_FILES = RUN | WRITE | READ | TRUNCATE  # a file has no others
PATH_BENEATH = 1
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 24, 38, 2
CAPABILITIES, CAPSET, CAPABILITY_VERSION_3 = 64, 126, 0x20080522
INSTRUCTION = 8  # bytes of one of a filter

LIBC = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """The kernel's; 0 if it has none, or a filter refuses it."""
    return max(LIBC.syscall(CREATE_RULESET, None, 0, VERSION), 0)


def call(result: int, what: str) -> int:
    if result < 0:
        sys.exit(f"landlock: {what}: {os.strerror(ctypes.get_errno())}")
    return result


def allow(rules: int, place: str, access: int) -> None:
    fd = os.open(place, os.O_PATH | os.O_CLOEXEC)
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        access &= OF_FILES
    rule = struct.pack("=Qi", access, fd)
    call(LIBC.syscall(ADD_RULE, rules, PATH_BENEATH, rule, 0), place)
    os.close(fd)


def confine(read: list[str], run: list[str], write: list[str], filter: int) -> None:
    call(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    for capability in range(CAPABILITIES):  # else root gets them back with the program that it becomes
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    call(LIBC.syscall(CAPSET, struct.pack("=Ii", CAPABILITY_VERSION_3, 0), bytes(24)), "capabilities")
    attributes = struct.pack("=QQQ", ALL_FILES, ALL_TCP, SCOPES)
    rules = call(LIBC.syscall(CREATE_RULESET, attributes, len(attributes), 0), "rules")
    for places, access in ((read, READ | READ_FOLDER), (run, READ | RUN), (write, READ | WRITE | TRUNCATE)):
        for place in places:
            allow(rules, place, access)
    call(LIBC.syscall(RESTRICT_SELF, rules, 0), "restrict")
    os.close(rules)
    program = os.read(filter, 1 << 16)
    os.close(filter)
    steps = ctypes.create_string_buffer(program)
    head = struct.pack("@HP", len(program) // INSTRUCTION, ctypes.addressof(steps))
    call(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head, 0, 0), "filter")


if __name__ == "__main__":
    argv = sys.argv[2:]
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and by what it becomes
        signal.signal(ignored, signal.SIG_DFL)
    confine(**json.loads(sys.argv[1]))
    try:
        os.execv(argv[0], argv)
    except OSError as e:
        sys.exit(f"landlock: {argv[0]}: {e.strerror}")
