# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The report, from small made-up runs: complete, self-contained, escaped, the same each time."""

from __future__ import annotations

import csv
import errno
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from matplotlib.figure import Figure

from asymlab import LabError
from asymlab.console import PlainConsole
from asymlab.guest.wire import dump
from asymlab.report import drawing, html, pages, papers, records, report, sentences, terminal
from asymlab.report.judged import NOT_MADE, SYMBOLS
from asymlab.results import store
from asymlab.run import registered
from tests.report.madeup import Page, index, make, results_of, run_page, small

pytestmark = pytest.mark.slow


def test_verdicts_file_is_the_verdicts(full):
    verdicts, _, folder = full
    assert json.loads((folder / "verdicts.json").read_text()) == verdicts


def test_each_claim_is_left_with_its_bounds_and_the_value_of_each_run(full, runs):
    claims = {c.id: c for c in records.claims(full[2])}
    assert [v["id"] for v in full[0]] == list(claims)
    one = claims["FA-T1 1mbit"]
    assert (one.at_least, one.at_most, one.paper_value) == (23.75, 26.25, 25)
    mine = {r.record["key"]: r for r in runs if r.record["name"].startswith("FA-T1 1mbit ")}
    assert {s.key: s.value for s in one.samples} == {k: r.metrics["throughput_bps"] / 1e6 for k, r in mine.items()}
    assert {s.key: s.seed for s in one.samples} == {k: r.record["seed"] for k, r in mine.items()}


def test_page_shows_every_verdict_figure_and_run(full, runs):
    verdicts, figures, folder = full
    page = index(folder)
    assert len(figures) == 5
    for v in verdicts:
        assert v["claim"] in page.text and f"claim-{v['id'].replace(' ', '-')}" in page.ids
    for _, f in figures:
        assert f.title in page.text and f"figure-{f.id}" in page.ids
        assert (folder / "figures" / f"{f.id}.png").stat().st_size > 10_000 and (
            folder / "figures" / f"{f.id}.svg"
        ).exists()
        assert {"svg", "png", "csv"} == {file.suffix[1:] for file in (folder / "figures").glob(f"{f.id}.*")}
    for r in runs:
        assert r.record["name"] in page.text and f"run-{r.record['key']}" in page.ids
    assert (
        "6.12.0-test" in page.text and "c0ffeec0ffee" in page.text and "QEMU test" in page.text and "1.5 s" in page.text
    )
    assert (folder / "index.html").stat().st_size < 3e6


def test_verdict_table_comes_first(full):
    """A summary of the verdicts, that is; then each paper's figures, and its verdicts below them."""
    page = index(full[2])
    order = ("verdicts", "paper-fast", "figure-fast-throughput", "claims-fast", "runs")
    assert [id for id in page.ids if id in order] == list(order)
    summary = " ".join(page.text.split()).partition("All verdicts as CSV")[0]
    subject = "A flow's throughput falls as 1/k_f where its ACKs are the bottleneck."
    assert f"FAST TCP in asymmetric networks: {subject} {len(full[0])} verdicts: ✓" in summary


def test_verdicts_as_a_table_for_spreadsheets(full):
    with (full[2] / "verdicts.csv").open(newline="") as f:
        rows = list(csv.DictReader(f))
    assert [(r["id"], r["verdict"], r["claim"], r["reason"]) for r in rows] == [
        (v["id"], v["verdict"], v["claim"], v["reason"]) for v in full[0]
    ]
    assert [r["value"] for r in rows] == ["" if v["value"] is None else str(v["value"]) for v in full[0]]


def test_links_lead_somewhere_and_ids_are_unique(full):
    page = index(full[2])
    assert len(page.ids) == len(set(page.ids))
    links = [v for tag, k, v in page.attributes if k == "href" and tag == "a"]
    assert len(links) > 60 and all(v[1:] in page.ids if v[0] == "#" else (full[2] / v).is_file() for v in links)


