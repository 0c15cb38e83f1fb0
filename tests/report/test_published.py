# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""docs/results/report.html: all that is published, on one page that one can cite; and how parts are read back."""

from __future__ import annotations

import html
import json
import shlex
import shutil

import pytest

from asymlab import LabError
from asymlab.report import found, publish, published

from madeup import Page
from shared import REPO

RESULTS = REPO / "docs" / "results"
HEADINGS = ("How to cite", "Method", "Threats to validity", "Results")
MAX = 600_000  # bytes


@pytest.fixture(scope="module")
def parts():
    return published.parts(RESULTS)


@pytest.fixture(scope="module")
def text(parts):
    return published.page(parts)


def test_the_pages_are_what_the_parts_give(parts, text):
    assert (RESULTS / "report.html").read_text() == text, "`asymlab publish --front` mends it"
    assert (RESULTS / "README.md").read_text() == publish.front(parts), "`asymlab publish --front` mends it"


def test_claims_without_a_measured_cause_are_counted():
    said = [("not reproduced", "measured"), ("not reproduced", "a guess"), ("inconclusive", ""), ("fails", "not found")]
    verdicts = [{"verdict": word, "cause": cause} for word, cause in [*said, ("reproduced", "")]]
    assert published.Part(RESULTS, "", "full", {}, [*verdicts, {"verdict": "inconclusive"}], []).unexplained == 3


def test_it_has_each_row_and_the_command_that_repeats_it(parts, text):
    page = Page(text)
    ids = [v["id"] for part in parts for v in part.verdicts]
    assert len(ids) > 300 and len(parts) == len(list(RESULTS.glob("*/README.md")))
    assert len(page.ids) == len(set(page.ids))
    said = " ".join(page.text.split())
    for part in parts:
        assert part.hash in said and part.about["image"] in said and part.about[published.CHANGED] in said
        for v in part.verdicts:
            assert f"{v['id']} {' '.join(v['claim'].split())}" in said
            assert shlex.join(["asymlab", "repeat", part.name, v["id"]]) in said
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
    assert f"{cited['authors']} ({max(p.date for p in parts)[:4]}). {cited['title']}, version {version}." in said
    assert f"@software{{asymcc, author = {{{{{cited['authors']}}}}}," in said
    for part in parts:
        assert part.about[published.COMMIT] in said


def test_the_same_parts_give_the_same_page_and_others_another(text, tmp_path):
    shutil.copytree(RESULTS, tmp_path / "results")
    assert published.page(published.parts(tmp_path / "results")) == text
    file = tmp_path / "results" / "fast" / "verdicts.json"
    verdicts = json.loads(file.read_text())
    verdicts[0] |= {"verdict": "inconclusive", "claim": "a <b>claim</b>", "reason": "& why"}
    file.write_text(json.dumps(verdicts))
    page = published.page(published.parts(tmp_path / "results"))
    assert "a &lt;b&gt;claim&lt;/b&gt;" in page and "<b>" not in page and "&amp; why" in page
    assert (
        Page(page).text.split("Not all is decided.")[1].split()[3]
        != Page(text).text.split("Not all is decided.")[1].split()[3]
    )  # how many claims are inconclusive


def test_a_part_is_read_as_it_was_written(tmp_path):
    run = {
        "name": "X-1 seed 1",
        "key": "k" * 32,
        "invalid": ["CPU"],
        "command": "asymlab run experiments/papers/fast/x.toml --set full --seed 1",
        "provenance": {
            "kernel": "6 <a> | b",
            "image": "ab" * 32,
            "qemu": "QEMU 7.2: it",
            "objects": {"fast.bpf.o": "cd" * 32},
            "result_sha256": "ef" * 32,
            "registered": "0123456789ab",
        },
    }
    one = found.found("fast", [], {"set": "quick", "runs": [run]}, tmp_path)
    publish.write([one], [publish.files(one)], tmp_path / "out")
    part = published.read(tmp_path / "out" / "fast")
    assert (part.which, part.verdicts, part.objects) == ("quick", [], {"fast": "cd" * 32})
    assert (part.about["kernel"], part.about["qemu"]) == ("6 <a> | b", "QEMU 7.2: it")
    assert part.about[published.REGISTERED] == "0123456789ab" and part.about[published.COMMIT]
    assert part.runs == [
        {"run": run["name"], "key": run["key"], "result_sha256": "ef" * 32, "valid": "0", "command": run["command"]}
    ]
    assert html.escape("6 <a> | b") in (tmp_path / "out" / "report.html").read_text()
    with pytest.raises(LabError, match="no published results"):
        published.read(tmp_path)
    (part.folder / "runs.csv").write_text(",".join(published.COLUMNS) + "\n")
    with pytest.raises(LabError, match="runs.csv: no run"):
        published.read(part.folder)


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
