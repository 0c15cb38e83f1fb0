# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The tables of the papers' pages are what the published results give."""

from __future__ import annotations

import re
import shutil

import pytest

from asymlab import LabError
from asymlab.report import papers, part, tables
from asymlab.report.judged import Judged, Sample
from asymlab.report.part import Part
from asymlab.report.points import point, points
from tests.report.small import repack
from tests.shared import REPO, asymlab

DOCS = REPO / "docs"
RESULTS = DOCS / "results"
WITH_TABLES = [p for p in papers.names() if (papers.PAPERS / p / "tables.md").exists()]
TEMPLATE = "<!-- table one -->\n| {FA-2a; paper} | {%s} |\n"
PAGE = "Before.\n<!-- table fast one -->\nold\n<!-- end of table -->\nAfter.\n"


@pytest.mark.parametrize("paper", WITH_TABLES)
def test_the_pages_tables_are_what_the_results_give(paper):
    found = []
    for page, text in tables.pages(RESULTS, DOCS, [paper]).items():
        assert page.read_text() == text, "`asymlab publish --tables` mends it"
        found += re.findall(rf"<!-- table {paper} (\w+) -->", text)
    wanted = re.findall(r"<!-- table (\w+) -->", (papers.PAPERS / paper / "tables.md").read_text())
    assert wanted and found == wanted


def test_another_result_is_another_table(tmp_path):
    shutil.copytree(DOCS / "results", tmp_path / "results")
    shutil.copy(DOCS / "fast.md", tmp_path)
    folder = tmp_path / "results" / "fast"

    def change(data: dict) -> None:
        at = [claim["id"] for claim in data["claims"]].index("FA-T2a")
        data["values"][at]["values"] = [1.1, 1.2, 1.3, 1.2, 1.2]

    repack(folder, change)
    p = asymlab("publish", "--to", tmp_path / "results", "--tables")
    assert p.returncode == 0, p.stderr
    old, new = ((folder / "fast.md").read_text().splitlines() for folder in (DOCS, tmp_path))
    assert [b for a, b in zip(old, new, strict=True) if a != b] == [
        "| alpha 1000 and 500 at k_f = 4: ratio of shares | 2 | 1.20 (1.11 to 1.29) |"
    ]


CLAIMS = [
    Judged(
        id=id,
        paper="fast",
        source="Fig. 1",
        claim="it is",
        paper_value=value,
        samples=[Sample(seed, str(seed), one) for seed, one in enumerate(values)],
    )
    for id, value, values in (
        ("FA-2a", 25, [25.0, 25.0]),
        ("FA-2b", None, [0.0016]),
        ("FA-T2a", 2, [2.02 - 0.01, 2.02 + 0.01]),
    )
]
CSV = """panel,series,x,y,low,high
One flow,Reno,19.9,2.351,2.3,2.4
One flow,FAST,20,5,,
The other,Reno,20,7,6,8
"""


@pytest.fixture
def fill(tmp_path, monkeypatch):
    """A page with one table, filled by a template that has this name in it."""
    monkeypatch.setattr(papers, "PAPERS", tmp_path)
    (tmp_path / "fast").mkdir()
    (tmp_path / "fast-throughput.csv").write_text(CSV)
    about = part.read(RESULTS / "fast").about

    def filled(name: str, page: str = PAGE) -> str:
        (tmp_path / "fast" / "tables.md").write_text(TEMPLATE % name)
        return tables.filled(page, Part("fast", about, CLAIMS, [], points("fast", tmp_path)))

    return filled


@pytest.mark.parametrize(
    "name, shown",
    [
        ("FA-T2a", "2.02"),
        ("FA-T2a; .1f", "2.0"),
        ("FA-T2a; .2f; interval", "2.02 (1.89 to 2.15)"),
        ("FA-2b; .2%", "0.16 %"),
        ("FA-2a; interval", "25"),
        ("FA-2a; mark", "25 ✓"),
        ("fast-throughput; Reno at 20; .2f", "2.35"),
        ("fast-throughput; Reno at 20; .2f; interval", "2.35 (2.30 to 2.40)"),
        ("fast-throughput; FAST at 20; interval", "5"),
    ],
)
def test_numbers_by_name(fill, name, shown):
    assert fill(name) == f"Before.\n<!-- table fast one -->\n| 25 | {shown} |\n<!-- end of table -->\nAfter.\n"


@pytest.mark.parametrize(
    "name, reason",
    [
        ("FA-9", "no such verdict"),
        ("FA-2b; paper", "it has no value"),
        ("fast-throughput; Reno at 33", "0 points there"),
        ("fast-throughput; Nobody at 20", "points there"),
        ("FA-2a; .3z", "format"),
    ],
)
def test_a_name_of_nothing_is_one_line(fill, name, reason):
    with pytest.raises(LabError, match=re.escape(f"{{{name}}}: ")) as e:
        fill(name)
    assert reason in str(e.value) and "\n" not in str(e.value)


def test_no_results(tmp_path):
    p = asymlab("publish", "--to", tmp_path, "--tables")
    assert p.returncode == 1 and p.stderr.startswith(f"asymlab: {tmp_path}: no published results")


def test_a_place_without_its_table(fill):
    with pytest.raises(LabError, match="no table two"):
        fill("FA-2a", PAGE.replace("one", "two"))


def test_of_two_near_points_the_one_that_is_named(tmp_path):
    """10 is within a tenth of 9's place and of its own."""
    rows = [f"panel 1,path,s,CUBIC,,{x},{x / 10},," for x in (1, 9, 10)]
    (tmp_path / "one.csv").write_text("\n".join(["panel,x_axis,y_axis,series,at,x,y,low,high", *rows]) + "\n")
    assert [point(tmp_path / "one.csv", "CUBIC", x) for x in (9, 10)] == [(0.9, 0.9, 0.9), (1.0, 1.0, 1.0)]
    with pytest.raises(LookupError, match="2 points there"):
        point(tmp_path / "one.csv", "CUBIC", 9.5)
