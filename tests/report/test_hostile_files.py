# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Results that somebody else gave, damaged: who reads them says so in one line, or takes them."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from asymlab import LabError
from asymlab.report import compare, part, publish, published, tables
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


@pytest.mark.parametrize("name", ["part.json", "runs.csv", "claims.json", "samples.csv"])
def test_damaged_published_results(tmp_path, name):
    results = tmp_path / "results"
    folder = results / "oneack"
    shutil.copytree(REPO / "docs" / "results" / "oneack", folder)
    whole, rng = (folder / name).read_bytes(), random.Random(name)
    page = (REPO / "docs" / "studies.md").read_text()
    for _ in range(COUNT // 4):
        (folder / name).write_bytes(changed(whole, rng, name.endswith("json")))
        one_line_or_none(lambda: published.page([part.read(folder)]))
        one_line_or_none(lambda: publish.write_front(results))
        one_line_or_none(lambda: part.quoted("oneack", [], {}, results))
        (tmp_path / "studies.md").write_text(page)
        one_line_or_none(lambda: tables.write(results))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_damaged_data_of_a_figure(tmp_path, kind):
    report = write_report(tmp_path / "report")
    publish.publish(report, tmp_path / "kept")
    folder, name = tmp_path / "kept" / "fast", "fast-two" if kind == "parquet" else "fast-one"
    file = folder / "figures" / f"{name}.{kind}"
    whole, rng = file.read_bytes(), random.Random(kind)
    for _ in range(COUNT):
        file.write_bytes(changed(whole, rng, False))
        one_line_or_none(lambda: published.page([part.read(folder)]))
        one_line_or_none(lambda: part.points(file.with_suffix("")))


def test_the_file_and_the_place_are_named(tmp_path):
    report = write_report(tmp_path / "report")
    (report / "verdicts.json").write_text('[{"id": {}}]')
    with pytest.raises(LabError, match=r"verdicts.json: not a report's results: 0.id: Input should be a valid string"):
        compare.load(Path(report))
