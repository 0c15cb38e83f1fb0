# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymlab publish`: what is kept of a report, and what it refuses to replace."""

import json
import shutil
import subprocess

import pytest
from PIL import Image, ImageColor

from asymlab import LabError
from asymlab.report import papers, part, publish, records
from asymlab.report.judged import Judged, Sample
from asymlab.run import registered
from tests.report.small import CLAIM, PROVENANCE, RUN, RUNS, everything, run, write, write_report
from tests.shared import REPO, asymlab

pytestmark = pytest.mark.slow


@pytest.fixture
def report(tmp_path):
    return write_report(tmp_path / "report")


def test_a_small_copy_of_what_a_report_says(report, tmp_path, snapshot, monkeypatch):
    monkeypatch.setattr(part, "changed", lambda *_: [])  # as git has it
    kept = tmp_path / "docs" / "results"
    for _ in range(2):  # the second time it replaces its own
        publish.publish(report, kept)
    assert sorted(f.name for f in kept.iterdir()) == ["README.md", "fast"]
    assert sorted(f.name for f in (kept / "fast").iterdir()) == ["README.md", records.DATA]
    text = (kept / "fast" / "README.md").read_text() + (kept / "README.md").read_text()
    snapshot(text.replace(part.read(kept / "fast").about.date, "DATE"))
    one = part.read(kept / "fast")
    assert one.runs == [records.PublishedRun(r["name"], "ef" * 6, valid) for r, valid in zip(RUNS, (True, False))]
    assert one.claims[0].samples == [Sample(1, RUN["name"], 2.5)]
    assert one.claims[0].left_out == {RUNS[1]["name"]: "X-1 reno seed 2 is invalid: CPU"}


def test_a_value_has_seven_digits(report, tmp_path):
    kept = tmp_path / "docs" / "results"
    publish.publish(report, kept)
    one = part.read(kept / "fast")
    one.claims[0].samples[:] = [Sample(1, RUN["name"], 2 / 3)]
    (kept / "fast" / records.DATA).write_bytes(publish.data(one))
    assert part.read(kept / "fast").claims[0].values == [0.6666667]


def test_the_figures_that_a_page_shows(report, tmp_path):
    """They stay as they are, until --figures draws them anew."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "fast.md").write_text(
        "![one](results/fast/figures/fast-one.png) ![x](results/fusion/figures/fusion-one.png)"
    )
    file = docs / "results" / "fast" / "figures" / "fast-one.png"
    publish.publish(report, docs / "results")
    assert [f.name for f in docs.rglob("*.png")] == ["fast-one.png"]
    with Image.open(file) as small:
        assert small.size == (200, 100) and len(small.getcolors()) <= publish.COLOURS
    assert "![fast-one](figures/fast-one.png)" in (file.parent.parent / "README.md").read_text()
    before = file.read_bytes()
    Image.new("RGB", (600, 300)).save(report / "figures" / "fast-one.png")
    publish.publish(report, docs / "results")
    assert file.read_bytes() == before
    publish.publish(report, docs / "results", figures=True)
    assert file.read_bytes() != before


def test_a_published_figure_keeps_its_lines_and_its_pale_grid(tmp_path):
    """Many tones of one line take no place from the others."""
    tones = [(0, 60 + tone, 100 + tone) for tone in range(120)]
    lines = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#f0e442", "#000000", "#dddddd"]
    picture = Image.new("RGB", (300, 3 * (len(tones) + 9 * len(lines))), "white")
    for at, tone in enumerate(tones):
        picture.paste(tone, (0, 3 * at, 300, 3 * at + 3))
    for at, line in enumerate(lines):
        picture.paste(line, (0, 3 * (len(tones) + 9 * at), 300, 3 * (len(tones) + 9 * at) + 12))
    picture.save(tmp_path / "all.png")
    publish.keep_figure("all", tmp_path, tmp_path, tmp_path / "kept", anew=True)
    with Image.open(tmp_path / "kept" / "all.png") as small:
        pixels = small.convert("RGB")
    for at, line in enumerate(lines):
        pixel = pixels.getpixel((100, 2 * (len(tones) + 9 * at) + 3))
        assert max(abs(a - b) for a, b in zip(pixel, ImageColor.getrgb(line), strict=True)) < 10, line


def test_a_part_leaves_the_others(report, tmp_path):
    """A paper that the report does not hold, or that is not named, keeps what was published of it."""
    kept = tmp_path / "results"
    shutil.copytree(REPO / "docs" / "results", kept)
    for name in ("", "fast"):
        assert asymlab("publish", *filter(None, [name]), "--to", kept, "--report", report).returncode == 0
    for file in (REPO / "docs" / "results").glob(f"*/{records.DATA}"):
        if file.parent.name != "fast":
            assert (kept / file.parent.name / records.DATA).read_bytes() == file.read_bytes()
    assert len(part.read(kept / "fast").runs) == 2
    p = asymlab("publish", "fusion", "--to", kept, "--report", report)
    assert p.returncode == 1 and "has no run of fusion; `asymlab suite fusion` makes them" in p.stderr


def test_the_pages_beside_it_follow(report, tmp_path):
    """A page's table is filled. A report that lacks a number replaces nothing."""
    docs = tmp_path / "docs"
    shutil.copytree(REPO / "docs" / "results" / "pseudorate", docs / "results" / "pseudorate")
    page = docs / "pseudorate.md"
    page.write_text((REPO / "docs" / "pseudorate.md").read_text())
    assert asymlab("publish", "--to", docs / "results", "--report", report).returncode == 0
    assert page.read_text() == (REPO / "docs" / "pseudorate.md").read_text()  # no run of its paper
    claims = part.read(REPO / "docs" / "results" / "pseudorate").claims
    runs = [run(s.key.rpartition(" seed ")[0], s.seed, key=f"{at:032x}", name=s.key) for at, s in named(claims)]
    keys = {r["name"]: r["key"] for r in runs}
    claims = [other(c, keys, 17.0 if c.id == "PR-7b" else None) for c in claims]
    write(report, claims, runs, "pseudorate")
    p = asymlab("publish", "pseudorate", "--to", docs / "results", "--report", report)
    assert p.returncode == 0 and "| 17 packets |" in page.read_text(), p.stderr
    before = everything(docs)
    write(report, claims[:3], runs, "pseudorate")
    p = asymlab("publish", "--to", docs / "results", "--report", report)
    assert p.returncode == 1 and "no such verdict" in p.stderr
    assert everything(docs) == before


