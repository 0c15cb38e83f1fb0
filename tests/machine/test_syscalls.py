# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The system calls of what sits in a cage."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from asymlab import syscalls
from asymlab.cage import confined
from tests.shared import CAGES


def test_the_filter_names_each_call_by_its_number():
    calls = {name: number for of in syscalls.ALLOWED.values() for name, number in of.items()}
    text = subprocess.run(
        ["gcc", "-E", "-dM", "-include", "asm/unistd.h", "-"], input="", capture_output=True, text=True, check=True
    ).stdout
    known = {name: int(number) for name, number in re.findall(r"^#define __NR_(\w+) (\d+)$", text, re.M)}
    assert all(known.get(name, number) == number for name, number in (calls | syscalls.REFUSED).items())
    assert "signalfd4" in calls  # without it 7.3 does not boot
    assert not calls.keys() & {"socket", "connect", "bpf", "unshare", "setns", "mount", "io_uring_setup", "clone3"}


@pytest.mark.skipif("landlock" not in CAGES, reason="no Landlock of 6.12 here")
@pytest.mark.parametrize("program", [syscalls.filter_program({}), syscalls.compiler_program()])
def test_an_inmate_limits_itself_and_no_other_process(program):
    code = "import resource, sys; resource.prlimit(int(sys.argv[1]), resource.RLIMIT_CPU, (9, 9))"
    with subprocess.Popen(["sleep", "60"]) as victim:
        for pid, word in ((0, ""), (victim.pid, "Operation not permitted")):
            calls = syscalls.filter_file(program)
            inside = [*confined([Path("/")], [Path("/")], [], calls), sys.executable, "-I", "-S", "-c", code, str(pid)]
            p = subprocess.run(inside, pass_fds=[calls], capture_output=True, text=True, timeout=60)
            os.close(calls)
            assert p.stderr.count("\n") == 3 * bool(word) and word in p.stderr, p.stderr
        assert resource.prlimit(victim.pid, resource.RLIMIT_CPU)[0] == resource.RLIM_INFINITY
        victim.kill()
