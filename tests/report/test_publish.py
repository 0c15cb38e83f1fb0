# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymlab publish`: what is kept of a report, and what it refuses to replace."""

import csv
import json

import pytest
from PIL import Image

from asymlab import LabError
from asymlab.report import publish

from shared import REPO, asymlab

RUN = {
    "name": "X-1 reno seed 1",
    "case": "X-1 reno",
    "seed": 1,
    "key": "k" * 32,
    "invalid": [],
    "command": "asymlab run x.toml --seed 1",
    "metrics": {},
    "provenance": {
        "kernel": "6.12.9",
        "image": "ab" * 32,
        "qemu": "QEMU emulator version 7.2",
        "objects": {"fast.bpf.o": "cd" * 32},
        "result_sha256": "ef" * 32,
    },
}
VERDICT = {
    "id": "X-1",
    "paper": "x",
    "source": "Fig. 1",
    "claim": "goodput < 3 | 4",
    "paper_value": 2,
    "value": 2.5,
    "low": 2.25,
    "high": 2.75,
    "verdict": "not reproduced",
    "reason": "a queue",
    "runs": ["k" * 32],
    "n": 3,
}


@pytest.fixture
def report(tmp_path):
    folder = tmp_path / "report"
    (folder / "figures").mkdir(parents=True)
    (folder / "verdicts.json").write_text(json.dumps([VERDICT]))
    (folder / "results.json").write_text(
        json.dumps({"format": 1, "set": "full", "runs": [RUN, RUN | {"key": "l" * 32, "invalid": ["CPU"]}]})
    )
    Image.effect_noise((300, 150), 60).convert("RGB").save(folder / "figures" / "one.png")
    for name, size in (("one", 100), ("two", 200_000)):
        (folder / "figures" / f"{name}.csv").write_text("x" * size)
        (folder / "figures" / f"{name}.parquet").write_bytes(b"PAR1")
    Image.new("RGB", (300, 150)).save(folder / "figures" / "two.png")
    return folder


def test_a_small_copy_of_what_a_report_says(report, tmp_path):
    kept = tmp_path / "results"
    for _ in range(2):  # the second time it replaces its own
        p = asymlab("publish", kept, "--report", report)
        assert p.returncode == 0, p.stderr
    text = (kept / "README.md").read_text()
    assert "2 runs of the full set. 0 reproduced, 1 not reproduced" in text
    assert "| X-1 | Fig. 1: goodput &lt; 3 \\| 4 | 2 | 2.5 | 2.25 to 2.75 | 3 | ✗ not reproduced: a queue |" in text
    assert f"- fast.bpf.o: {'cd' * 32}" in text and "- kernel: 6.12.9" in text
    with open(kept / "runs.csv") as f:
        rows = list(csv.DictReader(f))
    assert [(r["run"], r["valid"], r["result_sha256"], r["command"]) for r in rows] == [
        (RUN["name"], valid, "ef" * 32, RUN["command"]) for valid in "10"
    ]
    assert sorted(f.name for f in (kept / "figures").iterdir()) == ["one.csv", "one.png", "two.parquet", "two.png"]
    with Image.open(kept / "figures" / "one.png") as small:
        assert small.size == (200, 100) and len(small.getcolors()) <= 64


def test_the_pages_beside_it_follow(report, tmp_path):
    """A page's table is filled, and old texts are named. A report that lacks a number replaces nothing."""
    docs = tmp_path / "docs"
    docs.mkdir()
    page = docs / "matrix.md"
    page.write_text((REPO / "docs" / "fast.md").read_text())
    assert asymlab("publish", docs / "results", "--report", report).returncode == 0
    assert page.read_text() == (REPO / "docs" / "fast.md").read_text()  # no verdict of its paper
    page.rename(docs / "fast.md")
    verdicts = json.loads((REPO / "docs" / "results" / "verdicts.json").read_text())
    verdicts = [v for v in verdicts if v["paper"] == "fast"]
    next(v for v in verdicts if v["id"] == "FA-X2")["value"] = 48.1
    (report / "verdicts.json").write_text(json.dumps(verdicts))
    p = asymlab("publish", docs / "results", "--report", report)
    assert (
        p.returncode == 0
        and "| delayed ACKs at 1 Mbit/s, so k_f = 2: Mbit/s | | 48.1 |" in (docs / "fast.md").read_text()
    )
    told = " ".join(p.stderr.split())
    for paper in ("formosa", "fusion", "taichung", "pseudorate"):
        assert f"papers/{paper}/reasons.toml: its `published` texts are of other results" in told
    before = {file: file.read_bytes() for file in docs.rglob("*") if file.is_file()}
    (report / "verdicts.json").write_text(json.dumps(verdicts[:3]))
    p = asymlab("publish", docs / "results", "--report", report)
    assert p.returncode == 1 and "no such verdict" in p.stderr
    assert {file: file.read_bytes() for file in docs.rglob("*") if file.is_file()} == before


def test_it_replaces_nothing_else(report, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter.txt").write_text("dear")
    p = asymlab("publish", mine, "--report", report)
    assert (
        p.returncode == 1
        and p.stderr.startswith(f"asymlab: {mine}: holds something else")
        and p.stderr.count("\n") == 1
    )
    assert (mine / "letter.txt").read_text() == "dear"


def test_no_report(tmp_path):
    p = asymlab("publish", tmp_path / "x", "--report", tmp_path / "none")
    assert (
        p.returncode == 1
        and p.stderr.startswith(f"asymlab: {tmp_path / 'none'}: no report of a suite")
        and p.stderr.count("\n") == 1
    )
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda v, r: v[0].update(verdict="<b>"),
        lambda v, r: v[0].pop("paper"),
        lambda v, r: r["runs"][0].update(provenance=[]),
        lambda v, r: r.update(runs=3),
        lambda v, r: r["runs"][0]["provenance"].update(objects={"x": 3}),
        lambda v, r: v.append(3),
    ],
)
def test_a_damaged_report_replaces_nothing(report, tmp_path, change):
    verdicts, results = (json.loads((report / f"{name}.json").read_text()) for name in ("verdicts", "results"))
    change(verdicts, results)
    for name, value in (("verdicts", verdicts), ("results", results)):
        (report / f"{name}.json").write_text(json.dumps(value))
    with pytest.raises(LabError, match="no report of a suite"):
        publish.publish(report, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_names_out_of_a_report_are_no_markup(report, tmp_path):
    (report / "results.json").write_text(
        json.dumps(
            {"format": 1, "set": "full", "runs": [RUN | {"provenance": RUN["provenance"] | {"kernel": "6\n# <b>"}}]}
        )
    )
    publish.publish(report, tmp_path / "x")
    assert "- kernel: 6 # &lt;b>" in (tmp_path / "x" / "README.md").read_text()
