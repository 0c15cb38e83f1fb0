# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A fault at some of the system calls of each command; `make faults` tries all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from harness import ROOT, needs_cgroup2, needs_clang, pytestmark  # noqa: F401


@needs_clang
@needs_cgroup2
@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_a_fault_at_any_step_leaves_all_or_nothing_or_what_unload_clears():
    done = subprocess.run(
        [sys.executable, "-m", "faults", "--points", "4"],
        text=True,
        capture_output=True,
        timeout=280,
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests" / "live")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "16 commands, 64 faults, 0 failures"
