# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A report of made-up runs, for all tests that look at one."""

from __future__ import annotations

import pytest

from asymlab.report import pages, papers, report, sentences
from asymlab.results import store
from tests.report.madeup import everything, results_of


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Run pages are kept for all tests here, and not beside the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "CACHE", tmp_path_factory.mktemp("cache"))
        yield pages.CACHE


@pytest.fixture
def place(tmp_path):
    """A folder for a test's report, beside nothing else."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> list[store.Run]:
    return everything(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="session")
def full(runs, tmp_path_factory):
    """(verdicts, figures, folder of the written report)."""
    folder = tmp_path_factory.mktemp("out") / "report"
    results = results_of(runs)
    claims = papers.judged("fast", results)
    verdicts = sentences.verdicts(claims, papers.causes("fast"))
    figures = [("fast", f) for f in report.figures_of(papers.module("fast", "figures"), results)]
    speed = {"boot to first packet": "1.5 s"}
    report.write(verdicts, figures, runs, "quick", speed=speed, folder=folder, claims=claims)
    return verdicts, figures, folder
