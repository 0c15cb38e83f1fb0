# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The page of live runs beside the lab's, from its rows."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from asymlab import LabError
from asymlab.plan import scenario
from asymlab.reality import page, pairs
from asymlab.reality.rows import Kind, Row, factor, kinds, read
from asymlab.report.jsonl import write
from tests.shared import REPO, asymlab, one_line

PUBLISHED = REPO / "docs" / "results"
EXPECTED = pairs.FILE.parent / "kinds.toml"
KIND = Kind(title="loss", cases=["A"], goodput=0.05, rtt=0.05, again=2.0)


def row(on: str = "live", **changes) -> Row:
    about = {"case": "A one", "id": "A", "title": "one", "on": on, "kernel": "6", "seed": 1, "scenario": "x"}
    numbers = {"registered": "", "goodputs": [9.0], "rtt": 50.0, "p95": 60.0, "queue": 10.0, "again": 4, "done": None}
    return Row(**{**about, **numbers, "late": (0.1, 7.0) if on == "live" else None, "wrong": "", **changes})


def cells(text: str, begin: str) -> list[str]:
    return next(re.split(r" *\| *", line)[1:-1] for line in text.splitlines() if line.startswith(f"| {begin}"))


def test_the_published_page_is_what_its_data_say():
    rows = read(PUBLISHED / "reality.jsonl")
    assert page.text(rows, kinds(EXPECTED)) == (PUBLISHED / "reality.md").read_text()
    live = [case for case in scenario.load(pairs.FILE, "quick") if case.seeds]
    counts = [{one.on for one in rows if one.case == case.name and not one.wrong} for case in live]
    assert len(live) == 30 and counts == 30 * [{"live", "uml", "qemu"}]
    assert {one.scenario for one in rows if one.on == "live"} == {pairs.digest(case) for case in live}


def test_each_case_has_one_kind():
    ids = {case.scenario.id for case in scenario.load(pairs.FILE, "quick") if case.seeds}
    named = [id for kind in kinds(EXPECTED) for id in kind.cases]
    assert sorted(ids) == sorted(named)


def test_a_difference_that_was_not_expected_is_bold():
    rows = [row(), row(goodputs=[9.9], seed=2), row("uml", goodputs=[8.95]), row("qemu", goodputs=[9.4], rtt=40.0)]
    text = page.text(rows, [KIND])
    assert cells(text, "loss (1)")[1:5] == ["uml", "**5.6 %**", "0.0 %", "0.0 %"]
    assert cells(text, " | qemu")[1:4] == ["qemu", "0.5 %", "**25.0 %**"]
    assert cells(text, " | live itself")[2] == "10.0 %", "9.9 over 9.0"
    assert cells(text, "A one")[1] == "9.45 / 8.95 / 9.40"
    assert "- The live links were late by 0.1 ms at most for 99 % of a run's packets," in text


def test_what_does_not_count_is_told_and_left_out():
    text = page.text([row(goodputs=[1.0], wrong="it was late"), row(), row("uml")], [KIND])
    assert "- Runs that do not count: 1. The first: A one: it was late." in text
    assert cells(text, "A one")[1] == "9.00 / 9.00"


def test_shares_times_and_few_packets():
    both = {"goodputs": [6.0, 3.0], "done": 1.5}
    text = page.text([row(**both), row("uml", **both | {"goodputs": [3.0, 6.0], "done": 3.0})], [KIND])
    assert cells(text, "loss (1)")[2:] == ["0.0 %", "0.0 %", "0.0 %", "33.3 points", "x 1.00", "50.0 %"]
    assert cells(text, "A one")[2] == "67 / 33"
    assert factor(4, 9) == 1 and factor(4, 20) == factor(40, 20) == 2


def test_exact_times_stand_beside_jitter():
    exact = {"id": "RE-EXACT", "case": "x", "on": "uml"}
    rows = [row(**exact, title="10 Mbit/s: exact bbr"), row(**exact, title="10 Mbit/s: 2 ms bbr", rtt=70.0)]
    text = page.text(rows, [])
    assert "By `uml`: exact / 2 ms." in text
    assert cells(text, "10 Mbit/s")[1:4] == ["BBR", "9.00 / 9.00", "50.0 / 70.0"]


@pytest.mark.parametrize(
    "line, wrong",
    [
        ("{", "Invalid JSON"),
        ("{}", "case: Field required"),
        (row().model_dump_json().replace("9.0", '"x"'), "goodputs"),
    ],
)
def test_a_line_that_is_no_run(tmp_path, line, wrong):
    file = tmp_path / "reality.jsonl"
    write(file, [row()])
    assert read(file) == [row()]
    file.write_text(f"{file.read_text()}{line}\n")
    with pytest.raises(LabError, match="reality.jsonl: line 2 is no run") as e:
        read(file)
    assert wrong in str(e.value) and "\n" not in str(e.value)
    one_line(asymlab("reality", "--passes", "0", "--to", tmp_path), "line 2 is no run")


def test_an_interruption_loses_no_run(tmp_path, monkeypatch):
    file = tmp_path / "reality.jsonl"
    write(file, [row()])

    def cut_short(path, text):
        path.write_bytes(text.encode()[: len(text) // 3])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", cut_short)
    with pytest.raises(KeyboardInterrupt):
        write(file, [row(), row(seed=2)])
    assert read(file) == [row()]


@pytest.mark.parametrize("text, wrong", [("[x", "kinds.toml: "), ("[x]\ntitle = 1", "x.title: "), ("x = 1", "x: ")])
def test_expectations_that_are_none(tmp_path, text, wrong):
    (tmp_path / "kinds.toml").write_text(text)
    with pytest.raises(LabError, match=re.escape(wrong)) as e:
        kinds(tmp_path / "kinds.toml")
    assert "\n" not in str(e.value)
    assert kinds(tmp_path / "none.toml") == []


def test_a_command_that_cannot_run_is_one_line(tmp_path, scenario_file):
    one_line(asymlab("reality", tmp_path / "none.toml", "--passes", "0"), "none.toml")
    alone = scenario_file(sets={"quick": {"seeds": 0}, "full": {"seeds": 1}})
    one_line(asymlab("reality", alone, "--passes", "0", "--to", tmp_path), "needs a case with seeds in both sets")
    p = asymlab("reality", "--passes", "-1")
    assert p.returncode == 2 and "--passes: must be 0 or more" in p.stderr
    assert not list(tmp_path.glob("reality.*"))
    assert json.loads(json.dumps(row().model_dump()))["on"] == "live"


def test_live_runs_need_root(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match="^reality: live runs need root; --passes 0 makes the lab's alone$"):
        pairs.run(pairs.FILE, "6.12", 2, tmp_path, None)
