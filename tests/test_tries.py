# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A live test that fails is tried again only if the kernel kept packets from our programs while it ran."""

from __future__ import annotations

import shutil
import subprocess
import sys

from shared import REPO

TESTS = """
import witness

class Kernel:
    hidden = 5
    def count(self):
        return Kernel.hidden

witness.watching = Kernel
tries = {}

def run(name, hides, good):
    Kernel.hidden += hides
    tries[name] = tries.get(name, 0) + 1
    assert tries[name] == good

def test_hidden():
    run("hidden", 3, 2)

def test_not_hidden():
    run("not hidden", 0, 2)

def test_hidden_once():
    run("hidden once", 0 if "hidden once" in tries else 1, 3)

def test_hidden_always():
    run("hidden always", 1, 4)
"""


def test_a_failure_in_which_nothing_was_left_out_is_a_failure(tmp_path):
    for file in ("conftest.py", "shared.py", "witness.py"):
        shutil.copy(REPO / "tests" / file, tmp_path)
    (tmp_path / "live").mkdir()
    (tmp_path / "live" / "test_it.py").write_text(TESTS)
    p = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-c",
            REPO / "pyproject.toml",
            "--rootdir",
            tmp_path,
            tmp_path,
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    told = [line.partition("::")[2] for line in p.stdout.splitlines() if line.startswith("tried again")]
    assert told == [
        "test_hidden: 3 packets that were handled without BPF",
        "test_hidden_once: 1 packets that were handled without BPF",
        *["test_hidden_always: 1 packets that were handled without BPF"] * 2,
    ]
    assert "3 failed, 1 passed, 4 rerun" in p.stdout
