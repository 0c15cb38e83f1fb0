# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymlab publish`: what is kept of a report, and what it refuses to replace."""

import csv
import json
import shutil
import subprocess

import pytest
from PIL import Image

from asymlab import LabError
from asymlab.report import papers, part, publish
from asymlab.report.verdicts import Judged, Sample, TakenOver
from asymlab.run import registered
from tests.report.small import CLAIM, PROVENANCE, RUN, RUNS, everything, run, write, write_report
from tests.shared import REPO, asymlab

pytestmark = pytest.mark.slow


@pytest.fixture
def report(tmp_path):
    return write_report(tmp_path / "report")


def test_a_small_copy_of_what_a_report_says(report, tmp_path):
    kept = tmp_path / "results"
    for _ in range(2):  # the second time it replaces its own
        p = asymlab("publish", "--to", kept, "--report", report)
        assert p.returncode == 0, p.stderr
    assert sorted(f.name for f in kept.iterdir()) == ["README.md", "fast", "report.html"]
    assert "| [fast](fast/README.md) | 0 | 1 | 0 | 0 | 0 | 0 | 0 | 1 |" in (kept / "README.md").read_text()
    text = (kept / "fast" / "README.md").read_text()
    assert "2 runs of the full set. 0 reproduced, 1 not reproduced, 0 inconclusive" in text
    assert (
        "| X-1 | Fig. 1: goodput &lt; 3 \\| 4 | X-1 | 2 | 2.5 |  | 1 | ✗ not reproduced (one run): 2.5 is above 2; "
        "X-1 reno seed 2 is invalid: CPU; cause not found |" in text
    )
    assert f"- fast.bpf.o: {'cd' * 32}" in text and "- kernel: 6.12.9" in text
    assert "- commit that made them, and repeats them to the byte: 00aa11bb22cc" in text
    assert "- claims, bounds, seeds and durations, committed before the runs: 0123456789ab" in text
    with open(kept / "fast" / "runs.csv") as f:
        rows = list(csv.DictReader(f))
    assert [(r["run"], r["valid"], r["result_sha256"], r["command"]) for r in rows] == [
        (r["name"], valid, "ef" * 32, r["command"]) for r, valid in zip(RUNS, "10")
    ]
    with open(kept / "fast" / "samples.csv") as f:
        assert list(csv.DictReader(f)) == [{"claim": "X-1", "seed": "1", "key": RUN["key"], "value": "2.5"}]
    figures = kept / "fast" / "figures"
    assert sorted(f.name for f in figures.iterdir()) == [
        *("fast-one.csv", "fast-one.png", "fast-two.parquet", "fast-two.png")
    ]
    with Image.open(figures / "fast-one.png") as small:
        assert small.size == (200, 100) and len(small.getcolors()) <= 64
    page = (kept / "report.html").read_text()
    for name in ("fast-one", "fast-two"):
        assert (
            f'<img alt="Alone (Mbit/s): FAST." loading="lazy" width="200" height="100" src="fast/figures/{name}.png">'
            in page
        )


def test_a_part_leaves_the_others(report, tmp_path):
    """A paper that the report does not hold, or that is not named, keeps what was published of it."""
    kept = tmp_path / "results"
    shutil.copytree(REPO / "docs" / "results", kept)
    for name in ("", "fast"):
        assert asymlab("publish", *filter(None, [name]), "--to", kept, "--report", report).returncode == 0
    for file in (REPO / "docs" / "results").glob("*/runs.csv"):
        if file.parent.name != "fast":
            assert (kept / file.parent.name / "runs.csv").read_bytes() == file.read_bytes()
    assert len((kept / "fast" / "runs.csv").read_text().splitlines()) == 3
    p = asymlab("publish", "fusion", "--to", kept, "--report", report)
    assert p.returncode == 1 and "has no run of fusion; `asymlab suite fusion` makes them" in p.stderr


def test_the_pages_beside_it_follow(report, tmp_path):
    """A page's table is filled, and old texts are named. A report that lacks a number replaces nothing."""
    docs = tmp_path / "docs"
    shutil.copytree(REPO / "docs" / "results" / "pseudorate", docs / "results" / "pseudorate")
    page = docs / "pseudorate.md"
    page.write_text((REPO / "docs" / "pseudorate.md").read_text())
    assert asymlab("publish", "--to", docs / "results", "--report", report).returncode == 0
    assert page.read_text() == (REPO / "docs" / "pseudorate.md").read_text()  # no run of its paper
    other = {"taken_over": TakenOver(value=17, low=17, high=17)}
    claims = part.read(REPO / "docs" / "results" / "pseudorate").claims
    claims = [c.model_copy(update=other) if c.id == "PR-7b" else c for c in claims]
    write(report, claims, [RUN], "pseudorate")
    p = asymlab("publish", "pseudorate", "--to", docs / "results", "--report", report)
    assert p.returncode == 0 and "| 17 packets |" in page.read_text()
    told = " ".join(p.stderr.split())
    assert "papers/pseudorate/claims.py: its `published` texts are of other results" in told
    before = everything(docs)
    write(report, claims[:3], [RUN], "pseudorate")
    p = asymlab("publish", "--to", docs / "results", "--report", report)
    assert p.returncode == 1 and "no such verdict" in p.stderr
    assert everything(docs) == before


