# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The interface of scripts and notebooks: runs found, listed, made, in a line and in a table."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest

import asymlab
from asymlab import LabError
from asymlab.results import store
from asymlab.run import api
from tests.report.madeup import keep, make
from tests.scenarios import SCENARIO, build, toml
from tests.shared import LAB


@pytest.fixture
def kept(tmp_path, monkeypatch) -> list[store.Run]:
    """A store of three runs, the oldest first."""
    monkeypatch.setattr(store, "STORE", tmp_path)
    runs = []
    for seed in (3, 1, 2):
        run = keep(make(tmp_path, "FA-T2", {"flows.controller": "fast"} if seed == 3 else {}, seed=seed), tmp_path)
        os.utime(run.folder / "acks.npz", ns=(len(runs), len(runs)))
        runs.append(run)
    return runs


def test_a_run_shows_itself_in_a_line(kept):
    """Once it was all of its record, 35,000 characters."""
    run = kept[1]
    assert repr(run) == f"<Run FA-T2 seed 1: valid, goodput 24.000 Mbit/s, key {run.key}>"
    run.record.update(invalid=["CPU"], name="FA-T2\n\x1b[2J")
    assert repr(run).startswith("<Run FA-T2 ?[2J: INVALID, ") and "\n" not in repr(run)


def test_a_run_is_found_or_refused_in_a_line(kept):
    assert asymlab.find(kept[0].key).record == kept[0].record
    for key in ("0" * 32, "KEY", "", f"../{store.STORE.name}/{kept[0].key}", kept[0].key + "\n"):
        with pytest.raises(LabError, match="no run of this key in .*; asymlab.runs"):
            asymlab.find(key)


def test_runs_come_newest_first_and_are_read_when_asked_for(kept):
    (store.STORE / ".part-x").mkdir()
    assert [r.record["seed"] for r in asymlab.runs()] == [2, 1, 3]
    (kept[0].folder / "run.json").write_text("{")
    assert [r.record["seed"] for r in itertools.islice(asymlab.runs(), 2)] == [2, 1]
    with pytest.raises(LabError, match="cannot be read"):
        list(asymlab.runs())


def test_no_store_has_no_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "STORE", tmp_path / "none")
    assert list(asymlab.runs()) == []


def test_flows_are_a_table_with_a_row_each(kept):
    rows = asymlab.flows(asymlab.runs())
    assert [(r["seed"], r["flow"], r["controller"]) for r in rows] == [
        (2, 0, "fast"),
        (2, 1, "fast500"),
        (1, 0, "fast"),
        (1, 1, "fast500"),
        (3, 0, "fast"),
    ]
    assert [r["flows.controller"] for r in rows] == [None] * 4 + ["fast"]
    flow = kept[1].metrics["flows"][1]
    assert rows[3]["goodput_bps"] == flow["goodput_bps"] and rows[3]["rtt_p50_s"] == flow["rtt_s"]["p50"]
    assert {r["valid"] for r in rows} == {True} and rows[4]["key"] == kept[0].key


def test_programs_are_a_table_with_a_row_each(kept, monkeypatch):
    page = {"host": "laptop", "start_s": 1.0, "end_s": 2.5, "exit": 0, "result": {"bytes": 7}}
    monkeypatch.setattr(store.Run, "programs", {"page": page})
    (row,) = asymlab.programs(kept[:1])
    assert row["key"] == kept[0].key
    assert (row["program"], row["host"], row["took"], row["result.bytes"]) == ("page", "laptop", 1.5, 7.0)


def test_replies_have_columns(kept):
    kept[0].metrics["flows"][0]["reply_s"] = {"p50": 0.25}
    assert [row["reply_p50_s"] for row in asymlab.flows(kept[:1])] == [0.25]


def test_all_rows_have_all_columns(kept):
    rows = asymlab.flows(kept)
    assert {tuple(row) for row in rows} == {tuple(rows[0])} and "flows.controller" in rows[1]
    assert asymlab.flows([]) == []


def test_a_wrong_scenario_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "SCENARIOS", tmp_path)
    with pytest.raises(LabError, match="flow.toml: No such file"):
        asymlab.run_scenario("flow.toml")
    with pytest.raises(LabError, match="which='both': is one of quick, full"):
        asymlab.run_scenario(SCENARIO, which="both")
    with pytest.raises(LabError, match="no runs in the quick set"):
        asymlab.run_scenario(SCENARIO + "[sets.quick]\nseeds = 0\n")
    with pytest.raises(LabError, match="no runs in the quick set"):
        asymlab.run_scenario(SCENARIO, seeds=[])
    for seed in (0, 2**63, "1", 1.5, True):
        with pytest.raises(LabError, match="seeds: .*: must be whole numbers"):
            asymlab.run_scenario(SCENARIO, seeds=[1, seed])
    with pytest.raises(LabError, match="path.mtu"):
        asymlab.run_scenario(toml(build(mtu="much")))


def test_the_guest_need_not_have_what_scripts_use():
    """It imports the package without numpy and the rest."""
    code = "import sys, asymlab.guest, asymlab; print({'numpy', 'pydantic', 'rich'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    assert set(asymlab.API) <= set(dir(asymlab)) and set(asymlab.API) == set(api.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        asymlab.nothing  # noqa: B018


@pytest.mark.lab
def test_a_scenario_runs_as_by_the_command(tmp_path, monkeypatch):
    """Its text as its file; a second time the store has it."""
    monkeypatch.setattr(store, "STORE", tmp_path / "store")
    monkeypatch.setattr(api, "SCENARIOS", tmp_path)
    text = toml(build(run={"duration": "2s"}))
    file = tmp_path / "same.toml"
    file.write_text(text)
    runs = asymlab.run_scenario(text, seeds=[1, 2], image=LAB)
    assert [(r.record["name"], r.job.duration_s, r.valid) for r in runs] == [
        ("TEST seed 1", 2, True),
        ("TEST seed 2", 2, True),
    ]
    made = {f: f.stat().st_mtime_ns for f in store.STORE.rglob("*")}
    (again,) = asymlab.run_scenario(file, seeds=[2], image=LAB)
    assert again.key == runs[1].key and made == {f: f.stat().st_mtime_ns for f in store.STORE.rglob("*")}
    assert {r.key for r in asymlab.runs()} == {r.key for r in runs}
    (kept,) = set(tmp_path.glob("*.toml")) - {file}
    assert kept.read_text() == text and str(kept) in runs[0].record["command"]