def test_a_report_without_pages_of_runs_has_all_else(full, runs, place):
    verdicts, figures, folder = full
    report.write(verdicts, figures[:1], runs, "quick", folder=place / "report", run_pages=False)
    page = index(place / "report")
    assert not list((place / "report" / "runs").iterdir()) and list((place / "report" / "figures").iterdir())
    links = [v for tag, k, v in page.attributes if k == "href" and tag == "a"]
    assert all(v[1:] in page.ids if v[0] == "#" else (place / "report" / v).is_file() for v in links)
    assert {f"#run-{key}" for v in verdicts for key in v["runs"]} <= set(links)


def test_each_verdict_leads_to_its_runs(full):
    verdicts, _, folder = full
    text = (folder / "index.html").read_text()
    for v in verdicts:
        row = text[text.index(f'id="claim-{v["id"].replace(" ", "-")}"') :].partition("</tr>")[0]
        assert all(f'href="runs/{key}.html"' in row for key in v["runs"])
        assert v["n"] == 0 or f">{v['n']} run" in row


def test_pages_need_nothing_else(full):
    for file in (full[2] / "index.html", *(full[2] / "runs").iterdir()):
        page = Page(file.read_text())
        assert all(v == "data:," for tag, k, v in page.attributes if tag == "link" and k == "href")
        assert all(v.startswith("data:") for _, k, v in page.attributes if k in ("src", "srcset", "data"))
        assert not re.search(
            r"https?:(?!//(www\.w3|purl|creativecommons)\.org)|url\((?!#)|@import", unquote(file.read_text())
        ), file


def test_papers_come_in_order_and_the_matrix_last(place):
    def figure(id):
        return drawing.Figure(id, f"Title of {id}", "a caption", Figure())

    report.write(
        [],
        [("matrix", figure("m")), ("fusion", figure("b")), ("fusion", figure("a"))],
        [],
        "full",
        folder=place / "report",
    )
    ids = [i for i in index(place / "report").ids if i.startswith(("paper-", "figure-")) and not i.endswith("-title")]
    assert ids == ["paper-fusion", "figure-b", "figure-a", "paper-matrix", "figure-m"]


def test_the_small_picture_has_no_words():
    def drawn(words: str):
        figure = Figure()
        ax = figure.subplots()
        ax.plot([1, 2], label=words)
        if words:
            ax.set(title=words, xlabel=words, ylabel=words)
            ax.legend()
            ax.text(0, 1, words)
            figure.suptitle(words)
        return report.small(drawing.Figure("a", "A", "a caption", figure))

    assert drawn("words") == drawn("")


def test_figures_have_words(full):
    page = index(full[2])
    alts = [v for tag, k, v in page.attributes if tag == "img" and k == "alt"]
    assert len(alts) == 1 + len(full[1]) and all(len(a) > 40 for a in alts)  # one is small, in the summary


def test_same_input_same_bytes(full, runs, place):
    verdicts, _, folder = full
    figures = [("fast", f) for f in report.figures_of(papers.module("fast", "figures"), results_of(runs))]
    speed, claims = {"boot to first packet": "1.5 s"}, records.claims(folder)
    report.write(verdicts, figures, runs[::-1], "quick", speed=speed, folder=place / "report", claims=claims)
    for file in folder.rglob("*"):
        if file.is_file():
            assert file.read_bytes() == (place / "report" / file.relative_to(folder)).read_bytes(), file.name


def test_interval_only_with_several_runs(place, tmp_path):
    a, b = make(tmp_path, "FA-4"), make(tmp_path, "FA-4", seed=2)
    report.write([small(runs=[a.record["key"]], low=25.5, high=25.5)], [], [a, b], "full", folder=place / "report")
    assert "25 to 26" not in index(place / "report").text
    report.write([small(runs=[a.record["key"], b.record["key"]])], [], [a, b], "full", folder=place / "report")
    assert "25 to 26" in index(place / "report").text


def test_verdicts_in_words(place):
    report.write([small(v) for v in SYMBOLS], [], [], "full", folder=place / "report")
    text = " ".join(index(place / "report").text.split())
    for word, symbol in SYMBOLS.items():
        assert f"{symbol} 1 {word}" in text and f"{symbol} {word}" in text


