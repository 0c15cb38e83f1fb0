# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A report of some cases (`asymlab suite --only`): what it adds to a published part, and what it leaves."""

from __future__ import annotations

import csv

import pytest

from asymlab import LabError
from asymlab.report import figuredata, papers, part, publish
from asymlab.report.published import COMMIT
from asymlab.report.verdicts import NOT_MADE, TakenOver
from tests.report.small import PROVENANCE, claim, everything, run, write, write_report
from tests.shared import asymlab

X = [run("X-1 reno", n) for n in (1, 2, 3)]
Y = [run("Y-1 reno", n) for n in (1, 2)]
LATER = "33dd44ee55ff"


def absent(id, runs=Y, **more):
    return claim(id, runs, *[None] * len(runs), missing=NOT_MADE, **more)


@pytest.fixture
def kept(tmp_path):
    """Published: X-1 with two seeds, Y-1 with two."""
    first = write(write_report(tmp_path / "first"), [claim("X-1", X[:2]), claim("Y-1", Y)], [*X[:2], *Y])
    publish.publish(first, tmp_path / "kept")
    return tmp_path / "kept"


@pytest.fixture
def some(tmp_path):
    """A report of some cases, by a later commit: its claims and runs are given."""
    folder = write_report(tmp_path / "some")
    return lambda claims, runs: write(folder, claims, runs, only=["X-1 *"], commit=LATER)


def rows(kept) -> dict:
    return {c.id: c for c in part.read(kept / "fast").claims}


def verdicts(kept) -> dict:
    return {v["id"]: v for v in part.read(kept / "fast").verdicts}


def test_it_replaces_the_rows_that_it_has_all_runs_of(kept, some):
    report = some([claim("X-1", X, 7, 7.5, 8), absent("Y-1"), absent("Z-1")], X)
    p = asymlab("publish", "fast", "--to", kept, "--report", report)
    assert p.returncode == 0, p.stderr
    assert "fast: 1 of 3 rows stay as published" in p.stderr
    assert [(id, v["value"], v["n"]) for id, v in verdicts(kept).items()] == [
        ("X-1", 7.5, 3),
        ("Y-1", 2.5, 2),
        ("Z-1", None, 0),
    ]
    with open(kept / "fast" / "runs.csv") as f:
        assert [r["run"] for r in csv.DictReader(f)] == [r["name"] for r in (*X, *Y)]
    text = (kept / "fast" / "README.md").read_text()
    assert "5 runs of the full set" in text and f"- {COMMIT}: 00aa11bb22cc, {LATER}\n" in text


def test_seeds_are_added_to_those_that_are_there(kept, some):
    """`--first-seed 3`: the row has the samples of both, and no note on some of the runs."""
    write(kept.parent / "first", [claim("X-1", X[:2], note="a note"), claim("Y-1", Y)], [*X[:2], *Y])
    publish.publish(kept.parent / "first", kept)
    assert verdicts(kept)["X-1"]["reason"].startswith("a note; ")
    publish.publish(some([claim("X-1", X[2:], 8.5, note="another"), absent("Y-1")], X[2:]), kept)
    assert "note" not in verdicts(kept)["X-1"]["reason"] and "another" not in verdicts(kept)["X-1"]["reason"]
    assert [(s.seed, s.value) for s in rows(kept)["X-1"].samples] == [(1, 2.5), (2, 2.5), (3, 8.5)]
    assert (verdicts(kept)["X-1"]["value"], verdicts(kept)["X-1"]["verdict"]) == (4.5, "inconclusive")


@pytest.mark.parametrize("half", [True, False])
def test_an_absent_run_is_no_sample(kept, some, half):
    """Of X-1 the run of seed 3 is there, but not that of seed 2, which is published, or of seed 4."""
    fourth = run("X-1 reno", 4)
    runs = [X[1] if half else fourth, X[2]]
    publish.publish(some([claim("X-1", runs, None, 2.5, missing=NOT_MADE), absent("Y-1")], [X[2]]), kept)
    assert [(s.seed, s.value) for s in rows(kept)["X-1"].samples] == [(1, 2.5), (2, 2.5), (3, 2.5)]
    assert verdicts(kept)["X-1"]["n"] == 3


def test_a_row_is_taken_over_until_all_its_runs_are_there(kept, some):
    mean = TakenOver(value=9, low=8, high=10)
    old = [claim("X-1", X[:2], None, None, taken_over=mean), rows(kept)["Y-1"]]
    write(kept.parent / "first", old, [*X[:2], *Y])
    publish.publish(kept.parent / "first", kept)
    assert "Of 1 of the 2 rows the mean and the interval are taken over" in (kept / "fast" / "README.md").read_text()
    publish.publish(some([claim("X-1", X[2:], 8.5), absent("Y-1"), claim("Z-1", X[2:])], X[2:]), kept)
    assert (verdicts(kept)["X-1"]["value"], verdicts(kept)["X-1"]["n"]) == (9, 2)
    publish.publish(some([claim("X-1", X[:2], 1, 2), absent("Y-1"), claim("Z-1", X[2:])], X[:2]), kept)
    assert verdicts(kept)["X-1"]["value"] == 1.5 and rows(kept)["X-1"].taken_over is None


