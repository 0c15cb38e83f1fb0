# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A report of some cases (`asymlab suite --only`): what it replaces of a published part, and what it leaves."""

from __future__ import annotations

import csv
import json

import pytest
from small import RUN, VERDICT, everything, write_report

from asymlab import LabError
from asymlab.report import figuredata, papers, publish, reasons
from asymlab.report.published import COMMIT
from asymlab.report.verdicts import NOT_MADE

from shared import asymlab

X = [RUN | {"name": f"X-1 reno seed {n}", "seed": n, "key": f"x{n}".ljust(32, "0")} for n in (1, 2, 3)]
Y = [RUN | {"name": f"Y-1 reno seed {n}", "seed": n, "key": f"y{n}".ljust(32, "0")} for n in (1, 2)]


def row(id, runs, **more):
    return VERDICT | {"id": id, "claim": f"of {id}", "runs": [r["key"] for r in runs], "n": len(runs)} | more


def unmeasured(id, **more):
    return row(id, [], value=None, low=None, high=None, verdict="not measured", reason=NOT_MADE) | more


@pytest.fixture
def kept(tmp_path):
    """Published: X-1 with two seeds, Y-1 with two."""
    write(write_report(tmp_path / "first"), [row("X-1", X[:2]), row("Y-1", Y)], [*X[:2], *Y], "00aa11bb22cc")
    publish.publish(tmp_path / "first", tmp_path / "kept")
    return tmp_path / "kept"


@pytest.fixture
def some(tmp_path):
    """A report of three seeds of X-1 only, by a later commit."""
    rows = [row("X-1", X, value=7.5), unmeasured("Y-1"), unmeasured("Z-1")]
    return write(write_report(tmp_path / "some"), rows, X, "33dd44ee55ff", ["X-1 *"])


def write(folder, verdicts, runs, commit, only=()):
    (folder / "verdicts.json").write_text(json.dumps(verdicts))
    results = {"format": 1, "set": "full", "only": only, "commit": commit, "runs": runs}
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def test_it_replaces_the_rows_that_it_has_the_runs_of(kept, some):
    p = asymlab("publish", "fast", "--to", kept, "--report", some)
    assert p.returncode == 0, p.stderr
    assert "fast: 1 of 3 rows stay as published" in p.stderr
    verdicts = {v["id"]: v for v in json.loads((kept / "fast" / "verdicts.json").read_text())}
    assert [(id, v["value"], v["n"]) for id, v in verdicts.items()] == [
        ("X-1", 7.5, 3),
        ("Y-1", 2.5, 2),
        ("Z-1", None, 0),
    ]
    with open(kept / "fast" / "runs.csv") as f:
        assert [r["run"] for r in csv.DictReader(f)] == [r["name"] for r in (*X, *Y)]
    text = (kept / "fast" / "README.md").read_text()
    assert "5 runs of the full set" in text and f"- {COMMIT}: 00aa11bb22cc, 33dd44ee55ff\n" in text


def test_a_figure_with_less_data_stays(kept, some):
    before = everything(kept / "fast" / "figures")
    more, less = some / "figures" / "fast-one.csv", some / "figures" / "fast-two.parquet"
    more.write_text(more.read_text() + more.read_text().splitlines()[1].replace("2.0", "9.0") + "\n")
    less.with_suffix(".csv").unlink()
    less.write_bytes(figuredata.parquet([("Alone", "", "Mbit/s", "FAST", "", 1.0, 2.0, None, None)] * 9_999))
    publish.publish(some, kept)
    changed = {file.name for file, data in everything(kept / "fast" / "figures").items() if before.get(file) != data}
    assert changed == {"fast-one.csv", "fast-one.png"}


@pytest.fixture
def late(tmp_path, monkeypatch):
    """Y-1 has a reason, which C-1 shows."""
    folder = tmp_path / "papers" / "fast"
    folder.mkdir(parents=True)
    (folder / "reasons.toml").write_text('[[reason]]\nclaims = ["Y-1"]\nwhy = "ACKs come late"\nshown_by = ["C-1"]\n')
    (folder / "claims.py").write_text("")
    monkeypatch.setattr(papers, "PAPERS", tmp_path / "papers")