def test_a_chain_shows_its_busiest_hop_and_lists_all(place, tmp_path):
    one = make(tmp_path, "FA-T1", {"path.reverse.rate": "1mbit"})
    report.write([], [], [one], "full", folder=place / "report")
    assert "hop 1" not in index(place / "report").text
    hops = [{**one.metrics["hops"][0], "name": name} for name in ("hop 1", "hop 2")]
    job = dump(replace(one.job, watch=[replace(one.job.watch[0], name=name) for name in ("hop 1", "hop 2")]))
    chain = store.Run(
        one.folder,
        one.record
        | {
            "metrics": one.metrics | {"busiest": "hop 2", "hops": hops},
            "identity": one.record["identity"] | {"job": job},
        },
    )
    report.write([], [], [chain], "full", folder=place / "report")
    text = index(place / "report").text
    assert "hop 1" not in text and text.count("hop 2") == 1
    text = run_page(place / "report", chain).text
    assert "hop 1" in text and text.count("hop 2") >= 2


def test_results_are_left_for_comparison(full, runs):
    results = json.loads((full[2] / "results.json").read_text())
    assert (
        results["commit"] == registered.head()
        and results["format"] == 1
        and results["set"] == "quick"
        and len(results["runs"]) == len(runs)
    )
    one = next(r for r in results["runs"] if r["case"] == "FA-T1 1mbit" and r["seed"] == 2)
    run = next(r for r in runs if r.record["name"] == one["name"])
    assert one["key"] == run.record["key"] and one["metrics"]["goodput_bps"] == run.metrics["goodput_bps"]
    assert one["metrics"]["rtt_p95_s"] == pytest.approx(0.36) and one["provenance"]["objects"] == {
        "fast.bpf.o": "fa" * 32
    }


def test_a_folder_that_is_no_report_is_not_replaced(place):
    (place / "report").mkdir()
    (place / "report" / "thesis.tex").write_text("years of work")
    with pytest.raises(LabError, match="holds thesis.tex"):
        report.write([small()], [], [], "quick", folder=place / "report")
    assert (place / "report" / "thesis.tex").read_text() == "years of work"


def test_invalid_runs_are_named_and_not_drawn(runs, place, tmp_path):
    bad = make(tmp_path, "FA-T2", invalid="base RTT: expected 1, measured 2")
    kept = [r for r in runs if r.record["id"] != "FA-T2"] + [bad]
    results = results_of(kept)
    figures = [("fast", f) for f in report.figures_of(papers.module("fast", "figures"), results)]
    assert [f.id for _, f in figures] == ["fast-throughput", "fast-series", "fast-queue", "fast-ack-path"]
    verdicts = sentences.verdicts(papers.judged("fast", results), {})
    report.write(verdicts, [], kept, "quick", folder=place / "report")
    text = " ".join(index(place / "report").text.split())
    assert "FA-T2 seed 1: base RTT: expected 1, measured 2" in text and "✗ no" in text
    assert next(v for v in verdicts if v["id"] == "FA-T2a")["verdict"] == "not measured"


def test_what_is_not_here_is_listed_as_not_measured():
    verdict = results_of([]).not_measured("X-1", "Fig. 1", "a rival > another", "it is not here")
    assert (verdict.verdict, verdict.value, verdict.runs) == ("not measured", None, [])
    assert sentences.verdicts([verdict], {})[0]["reason"] == "it is not here"


def test_text_is_escaped(place, tmp_path):
    evil = "<script>alert(1)</script>\"'&"
    run = make(tmp_path, "FA-4", title=evil, invalid=evil)
    figure = drawing.Figure("evil", evil, evil, Figure())
    report.write(
        [small(claim=evil, reason=evil, source=evil)],
        [("fast", figure)],
        [run],
        "quick",
        speed={evil: evil},
        folder=place / "report",
    )
    page = index(place / "report")
    assert page.tags.count("script") == 1 and evil in page.text
    page = run_page(place / "report", run)
    assert "script" not in page.tags and page.text.count(evil) == 2
    other = make(tmp_path, "FA-4", seed=2)
    other.metrics["flows"][0]["controller"] = evil
    page = Page(pages.render(other))
    assert "script" not in page.tags and evil in page.text
    with pytest.raises(LabError, match="job.flows.0.controller: .* must match"):
        pages.render(make(tmp_path, "FA-4", seed=3, controllers=[evil]))


