# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`make soak` in small, on this machine's own kernel: afterwards there is as much in it as before."""

from __future__ import annotations

import signal
import sys

import pytest

from tests.live import soak
from tests.live.harness import ROOT, kernel_has, needs_cgroup2, program, run
from tests.live.harness import pytestmark as live
from tests.shared import wait_for

SOAK = [sys.executable, "-m", "tests.live.soak"]
CONTROLLERS = ["fast", "taichung", "formosa"]
pytestmark = [*live, needs_cgroup2]


@pytest.mark.parametrize(
    "what, count, names",
    [("acks", 100_000, ["taichung", "formosa"]), ("connections", 300, ["formosa"]), ("loads", 14, [])],
)
def test_nothing_is_left(what, count, names):
    assert "; flat; " in run(*SOAK, what, count, *names, cwd=ROOT).stdout


def test_a_run_that_was_ended_goes_on(tmp_path):
    """Loads from the number on that it had come to, connections with the next controller."""
    for what, count, names in (("loads", 30, CONTROLLERS), ("connections", 200, ["fast", "taichung"])):
        argv = [*SOAK, what, count, *names, "--resume", tmp_path / what]
        with program(*argv, cwd=ROOT) as p:
            if what == "loads":
                wait_for(lambda: any(kernel_has(f"s{p.pid}_{i}") for i in range(2, 30)))
            else:
                assert p.stdout.readline().startswith("connections fast: 200 in")
            p.send_signal(signal.SIGTERM)
            assert p.wait(60) and "; flat; " in (output := p.stdout.read()) or what != "loads"
        assert (tmp_path / what).exists()
        lines = run(*argv, cwd=ROOT).stdout.splitlines()
        assert len(lines) == 2 and lines[0].endswith("(before)") and all("; flat; " in line for line in lines)
        if what == "loads":
            assert (
                lines[0].startswith(output.strip()) and sum(int(line.split(": ")[1].split()[0]) for line in lines) == 30
            )
        assert not (tmp_path / what).exists()


def test_what_is_left_is_told():
    before = soak.Count({"prog 7": "a"}, {"TCP": 90, "kmalloc-64": 1000})
    assert soak.Count({"prog 7": "a"}, {"TCP": 589, "kmalloc-64": 1999}).more_than(before, 10_000) == []
    assert soak.Count({"prog 7": "a", "map 8": "b"}, {"TCP": 91, "kmalloc-64": 2001}).more_than(before, 10_000) == [
        "map 8 b",
        "kmalloc-64 +1001",
    ]
    many = soak.Count({"prog 7": "a"}, {"TCP": 90, "kmalloc-64": 9000})
    assert many.more_than(before, 28) == [] and many.more_than(before, 501) == ["kmalloc-64 +8000"]