def test_a_figure_with_less_data_stays(kept, some):
    before = everything(kept / "fast" / "figures")
    report = some([claim("X-1", X), absent("Y-1")], X)
    more, less = report / "figures" / "fast-one.csv", report / "figures" / "fast-two.parquet"
    more.write_text(more.read_text() + more.read_text().splitlines()[1].replace("2.0", "9.0") + "\n")
    less.with_suffix(".csv").unlink()
    less.write_bytes(figuredata.parquet([("Alone", "", "Mbit/s", "FAST", "", 1.0, 2.0, None, None)] * 9_999))
    publish.publish(report, kept)
    changed = {file.name for file, data in everything(kept / "fast" / "figures").items() if before.get(file) != data}
    assert changed == {"fast-one.csv", "fast-one.png"}


CAUSE = """
from asymlab.report.claim import Cause, Claim, Off
from asymlab.report.measures import Runs, each, goodput
def claims():
    value = each(Runs("X"), goodput)
    yield Claim("Y-1", "Fig. 1", "a claim", value, at_most=2, cause=Cause("{why}", Off("C-1", "", value, at_most=2)))
"""


@pytest.fixture
def reason(tmp_path, monkeypatch):
    """Y-1 has a cause, which C-1 shows: in these words."""
    folder = tmp_path / "papers" / "fast"
    folder.mkdir(parents=True)
    monkeypatch.setattr(papers, "PAPERS", tmp_path / "papers")

    def write(why):
        (folder / "claims.py").write_text(CAUSE.format(why=why))

    write("ACKs come late")
    return write


def test_a_guess_becomes_a_measured_cause(kept, some, reason):
    """Y-1 stays as published, but the check that explains it is new; and words follow claims.py at once."""
    assert verdicts(kept)["Y-1"]["reason"] == "a guess: ACKs come late"
    check = claim("C-1", X, 1, 1, 1, source="cause", check=True)
    publish.publish(some([claim("X-1", X), absent("Y-1"), check], X), kept)
    shown = "(measured: turned off in C-1, and it comes true)"
    assert verdicts(kept)["Y-1"]["cause"] == "measured"
    assert verdicts(kept)["Y-1"]["reason"] == f"ACKs come late {shown}"
    reason("ACKs come in bursts")
    publish.write_front(kept)
    assert f"ACKs come in bursts {shown}" in (kept / "fast" / "README.md").read_text()


@pytest.mark.parametrize(
    "claims, runs, said",
    [
        ([claim("X-1", X)], [r | {"provenance": PROVENANCE | {"image": "00" * 32}} for r in X], "another image than"),
        (
            [claim("X-1", X)],
            [r | {"provenance": PROVENANCE | {"objects": {"fast.bpf.o": "00" * 32}}} for r in X],
            "another fast.bpf.o than",
        ),
        ([claim("X-1", X)], [*X, Y[0] | {"key": "9" * 32}], "Y-1 reno seed 1 is not as published"),
        (
            [claim("X-1", X)],
            [*X, Y[0] | {"provenance": PROVENANCE | {"result_sha256": "00" * 32}}],
            "Y-1 reno seed 1 is not as published",
        ),
        ([absent("X-1", X[:1])], X[:1], "measures no claim of"),
        ([claim("X-1", X[:1])], X[:1], "measures no claim of"),
        ([claim("X-1", X[1:], 7, 8)], X[1:], "X-1 has other values of the same runs"),
        ([claim("X-1", X[2:], at_most=3)], X[2:], "X-1 has other bounds now"),
        ([claim("X-1", X[2:], worst=True)], X[2:], "X-1 has other bounds now"),
    ],
)
def test_a_report_that_does_not_go_with_it_replaces_nothing(kept, some, claims, runs, said):
    report, before = some([*claims, absent("Y-1")], runs), everything(kept)
    with pytest.raises(LabError, match=said):
        publish.publish(report, kept)
    assert everything(kept) == before


def test_a_claim_that_is_gone_leaves_no_row(kept, some):
    publish.publish(some([claim("X-1", X)], X), kept)
    assert list(rows(kept)) == ["X-1"]


def test_some_cases_are_no_part(some, tmp_path):
    p = asymlab("publish", "--to", tmp_path / "new", "--report", some([claim("X-1", X)], X))
    assert p.returncode == 1 and "`asymlab suite fast` makes all" in p.stderr and p.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("check, word", [(True, "fails"), (False, "not reproduced")])
def test_a_row_that_stays_becomes_a_check_with_its_claim(kept, some, check, word):
    publish.publish(some([claim("X-1", X), absent("Y-1", check=check)], X), kept)
    assert (rows(kept)["Y-1"].check, verdicts(kept)["Y-1"]["verdict"]) == (check, word)
