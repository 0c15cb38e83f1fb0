# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""docs/results/report.html: all that is published, on one page that one can cite; and how parts are read back."""

from __future__ import annotations

import html
import shlex
import shutil

import pytest

from asymlab import LabError
from asymlab.report import part, publish, published, records
from asymlab.report.verdicts import TakenOver
from tests.report.madeup import Page
from tests.report.small import PROVENANCE, claim, run, write, write_report
from tests.shared import REPO

RESULTS = REPO / "docs" / "results"
HEADINGS = ("How to cite", "Method", "Threats to validity", "Results")
MAX = 600_000  # bytes


@pytest.fixture(scope="module")
def parts():
    return part.parts(RESULTS)


@pytest.fixture(scope="module")
def text(parts):
    return published.page(parts)


def test_the_pages_are_what_the_parts_give(parts, text):
    assert (RESULTS / "report.html").read_text() == text, "`asymlab publish --front` mends it"
    assert (RESULTS / "README.md").read_text() == published.front(parts), "`asymlab publish --front` mends it"
    for one in parts:
        for name, page in publish.pages(one).items():
            assert (RESULTS / one.name / name).read_text() == page, "`asymlab publish --front` mends it"


def test_claims_without_a_measured_cause_are_counted():
    said = [("not reproduced", "measured"), ("not reproduced", "a guess"), ("inconclusive", ""), ("fails", "not found")]
    one = part.Part("fast", None, [], [], {})
    vars(one)["verdicts"] = [{"verdict": word, "cause": cause} for word, cause in [*said, ("reproduced", "")]]
    assert one.unexplained == 2


def test_it_has_each_row_and_the_command_that_repeats_it(parts, text):
    page = Page(text)
    ids = [c.id for one in parts for c in one.claims]
    assert len(ids) > 300 and len(parts) == len(list(RESULTS.glob("*/README.md")))
    assert len(page.ids) == len(set(page.ids))
    said = " ".join(page.text.split())
    for one in parts:
        lines = published.lines(one)
        assert one.hash in said and lines["image"] in said and lines[published.CHANGED] in said
        for v in one.verdicts:
            assert f"{v['id']} {' '.join(v['claim'].split())}" in said
            assert shlex.join(["asymlab", "repeat", one.name, v["id"]]) in said
            assert " ".join(v["reason"].split()) in said
    for heading in HEADINGS:
        assert f">{heading}</h2>" in text


def test_it_needs_no_script_and_no_other_site(parts, text):
    page = Page(text)
    assert "script" not in page.tags and "data:image" not in text and len(text.encode()) < MAX
    links = [v for _, k, v in page.attributes if k in ("href", "src") and v != "data:,"]
    for link in links:
        assert link[1:] in page.ids if link.startswith("#") else (RESULTS / link).is_file(), link
    pictures = [v for tag, k, v in page.attributes if (tag, k) == ("img", "src")]
    assert sorted(pictures) == sorted(str(f.relative_to(RESULTS)) for f in RESULTS.glob("*/figures/*.png"))
    alts = [v for tag, k, v in page.attributes if (tag, k) == ("img", "alt")]
    assert len(alts) == len(pictures) and min(map(len, alts)) > 20
    assert not [alt for alt in alts if set(alt) & set("$\\{}")]


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
    shutil.copytree(RESULTS, tmp_path / "results")
    assert published.page(part.parts(tmp_path / "results")) == text
    folder = tmp_path / "results" / "fast"
    first, *rest = part.read(folder).claims
    open_one = {"taken_over": TakenOver(value=20, low=0, high=40), "claim": "a <b>claim</b>", "note": "& why"}
    kept = records.text_of([first.model_copy(update=open_one), *rest])
    (folder / "claims.json").write_text(kept["claims.json"])
    page = published.page(part.parts(tmp_path / "results"))
    assert "a &lt;b&gt;claim&lt;/b&gt;" in page and "<b>" not in page and "&amp; why" in page
    assert (
        Page(page).text.split("Not all is decided.")[1].split()[3]
        != Page(text).text.split("Not all is decided.")[1].split()[3]
    )  # how many claims are inconclusive


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
    keys = ("key", "command")
    assert kept.runs == [{"run": ran["name"], "result_sha256": "ef" * 32, "valid": "0"} | {k: ran[k] for k in keys}]
    assert html.escape("6 <a> | b") in (tmp_path / "out" / "report.html").read_text()
    with pytest.raises(LabError, match="no published results"):
        part.read(tmp_path)
    (tmp_path / "out" / "fast" / "runs.csv").write_text(",".join(records.RUNS) + "\n")
    with pytest.raises(LabError, match="runs.csv: no run"):
        part.read(tmp_path / "out" / "fast")


@pytest.mark.parametrize("qemu, other", [(True, False), (False, True)])
def test_the_method_is_that_of_the_engine_which_ran(tmp_path, qemu, other):
    """A process has no instructions to count, and QEMU's guest is no process."""
    engine = "QEMU emulator version 7.2" if qemu else "Linux 6.12.9 as a process"
    ran = run("X-1", 1, provenance=PROVENANCE | {"qemu": engine})
    publish.publish(write(write_report(tmp_path / "report"), [claim("X-1", [ran])], [ran]), tmp_path / "out")
    said = " ".join(Page((tmp_path / "out" / "report.html").read_text()).text.split())
    assert f"6.12.9. What runs it: {engine}." in said
    assert ("counts instructions" in said, "User Mode Linux" in said) == (qemu, other)


def test_no_page_is_read_back(tmp_path):
    """Whatever is made of the page that a part has, the part is the same, and the page is written anew."""
    shutil.copytree(RESULTS, tmp_path / "results")
    for page in ("README.md", "fast/README.md", "fast/verdicts.json", "report.html"):
        (tmp_path / "results" / page).write_text("- kernel: another\n")
    publish.write_front(tmp_path / "results")
    for page in ("README.md", "fast/README.md", "fast/verdicts.json", "report.html"):
        assert (tmp_path / "results" / page).read_bytes() == (RESULTS / page).read_bytes(), page


def test_words_for_a_figure(tmp_path):
    file = tmp_path / "one.csv"
    file.write_text(
        "panel,x_axis,y_axis,series,at,x,y,low,high\n"
        "panel 1,factor $k_f$,Mbit/s,FAST,,1,2,,\n"
        "panel 1,factor $k_f$,Mbit/s,FAST,,2,2,,\n"
        'panel 1,factor $k_f$,Mbit/s,"law, $\\sqrt{3/2p}$",,1,2,,\n'
        "panel 1,factor $k_f$,Mbit/s,series 1,,1,2,,\n"
        "Queue,,,horizontal line,,1,2,,\n"
    )
    assert published.words(file) == "Mbit/s over factor k_f: FAST; law, sqrt(3/2p). Queue."
