# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The engine uml where a filter refuses some system calls of x86-64, as a container's does."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.machine.test_uml import CANARY, LABEL, needs_image
from tests.scenarios import FAST
from tests.shared import CAGES, REPO, asymlab, one_line, run

PERSONALITY, PTRACE = 135, 101
pytestmark = needs_image


@pytest.fixture
def refusing(tmp_path):
    """The command that others go behind."""
    subprocess.run(["cc", "-o", tmp_path / "refuse", REPO / "tests/machine/refuse.c"], check=True)
    return lambda number: [tmp_path / "refuse", str(number)]


def test_one_that_refuses_what_a_kernel_needs(refusing):
    """Its processes could not be traced."""
    r = asymlab("run", CANARY, "--engine", "uml", "--fresh", under=refusing(PTRACE))
    one_line(r, "this machine lets no kernel be a process (", "--engine qemu runs here")


@pytest.mark.lab
def test_one_that_refuses_fixed_addresses_changes_no_byte(refusing, scenario_file):
    """Docker's does."""
    file = scenario_file(FAST, flow={"count": 3}, forward={"loss": "1%"}, run={"duration": "4s"})
    known = [run(file, LABEL, seed).record["result_sha256"] for seed in (1, 2, 3)]
    for _ in range(2):
        words = "--engine uml --fresh --no-pages --jobs 1 --repeat 3".split()
        r = asymlab("run", file, *words, under=refusing(PERSONALITY))
        assert r.returncode == 0 and re.findall("result_sha256 ([0-9a-f]+)", r.stderr) == known, r.stderr
    r = asymlab("run", scenario_file(FAST, flow={"count": 900}), "--engine", "uml", under=refusing(PERSONALITY))
    one_line(r, "this container refuses fixed addresses (personality), which a guest of 17", "seccomp=unconfined")


MASKED = "--unshare-pid --proc /proc"  # parts of it are hidden, and the kernel allows no other that would show them
NO_NAMESPACES = "--unshare-user --disable-userns"


@pytest.mark.lab
@pytest.mark.skipif(len(CAGES) < 2, reason="two cages are needed")
@pytest.mark.parametrize("how", [MASKED, NO_NAMESPACES])
def test_one_where_bubblewrap_makes_no_cage_has_the_other(how):
    under = f"bwrap --bind / / --dev-bind /dev /dev {how}".split()
    r = asymlab("run", CANARY, "--engine", "uml", "--fresh", "--no-pages", under=under)
    assert r.returncode == 0 and run(CANARY, LABEL).record["result_sha256"] in r.stderr, r.stderr
