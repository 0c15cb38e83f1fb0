# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The report, from small made-up runs: complete, self-contained, escaped, the same each time."""

from __future__ import annotations

import csv
import errno
import io
import json
import re
import struct
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import numpy as np
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure
from test_capture import packet

from asymlab import LabError, controllers
from asymlab.guest import agent
from asymlab.plan import scenario
from asymlab.report import figuredata, pages, report, suite
from asymlab.results import metrics, store, trace
from asymlab.run import runner

VOID = {"meta", "link", "br", "img", "hr", "input"}
BIN_S, DURATION, MEASURE = 0.1, 6.0, 3.0
CONTROLLERS = {"FA-T1": ["fast"], "FA-4": ["fast"], "FA-X2": ["fast"], "FA-T2": ["fast", "fast500"]}
STATES = {  # of a flow at rest, in each controller's own units
    "fusion": {
        "w_q20": 240 << 20,
        "reno_q20": 200 << 20,
        "diff_q8": 40 << 8,
        "alpha_q8": 16 << 8,
        "rtt_q4": 50_000 << 4,
        "rtt_min": 40_000,
        "b_q8": 4000 << 8,
        "phase": 2,
    },
    "taichung": {
        "inter_ack_ns": 441_600,
        "inter_min_ns": 211_500,
        "ideal_q4": 205 << 4,
        "net_q4": 190 << 4,
        "rtt_last": 96_000,
        "rtt_min": 90_000,
    },
    "pseudorate": {"base": 20, "offset": 1, "bound_q4": 21 << 4},
}
STATES["literal"] = STATES["pseudorate"]
STATES["formosa"] = STATES["netsum"] = {"w": 50, "rounds": 7, "peer_queue_us": 1600}
CAPTURED = {"FO-5"}  # scenarios that keep packets
FIGURES = {
    "taichung": {"taichung-slow-start", "taichung-thresholds"},
    "pseudorate": {"pseudorate-windows", "pseudorate-mechanism", "pseudorate-throughput", "pseudorate-rise"},
    "fusion": {
        "fusion-windows",
        "fusion-queue",
        "fusion-loss",
        "fusion-shares",
        "fusion-reduction",
        "fusion-speeds",
        "fusion-friendliness",
    },
    "formosa": {
        "formosa-throughput",
        "formosa-ten-flows",
        "formosa-ack-path",
        "formosa-queues",
        "formosa-rounds",
        "formosa-delay",
        "formosa-queue-control",
    },
}


def table(name: str, **columns) -> np.ndarray:
    """A table of the trace; columns that are not given are zero."""
    n = len(columns["t"])
    rows = np.zeros(n, [(c, "U16" if c == "dev" else "f8" if c == "t" else "i8") for c in trace.TABLES[name]])
    for c, v in columns.items():
        rows[c] = v
    return rows


