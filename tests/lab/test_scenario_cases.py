# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A file of several cases: each is a scenario, over what the file has for all, or over another case."""

from __future__ import annotations

import pytest

from asymlab import LabError
from asymlab.plan import base, scenario
from asymlab.run.tasks import Task
from tests.shared import asymlab

CASES = """\
profile = "ns2"
path.mtu = 1000
path.reverse = { rate = "1mbit", delay = "20ms", queue = 100 }

[cases.slow]
title = "Slow"
id = "SLOW"
path.forward = { rate = "1mbit", delay = "20ms", queue = 100 }
run.duration = "3s"

[[cases.slow.flows]]
controller = "reno"

[cases.fast]
base = "slow"
title = "Fast"
id = "FAST"
path.forward.rate = "10mbit"

[cases.again]
base = "fast"
without = ["path.mtu"]
title = "Fast, larger packets"
id = "AGAIN"
sweep."flows.controller" = ["reno", "cubic"]
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "cases.toml").write_text(CASES)
    return tmp_path / "cases.toml"


def of(file, case: str):
    return scenario.load(file.with_name(f"{file.name}:{case}"))


def test_a_case_begins_with_what_all_share_or_with_another(file):
    assert [case.name for case in scenario.load(file)] == ["SLOW", "FAST", "AGAIN reno", "AGAIN cubic"]
    assert base.cases(file) == ["slow", "fast", "again"]
    (slow,), (fast,), again = (of(file, case) for case in ("slow", "fast", "again"))
    assert slow.scenario.profile == fast.scenario.profile == again[0].scenario.profile == "ns2"
    assert [case.scenario.path.forward.rate for case in (slow, fast, *again)] == [10**6, 10**7, 10**7, 10**7]
    assert [case.scenario.path.mtu for case in (slow, again[0])] == [1000, 1500]


def test_a_run_names_the_file_and_the_case(file):
    (fast,) = of(file, "fast")
    assert (
        Task(fast, 1, None, {}, {}, "").about("host")["command"]
        == f"asymlab run {file}:fast --set quick --seed 1 --on host"
    )


def test_another_file_begins_with_a_case(file, scenario_file):
    over = file.with_name("over.toml")
    over.write_text('base = "cases.toml:fast"\ntitle = "t"\nid = "OVER"\nrun.duration = "4s"\n')
    (case,) = scenario.load(over)
    assert (case.scenario.path.forward.rate, case.scenario.run.duration) == (10**7, 4 * 10**6)
    scenario_file(name="whole.toml")
    file.write_text(f'{CASES}\n[cases.other]\nbase = "whole.toml"\ntitle = "t"\nid = "OTHER"\n')
    assert of(file, "other")[0].scenario.path.reverse.rate == 10**7, "a case with a base begins with that alone"


def test_a_name_with_a_colon_is_a_file_where_there_is_one(file):
    odd = file.with_name("cases.toml:slow")
    odd.write_text(CASES.replace('id = "SLOW"', 'id = "ODD"'))
    assert scenario.load(odd)[0].name == "ODD"


@pytest.mark.parametrize(
    "old, new, case, words",
    [
        ("", "", "none", "{}: no case 'none'; there are slow, fast, again"),
        ("queue = 100 }\nrun", 'queue = "x" }\nrun', "slow", "{}:slow: path.forward.queue: must be a whole number"),
        (CASES, "cases = 3", "", "{}: cases: must be tables, [cases.NAME]"),
        (CASES, "[cases]", "", "{}: cases: must be tables, [cases.NAME]"),
        (CASES, "[cases.'a b']", "", "{}: cases.'a b': must be a table, called by small letters, digits and hyphens"),
        ('base = "slow"', 'base = "y"', "fast", "{0}:fast: base: {0}: no case 'y'; there are slow, fast, again"),
        ('base = "slow"', 'base = "fast"', "fast", "{0}:fast: base: {0}:fast: a circle: it begins with itself"),
        ('base = "slow"', 'base = "again"', "fast", "a circle: it begins with itself"),
        ('base = "slow"', 'base = "cases.toml"', "fast", "has several cases, FILE:CASE is one: slow, fast, again"),
        ('["path.mtu"]', '["path.hops"]', "again", "{}:again: without: 'path.hops' is no key of the base"),
    ],
)
def test_what_is_wrong_is_one_line(file, old, new, case, words):
    file.write_text(CASES.replace(old, new, 1))
    with pytest.raises(LabError) as e:
        of(file, case) if case else scenario.load(file)
    assert words.format(file) in str(e.value) and str(e.value).startswith(str(file)) and "\n" not in str(e.value)


def test_the_command_takes_a_case(file):
    said = asymlab("run", f"{file}:none", "--dry-run").stderr
    assert said == f"asymlab: {file}: no case 'none'; there are slow, fast, again\n"
