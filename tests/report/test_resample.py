# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Published rows by other seeds, with a lab that runs nothing: what is made, which word each gets, what is kept."""

from __future__ import annotations

import lzma
import subprocess

import pytest

from asymlab import LabError
from asymlab.commands import published
from asymlab.report import papers as papers_of
from asymlab.report import part, publish, resample, suite
from asymlab.report.judged import Judged, Results, Sample
from asymlab.run import registered
from tests.report import test_suite
from tests.report.test_suite import GUEST, again, saved
from tests.shared import REPO

papers, lab, said = test_suite.papers, test_suite.lab, test_suite.said  # fixtures

CLAIM = """
[[claims]]
id = "{id}"
source = "Fig. 1"
says = "it is above 1"
runs = {{ id = "TEST", path.forward.rate = "{rate}" }}
measure = "seed"
{bound}
"""
OVER = """
[[claims]]
id = "T-over"
source = "Fig. 2"
says = "it is over another's"
runs = { id = "TEST", path.forward.rate = "1mbit" }
over = { path.forward.rate = "2mbit" }
measure = "seed"
at_least = 1
"""


@pytest.fixture
def kept(papers, said, monkeypatch):
    """A part of a row that seeds up to 2 reproduce, and whose bound the seeds from 100 on miss; one that they keep;
    one that compares with other runs."""
    monkeypatch.setattr(resample, "console", suite.console)
    text = CLAIM.format(id="T-most", rate="1mbit", bound="at_most = 50")
    text += CLAIM.format(id="T-least", rate="10mbit", bound="at_least = 1") + OVER
    (papers / "papers" / "one" / "claims.toml").write_text('title = "A test"\nsubject = ""\n' + text)
    tasks = suite.plan(["one"], GUEST, 3).tasks["one"]
    rows = papers_of.judged("one", Results("one", [(t, saved(t, 5.0, seed=t.seed)) for t in tasks]))
    provenance = {"kernel": "6.12.0-test", "image": GUEST.hash, "qemu": "QEMU", "objects": {}}
    provenance |= {"result_sha256": "00" * 32}
    runs = [{"name": t.name, "key": t.key, "invalid": [], "provenance": provenance} for t in tasks]
    results = {"set": "full", "runs": runs, "papers": {"one": [t.key for t in tasks]}, "image_name": "6.12"}
    one = part.of_report("one", rows, results, papers / "none")
    publish.write([one], [publish.data(one)], papers / "results", papers / "none", False)
    return papers / "results"


def test_a_row_is_judged_by_fresh_runs_alone(kept, lab, monkeypatch, said):
    assert again(monkeypatch, "one", "T-least", "--from", kept, "--first-seed", 100) == 0
    assert lab == [f"TEST 10mbit seed {seed}" for seed in (100, 101, 102)]  # as many as are published
    last = said.getvalue().splitlines()[-1]
    assert last == (
        "T-least: published ? inconclusive: 2 (-0.4843 to 4.484; runs: 3); "
        "seeds 100 to 102 ✓ reproduced: 101 (98.52 to 103.5; runs: 3): decided now"
    )
    assert not (kept / resample.DATA).exists()


def test_a_word_that_turns_is_told(kept, lab, monkeypatch, said):
    assert again(monkeypatch, "one", "T-most", "--from", kept, "--first-seed", 100, "--seeds", 4) == 1
    assert len(lab) == 4 and said.getvalue().endswith("runs: 4): the other word\n")


def test_what_a_row_is_compared_with_runs_as_well(kept, lab, monkeypatch, said):
    assert again(monkeypatch, "one", "T-over", "--from", kept, "--first-seed", 100, "--seeds", 2) == 0
    assert sorted(lab) == [f"TEST {rate} seed {seed}" for rate in ("1mbit", "2mbit") for seed in (100, 101)]


@pytest.mark.parametrize("engine, label", [("qemu", "6.12"), ("uml", "6.12-uml"), (None, "6.12")])
def test_the_other_engine_takes_its_own_image(kept, lab, monkeypatch, engine, label):
    asked: list[str] = []
    options = ("--engine", engine) if engine else ()
    monkeypatch.setattr(published, "current_image", lambda name: asked.append(name) or GUEST)
    assert again(monkeypatch, "one", "T-least", "--from", kept, "--first-seed", 100, *options) == 0 and asked == [label]


def test_a_row_is_repeated_with_what_it_is_compared_with(kept, lab, monkeypatch, said):
    """Three seeds of two rates."""
    assert again(monkeypatch, "one", "T-over", "--from", kept, "--dry-run") == 0
    assert said.getvalue().splitlines()[-1].startswith("6 runs, ")


