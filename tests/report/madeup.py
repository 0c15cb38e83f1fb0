# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Small made-up runs for the tests of the report, and what reads its pages."""

from __future__ import annotations

import json
import struct
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from asymlab.guest.capture import PCAP
from asymlab.guest.job import Bottleneck, End, Job, Link
from asymlab.guest.wire import dump
from asymlab.plan import scenario
from asymlab.report import papers
from asymlab.report.judged import Results
from asymlab.results import metrics, store, tables, trace
from tests.shared import packet, some_flow, some_hop, some_job, some_probe

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
STATES["formosa"] = STATES["netsum"] = {"w": 50, "w_part": 0, "rounds": 7, "peer_queue_us": 1600}
CAPTURED = {"FO-5"}  # scenarios that keep packets


def table(name: str, **columns) -> np.ndarray:
    """A table of the trace; columns that are not given are zero."""
    n = len(columns["t"])
    rows = np.zeros(n, [(c, "U16" if c == "dev" else "f8" if c == "t" else "i8") for c in trace.TABLES[name]])
    for c, v in columns.items():
        rows[c] = v
    return rows


def packets_of_formosa(rounds: int = 20, size: int = 5, gap_us: int = 800) -> bytes:
    """A capture of rounds of data packets with their options, evenly spaced, from time zero on."""
    file = PCAP
    for i in range(rounds * size):
        option = struct.pack(">BBHBBHI", 253, 12, 0xF0A1, 0 if i % size else 0x80, i // size % 256, 625, i * gap_us)
        data = packet(option, payload=948)
        file += struct.pack("<IIII", i * gap_us // 10**6, i * gap_us % 10**6 * 1000, len(data), 1000) + data
    return file


def tables_of(controllers: list[str], mbps: float, seed: int) -> dict[str, np.ndarray]:
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
    return tables


def job_of(controllers: list[str], seed: int, reverse_bps: float) -> Job:
    ends = [
        End(node, dev, f"10.77.1.{k}", f"02:00:00:00:01:0{k}", Bottleneck(round(bps), 1000, 1000, queue))
        for k, node, dev, bps, queue in (
            (1, "left", "left-right", 100e6, 150),
            (2, "right", "right-left", reverse_bps, 100),
        )
    ]
    return some_job(
        duration_s=DURATION,
        measure_from_s=MEASURE,
        bin_ms=round(BIN_S * 1e3),
        seed=seed,
        flows=[some_flow(f, c) for f, c in enumerate(controllers)],
        links=[Link(*ends, 1000)],
        watch=[some_hop(100e6, reverse_bps)],
        probes=[some_probe(40_000)],
    )


def agent_of(good: bool) -> dict:
    """The agent's own record."""
    mark = {
        "tcp": {"src0": {"TcpExtTCPTimeouts": 0}},
        "qdisc": {"left-right": {"drops": 0}, "right-left": {"drops": 0}},
    }
    return {
        "kernel": "6.12.0-test",
        "cpu_busy": 0.2,
        "zero_unix_ns": 0,
        "marks": {"measure": mark, "end": mark},
        "self_check": [
            {"what": "base RTT src0-dst0, us", "expected": 40371.68, "measured": 40034.8, "ok": good},
            {"what": "offloads that are on", "expected": [], "measured": [], "ok": True},
        ],
    }


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
    arrays = tables_of(controllers, mbps, seed)
    job, left = job_of(controllers, seed, reverse_bps), agent_of(not invalid)
    key = store.key_of({"name": name})
    (folder / key).mkdir()
    tables.write(arrays, folder / key)
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
            "metrics": metrics.of_run(job, left, arrays["acks"], arrays["goodput"], arrays["links"]),
            "identity": {
                "kernel": "6.12.0-test",
                "image": "c0ffee" * 10,
                "qemu": {"version": "QEMU test"},
                "objects": {"fast.bpf.o": "fa" * 32},
                "job": dump(job),
            },
        },
    )


def keep(run: store.Run, folder: Path) -> store.Run:
    """The run as a store has it, in a folder of its key."""
    key = store.key_of(run.record["identity"])
    agent = run.record["agent"] | {"zero_ns": 0, "controllers": {}}
    record = run.record | {"key": key, "metrics_hash": store.METRICS_HASH, "agent": agent}
    place = run.folder.rename(folder / key)
    record["tables"] = tables.digests(place)
    record["record_sha256"] = store.record_digest(record)
    (place / "run.json").write_text(json.dumps(record))
    return store.Run(place, record)


@cache
def cases(paper: str) -> list[scenario.Case]:
    return [case for file in papers.scenarios(paper) for case in scenario.load(file, "full")]


def task(paper: str, id: str, point: dict) -> SimpleNamespace:
    """A task of the paper's own scenario, at its first case if none has such a point."""
    mine = [case for case in cases(paper) if case.scenario.id == id]
    case = next((case for case in mine if case.point.items() >= point.items()), mine[0])
    return SimpleNamespace(case=SimpleNamespace(scenario=case.scenario, point=point))


def results_of(runs: list[store.Run], paper: str = "fast") -> Results:
    return Results(paper, [(task(paper, r.record["id"], r.record["point"]), r) for r in runs])


def everything(folder: Path) -> list[store.Run]:
    """The runs that the figures of the FAST letter need, two seeds at one point."""
    claims = papers.module("fast", "measures")
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
        "seeds": 1,
        "distinct": 3,
        "sampled": True,
        "check": False,
        "preset": "",
        "family": "",
        "worst": False,
        "cause": "",
    } | changes


def run_page(folder: Path, run: store.Run) -> Page:
    return Page((folder / "runs" / f"{run.record['key']}.html").read_text())