def test_a_guess_becomes_a_measured_cause(kept, some, late):
    """Y-1 stays as published, but the check that explains it is new."""
    part = kept / "fast" / "verdicts.json"
    old = json.loads(part.read_text())
    part.write_text(json.dumps([old[0], old[1] | {"reason": "a guess: ACKs come late", "cause": "a guess"}]))
    check = row("C-1", X, verdict="holds", check=True, source="cause", reason="")
    write(some, [row("X-1", X), unmeasured("Y-1"), check], X, "33dd44ee55ff", ["X-1 *"])
    publish.publish(some, kept)
    y = next(v for v in json.loads(part.read_text()) if v["id"] == "Y-1")
    assert y["cause"] == "measured" and y["reason"] == (
        "ACKs come late (measured: turned off in C-1, and it comes true)"
    )


@pytest.mark.parametrize(
    "said, made, becomes",
    [
        ("a queue", True, "ACKs come late"),
        ("ACKs come late, and in bursts", True, "ACKs come late"),
        ("a queue", False, None),
        ("1 of 2 runs miss it; ACKs come late", True, "1 of 2 runs miss it; ACKs come late"),
        ("1 of 2 runs miss it; a queue", True, None),  # it is not known where the cause begins
    ],
)
def test_a_measured_cause_takes_new_words_with_the_runs_that_show_it(kept, some, late, said, made, becomes):
    part = kept / "fast" / "verdicts.json"
    old = json.loads(part.read_text())
    measured = " (measured: turned off in C-1, and it comes true); the 95 % interval holds 2"
    check = row("C-1", X, verdict="holds", check=True, source="cause", reason="")
    part.write_text(json.dumps([old[0], old[1] | {"reason": said + measured, "cause": "measured"}, check]))
    write(some, [row("X-1", X), unmeasured("Y-1"), check if made else unmeasured("C-1")], X, "33dd44ee55ff", ["X-1 *"])
    if becomes:
        publish.publish(some, kept)
        y = next(v for v in json.loads(part.read_text()) if v["id"] == "Y-1")
        assert y["cause"] == "measured" and y["reason"] == becomes + measured
    else:
        with pytest.raises(LabError, match="Y-1 has another reason than in"):
            publish.publish(some, kept)


@pytest.mark.parametrize(
    "was, now",
    [
        ({"reason": "a queue"}, '[[reason]]\nclaims = ["Y-1"]\nwhy = "ACKs come late"\n'),
        ({"reason": "a guess: a queue", "cause": "a guess"}, '[[reason]]\nclaims = ["Y-1"]\nwhy = "ACKs come late"\n'),
        ({"reason": "a guess: a queue", "cause": "a guess"}, ""),
        ({"verdict": "inconclusive", "reason": "a guess: a queue", "cause": "a guess"}, ""),
    ],
)
def test_a_row_with_another_reason_now_does_not_stay(kept, some, tmp_path, monkeypatch, was, now):
    part = kept / "fast" / "verdicts.json"
    old = json.loads(part.read_text())
    part.write_text(json.dumps([old[0], old[1] | was]))
    (tmp_path / "papers" / "fast").mkdir(parents=True)
    (tmp_path / "papers" / "fast" / "reasons.toml").write_text(now)
    (tmp_path / "papers" / "fast" / "claims.py").write_text("")
    monkeypatch.setattr(papers, "PAPERS", tmp_path / "papers")
    with pytest.raises(LabError, match="Y-1 has another reason than in"):
        publish.publish(some, kept)


@pytest.mark.parametrize(
    "verdicts, runs, said",
    [
        (
            [row("X-1", X), unmeasured("Y-1")],
            [r | {"provenance": r["provenance"] | {"image": "00" * 32}} for r in X],
            "made with another image than",
        ),
        (
            [row("X-1", X), unmeasured("Y-1")],
            [r | {"provenance": r["provenance"] | {"objects": {"fast.bpf.o": "00" * 32}}} for r in X],
            "made with another fast.bpf.o than",
        ),
    ],
)
def test_a_report_that_does_not_go_with_it_replaces_nothing(kept, some, verdicts, runs, said):
    write(some, verdicts, runs, "33dd44ee55ff", ["X-1 *"])
    before = everything(kept)
    with pytest.raises(LabError, match=said):
        publish.publish(some, kept)
    assert everything(kept) == before


