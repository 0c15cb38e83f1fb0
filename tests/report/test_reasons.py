# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reasons: numbers of the published runs are shown over these runs, and over no others."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from asymlab import LabError
from asymlab.report import papers, reasons
from asymlab.report.verdicts import Results, Verdict, settled
from asymlab.results.store import Run

from shared import REPO

PUBLISHED = REPO / "docs" / "results"
WITH_REASONS = [p for p in papers.names() if reasons.load(p).reason]


def published_hashes(paper: str, id: str) -> list[str]:
    """Of the runs of a row."""
    with (PUBLISHED / paper / "runs.csv").open() as rows:
        of = {row["key"]: row["result_sha256"] for row in csv.DictReader(rows)}
    return [of[key] for key in next(v["runs"] for v in verdicts(paper) if v["id"] == id)]


def verdicts(paper: str) -> list[dict]:
    return json.loads((PUBLISHED / paper / "verdicts.json").read_text())


def failed(paper: str) -> list[str]:
    """Claims that are given a reason: those whose mean misses the bounds."""
    return [v["id"] for v in verdicts(paper) if v["verdict"] in ("not reproduced", "inconclusive", "fails")]


def results_of(paper: str, hashes: list[str]) -> Results:
    """Runs that gave these results."""
    task = SimpleNamespace(case=SimpleNamespace(scenario=SimpleNamespace(id="X"), point={}))
    runs = [
        Run(Path(), {"key": h[:32], "name": "a run", "seed": i, "invalid": [], "result_sha256": h})
        for i, h in enumerate(hashes)
    ]
    return Results(paper, [(task, run) for run in runs])


def missed(results: Results, id: str) -> Verdict:
    """The verdict of a claim that all runs miss."""
    return results.judge(id, "Fig. 1", "a claim", None, results.all("X"), lambda r: 0.5, at_least=1)


@pytest.mark.parametrize("paper", WITH_REASONS)
def test_texts_are_bound_to_the_results_in_docs(paper):
    """It fails after new results are published: read the texts and docs/NAME.md again, then renew the hash."""
    assert reasons.load(paper).results == reasons.hash_of(PUBLISHED / paper)


@pytest.mark.parametrize("paper", WITH_REASONS)
def test_each_reason_is_of_a_claim(paper):
    ids = [v["id"] for v in verdicts(paper)]
    for reason in reasons.load(paper).reason:
        assert reason.why or reason.published
        for claim in reason.claims:
            assert any(reasons.Reasons(reason=[reason.model_copy(update={"claims": [claim]})]).of(id) for id in ids), (
                claim
            )
        if reason.published:
            assert any(reasons.load(paper).of(id) == reason for id in failed(paper)), reason.claims


@pytest.mark.parametrize("paper", WITH_REASONS)
def test_numbers_stand_over_the_published_runs_only(paper):
    shown = 0
    for id in failed(paper):
        hashes = published_hashes(paper, id)
        reason = reasons.load(paper).of(id)
        if reason and reason.published:
            shown += 1
            assert missed(results_of(paper, hashes[::-1]), id).reason.endswith(reason.published)
        for others in (["0" * 64], [*hashes[1:], "0" * 64]):
            text = missed(results_of(paper, others), id).reason
            assert ("see docs/" in text) == bool(reason and reason.published)
            assert not re.search(r"\d", reasons.REFERENCE.sub("", text).replace("0.5 is below 1", "")), text
    assert shown


def test_a_reason_without_words_gives_way_to_what_was_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(papers, "PAPERS", tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "reasons.toml").write_text('[[reason]]\nclaims = ["X-1*"]\npublished = "7.4, 11.6 s"\n')
    assert missed(results_of("x", ["00"]), "X-1 a").reason == "0.5 is below 1; published reason: see docs/x.md"
    assert missed(results_of("x", ["00"]), "X-2").reason == "0.5 is below 1"


CAUSES = """
[[reason]]
claims = ["X-1"]
why = "ACKs come late"
shown_by = ["C-1", "C-2"]
[[reason]]
claims = ["X-2"]
why = "losses come in pairs"
"""


@pytest.mark.parametrize(
    "second, cause, said",
    [
        ("holds", "measured", "ACKs come late (measured: turned off in C-1 and C-2, and it comes true)"),
        ("fails", "a guess", "a guess, as with it turned off (C-1 and C-2) it does not come true: ACKs come late"),
        ("undecided", "a guess", "a guess: ACKs come late"),
        (None, "a guess", "a guess: ACKs come late"),  # the quick set has no such runs
    ],
)
def test_a_cause_is_measured_if_the_claim_comes_true_without_it(tmp_path, monkeypatch, second, cause, said):
    monkeypatch.setattr(papers, "PAPERS", tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "reasons.toml").write_text(CAUSES)
    results = results_of("x", ["00"])
    others = [replace(missed(results, id), verdict=word) for id, word in (("C-1", "holds"), ("C-2", second)) if word]
    verdicts = settled([missed(results, "X-1"), missed(results, "X-2"), missed(results, "X-3"), *others])
    assert [v.cause for v in verdicts[:3]] == [cause, "a guess", "not found"]
    assert verdicts[0].reason == said
    assert verdicts[1].reason == "a guess: losses come in pairs"
    assert verdicts[2].reason == "0.5 is below 1; cause not found"


def test_an_open_claim_whose_mean_is_inside_has_a_cause_only_if_named_in_full(tmp_path, monkeypatch):
    monkeypatch.setattr(papers, "PAPERS", tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "reasons.toml").write_text(CAUSES.replace('claims = ["X-2"]', 'claims = ["X-2*"]'))
    results = results_of("x", ["00", "11"])

    def open_one(id):
        return results.judge(id, "Fig. 1", "a claim", None, results.all("X"), lambda r: r.record["seed"], at_least=0.4)

    shown = [replace(missed(results, id), verdict="holds") for id in ("C-1", "C-2")]
    named, part, none = settled([open_one("X-1"), open_one("X-2 a"), open_one("X-3"), *shown])[:3]
    assert [v.verdict for v in (named, part, none)] == ["inconclusive"] * 3
    assert [v.cause for v in (named, part, none)] == ["measured", "", ""]
    assert named.reason.startswith("ACKs come late (measured: turned off in C-1 and C-2, and it comes true); the 95 %")
    assert part.reason == none.reason and part.reason.startswith("the 95 % interval holds 0.4")


@pytest.mark.parametrize("paper", WITH_REASONS)
def test_what_shows_a_cause_is_a_claim(paper):
    code = "".join(file.read_text() for file in (papers.PAPERS / paper).glob("*.py"))
    texts = re.findall(r'f?"([^"\n]+)"', code)
    patterns = [re.sub(r"\\{[^}]*\\}", ".*", re.escape(text)) for text in texts]
    for id in {id for reason in reasons.load(paper).reason for id in reason.shown_by}:
        assert any(re.fullmatch(pattern, id) for pattern in patterns if re.search(r"\w{2}", pattern)), id


@pytest.mark.parametrize(
    "text, words",
    [
        ('[[reason]]\nclaims = ["X"]\nwhy = "it took 37 s"', "37 is a number: it belongs under `published`"),
        ('[[reason]]\nclaims = ["X"]\nwhat = "x"', "reason.0.what"),
        ("results = ", "reasons.toml: "),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path, monkeypatch, text, words):
    monkeypatch.setattr(papers, "PAPERS", tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "reasons.toml").write_text(text)
    with pytest.raises(LabError) as e:
        reasons.load("x")
    assert words in str(e.value) and "\n" not in str(e.value)
