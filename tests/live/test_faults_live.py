# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A fault at some of the system calls of each command; `make faults` tries all."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.live.faults import CGROUP, COMMANDS, FOLDER
from tests.live.harness import CGROUP2, ROOT, needs_cgroup2, pytestmark  # noqa: F401
from tests.shared import wait_for


def leavings(run: int) -> list[Path]:
    return [*Path(CGROUP2[0]).glob(f"{CGROUP}{run}"), *Path(tempfile.gettempdir()).glob(f"{FOLDER}{run}-*")]


@needs_cgroup2
@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_run_that_was_ended_leaves_nothing_and_goes_on(sig, tmp_path):
    """It has what it had found. The next one removes what a killed one leaves."""
    file = tmp_path / "faults.json"
    argv = [sys.executable, "-m", "tests.live.faults", "--command", "doctor", "--points", "20", "--resume", str(file)]
    with subprocess.Popen(argv, cwd=ROOT) as p:
        wait_for(lambda: file.exists() and "doctor" in file.read_text())
        p.send_signal(sig)
    assert len(leavings(p.pid)) == 2 * (sig == signal.SIGKILL)
    content = json.loads(file.read_text())
    (tried, _, wrong, complete) = content["done"]["doctor"]
    assert tried < 20 and wrong == 0 and not complete
    content["done"]["doctor"][2] = 7
    file.write_text(json.dumps(content))
    done = subprocess.run(argv, text=True, capture_output=True, timeout=120, cwd=ROOT)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "1 commands, 20 faults, 7 failures" and not file.exists()
    assert not leavings(p.pid)


@needs_cgroup2
@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_a_fault_at_any_step_leaves_all_or_nothing_or_what_unload_clears():
    done = subprocess.run(
        [sys.executable, "-m", "tests.live.faults", "--points", "4"],
        text=True,
        capture_output=True,
        timeout=280,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{len(COMMANDS)} commands, {4 * len(COMMANDS)} faults, 0 failures"