def test_report_is_replaced_whole(place):
    report.write(
        [small()], [("fast", drawing.Figure("old", "Old", "old", Figure()))], [], "quick", folder=place / "report"
    )
    report.write([small("not reproduced")], [], [], "quick", folder=place / "report")
    assert [p.name for p in (place / "report" / "figures").iterdir()] == []
    assert json.loads((place / "report" / "verdicts.json").read_text())[0]["verdict"] == "not reproduced"
    assert [p.name for p in place.iterdir()] == ["report"]


@pytest.mark.parametrize("call", ["write_bytes", "rename"])
def test_full_disk_keeps_the_old_report(place, monkeypatch, call):
    report.write([small()], [], [], "quick", folder=place / "report")
    original = getattr(Path, call)

    def fail(self, *args):
        if self.name in ("index.html", "new"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(self, *args)

    monkeypatch.setattr(Path, call, fail)
    with pytest.raises(LabError, match="No space left on device") as error:
        report.write([small("not reproduced")], [], [], "quick", folder=place / "report")
    assert "\n" not in str(error.value)
    assert json.loads((place / "report" / "verdicts.json").read_text())[0]["verdict"] == "reproduced"
    assert [p.name for p in place.iterdir()] == ["report"]


def test_natural_order(tmp_path):
    made = [make(tmp_path, "FA-T1", {"path.reverse.rate": r}) for r in ("10mbit", "0.5mbit", "2mbit")]
    assert [r.record["point"]["path.reverse.rate"] for r in report.ordered(made)] == ["0.5mbit", "2mbit", "10mbit"]


def test_interval_or_why_there_is_none():
    def said(**of):
        return html.interval(small() | {"value": 2.0, "low": 2.0, "high": 2.0, "n": 5} | of)

    assert said(low=1.5, high=2.5) == "1.5 to 2.5"
    assert said(low=1.5, high=2.5, distinct=2, sampled=False) == "1.5 or 2.5"
    assert said(worst=True) == "worst run" and said(distinct=1) == "one value"
    assert said(n=1, distinct=1) == "", "one run"
    assert html.runs(small() | {"n": 5, "distinct": 2}) == "5 runs, 1 seed, 2 values"


def test_terminal_table(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(terminal, "console", PlainConsole(file=out, width=100))
    verdicts = [small(), small("not reproduced", claim="in [bold]5[/] and [1.9, 2.1]", reason="it [red] is not")]
    left_out = small("not measured", claim="of runs that --only left out", reason=NOT_MADE)
    terminal.print_verdicts([*verdicts, left_out], 12.3)
    text = out.getvalue()
    assert "left out" not in text
    assert "[bold]5[/]" in text and "[1.9, 2.1]" in text and "it [red] is not" in text
    assert (
        "1 reproduced, 1 not reproduced, 0 inconclusive, 0 holds, 0 fails, 0 undecided, 1 not measured; 12 s" in text
        and "report/index.html" in text
    )


def test_terminal_table_of_papers(monkeypatch, snapshot):
    out = io.StringIO()
    monkeypatch.setattr(terminal, "console", PlainConsole(file=out, width=120))
    several = [small(), small("not reproduced"), small("inconclusive"), small("not measured", paper="matrix")]
    terminal.print_papers(several, 12.3)
    snapshot(out.getvalue().replace(str(terminal.REPORT.resolve().relative_to(Path.cwd())), "REPORT"))
    narrow = io.StringIO()
    monkeypatch.setattr(terminal, "console", PlainConsole(file=narrow, width=80))
    terminal.print_papers(several, 12.3)
    assert "…" not in narrow.getvalue()  # no word is cut
