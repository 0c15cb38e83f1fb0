# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reasons: numbers of the published runs are shown over these runs, and over no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from asymlab import LabError
from asymlab.machine import arch
from asymlab.machine.image import Image
from asymlab.report import papers, part, reasons, suite
from asymlab.report.absent import Absent
from asymlab.report.sentences import verdicts
from asymlab.report.verdicts import Claim, Results, Sample, TakenOver

from shared import REPO

PUBLISHED = REPO / "docs" / "results"
WITH_REASONS = [p for p in papers.names() if reasons.load(p).reason]


def failed(paper: str) -> list[Claim]:
    """Claims that are given a reason: those whose mean misses the bounds, or that are open."""
    words = ("not reproduced", "inconclusive", "fails")
    return [c for c in part.read(PUBLISHED / paper).claims if c.verdict in words]


def missed(id: str, value: float = 0.5, **more) -> Claim:
    """A claim that its only run misses."""
    about = {"paper": "x", "source": "Fig. 1", "claim": "a claim", "at_least": 1}
    return Claim(**{"id": id, "samples": [Sample(1, "k", value)]} | about | more)


def reason(claim: Claim, known: reasons.Reasons, quoted: bool = False) -> str:
    return verdicts([claim], known, [claim.id] if quoted else [])[0]["reason"]


@pytest.mark.parametrize("paper", WITH_REASONS)
def test_texts_are_bound_to_the_results_in_docs(paper):
    """It fails after new results are published: read the texts and docs/NAME.md again, then renew the hash."""
    assert reasons.load(paper).results == part.read(PUBLISHED / paper).hash


@pytest.mark.parametrize("paper", WITH_REASONS)
def test_each_reason_is_of_a_claim(paper):
    ids = [c.id for c in part.read(PUBLISHED / paper).claims]
    known = [reasons.load(paper).of(c.id) for c in failed(paper)]
    for one in reasons.load(paper).reason:
        assert one.why or one.published
        for claim in one.claims:
            alone = reasons.Reasons(reason=[one.model_copy(update={"claims": [claim]})])
            assert any(alone.of(id) for id in ids), claim
        assert one in known or not one.published, one.claims


@pytest.mark.parametrize("paper", WITH_REASONS)
def test_numbers_stand_over_the_published_runs_only(paper):
    known, published = reasons.load(paper), part.read(PUBLISHED / paper)
    hashes = {r["key"]: r["result_sha256"] for r in published.runs}
    assert part.quoted(paper, published.claims, hashes, PUBLISHED) == [c.id for c in published.claims]
    with_numbers = [c for c in failed(paper) if (found := known.of(c.id)) and found.published]
    assert with_numbers
    for claim in failed(paper):
        others = hashes | {claim.runs[-1]: "0" * 64}
        assert claim.id not in part.quoted(paper, published.claims, others, PUBLISHED)
        mine = missed(claim.id)
        if claim in with_numbers:
            assert known.of(claim.id).published in reason(mine, known, quoted=True)
        text = reason(mine, known)
        assert ("see docs/" in text) == (claim in with_numbers)
        named = " and ".join(found.shown_by) if (found := known.of(claim.id)) else ""
        words = reasons.REFERENCE.sub("", text.replace(named, "")).replace("0.5 is below 1", "")
        assert not re.search(r"\d", words), text


def known_by(text: str, tmp_path, monkeypatch) -> reasons.Reasons:
    monkeypatch.setattr(papers, "PAPERS", tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "reasons.toml").write_text(text)
    return reasons.load("x")


def test_a_reason_without_words_gives_way_to_what_was_measured(tmp_path, monkeypatch):
    known = known_by('[[reason]]\nclaims = ["X-1*"]\npublished = "7.4, 11.6 s"\n', tmp_path, monkeypatch)
    said = "0.5 is below 1; published reason: see docs/x.md; cause not found"
    assert reason(missed("X-1 a"), known) == said
    assert reason(missed("X-1 a"), known, quoted=True) == "7.4, 11.6 s; cause not found"
    assert reason(missed("X-2"), known) == "0.5 is below 1; cause not found"
    assert reason(missed("X-2", source="cause"), known) == "0.5 is below 1"


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
        ({}, "measured", "ACKs come late (measured: turned off in C-1 and C-2, and it comes true)"),
        (
            {"value": 0.5},
            "a guess",
            "a guess, as with it turned off (C-1 and C-2) it does not come true: ACKs come late",
        ),
        ({"taken_over": TakenOver(value=1, low=0, high=2)}, "a guess", "a guess: ACKs come late"),
        (None, "a guess", "a guess: ACKs come late"),  # the quick set has no such runs
    ],
)
def test_a_cause_is_measured_if_the_claim_comes_true_without_it(tmp_path, monkeypatch, second, cause, said):
    known = known_by(CAUSES, tmp_path, monkeypatch)
    shown = [missed("C-1", 1.5, check=True)]
    if second is not None:
        shown.append(missed("C-2", **{"value": 1.5, "check": True} | second))
    found = verdicts([missed("X-1"), missed("X-2"), missed("X-3"), *shown], known)
    assert [v["cause"] for v in found[:3]] == [cause, "a guess", "not found"]
    assert found[0]["reason"] == said
    assert found[1]["reason"] == "a guess: losses come in pairs"
    assert found[2]["reason"] == "0.5 is below 1; cause not found"


def test_an_open_claim_whose_mean_is_inside_has_a_cause_only_if_named_in_full(tmp_path, monkeypatch):
    known = known_by(CAUSES.replace('claims = ["X-2"]', 'claims = ["X-2*"]'), tmp_path, monkeypatch)
    samples = [Sample(1, "k", 1.0), Sample(2, "l", 1.2)]
    claims = [missed(id, samples=samples) for id in ("X-1", "X-2 a", "X-3")]
    shown = [missed(id, 1.5, check=True) for id in ("C-1", "C-2")]
    named, some, none = verdicts([*claims, *shown], known)[:3]
    assert [v["verdict"] for v in (named, some, none)] == ["inconclusive"] * 3
    assert [v["cause"] for v in (named, some, none)] == ["measured", "", ""]
    why = "ACKs come late (measured: turned off in C-1 and C-2, and it comes true)"
    assert named["reason"] == f"{why}; {none['reason']}"
    assert some["reason"] == none["reason"] == "the 95 % interval holds 1; more seeds: `asymlab suite x --seeds 4`"


def test_a_claim_about_every_run_says_how_many_miss_it():
    samples = [Sample(n, str(n), value) for n, value in enumerate((0.5, 1.5, 0.7))]
    known = reasons.Reasons()
    assert reason(missed("X", samples=samples, worst=True, note="a note"), known) == (
        "2 of 3 runs miss it; a note; 0.5 is below 1; cause not found"
    )
    bad = {"left_out": {"9": "run 9 is invalid: CPU"}}
    assert reason(missed("X", **bad), known) == "0.5 is below 1; run 9 is invalid: CPU; cause not found"
    assert reason(missed("X", samples=samples, worst=True, **bad), known) == "run 9 is invalid: CPU"


@pytest.mark.parametrize("paper", WITH_REASONS)
def test_what_shows_a_cause_is_a_claim(paper):
    image = Image(Path("nowhere"), arch.AMD64, "6.12.0-test", "qemu", "ab" * 32, {}, 10)
    absent = [(task, Absent.of(task)) for task in suite.plan([paper], image).tasks[paper]]
    claims = {c.id for c in papers.module(paper, "claims").claims(Results(paper, absent))}
    assert {id for reason in reasons.load(paper).reason for id in reason.shown_by} <= claims


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