def test_later_changes_of_the_claims_are_named(tmp_path):
    """By the repository's own history: the first commit of a paper's claims has later ones, the last has none."""
    folder = papers.PAPERS / "fast"
    log = subprocess.run(
        ["git", "-C", REPO, "log", "--format=%h", "--abbrev=12", "--", folder], capture_output=True, text=True
    ).stdout.split()
    if not log:
        pytest.skip("no history here")
    last = registered.commit(folder)
    assert last.rstrip("+") in log and registered.later(last, folder) == []
    if len(log) > 1:  # a clone may be shallow
        assert registered.later(log[-1], folder)
    assert registered.commit(tmp_path) == "" and registered.later("none", folder) == []


def test_a_quick_set_replaces_no_full_one(report, tmp_path):
    kept = tmp_path / "results"
    full = (report / "results.json").read_text()
    quick = full.replace('"full"', '"quick"')
    for text in (quick, quick, full):
        (report / "results.json").write_text(text)
        publish.publish(report, kept)
    before = everything(kept)
    (report / "results.json").write_text(quick)
    p = asymlab("publish", "fast", "--to", kept, "--report", report)
    assert p.returncode == 1 and p.stderr.count("\n") == 1
    assert "of the quick set, and" in p.stderr and "`asymlab suite fast` makes a full report" in p.stderr
    assert everything(kept) == before


def test_fewer_seeds_replace_no_part(report, tmp_path):
    kept = tmp_path / "results"
    publish.publish(report, kept)
    before = everything(kept)
    write(report, [CLAIM], RUNS[:1])
    p = asymlab("publish", "fast", "--to", kept, "--report", report)
    assert p.returncode == 1 and p.stderr.count("\n") == 1 and everything(kept) == before
    assert "1 of the 2 seeds of X-1 reno that" in p.stderr
    write(report, [CLAIM], [*RUNS, run("X-1 reno", 3)])
    publish.publish(report, kept)


def test_the_front_alone(report, tmp_path):
    """Written from the parts that lie there; they stay as they are."""
    kept = tmp_path / "results"
    publish.publish(report, kept)
    before = everything(kept)
    for name in ("README.md", "report.html"):
        (kept / name).unlink()
    shutil.copytree(REPO / "docs" / "results" / "thin", kept / "thin")
    p = asymlab("publish", "--front", "--to", kept)
    assert p.returncode == 0, p.stderr
    assert {f: b for f, b in everything(kept / "fast").items()} == {f: b for f, b in before.items() if f.parent != kept}
    assert "| [thin](thin/README.md) | 0 |" in (kept / "README.md").read_text()
    assert 'id="thin"' in (kept / "report.html").read_text()
    p = asymlab("publish", "--front", "--to", tmp_path / "none")
    assert p.returncode == 1 and "no published results" in p.stderr and p.stderr.count("\n") == 1


def test_it_replaces_nothing_else(report, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter.txt").write_text("dear")
    p = asymlab("publish", "--to", mine, "--report", report)
    assert (
        p.returncode == 1
        and p.stderr.startswith(f"asymlab: {mine}: holds something else")
        and p.stderr.count("\n") == 1
    )
    assert (mine / "letter.txt").read_text() == "dear"


def test_no_report(tmp_path):
    p = asymlab("publish", "--to", tmp_path / "x", "--report", tmp_path / "none")
    assert (
        p.returncode == 1
        and p.stderr.startswith(f"asymlab: {tmp_path / 'none'}: no report of a suite")
        and p.stderr.count("\n") == 1
    )
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda c, r: c[0].update(worst="<b>"),
        lambda c, r: c[0].pop("source"),
        lambda c, r: c.append(c[0]),
        lambda c, r: c[0].update(id="X-2"),
        lambda c, r: r["runs"][0].update(provenance=[]),
        lambda c, r: r.update(runs=3),
        lambda c, r: r.update(papers=["fast"]),
        lambda c, r: r["runs"][0]["provenance"].update(objects={"x": 3}),
        lambda c, r: c.append(3),
    ],
)
def test_a_damaged_report_replaces_nothing(report, tmp_path, change):
    claims, results = (json.loads((report / f"{name}.json").read_text()) for name in ("claims", "results"))
    change(claims, results)
    for name, value in (("claims", claims), ("results", results)):
        (report / f"{name}.json").write_text(json.dumps(value))
    with pytest.raises(LabError, match="no report of a suite"):
        publish.publish(report, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_figure_without_its_data_is_named(report, tmp_path):
    (report / "figures" / "fast-one.csv").write_text("x\ny\n")
    with pytest.raises(LabError, match="fast-one.png: no figure with its data"):
        publish.publish(report, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_names_out_of_a_report_are_no_markup(report, tmp_path):
    write(report, [CLAIM], [RUN | {"provenance": PROVENANCE | {"kernel": "6\n# <b>"}}])
    publish.publish(report, tmp_path / "x")
    assert "- kernel: 6 # &lt;b>" in (tmp_path / "x" / "fast" / "README.md").read_text()


def test_a_row_that_picks_a_point_has_the_runs_of_one(tmp_path):
    """More seeds may pick another point: its runs do not join those of the one before."""

    def row(point: str, seeds: int, **also) -> Judged:
        samples = [Sample(n, f"{point}{n}", 1.0) for n in range(seeds)]
        return Judged(id="X-1", paper="fast", source="", claim="", at_most=2.0, samples=samples, picked=True, **also)

    assert part.joined(row("a", 4), row("b", 10), tmp_path) == row("b", 10)
    assert part.joined(row("a", 4), row("a", 10), tmp_path) == row("a", 10)
    assert part.joined(row("a", 4), row("b", 10, missing="not made"), tmp_path) == row("a", 4)
    with pytest.raises(LabError, match="X-1 is of another point now, with fewer runs"):
        part.joined(row("a", 10), row("b", 4), tmp_path)
