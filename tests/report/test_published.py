# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""All that is published, on one page that one can cite; and how parts are read back."""

from __future__ import annotations

import html
import shutil
import zlib

import pytest

from asymlab import LabError
from asymlab.reality import page as reality
from asymlab.report import part, publish, published, records, resample
from asymlab.report.sentences import clusters
from tests.report.madeup import Page
from tests.report.small import PROVENANCE, claim, repack, run, write, write_report
from tests.shared import REPO, asymlab

RESULTS = REPO / "docs" / "results"
HEADINGS = ("How to cite", "Method", "Threats to validity", "Lab and reality", "Rows by other seeds", "Results")
MAX = 2_000_000  # bytes


@pytest.fixture(scope="module")
def parts():
    return part.parts(RESULTS)


def page_of(folder) -> str:
    published.write_page(folder, folder.parent / "page.html", reality.published(folder))
    return (folder.parent / "page.html").read_text()


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "page.html"
    p = asymlab("report", "--published", "--to", file)
    assert p.returncode == 0, p.stderr
    return file.read_text()


def test_the_pages_are_what_the_parts_give():
    for file, page in publish.pages(RESULTS).items():
        assert file.read_text() == page, "`asymlab publish --front` mends it"


def test_what_is_published_is_small():
    """A publication of all parts adds its data and pages to each clone, and so do its pictures."""
    data = [f.stat().st_size for f in RESULTS.rglob(records.DATA)]
    pages = [len(zlib.compress(f.read_bytes())) for f in RESULTS.rglob("*.md")]
    assert len(data) == len(list(RESULTS.glob("*/"))) and sum(data) + sum(pages) < 400_000
    lines = [f.read_bytes().count(b"\n") for f in RESULTS.rglob("*") if f.is_file()]
    assert sum(lines) < 15_000


def test_claims_are_counted_by_how_their_cause_is_known():
    paper, another = "measured in the paper's set-up", "measured by another set-up"
    said = [("not reproduced", paper), ("inconclusive", another), ("not reproduced", "guess"), ("inconclusive", "")]
    one = part.Part("fast", None, [], [], {})
    said += [("fails", "guess"), ("reproduced", "")]
    vars(one)["verdicts"] = [{"verdict": word, "cause": cause} for word, cause in said]
    assert one.causes == {paper: 1, another: 1, "guess": 1, "unexplained": 1}


def test_claims_over_one_scenario_are_a_cluster():
    def row(family: str, **of) -> dict:
        return {"paper": "fast", "family": family, "check": False, "verdict": "reproduced"} | of

    rows = [row("A"), row("B C"), row("D"), row("A D"), row("C", paper="fusion"), row("E", check=True)]
    assert clusters(rows) == 3  # A D, B C, and C of another paper
    assert clusters([*rows, row("D B")]) == 2


def test_claims_stand_beside_those_of_a_preset():
    def row(id: str, verdict: str, value: float, **of) -> dict:
        return {"id": id, "verdict": verdict, "value": value, "paper_value": 2, "check": False, "preset": ""} | of

    of = {"check": True, "preset": "default"}
    rows = [row("A", "reproduced", 2), row("A default", "undecided", 3, **of), row("B", "not reproduced", 4)]
    lines = published.by_preset([*rows, row("C", "holds", 5, check=True)])
    assert lines[3:5] == ["- as claimed: 1 reproduced, 1 not reproduced", "- default: 1 not reproduced, 1 inconclusive"]
    assert lines[-2:] == [
        "| A | 2 | 2 | ✓ reproduced | 3 | ? inconclusive |",
        "| B | 2 | 4 | ✗ not reproduced | the same | ✗ not reproduced |",
    ]
    assert published.by_preset(rows[:1]) == []


def test_it_has_each_row_and_the_command_that_repeats_one(parts, text):
    page = Page(text)
    ids = [c.id for one in parts for c in one.claims]
    assert len(ids) > 300 and len(parts) == len(list(RESULTS.glob("*/README.md")))
    assert len(page.ids) == len(set(page.ids))
    said = " ".join(page.text.split())
    for one in parts:
        lines = published.lines(one)
        assert lines["image"] in said and lines[published.CHANGED] in said
        assert not one.verdicts or f"asymlab repeat {one.name} 'ROW'" in said
        for v in one.verdicts:
            assert f"{v['id']} {' '.join(v['claim'].split())}" in said
            assert " ".join(v["reason"].split()) in said
    for heading in HEADINGS:
        assert f">{heading}</h2>" in text


def test_it_has_live_runs_and_rows_by_other_seeds(text, tmp_path):
    def close(*words: str) -> str:
        return "".join("".join(words).split())

    said = close(Page(text).text)
    groups = resample.by_reason(resample.read(RESULTS / resample.DATA))
    rows = [row for *_, shown in groups for row in shown]
    assert all(close(told) in said for _, told, _ in groups)
    assert rows and all(close(r.paper, r.row, r.published, r.here, "; seeds", r.seeds, r.kept) in said for r in rows)
    headers, kinds = reality.published(RESULTS)
    bold = [cell.strip("*") for row in kinds for cell in row if cell.startswith("**")]
    assert len(kinds) > 20 and close(*headers, *kinds[0], *kinds[1]) in said
    assert bold and text.count('<td class="n"><strong>') == len(bold) and "**" not in said
    ran = run("X-1", 1)
    publish.publish(write(write_report(tmp_path / "report"), [claim("X-1", [ran])], [ran]), tmp_path / "out")
    page = page_of(tmp_path / "out")
    assert reality.published(tmp_path / "out") is None
    assert "Lab and reality" not in page and "Rows by other seeds" not in page


