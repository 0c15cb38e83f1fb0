# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The tables of the papers' pages are what the published results give."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from asymlab import LabError
from asymlab.report import papers, tables

from shared import REPO, asymlab

DOCS = REPO / "docs"
WITH_TABLES = [p for p in papers.names() if (papers.PAPERS / p / "tables.md").exists()]
TEMPLATE = "<!-- table one -->\n| {FA-2a; paper} | {%s} |\n"
PAGE = "Before.\n<!-- table one -->\nold\n<!-- end of table -->\nAfter.\n"


@pytest.mark.parametrize("paper", WITH_TABLES)
def test_the_pages_tables_are_what_the_results_give(paper):
    page = (DOCS / f"{paper}.md").read_text()
    assert tables.filled(page, paper, DOCS / "results") == page, "`asymlab publish docs/results --tables` mends it"
    wanted = re.findall(r"<!-- table (\w+) -->", (papers.PAPERS / paper / "tables.md").read_text())
    assert wanted and re.findall(r"<!-- table (\w+) -->", page) == wanted


def test_another_result_is_another_table(tmp_path):
    shutil.copytree(DOCS / "results", tmp_path / "results")
    shutil.copy(DOCS / "fast.md", tmp_path)
    verdicts = json.loads((tmp_path / "results" / "verdicts.json").read_text())
    next(v for v in verdicts if v["id"] == "FA-T2a").update(value=1.234, low=1.1, high=1.4)
    (tmp_path / "results" / "verdicts.json").write_text(json.dumps(verdicts))
    p = asymlab("publish", tmp_path / "results", "--tables")
    assert p.returncode == 0, p.stderr
    old, new = ((folder / "fast.md").read_text().splitlines() for folder in (DOCS, tmp_path))
    assert [b for a, b in zip(old, new, strict=True) if a != b] == [
        "| alpha 1000 and 500 at k_f = 4: ratio of shares | 2 | 1.23 (1.10 to 1.40) |"
    ]


@pytest.fixture
def fill(tmp_path, monkeypatch):
    """A page with one table, filled by a template that has this name in it."""
    monkeypatch.setattr(papers, "PAPERS", tmp_path)
    (tmp_path / "fast").mkdir()

    def filled(name: str, page: str = PAGE) -> str:
        (tmp_path / "fast" / "tables.md").write_text(TEMPLATE % name)
        return tables.filled(page, "fast", DOCS / "results")

    return filled


@pytest.mark.parametrize(
    "name, shown",
    [
        ("FA-T2a", "2.02"),
        ("FA-T2a; .1f", "2.0"),
        ("FA-T2a; .2f; interval", "2.02 (1.93 to 2.11)"),
        ("FA-2b; .2%", "0.16 %"),
        ("FA-T2b; interval", "25"),
        ("formosa-throughput; Reno at 20; .2f", "2.35"),
        ("taichung-fairness; Taichung at 0.1; .3f; interval", "0.976 (0.969 to 0.982)"),
    ],
)
def test_numbers_by_name(fill, name, shown):
    assert fill(name) == f"Before.\n<!-- table one -->\n| 25 | {shown} |\n<!-- end of table -->\nAfter.\n"


@pytest.mark.parametrize(
    "name, reason",
    [
        ("FA-9", "no such verdict"),
        ("FA-2b; paper", "it has no value"),
        ("formosa-throughput; Reno at 33", "0 points there"),
        ("formosa-throughput; Nobody at 20", "points there"),
        ("FA-2a; .3z", "format"),
    ],
)
def test_a_name_of_nothing_is_one_line(fill, name, reason):
    with pytest.raises(LabError, match=re.escape(f"{{{name}}}: ")) as e:
        fill(name)
    assert reason in str(e.value) and "\n" not in str(e.value)


def test_no_results(tmp_path):
    p = asymlab("publish", tmp_path, "--tables")
    assert p.returncode == 1 and p.stderr.startswith(f"asymlab: {tmp_path}: no published results")


def test_a_place_without_its_table(fill):
    with pytest.raises(LabError, match="no table two"):
        fill("FA-2a", PAGE.replace("one", "two"))
