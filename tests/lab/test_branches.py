# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs with one beginning: `run.branch` of a scenario. tests/machine/test_rewind.py has their bytes."""

from __future__ import annotations

import re

import pytest

from asymlab import LabError
from asymlab.machine import image
from asymlab.plan import scenario
from asymlab.plan.branch import DRAW
from asymlab.run.tasks import plan_on_host
from tests.shared import asymlab, compile_job

LABEL = "6.12-uml"


def branched(scenario_file, **branch):
    return scenario_file(run={"duration": "3s", "branch": branch}, path={"forward": {"loss": "1%"}})


def test_each_draw_is_a_case(scenario_file):
    cases = scenario.load(branched(scenario_file, at="2s", draw=5, draws=3))
    assert [case.name for case in cases] == ["TEST 5", "TEST 6", "TEST 7"]
    assert [case.point for case in cases] == [{DRAW: 5}, {DRAW: 6}, {DRAW: 7}]
    assert [compile_job(case, 1)["branch"] for case in cases] == [{"at_s": 2.0, "draw": n} for n in (5, 6, 7)]


def test_one_draw_is_the_scenario_itself(scenario_file):
    (case,) = scenario.load(branched(scenario_file, at="1.234567s"))
    assert (case.name, case.point) == ("TEST", {}) and compile_job(case, 1)["branch"] == {"at_s": 1.234567, "draw": 1}


@pytest.mark.parametrize(
    "branch, said",
    [
        ({"at": "3s"}, "run: branch.at must come before duration"),
        ({}, "run.branch.at: is missing"),
        ({"at": "1s", "draw": 0}, "run.branch.draw: "),
        ({"at": "1s", "draws": 0}, "run.branch.draws: "),
        ({"at": "1s", "draws": 10**6}, "run.branch.draws: "),
        ({"at": "1s", "draw": 2**31 - 1, "draws": 2}, "run.branch.draw: "),
        ({"at": "1s", "draws": "many"}, "run.branch.draws: "),
    ],
)
def test_what_is_wrong_with_a_branch(scenario_file, branch, said):
    with pytest.raises(LabError, match=re.escape(said)) as e:
        scenario.load(branched(scenario_file, **branch))
    assert "\n" not in str(e.value)


def test_a_live_kernel_does_not_go_back(scenario_file):
    with pytest.raises(LabError, match="run.branch: takes --engine uml, whose kernel goes back"):
        plan_on_host(scenario.load(branched(scenario_file, at="1s")))


@pytest.mark.lab
@pytest.mark.skipif(not (image.IMAGES / LABEL / "manifest.json").exists(), reason="no image of the engine uml")
def test_the_command_tells_what_came_of_the_draws(scenario_file):
    file = branched(scenario_file, at="1s", draws=4)
    told = asymlab("run", file, "--engine", "uml").stderr
    cells = re.search(r"TEST seed 1 +retransmits +4 +(\S+) +(\d) .* (\S+) +(\d) *$", told, re.M)
    assert cells and f"--at {DRAW}=N makes one of them" in told
    for most, draw in (cells.group(1, 2), cells.group(3, 4)):
        alone = asymlab("run", file, "--engine", "uml", "--at", f"{DRAW}={draw}", "--no-pages").stderr
        assert re.search(rf"TEST {draw} seed 1 +0 +reno .* {most} *$", alone, re.M)