def named(claims: list[Judged]) -> list[tuple[int, Sample]]:
    """A number and a sample of each run."""
    return list(enumerate({s.key: s for c in claims for s in c.samples}.values()))


def other(c: Judged, keys: dict[str, str], value: float | None) -> Judged:
    """The claim with keys for the names of its runs, and with another value."""
    samples = [Sample(s.seed, keys[s.key], s.value if value is None else value) for s in c.samples]
    return c.model_copy(update={"samples": samples, "left_out": {}})


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


def test_a_report_of_some_cases_replaces_nothing(report, tmp_path):
    """A row of it may rest on runs that it has not."""
    results = json.loads((report / "results.json").read_text())
    (report / "results.json").write_text(json.dumps(results | {"only": ["X-1 *"]}))
    p = asymlab("publish", "--to", tmp_path / "kept", "--report", report)
    assert p.returncode == 1 and p.stderr.count("\n") == 1 and not (tmp_path / "kept").exists()
    assert "of some cases; `asymlab suite fast` makes all" in p.stderr


def test_the_front_alone(report, tmp_path):
    """Written from the parts that lie there; they stay as they are."""
    kept = tmp_path / "results"
    publish.publish(report, kept)
    before = everything(kept)
    (kept / "README.md").unlink()
    shutil.copytree(REPO / "docs" / "results" / "thin", kept / "thin")
    p = asymlab("publish", "--front", "--to", kept)
    assert p.returncode == 0, p.stderr
    assert {f: b for f, b in everything(kept / "fast").items()} == {f: b for f, b in before.items() if f.parent != kept}
    assert "| [thin](thin/README.md) | 0 |" in (kept / "README.md").read_text()
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


def test_names_out_of_a_report_are_no_markup(report, tmp_path):
    words = "[a](javascript:x) ![b](//c) [d][e] [f\\](g) \x1b[2J"
    told = PROVENANCE | {"kernel": "6\n# <b>", "objects": {"[e]": "javascript:y"}}
    write(report, [CLAIM.model_copy(update={"claim": words})], [RUN | {"provenance": told}])
    publish.publish(report, tmp_path / "x")
    text = (tmp_path / "x" / "fast" / "README.md").read_text()
    assert "- kernel: 6 # &lt;b>" in text and "- [e\\]: javascript:y" in text
    assert r"Fig. 1: [a\](javascript:x) ![b\](//c) [d\][e] [f\\\](g) ?[2J |" in text
