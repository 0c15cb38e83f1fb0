# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The pages of the runs: what they show, and when they are drawn."""

from __future__ import annotations

from types import SimpleNamespace
from urllib.parse import unquote

import numpy as np
import pytest

from asymlab import LabError
from asymlab.report import drawing, pages, report
from asymlab.results import store, tables
from tests.report.madeup import Page, make, results_of, run_page

pytestmark = pytest.mark.slow


def test_each_run_has_its_page(full, runs):
    assert {p.stem for p in (full[2] / "runs").iterdir()} == {r.record["key"] for r in runs}
    for r in runs:
        page = run_page(full[2], r)
        for text in (
            r.record["command"],
            r.record["result_sha256"],
            r.record["identity"]["image"],
            "fa" * 32,
            "base RTT src0-dst0, us",
            "40,035",
        ):
            assert text in page.text
        assert f"../index.html#run-{r.record['key']}" in [v for _, k, v in page.attributes if k == "href"]
        assert page.tags.count("img") == 2


def test_a_runs_page_shows_its_series(full, runs):
    svg = [unquote(v) for tag, k, v in run_page(full[2], runs[0]).attributes if tag == "img" and k == "src"]
    for word in (
        "Congestion window",
        "ssthresh",
        "timeout",
        "Goodput by flow",
        "utilisation",
        "Queue at the bottleneck",
        "RTT samples",
    ):
        assert f">{word}" in svg[0] or word in svg[0]
    for word in (
        "share below",
        "ACKs without data",
        "bytes of an ACK",
        "Utilisation of the reverse link",
        "Reverse queue",
    ):
        assert word in svg[1]


def test_an_upload_is_drawn_on_its_own_link(tmp_path):
    run = make(tmp_path, "FA-4", controllers=["fast", "reno"])
    job = run.record["identity"]["job"]
    up, link = job["flows"][1], job["links"][0]
    up["src"], up["dst"] = up["dst"], up["src"]
    for host, node in ((up["dst"], link["a"]), (up["src"], link["b"])):
        job["links"].append(link | {"a": node | {"node": host, "dev": host}, "b": node | {"dev": f"to-{host}"}})
    _, down, back, *_ = pages.time_axes(run).axes
    assert "forward" in down.get_title() and "reverse" in back.get_title()
    tops = [[drawn.get_paths()[0].vertices[:, 1].max() for drawn in ax.collections] for ax in (down, back)]
    assert tops == [[pytest.approx(12, rel=0.01)]] * 2
    assert [f.label for f in pages.drawn(run)] == ["0 fast forward", "1 reno reverse"]
    assert "<td>reverse</td>" in pages.render(run)


def test_series_of_a_run_are_those_measured(tmp_path):
    run = make(tmp_path, "FA-4", controllers=["fast", "reno"])
    window, rate, queue, rtt = pages.time_axes(run).axes[:4]
    assert [line.get_ydata().max() for line in window.lines[:4:2]] == [1001, 1001]  # every second one is ssthresh
    assert np.nanmax(window.lines[1].get_ydata()) == 600
    marks = {line.get_label(): len(line.get_xdata()) for line in window.lines}
    assert marks["recovery from a loss"] == 4 and marks["timeout"] == 0  # both flows lose at the same times
    tops = [drawn.get_paths()[0].vertices[:, 1].max() for drawn in rate.collections]
    assert tops == pytest.approx([12, 24], rel=0.01)
    reverse, forward = pages.Link(run, "reverse"), pages.Link(run, "forward")
    assert (
        forward.bps == pytest.approx(8e6)
        and reverse.acks_per_s == pytest.approx(1000)
        and reverse.ack_bytes == pytest.approx(40)
    )
    assert reverse.queue == pytest.approx(999) and forward.queue == pytest.approx(0)
    assert np.median(rtt.lines[0].get_ydata()) == 360


def test_timeouts_retransmissions_and_drops_are_marked(tmp_path):
    run = make(tmp_path, "FA-4")
    arrays = {name: tables.read(run.folder, name) for name in ("acks", "links")}
    arrays["acks"]["ca_state"] = 0
    arrays["acks"]["ca_state"][200:203] = 4
    arrays["acks"]["retrans"][100:] = 1
    arrays["links"]["drops"][(arrays["links"]["dev"] == "left-right") & (arrays["links"]["t"] > 2.95)] = 5
    tables.write(arrays, run.folder)
    run = store.Run(run.folder, run.record | {"result_sha256": "cd" * 32})
    window, _, queue = pages.time_axes(run).axes[:3]
    at = {line.get_label(): line.get_xdata() for ax in (window, queue) for line in ax.lines}
    t = arrays["acks"]["t"]
    assert list(at["timeout"]) == [t[200]] and len(at["recovery from a loss"]) == 0
    assert set(at["retransmission"]) == {t[100]} and at["drop"] == pytest.approx([3.0])