def test_a_report_that_measures_nothing_replaces_nothing(kept, some):
    write(some, [unmeasured("X-1"), unmeasured("Y-1")], X, "33dd44ee55ff", ["X-1 *"])
    with pytest.raises(LabError, match="measures no claim of"):
        publish.publish(some, kept)


def test_fewer_seeds_replace_nothing(kept, some):
    write(some, [row("X-1", X[:1]), unmeasured("Y-1")], X[:1], "33dd44ee55ff", ["X-1 *"])
    with pytest.raises(LabError, match="1 of the 2 seeds of X-1 reno that"):
        publish.publish(some, kept)


@pytest.mark.parametrize(
    "change", [{"key": "9" * 32}, {"provenance": RUN["provenance"] | {"result_sha256": "00" * 32}}]
)
def test_a_row_whose_runs_are_others_now_does_not_stay(kept, some, change):
    """Y-1 needs seed 1, which this report has otherwise."""
    write(some, [row("X-1", X), unmeasured("Y-1")], [*X, Y[0] | change, Y[1]], "33dd44ee55ff", ["X-1 *"])
    before = everything(kept)
    with pytest.raises(LabError, match="Y-1 reno seed 1 is not as published"):
        publish.publish(some, kept)
    assert everything(kept) == before


def test_a_claim_that_is_gone_leaves_no_row(kept, some):
    write(some, [row("X-1", X)], X, "33dd44ee55ff", ["X-1 *"])
    publish.publish(some, kept)
    assert [v["id"] for v in json.loads((kept / "fast" / "verdicts.json").read_text())] == ["X-1"]


def test_some_cases_are_no_part(some, tmp_path):
    p = asymlab("publish", "--to", tmp_path / "new", "--report", some)
    assert p.returncode == 1 and "`asymlab suite fast` makes all" in p.stderr and p.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("check, word", [(True, "fails"), (False, "not reproduced")])
def test_a_row_that_stays_becomes_a_check_with_its_claim(kept, tmp_path, check, word):
    rows = [row("X-1", X), unmeasured("Y-1", check=check)]
    publish.publish(write(write_report(tmp_path / "some"), rows, X, "33dd44ee55ff", ["X-1 *"]), kept)
    verdicts = {v["id"]: v for v in json.loads((kept / "fast" / "verdicts.json").read_text())}
    assert (verdicts["Y-1"]["check"], verdicts["Y-1"]["verdict"]) == (check, word)


def test_an_open_row_that_stays_takes_a_reason_that_was_found_since(tmp_path, monkeypatch):
    text = "the 95 % interval holds 2; more seeds: `asymlab suite fast --seeds 4`"
    rows = [row("X-1", X[:2]), row("Y-1", Y, verdict="inconclusive", reason=text), row("Z-1", [], verdict="holds")]
    first = write(write_report(tmp_path / "first"), rows, [*X[:2], *Y], "00aa11bb22cc")
    publish.publish(first, tmp_path / "kept")
    found = reasons.Reason(claims=["Y-1"], why="the queue is long", shown_by=["C-1"])
    monkeypatch.setattr(reasons, "load", lambda paper: reasons.Reasons(reason=[found]))
    rows = [row("X-1", X), unmeasured("Y-1"), row("C-1", X, verdict="holds", source="cause", check=True)]
    publish.publish(write(write_report(tmp_path / "some"), rows, X, "33dd44ee55ff", ["X-1 *"]), tmp_path / "kept")
    verdicts = {v["id"]: v for v in json.loads((tmp_path / "kept" / "fast" / "verdicts.json").read_text())}
    assert verdicts["Y-1"]["cause"] == "measured"
    assert verdicts["Y-1"]["reason"] == (f"the queue is long (measured: turned off in C-1, and it comes true); {text}")