def test_it_needs_no_script_no_other_file_and_no_other_site(text):
    page = Page(text)
    assert "script" not in page.tags and len(text.encode()) < MAX
    links = [v for _, k, v in page.attributes if k == "href" and v != "data:,"]
    assert not [link for link in links if link[1:] not in page.ids]
    pictures = [v for tag, k, v in page.attributes if (tag, k) == ("img", "src")]
    assert len(pictures) == len(list(RESULTS.glob("*/figures/*.png")))
    assert all(picture.startswith("data:image/png;base64,") for picture in pictures)


def test_it_is_cited_by_version_authors_and_commits(parts, text):
    said = " ".join(Page(text).text.split())
    version = (REPO / "VERSION").read_text().strip()
    citation = (REPO / "CITATION.cff").read_text()
    cited = published.cited()
    assert cited["version"] == version and f"asymcc {version}" in said
    assert cited["title"] in citation and cited["authors"] in citation
    assert f"{cited['authors']} ({max(p.about.date for p in parts)[:4]}). {cited['title']}, version {version}." in said
    assert f"@software{{asymcc, author = {{{{{cited['authors']}}}}}," in said
    for one in parts:
        assert one.about.commit in said


def test_the_same_parts_give_the_same_page_and_others_another(text, tmp_path):
    shutil.copytree(RESULTS.parent, tmp_path / "docs")  # its pages describe the figures
    shutil.copy(REPO / "README.md", tmp_path)
    assert page_of(tmp_path / "docs/results") == text

    def change(data: dict) -> None:
        data["claims"][0] |= {"claim": "a <b>claim</b>", "note": "& why"}
        data["values"][0]["values"] = [0.0, 100.0, 0.0, 100.0, 0.0]

    repack(tmp_path / "docs/results" / "fast", change)
    page = page_of(tmp_path / "docs/results")
    assert "a &lt;b&gt;claim&lt;/b&gt;" in page and "<b>" not in page and "&amp; why" in page
    open_rows = [Page(one).text.split("Not all is decided.")[1].split()[0] for one in (page, text)]
    assert open_rows[0] != open_rows[1]


def test_a_part_is_read_as_it_was_written(tmp_path):
    strange = {"kernel": "6 <a> | b", "qemu": "QEMU 7.2: it, and more"}
    ran = run("X-1", 1, invalid=["CPU"], provenance=PROVENANCE | strange)
    about = {"image_name": "6.18", "commit": "00aabb1+"}
    report = write(write_report(tmp_path / "report"), [claim("X-1", [], missing="no <run>")], [ran], **about)
    publish.publish(report, tmp_path / "out")
    kept = part.read(tmp_path / "out" / "fast")
    assert (kept.about.kernel, kept.about.qemu) == ([strange["kernel"]], [strange["qemu"]])
    assert (kept.about.image_name, kept.about.commits) == ("6.18", [about["commit"]])
    assert (kept.about.registered, kept.about.objects) == (["0123456789ab"], {"fast.bpf.o": ["cd" * 32]})
    assert kept.claims == [claim("X-1", [], missing="no <run>")]
    assert kept.runs == [records.PublishedRun(ran["name"], "ef" * 6, False)]
    assert html.escape("6 <a> | b") in page_of(tmp_path / "out")
    with pytest.raises(LabError, match="no published results"):
        part.read(tmp_path)
    repack(tmp_path / "out" / "fast", lambda data: data["runs"].update(name=[], result=[]))
    with pytest.raises(LabError, match="runs.name: List should have at least 1 item"):
        part.read(tmp_path / "out" / "fast")


@pytest.mark.parametrize("qemu, other", [(True, False), (False, True)])
def test_the_method_is_that_of_the_engine_which_ran(tmp_path, qemu, other):
    """A process has no instructions to count, and QEMU's guest is no process."""
    engine = "QEMU emulator version 7.2" if qemu else "Linux 6.12.9 as a process"
    ran = run("X-1", 1, provenance=PROVENANCE | {"qemu": engine})
    publish.publish(write(write_report(tmp_path / "report"), [claim("X-1", [ran])], [ran]), tmp_path / "out")
    said = " ".join(Page(page_of(tmp_path / "out")).text.split())
    assert f"6.12.9. Engine: {engine}." in said
    assert ("counts instructions" in said, "User Mode Linux" in said) == (qemu, other)


def test_no_page_is_read_back(tmp_path):
    """Whatever is made of the page that a part has, the part is the same, and the page is written anew."""
    shutil.copytree(RESULTS, tmp_path / "results")
    for page in ("README.md", "fast/README.md"):
        (tmp_path / "results" / page).write_text("- kernel: another\n")
    publish.write_front(tmp_path / "results")
    for page in ("README.md", "fast/README.md"):
        assert (tmp_path / "results" / page).read_bytes() == (RESULTS / page).read_bytes(), page
