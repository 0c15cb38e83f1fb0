# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Results that somebody else gave, damaged: who reads them says so in one line, or takes them."""

from __future__ import annotations

import lzma
import random
import shutil
from pathlib import Path

import pytest

from asymlab import LabError
from asymlab.report import compare, part, publish, published, records, tables
from tests.hostile import COUNT, changed, one_line_or_none
from tests.report.small import write_report
from tests.shared import REPO

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["results.json", "claims.json", "samples.csv", "verdicts.json"])
def test_a_damaged_report(tmp_path, name):
    report = write_report(tmp_path / "report")
    whole, rng = (report / name).read_bytes(), random.Random(name)
    for _ in range(COUNT):
        (report / name).write_bytes(changed(whole, rng, name.endswith("json")))
        one_line_or_none(lambda: publish.publish(report, tmp_path / "kept"))
        one_line_or_none(
            lambda: compare.run(
                *(compare.load(report) for _ in "ab"), 0.05, True, tmp_path / "page.html", tmp_path / "page.json"
            )
        )
        shutil.rmtree(tmp_path / "kept", ignore_errors=True)


@pytest.mark.parametrize("inside", [True, False])
def test_damaged_published_results(tmp_path, inside):
    """The compressed file itself, and the text in it."""
    results = tmp_path / "results"
    file = results / "oneack" / records.DATA
    shutil.copytree(REPO / "docs" / "results" / "oneack", file.parent)
    whole, rng = file.read_bytes(), random.Random(inside)
    text = lzma.decompress(whole)
    page = (REPO / "docs" / "studies.md").read_text()
    for _ in range(COUNT // 2):
        file.write_bytes(lzma.compress(changed(text, rng, True), preset=0) if inside else changed(whole, rng, False))
        one_line_or_none(lambda: publish.write_front(results))
        one_line_or_none(lambda: published.write_page(results, tmp_path / "page.html"))
        (tmp_path / "studies.md").write_text(page)
        one_line_or_none(lambda: tables.write(results))


def test_a_small_file_that_stands_for_gigabytes(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "SIZE_MAX", 32 << 20)
    (tmp_path / records.DATA).write_bytes(lzma.compress(bytes(64 << 20), preset=0))
    with pytest.raises(LabError, match="results.json.xz: cut off, or larger than 33554432 bytes"):
        part.read(tmp_path)


def test_the_file_and_the_place_are_named(tmp_path):
    report = write_report(tmp_path / "report")
    (report / "verdicts.json").write_text('[{"id": {}}]')
    with pytest.raises(LabError, match=r"verdicts.json: not a report's results: 0.id: Input should be a valid string"):
        compare.load(Path(report))