def test_what_came_out_is_kept_beside_what_is_published(kept, lab, monkeypatch):
    def keep(row, first, why):
        again(monkeypatch, "one", row, "--from", kept, "--first-seed", first, "--keep", why)
        return resample.read(kept / resample.DATA)

    assert [one.row for one in keep("T-most", 100, "drawn by a seed")] == ["T-most"]
    both = keep("T-least", 100, "not decided")
    assert [(one.row, one.kept) for one in both] == [("T-least", resample.SETTLED), ("T-most", resample.OTHER)]
    told = ["100 to 102", "100 to 102", "200 to 202"]  # no earlier outcome goes
    assert [one.seeds for one in keep("T-most", 200, "drawn by a seed")] == told
    assert [one.seeds for one in keep("T-most", 200, "drawn by a seed")] == told
    assert [one.why for one in keep("T-most", 300, "drawn again")][:2] == ["not decided", "drawn again"]
    page = (kept / "again.md").read_text()
    assert page == resample.text(resample.read(kept / resample.DATA))
    assert (
        "## Drawn by a seed\n\nRows: 2. The other word 2.\n" in page and "seeds 200 to 202 | the other word |" in page
    )


def test_of_many_rows_those_that_keep_their_word_are_counted():
    said = dict.fromkeys(resample.Again.model_fields, "x")
    rows = [resample.Again(**said | {"row": str(n), "kept": resample.SAME}) for n in range(resample.SHOWN)]
    ((_, told, shown),) = resample.by_reason(rows)
    assert shown == rows and told == "Rows: 20. The same 20."
    other = resample.Again(**said | {"row": "turned", "kept": resample.OTHER})
    ((_, told, shown),) = resample.by_reason([*rows, other])
    assert shown == [other]
    assert told == "Rows: 21. The same 20, the other word 1. Rows of the same word are in again.jsonl.xz."


@pytest.mark.parametrize(
    "argv, words",
    [
        (["T-none", "--first-seed", 100], "one: no row 'T-none'; there are T-most, T-least, T-over"),
        (["T-most", "--first-seed", 3], "one: published runs have the seed 3; --first-seed takes a later one"),
        (["--first-seed", 100], "--first-seed, and that with names of rows"),
        (["T-most", "--seeds", 3], "go with --first-seed"),
        (["T-most", "--keep", "x"], "go with --first-seed"),
        (["T-most", "--engine", "qemu"], "go with --first-seed"),
    ],
)
def test_what_has_no_other_seeds(kept, lab, monkeypatch, capsys, argv, words):
    assert again(monkeypatch, "one", *argv, "--from", kept) == 2
    told = capsys.readouterr().err
    assert words in told and told.count("\n") == 1 and lab == []


def test_rows_that_are_kept_make_no_other_commit(tmp_path, monkeypatch):
    """A row that is kept changes the very file that the next one is written to."""

    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.check_output(["git", *who, "-C", tmp_path, *words], text=True).strip()

    kept = tmp_path / "docs" / "results" / resample.DATA
    kept.parent.mkdir(parents=True)
    for file in (kept, tmp_path / "law.c"):
        file.write_text("1")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    monkeypatch.setattr(registered, "REPO", tmp_path)
    monkeypatch.setattr(registered, "INSTALLED", False)
    kept.write_text("2")
    here = git("rev-parse", "--short=12", "HEAD")
    assert (registered.head(but="again.*"), registered.head()) == (here, here + "+")
    (tmp_path / "law.c").write_text("2")
    assert registered.head(but="again.*") == here + "+"


def test_a_damaged_line_is_told(tmp_path):
    (tmp_path / resample.DATA).write_bytes(lzma.compress(b'{"paper": "one"}\n'))
    with pytest.raises(LabError, match="again.jsonl.xz: line 1 is no row: "):
        resample.read(tmp_path / resample.DATA)


@pytest.mark.parametrize(
    "old, new, word",
    [
        ([1, 1.1, 1.2], [1, 1.1, 1.2], resample.SAME),
        ([1, 1.1, 1.2], [3, 3.1, 3.2], resample.OTHER),
        ([1, 1.1, 1.2], [1, 2, 3], resample.UNDECIDED),
        ([1, 2, 3], [3, 3.1, 3.2], resample.SETTLED),
        ([1, 2, 3], [1, 2, 3.5], resample.SAME),
        ([1, 1.1, 1.2], [], resample.UNDECIDED),
    ],
)
def test_whether_a_word_is_kept(old, new, word):
    a, b = (
        Judged(
            id="T", paper="one", source="", claim="", at_most=2, samples=[Sample(i, "", v) for i, v in enumerate(of)]
        )
        for of in (old, new)
    )
    assert resample.kept(a, b) == word


def test_the_published_page_is_made_of_its_rows():
    folder = REPO / "docs" / "results"
    rows = resample.read(folder / resample.DATA)
    assert len(rows) >= 12 and (folder / "again.md").read_text() == resample.text(rows)
