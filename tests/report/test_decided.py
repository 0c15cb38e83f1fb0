# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What "changed after the runs" names: commits that changed runs, measures or bounds, not those that changed words."""

from __future__ import annotations

import subprocess

import pytest

from asymlab.report import decided, papers, part
from asymlab.run import registered

CLAIMS = '''"""The claims of a paper."""

from asymlab.report.claim import Cause, Claim, Off
from asymlab.report.measures import Runs, each, goodput

from .measures import half

TITLE = "A paper"


def claims():
    says = "it has {bound} Mbit/s"
    cause = Cause("ACKs come late", Off("C-1", "early ACKs: {bound}", each(Runs("C"), goodput), above=1))
    yield Claim("A-1", "Fig. 1", says, each(Runs("A"), half), at_least=2, cause=cause)
'''
MEASURES = '''"""Measures."""

SHARE = 0.5


def part_of(run):
    return run.metrics["goodput_bps"] * SHARE


def half(run):
    """Of the goodput."""
    return part_of(run)
'''
SCENARIO = """title = "One flow"
id = "A"
path.forward = { rate = "2mbit", delay = "20ms", queue = 20 }
path.reverse = { rate = "2mbit", delay = "20ms", queue = 20 }
flows = [{ controller = "reno" }]
run.duration = "4s"
"""
WORDS = [  # file, what stands there, what comes in its place
    ("claims.py", "ACKs come late", "the queue is full"),
    ("claims.py", "it has {bound} Mbit/s", "one flow has {bound} Mbit/s"),
    ("claims.py", '"Fig. 1"', '"Fig. 1a"'),
    ("claims.py", "    yield", "    # a comment\n    yield"),
    ("measures.py", "Of the goodput.", "Of all flows."),
    ("a.toml", "One flow", "A flow"),
    ("a.toml", "run.duration", "# seconds\nrun.duration"),
]
DECIDES = [
    ("claims.py", "at_least=2", "at_least=3"),
    ("claims.py", "above=1", "above=2"),
    ("claims.py", 'Runs("A")', 'Runs("A", flows__0__controller="reno")'),
    ("claims.py", '"C-1"', '"C-2"'),
    ("measures.py", "SHARE = 0.5", "SHARE = 0.4"),
    ("measures.py", "return part_of(run)", "return part_of(run) + 1"),
    ("measures.py", "* SHARE", "/ SHARE"),
    ("a.toml", '"4s"', '"5s"'),
    ("a.toml", "queue = 20 }\nflows", "queue = 30 }\nflows"),
]


@pytest.fixture
def paper(tmp_path, monkeypatch):
    """A repository with a paper `x`. The function commits texts in place of others."""
    folder = tmp_path / "experiments" / "papers" / "x"
    folder.mkdir(parents=True)

    def git(*words: str) -> str:
        argv = ["git", "-C", tmp_path, "-c", "user.name=n", "-c", "user.email=e", *words]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()

    def commit(subject: str, *changes: tuple[str, str, str]) -> str:
        for file, before, after in changes:
            text = (folder / file).read_text()
            assert text.count(before) == 1, (file, before)
            (folder / file).write_text(text.replace(before, after))
        git("add", ".")
        git("commit", "-qm", subject)
        return git("rev-parse", "HEAD")

    for name, text in (("claims.py", CLAIMS), ("measures.py", MEASURES), ("a.toml", SCENARIO)):
        (folder / name).write_text(text)
    git("init", "-q")
    monkeypatch.setattr(registered, "REPO", tmp_path)
    monkeypatch.setattr(papers, "PAPERS", folder.parent)
    yield commit
    decided._at.cache_clear()
    registered._judged.cache_clear()


def named(first: str) -> list[str]:
    """The subjects of the commits after this one that changed what decides, oldest first."""
    return [line.split(maxsplit=2)[2] for line in reversed(part.changed("x", [first]))]


def test_words_may_change(paper):
    first = paper("first")
    paper("words", *WORDS)
    assert len(registered.later(first, papers.PAPERS / "x")) == 1 and named(first) == []


def test_what_decides_is_named(paper):
    first = paper("first")
    for change in DECIDES:
        paper(change[1].split("\n")[0], change)
    assert named(first) == [change[1].split("\n")[0] for change in DECIDES]


def test_a_scenario_that_begins_with_another_is_the_same_if_its_runs_are(paper):
    whole = SCENARIO.replace('"A"', '"B"').replace("2mbit", "3mbit", 1)
    (papers.PAPERS / "x" / "b.toml").write_text(whole)
    first = paper("first")
    paper("same", ("b.toml", whole, 'base = "a.toml"\ntitle = "B"\nid = "B"\npath.forward.rate = "3mbit"\n'))
    paper("other", ("b.toml", '"3mbit"', '"4mbit"'))
    assert named(first) == ["other"]


def test_claims_that_cannot_be_read_are_compared_as_they_stand(paper):
    """An older commit may need names that the lab no longer has."""
    (papers.PAPERS / "x" / "claims.py").write_text(CLAIMS.replace("each, goodput", "each, goodput, gone"))
    first = paper("first")
    paper("comment", ("claims.py", "    yield", "    # a comment\n    yield"))
    paper("bound", ("claims.py", "at_least=2", "at_least=3"))
    assert named(first) == ["bound"]
