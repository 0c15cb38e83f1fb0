# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The lab on arm64: it repeats to the byte, and judges papers' claims as on the other architecture."""

from __future__ import annotations

import functools
import os

import pytest

from asymlab.machine import build, image
from asymlab.machine.arch import ARM64
from asymlab.plan import scenario
from asymlab.report import papers
from asymlab.report.judged import Judged, Results
from asymlab.run.execute import execute
from asymlab.run.tasks import plan_runs
from tests.arm64.small_guest import needs_arm64
from tests.shared import repeated

pytestmark = [pytest.mark.lab, needs_arm64]

KERNEL = "6.12-arm64"
# Files of papers, whose claims are judged from few runs; ARM64_LAWS names others.
LAWS = os.environ.get("ARM64_LAWS", "fusion/fig2 pseudorate/rise").split()


def test_the_same_bytes_on_a_loaded_machine(scenario_file):
    first, second, _ = repeated(scenario_file, KERNEL)
    assert first.record["executed"] == second.record["executed"]


def test_a_booted_machine_is_the_same_to_the_byte(tmp_path, monkeypatch):
    """And its clock is the faster one."""
    guest = image.open_image(KERNEL)
    for where in (build, image):
        monkeypatch.setattr(where, "IMAGES", tmp_path)
    build.build_image("6.12", label="again", say=lambda _: None, arch=ARM64)
    again = image.open_image("again")
    assert again.memory.read_bytes() == guest.memory.read_bytes() and again.hash == guest.hash
    assert again.clock_factor == 10 and again.arch is ARM64


@functools.cache
def verdicts(file: str, kernel: str) -> dict[str, Judged]:
    """The verdicts of one seed."""
    guest, (paper, name) = image.open_image(kernel), file.split("/")
    tasks = plan_runs(scenario.load(papers.folder(paper) / f"cases.toml:{name}", "full", (1,)), guest)
    done = execute(tasks, guest)
    results = Results(paper, [(task, done[task.key]) for task in tasks])
    return {v.id: v for v in papers.judged(paper, results) if v.verdict != "not measured"}


@pytest.mark.parametrize("file", LAWS)
def test_claims_are_judged_as_on_this_machine(file):
    here, there = verdicts(file, "6.12"), verdicts(file, KERNEL)
    assert here.keys() == there.keys() and here
    for id, one in here.items():
        print(f"{id}: {one.value:.4g}, on arm64 {there[id].value:.4g}: {there[id].verdict}")
    assert {id: v.verdict for id, v in here.items()} == {id: v.verdict for id, v in there.items()}