def packets_of_formosa(rounds: int = 20, size: int = 5, gap_us: int = 800) -> bytes:
    """A capture of rounds of data packets with their options, evenly spaced, from time zero on."""
    file = agent.Capture.PCAP
    for i in range(rounds * size):
        option = struct.pack(">BBHBBHI", 253, 12, 0xF0A1, 0 if i % size else 0x80, i // size % 256, 625, i * gap_us)
        data = packet(option, payload=948)
        file += struct.pack("<IIII", i * gap_us // 10**6, i * gap_us % 10**6 * 1000, len(data), 1000) + data
    return file


def make(
    folder: Path,
    id: str,
    point: dict | None = None,
    seed: int = 1,
    mbps: float = 25,
    invalid: str = "",
    title: str = "A title",
    reverse_bps: float = 1e6,
    controllers: list[str] | None = None,
) -> store.Run:
    """A run whose flows share `mbps` evenly, lose a packet at every hundredth ACK and keep their state."""
    point = point or {}
    name = " ".join([id, *map(str, point.values()), f"seed {seed}"])
    controllers = controllers or ([point["flows.controller"]] if "flows.controller" in point else CONTROLLERS[id])
    bins, acks = round(DURATION / BIN_S), 400
    per_bin = round(mbps * 1e6 * 0.96 / 8 * BIN_S / len(controllers))
    t_acks, t_bins = np.linspace(0.1, DURATION, acks, endpoint=False), np.arange(bins) * BIN_S
    flows = range(len(controllers))
    lost = np.where(np.arange(acks) % 100 == 99, 3, 0)
    ssthresh = np.where(np.cumsum(lost) > 0, 600, 2**31 - 1)
    tables = {
        "acks": np.concatenate(
            [
                table(
                    "acks",
                    t=t_acks,
                    flow=f,
                    cwnd=1000 + seed,
                    rtt_us=360_000,
                    acked=960,
                    ssthresh=ssthresh,
                    ca_state=lost,
                )
                for f in flows
            ]
        ),
        "goodput": np.concatenate([table("goodput", t=t_bins, flow=f, bytes=per_bin) for f in flows]),
        "links": np.concatenate(
            [
                table("links", t=t_bins, dev="left-right", packets=100, bytes=101_400),
                table("links", t=t_bins, dev="right-left", packets=100, bytes=5_400, pure_acks=100, qlen_sum=99_900),
            ]
        ),
    }
    for controller in STATES.keys() & controllers:
        mine = [f for f in flows if controllers[f] == controller]
        rows = np.zeros((len(mine), acks), [("flow", "i4"), ("t", "f8"), *((c, "u8") for c in STATES[controller])])
        rows["flow"], rows["t"] = np.array(mine)[:, None], t_acks
        for c, value in STATES[controller].items():
            rows[c] = value
        tables[f"state-{controller}"] = rows.ravel()
    job = {
        "duration_s": DURATION,
        "measure_from_s": MEASURE,
        "bin_ms": BIN_S * 1e3,
        "payload_share": 0.96,
        "seed": seed,
        "flows": [{"id": f, "controller": c} for f, c in enumerate(controllers)],
        "watch": [
            {
                "name": "hop 1",
                "forward": {"dev": "left-right", "rate_bps": 100e6},
                "reverse": {"dev": "right-left", "rate_bps": reverse_bps},
            }
        ],
        "probes": [{"base_rtt_us": 40_000}],
    }
    mark = {
        "tcp": {"src0": {"TcpExtTCPTimeouts": 0}},
        "qdisc": {"left-right": {"drops": 0}, "right-left": {"drops": 0}},
    }
    left = {
        "kernel": "6.12.0-test",
        "cpu_busy": 0.2,
        "zero_unix_ns": 0,
        "marks": {"measure": mark, "end": mark},
        "self_check": [
            {"what": "base RTT src0-dst0, us", "expected": 40371.68, "measured": 40034.8, "ok": not invalid},
            {"what": "offloads that are on", "expected": [], "measured": [], "ok": True},
        ],
    }
    key = store.key_of({"name": name})
    (folder / key).mkdir()
    trace.write(tables, folder / key)
    if id in CAPTURED:
        for side in ("forward", "reverse"):
            (folder / key / f"{side}.pcap").write_bytes(packets_of_formosa(rounds=round(DURATION / 0.8e-3 / 5)))
    return store.Run(
        folder / key,
        {
            "id": id,
            "title": title,
            "name": name,
            "point": point,
            "seed": seed,
            "where": "lab",
            "command": f"asymlab run {id}.toml --seed {seed}",
            "wall_s": 12.5,
            "key": key,
            "invalid": [invalid] if invalid else [],
            "result_sha256": "ab" * 32,
            "agent": left,
            "metrics": metrics.of_run(job, left, tables["acks"], tables["goodput"], tables["links"]),
            "identity": {
                "kernel": "6.12.0-test",
                "image": "c0ffee" * 10,
                "qemu": {"version": "QEMU test"},
                "objects": {"fast.bpf.o": "fa" * 32},
                "job": job,
            },
        },
    )


def results_of(runs: list[store.Run], paper: str = "fast") -> suite.Results:
    def task(r):
        return SimpleNamespace(
            case=SimpleNamespace(scenario=SimpleNamespace(id=r.record["id"]), point=r.record["point"])
        )

    return suite.Results(paper, [(task(r), r) for r in runs])


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Run pages are kept for all tests here, and not beside the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "CACHE", tmp_path_factory.mktemp("cache"))
        yield pages.CACHE


@pytest.fixture
def place(tmp_path):
    """Where tests write their report to, beside nothing else."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def everything(folder: Path) -> list[store.Run]:
    """What the figures of the FAST letter need, two seeds at one point."""
    claims = suite.module("fast", "claims")
    made = []
    for rate in claims.RATES:
        bps = claims.mbit(rate)
        for seed in (1, 2) if rate == "1mbit" else (1,):
            made.append(
                make(
                    folder,
                    "FA-T1",
                    {"path.reverse.rate": rate},
                    seed,
                    claims.theorem1(claims.k_f(bps)) / 1e6,
                    reverse_bps=bps,
                )
            )
    for controller in ("reno", "cubic", "vegas"):
        made.append(make(folder, "FA-T1-BASE", {"path.reverse.rate": "1mbit", "flows.controller": controller}))
    return made + [make(folder, "FA-4", mbps=5, reverse_bps=1e5), make(folder, "FA-T2"), make(folder, "FA-X2", mbps=50)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[store.Run]:
    return everything(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def full(runs, tmp_path_factory):
    """(verdicts, figures, folder of the written report)."""
    folder = tmp_path_factory.mktemp("out") / "report"
    results = results_of(runs)
    verdicts = [asdict(v) for v in suite.module("fast", "claims").claims(results)]
    figures = [("fast", f) for f in report.figures_of(suite.module("fast", "figures"), results)]
    report.write(verdicts, figures, runs, "quick", {"boot to first packet": "1.5 s"}, folder=folder)
    return verdicts, figures, folder


class Page(HTMLParser):
    """Checks that tags balance; keeps text, ids and attributes."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.text, self.ids, self.attributes, self.tags = [], "", [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, k, v) for k, v in attrs]
        self.ids += [v for k, v in attrs if k == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data


def index(folder: Path) -> Page:
    return Page((folder / "index.html").read_text())


def small(verdict="reproduced", runs=(), **changes) -> dict:
    return {
        "id": "X-1",
        "paper": "fast",
        "source": "Fig. 1",
        "claim": "a claim",
        "paper_value": 25,
        "value": 25.5,
        "low": 25,
        "high": 26,
        "verdict": verdict,
        "reason": "",
        "runs": list(runs),
        "n": len(runs),
    } | changes


def test_verdicts_file_is_the_verdicts(full):
    verdicts, _, folder = full
    assert json.loads((folder / "verdicts.json").read_text()) == verdicts


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
        assert {"svg", "png", "csv", "parquet"} == {file.suffix[1:] for file in (folder / "figures").glob(f"{f.id}.*")}
    for r in runs:
        assert r.record["name"] in page.text and f"run-{r.record['key']}" in page.ids
    assert (
        "6.12.0-test" in page.text and "c0ffeec0ffee" in page.text and "QEMU test" in page.text and "1.5 s" in page.text
    )
    assert (folder / "index.html").stat().st_size < 3e6


def test_verdict_table_comes_first(full):
    page = index(full[2])
    assert page.ids.index("verdicts") < page.ids.index("paper-fast") < page.ids.index("runs")


def test_links_lead_somewhere_and_ids_are_unique(full):
    page = index(full[2])
    assert len(page.ids) == len(set(page.ids))
    links = [v for tag, k, v in page.attributes if k == "href" and tag == "a"]
    assert len(links) > 60 and all(v[1:] in page.ids if v[0] == "#" else (full[2] / v).is_file() for v in links)


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
        return report.Figure(id, f"Title of {id}", "a caption", Figure())

    report.write(
        [],
        [("matrix", figure("m")), ("fusion", figure("b")), ("fusion", figure("a"))],
        [],
        "full",
        folder=place / "report",
    )
    ids = [i for i in index(place / "report").ids if i.startswith(("paper-", "figure-")) and not i.endswith("-title")]
    assert ids == ["paper-fusion", "figure-b", "figure-a", "paper-matrix", "figure-m"]


# --- the pages of the runs ----------------------------------------------------------------


def run_page(folder: Path, run: store.Run) -> Page:
    return Page((folder / "runs" / f"{run.record['key']}.html").read_text())


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
    tables = {name: trace.read(run.folder, name) for name in ("acks", "links")}
    tables["acks"]["ca_state"] = 0
    tables["acks"]["ca_state"][200:203] = 4
    tables["acks"]["retrans"][100:] = 1
    tables["links"]["drops"][(tables["links"]["dev"] == "left-right") & (tables["links"]["t"] > 2.95)] = 5
    trace.write(tables, run.folder)
    run = store.Run(run.folder, run.record | {"result_sha256": "cd" * 32})
    window, _, queue = pages.time_axes(run).axes[:3]
    at = {line.get_label(): line.get_xdata() for ax in (window, queue) for line in ax.lines}
    t = tables["acks"]["t"]
    assert list(at["timeout"]) == [t[200]] and len(at["recovery from a loss"]) == 0
    assert set(at["retransmission"]) == {t[100]} and at["drop"] == pytest.approx([3.0])


def test_without_rack_the_smoothed_rtt_is_drawn(tmp_path):
    run = make(tmp_path, "FA-4")
    acks = trace.read(run.folder, "acks")
    acks["rtt_us"], acks["srtt_us"] = 0, 77_000
    trace.write({"acks": acks}, run.folder)
    run = store.Run(run.folder, run.record | {"result_sha256": "ef" * 32})
    with report.style():
        rtt = pages.time_axes(run).axes[3]
    assert rtt.get_title("left").startswith("Smoothed RTT") and set(rtt.lines[0].get_ydata()) == {77}


def test_an_invalid_run_is_never_drawn(place, tmp_path, monkeypatch):
    bad = make(tmp_path, "FA-4", invalid="base RTT: expected 1, measured 2")
    for draws in ("time_axes", "ack_path"):
        monkeypatch.setattr(pages, draws, lambda run: pytest.fail("drawn"))
    report.write([], [], [bad], "quick", folder=place / "report")
    page = run_page(place / "report", bad)
    assert "img" not in page.tags and "base RTT: expected 1, measured 2" in page.text

    class Paper:
        @staticmethod
        def figures(results):
            return [r.record["name"] for _, r in results.found] + [r.record["name"] for r in results.all("FA-4")]

    good = make(tmp_path, "FA-4", seed=2)
    assert report.figures_of(Paper, results_of([bad, good])) == ["FA-4 seed 2"] * 2
    assert [r.valid for r in results_of([bad, good]).all("FA-4")] == [False, True]  # what claims see stays


def test_pages_are_kept_until_run_or_code_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "CACHE", tmp_path / "cache")
    drawn = []
    monkeypatch.setattr(pages, "render", lambda run: drawn.append(run.record["key"]) or "page")
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
    (runs[3].folder / "acks.parquet").write_bytes(b"no table")
    with pytest.raises(LabError, match=f"{runs[3].folder}: cannot be drawn") as error:
        pages.up_to_date(runs, cores=cores)
    assert "\n" not in str(error.value)


def test_a_page_of_many_flows_stays_small(tmp_path):
    run = make(tmp_path, "FA-4", controllers=["fast"] * 20)
    assert len(pages.render(run)) < 300_000


# --- the data of the figures --------------------------------------------------------------


def data_of(draw) -> list[dict]:
    with report.style():
        figure = Figure()
        draw(figure)
        report.drawn(report.Figure("f", "t", "c", figure))
        return [dict(zip(figuredata.COLUMNS, row)) for row in figuredata.rows(figure)]


def test_data_of_lines_and_error_bars():
    def draw(figure):
        ax = figure.subplots()
        ax.errorbar([1, 2], [10, 20], yerr=[[1, 2], [3, 4]], label="bars")
        ax.plot([1, 2, 3], [5, np.nan, 7], label="line")
        ax.axhline(6, label="bound")
        ax.axvline(2)
        ax.set(title="T", xlabel="x, s", ylabel="y, m", xlim=(0, 4))

    rows = data_of(draw)
    assert {(r["panel"], r["x_axis"], r["y_axis"]) for r in rows} == {("T", "x, s", "y, m")}
    of = {
        s: [(r["x"], r["y"], r["low"], r["high"]) for r in rows if r["series"] == s]
        for s in dict.fromkeys(r["series"] for r in rows)
    }
    assert of == {
        "bars": [(1, 10, 9, 13), (2, 20, 18, 24)],
        "line": [(1, 5, None, None), (3, 7, None, None)],
        "bound": [(0, 6, None, None), (4, 6, None, None)],
    } | {"vertical line": of["vertical line"]}
    assert of["vertical line"][0][0] == 2


def test_data_of_bars_bands_points_and_images():
    def draw(figure):
        (a, b), (c, d) = figure.subplots(2, 2)
        a.bar(["one", "two"], [3, 4], label="bar")
        a.bar(["one", "two"], [1, 2], bottom=[3, 4], label="on it")
        b.fill_between([0, 1, 2], [1, 1, 2], [3, 4, 5], label="band")
        c.scatter([1, 2], [3, 4], label="points")
        image = d.imshow([[0.1, 0.2], [0.3, np.nan]])
        d.set_xticks([0, 1], ["left", "right"])
        d.set_yticks([0, 1], ["up", "down"])
        figure.colorbar(image)

    rows = data_of(draw)
    assert [(r["at"], r["y"]) for r in rows if r["series"] == "bar"] == [("one", 3), ("two", 4)]
    assert [(r["y"], r["low"], r["high"]) for r in rows if r["series"] == "on it"] == [(1, 3, 4), (2, 4, 6)]
    assert [(r["x"], r["low"], r["high"]) for r in rows if r["series"] == "band"] == [(0, 1, 3), (1, 1, 4), (2, 2, 5)]
    assert [(r["x"], r["y"]) for r in rows if r["series"] == "points"] == [(1, 3), (2, 4)]
    assert [(r["series"], r["at"], r["y"]) for r in rows if r["panel"] == "panel 4"] == [
        ("up", "left", 0.1),
        ("up", "right", 0.2),
        ("down", "left", 0.3),
    ]


def test_a_series_has_the_name_of_another_panels_legend():
    def draw(figure):
        above, below = figure.subplots(2, sharex=True)
        for ax, label in ((above, "FAST"), (below, None)):
            ax.plot([1, 2], [1, 2], label=label, **controllers.of("fast").look)
        below.set(xlabel="time, s")

    assert [(r["series"], r["x_axis"]) for r in data_of(draw)] == [("FAST", "time, s")] * 4


def test_data_are_what_was_measured_in_both_formats(full, runs):
    file = full[2] / "figures" / "fast-throughput.csv"
    rows = list(csv.DictReader(file.open()))
    table = pq.read_table(file.with_suffix(".parquet"))
    assert table.num_rows == len(rows) and table.column_names == list(rows[0]) == list(figuredata.COLUMNS)
    assert table["y"].to_pylist() == pytest.approx([float(r["y"]) if r["y"] else None for r in rows])
    claims = suite.module("fast", "claims")
    measured = {claims.throughput(r) for r in runs if r.record["id"] == "FA-T1"}
    drawn = {float(r["y"]) for r in rows if r["y"]}
    assert all(any(abs(m - d) < 1e-6 * m for d in drawn) for m in measured)
    for other in (full[2] / "figures").glob("*.csv"):
        assert len(other.read_text().splitlines()) > 2, other


# ------------------------------------------------------------------------------------------


def test_figures_have_words(full):
    page = index(full[2])
    alts = [v for tag, k, v in page.attributes if tag == "img" and k == "alt"]
    assert len(alts) == len(full[1]) and all(len(a) > 40 for a in alts)


def test_same_input_same_bytes(full, runs, place):
    verdicts, _, folder = full
    figures = [("fast", f) for f in suite.module("fast", "figures").figures(results_of(runs))]
    report.write(verdicts, figures, runs[::-1], "quick", {"boot to first packet": "1.5 s"}, folder=place / "report")
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
    report.write([small(v) for v in report.SYMBOLS], [], [], "full", folder=place / "report")
    text = " ".join(index(place / "report").text.split())
    for word, symbol in report.SYMBOLS.items():
        assert f"{symbol} 1 {word}" in text and f"{symbol} {word}" in text


def test_a_chain_shows_its_busiest_hop_and_lists_all(place, tmp_path):
    one = make(tmp_path, "FA-T1", {"path.reverse.rate": "1mbit"})
    report.write([], [], [one], "full", folder=place / "report")
    assert "hop 1" not in index(place / "report").text
    hops = [{**one.metrics["hops"][0], "name": name} for name in ("hop 1", "hop 2")]
    job = one.job | {"watch": [one.job["watch"][0] | {"name": name} for name in ("hop 1", "hop 2")]}
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
    assert results["format"] == 1 and results["set"] == "quick" and len(results["runs"]) == len(runs)
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
    figures = [("fast", f) for f in report.figures_of(suite.module("fast", "figures"), results)]
    assert [f.id for _, f in figures] == ["fast-throughput", "fast-series", "fast-queue", "fast-ack-path"]
    verdicts = [asdict(v) for v in suite.module("fast", "claims").claims(results)]
    report.write(verdicts, [], kept, "quick", folder=place / "report")
    text = " ".join(index(place / "report").text.split())
    assert "FA-T2 seed 1: base RTT: expected 1, measured 2" in text and "✗ no" in text
    assert next(v for v in verdicts if v["id"] == "FA-T2a")["verdict"] == "not measured"


@pytest.mark.parametrize(
    "id, point, lost",
    [("FA-4", {}, {"fast-series"}), ("FA-T1", {"path.reverse.rate": "5mbit"}, set()), ("FA-X2", {}, set())],
)
def test_figure_without_its_runs_is_left_out(runs, id, point, lost):
    kept = [r for r in runs if not (r.record["id"] == id and r.record["point"] == point)]
    everything = {"fast-throughput", "fast-series", "fast-queue", "fast-ack-path", "fast-shares"}
    assert {f.id for f in suite.module("fast", "figures").figures(results_of(kept))} == everything - lost


def test_three_points_are_no_curve(runs):
    kept = [
        r
        for r in runs
        if r.record["id"] != "FA-T1" or r.record["point"]["path.reverse.rate"] in ("1mbit", "0.5mbit", "0.1mbit")
    ]
    assert not {"fast-throughput", "fast-ack-path"} & {
        f.id for f in suite.module("fast", "figures").figures(results_of(kept))
    }


@pytest.fixture(scope="module", params=FIGURES)
def quick(request, tmp_path_factory):
    """(paper, a run for each case of its quick set)."""
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, [
        make(folder, case.scenario.id, case.point, controllers=[f.controller for f in case.scenario.flows])
        for file in sorted((suite.PAPERS / request.param).glob("*.toml"))
        for case in scenario.load(file)
        if case.seeds
    ]


def drawn(paper: str, runs: list[store.Run]) -> dict[str, report.Figure]:
    return {f.id: f for f in suite.module(paper, "figures").figures(results_of(runs, paper))}


def test_the_quick_set_draws_all_figures(quick):
    paper, runs = quick
    figures = drawn(paper, runs)
    assert figures.keys() == FIGURES[paper]
    for figure in figures.values():
        assert len(report.drawn(figure)["png"]) > 10_000 and len(figure.caption) > 40 and "  " not in figure.caption


def test_figures_need_no_more_than_they_show(quick):
    paper, runs = quick
    needed = {  # controllers or scenarios: what is left without them
        "taichung": [("taichung", set()), ("reno", {"taichung-thresholds"}), ("westwood", FIGURES["taichung"])],
        "pseudorate": [
            ("vegas", {"pseudorate-mechanism", "pseudorate-rise"}),
            ("PR-LOT", {"pseudorate-rise"}),
            ("PR-RISE", FIGURES["pseudorate"] - {"pseudorate-rise"}),
        ],
        "formosa": [
            ("FO-2", FIGURES["formosa"] - {"formosa-throughput", "formosa-ack-path", "formosa-queues"}),
            ("FO-3", FIGURES["formosa"] - {"formosa-ten-flows"}),
            ("FO-5", FIGURES["formosa"] - {"formosa-rounds", "formosa-delay"}),
            ("netsum", FIGURES["formosa"] - {"formosa-queue-control"}),
            ("cubic", FIGURES["formosa"]),
        ],
        "fusion": [
            ("FU-1", FIGURES["fusion"] - {"fusion-reduction"}),
            ("FU-2", FIGURES["fusion"] - {"fusion-windows", "fusion-queue"}),
            ("FU-4", FIGURES["fusion"] - {"fusion-loss"}),
            ("FU-5", FIGURES["fusion"] - {"fusion-speeds", "fusion-friendliness"}),
            ("FU-10", FIGURES["fusion"] - {"fusion-shares"}),
            ("cubic", FIGURES["fusion"]),
        ],
    }
    for gone, left in needed[paper]:
        kept = [r for r in runs if gone not in (r.record["id"], *r.record["point"].values())]
        assert len(kept) < len(runs) and drawn(paper, kept).keys() == left, gone


def test_formosas_rounds_are_read_from_the_packets(tmp_path):
    claims = suite.module("formosa", "claims")
    run = make(tmp_path, "FO-5", controllers=["formosa"])
    assert (claims.round_sizes(run) == 5).all() and len(claims.round_sizes(run)) == 1500
    assert claims.spacing_cv(run) == 0
    assert claims.acks_per_round(run) == 0  # this capture holds no pure ACK
    assert [claims.fibonacci(sizes) for sizes in ((), (1, 1), (1, 2, 3, 5, 8, 13, 20), (2, 3))] == [0, 1, 6, 0]


def test_what_is_not_here_is_listed_as_not_measured():
    verdict = results_of([]).not_measured("X-1", "Fig. 1", "a rival > another", "it is not here")
    assert (verdict.verdict, verdict.reason, verdict.value, verdict.runs) == (
        "not measured",
        "it is not here",
        None,
        [],
    )


@pytest.mark.parametrize("paper", ["fast", *FIGURES])
def test_no_runs_no_figures(place, paper):
    assert suite.module(paper, "figures").figures(results_of([], paper)) == []
    report.write([], [], [], "quick", folder=place / "report")
    assert "figure" not in index(place / "report").tags


def test_text_is_escaped(place, tmp_path):
    evil = "<script>alert(1)</script>\"'&"
    run = make(tmp_path, "FA-4", title=evil, invalid=evil)
    figure = report.Figure("evil", evil, evil, Figure())
    report.write(
        [small(claim=evil, reason=evil, source=evil)],
        [("fast", figure)],
        [run],
        "quick",
        {evil: evil},
        folder=place / "report",
    )
    page = index(place / "report")
    assert page.tags.count("script") == 1 and evil in page.text
    page = run_page(place / "report", run)
    assert "script" not in page.tags and page.text.count(evil) == 2
    assert "script" not in Page(pages.render(make(tmp_path, "FA-4", seed=2, controllers=[evil]))).tags


def test_report_is_replaced_whole(place):
    report.write(
        [small()], [("fast", report.Figure("old", "Old", "old", Figure()))], [], "quick", folder=place / "report"
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


def test_style_leaves_no_trace(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    with report.style():
        matplotlib.rcParams["font.size"] = 33
    assert dict(matplotlib.rcParams) == before


def test_thin_keeps_extremes():
    t = np.arange(100_000) / 1e3
    y = np.sin(t)
    y[54_321] = 9
    thin_t, thin_y = report.thin(t, y, 2000)
    assert len(thin_t) <= 2000 and (np.diff(thin_t) > 0).all()
    assert thin_y.max() == 9 and thin_y.min() == y.min()
    assert report.thin(t[:10], y[:10])[0] is not None and len(report.thin(t[:10], y[:10])[0]) == 10


def test_natural_order(tmp_path):
    made = [make(tmp_path, "FA-T1", {"path.reverse.rate": r}) for r in ("10mbit", "0.5mbit", "2mbit")]
    assert [r.record["point"]["path.reverse.rate"] for r in report.ordered(made)] == ["0.5mbit", "2mbit", "10mbit"]


def test_terminal_table(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(runner, "console", runner.PlainConsole(file=out, width=100))
    verdicts = [
        suite.Verdict(**small()),
        suite.Verdict(**small("not reproduced", claim="in [bold]5[/] and [1.9, 2.1]", reason="it [red] is not")),
    ]
    report.print_verdicts(verdicts, 12.3)
    text = out.getvalue()
    assert "[bold]5[/]" in text and "[1.9, 2.1]" in text and "it [red] is not" in text
    assert "1 reproduced, 1 not reproduced, 0 not measured; 12 s" in text and "report/index.html" in text
