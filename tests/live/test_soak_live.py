# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What `make soak` does, in small, on this machine's own kernel: afterwards there is as much in it as before."""

from __future__ import annotations

import sys

import pytest

import soak
from harness import ROOT, needs_cgroup2, run
from harness import pytestmark as live

pytestmark = [*live, needs_cgroup2]


@pytest.mark.parametrize(
    "what, count, names",
    [("acks", 100_000, ["taichung", "formosa"]), ("connections", 300, ["formosa"]), ("loads", 14, [])],
)
def test_nothing_is_left(what, count, names):
    assert "; flat; " in run(sys.executable, ROOT / "tests" / "live" / "soak.py", what, count, *names).stdout


def test_what_is_left_is_told():
    before = soak.Count({"prog 7": "a"}, {"TCP": 90, "kmalloc-64": 1000})
    assert soak.Count({"prog 7": "a"}, {"TCP": 589, "kmalloc-64": 1999}).more_than(before, 10_000) == []
    assert soak.Count({"prog 7": "a", "map 8": "b"}, {"TCP": 91, "kmalloc-64": 2001}).more_than(before, 10_000) == [
        "map 8 b",
        "kmalloc-64 +1001",
    ]
