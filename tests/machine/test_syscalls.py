# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The system calls of what sits in a cage."""

from __future__ import annotations

import re
import subprocess

from asymlab import syscalls


def test_the_filter_names_each_call_by_its_number():
    calls = {name: number for of in syscalls.ALLOWED.values() for name, number in of.items()}
    text = subprocess.run(
        ["gcc", "-E", "-dM", "-include", "asm/unistd.h", "-"], input="", capture_output=True, text=True, check=True
    ).stdout
    known = {name: int(number) for name, number in re.findall(r"^#define __NR_(\w+) (\d+)$", text, re.M)}
    assert all(known.get(name, number) == number for name, number in (calls | syscalls.REFUSED).items())
    assert "signalfd4" in calls  # without it 7.3 does not boot
    assert not calls.keys() & {"socket", "connect", "bpf", "unshare", "setns", "mount", "io_uring_setup", "clone3"}