def test_without_rack_the_smoothed_rtt_is_drawn(tmp_path):
    run = make(tmp_path, "FA-4")
    acks = tables.read(run.folder, "acks")
    acks["rtt_us"], acks["srtt_us"] = 0, 77_000
    tables.write({"acks": acks}, run.folder)
    run = store.Run(run.folder, run.record | {"result_sha256": "ef" * 32})
    with drawing.style():
        rtt = pages.time_axes(run).axes[3]
    assert rtt.get_title("left").startswith("Smoothed RTT") and set(rtt.lines[0].get_ydata()) == {77}


def test_an_invalid_run_is_never_drawn(place, tmp_path, monkeypatch):
    bad = make(tmp_path, "FA-4", invalid="base RTT: expected 1, measured 2")
    for draws in ("time_axes", "ack_path"):
        monkeypatch.setattr(pages, draws, lambda run: pytest.fail("drawn"))
    report.write([], [], [bad], "quick", folder=place / "report")
    page = run_page(place / "report", bad)
    assert "img" not in page.tags and "base RTT: expected 1, measured 2" in page.text

    def names(results):
        return [r.record["name"] for _, r in results.found] + [r.record["name"] for r in results.all("FA-4")]

    good = make(tmp_path, "FA-4", seed=2)
    assert report.figures_of(SimpleNamespace(FIGURES=[names]), results_of([bad, good])) == [["FA-4 seed 2"] * 2]
    assert [r.valid for r in results_of([bad, good]).all("FA-4")] == [False, True]  # what claims see stays


def test_pages_are_kept_until_run_or_code_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "CACHE", tmp_path / "cache")
    drawn = []
    monkeypatch.setattr(pages, "render", lambda run, in_report: drawn.append(run.record["key"]) or "page")
    runs = [make(tmp_path, "FA-4"), make(tmp_path, "FA-4", seed=2)]
    first = pages.up_to_date(runs)
    assert len(drawn) == 2 and all(file.read_text() == "page" for file in first.values())
    assert pages.up_to_date(runs) == first and len(drawn) == 2
    changed = store.Run(runs[0].folder, runs[0].record | {"result_sha256": "0" * 64})
    assert pages.up_to_date([changed, runs[1]]).keys() == first.keys() and drawn[2:] == [changed.record["key"]]
    assert len(list((tmp_path / "cache").iterdir())) == 2  # the old page is gone
    monkeypatch.setattr(pages, "version", lambda: b"other code")
    pages.up_to_date(runs)
    assert len(drawn) == 5


@pytest.mark.parametrize("cores", [1, 2])
def test_a_page_outside_a_report_leads_to_none(tmp_path, monkeypatch, cores):
    """Both pages of a run are kept: neither is drawn again for the other."""
    monkeypatch.setattr(pages, "CACHE", tmp_path / "cache")
    runs = [make(tmp_path, "FA-4", {"bad": "yes"}, seed=seed, invalid="base RTT") for seed in range(1, 6 + 1)]
    alone = pages.up_to_date(runs, cores)
    inside = pages.up_to_date(runs, cores, in_report=True)
    assert pages.up_to_date(runs, cores) == alone
    for r in runs:
        links = [v for tag, k, v in Page(alone[r.key].read_text()).attributes if (tag, k) == ("a", "href")]
        assert links and all(link.startswith("#") for link in links)
        assert f'href="../index.html#run-{r.key}"' in inside[r.key].read_text()


def test_many_pages_are_drawn_by_several_processes(tmp_path, monkeypatch):
    runs = [make(tmp_path, "FA-4", seed=seed) for seed in range(1, 7)]
    monkeypatch.setattr(pages, "CACHE", tmp_path / "alone")
    alone = pages.up_to_date(runs, cores=1)
    monkeypatch.setattr(pages, "CACHE", tmp_path / "several")
    monkeypatch.setattr(pages, "save", lambda *_: pytest.fail("drawn in this process"))
    several = pages.up_to_date(runs, cores=2)
    assert len(alone) == 6 and all(several[key].read_bytes() == file.read_bytes() for key, file in alone.items())


@pytest.mark.parametrize("cores", [1, 2])
def test_a_run_that_cannot_be_drawn_is_named(tmp_path, monkeypatch, cores):
    monkeypatch.setattr(pages, "CACHE", tmp_path / "cache")
    runs = [make(tmp_path, "FA-4", seed=seed) for seed in range(1, 6 + 1)]
    (runs[3].folder / "acks.npz").write_bytes(b"no table")
    with pytest.raises(LabError, match=f"{runs[3].folder}/acks.npz: no table of a run") as error:
        pages.up_to_date(runs, cores=cores)
    assert "\n" not in str(error.value)


def test_a_page_of_many_flows_stays_small(tmp_path):
    run = make(tmp_path, "FA-4", controllers=["fast"] * 20)
    assert len(pages.render(run)) < 300_000
