# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs of a suite's own cases with random results, the same for the same case and seed: so each claim has a value, and
each figure something to draw, which change with any measure."""

from __future__ import annotations

import hashlib
from functools import cached_property
from types import SimpleNamespace

import numpy as np

from asymlab.plan import scenario
from asymlab.plan.topology import plan_job
from asymlab.report import papers
from asymlab.report.judged import Results
from asymlab.results import capture
from asymlab.results.store import UPLINK_ROW
from tests.report.madeup import packets_of_formosa

ROWS = 400
COLUMNS = (
    "flow cwnd ssthresh ca_state rtt_us srtt_us acked bytes packets drops qlen_max qlen_sum pure_acks base offset "
    "bound_q4 round_stamp ideal_q4 inter_ack_ns inter_min_ns net_q4 rtt_last rtt_min w_q20 reno_q20 diff_q8 alpha_q8 "
    "rtt_q4 b_q8 phase w w_part rounds peer_queue_us"
).split()
RTT = {"mean": (0.04, 0.4), "min": (0, 1)}
LINK = {"drops": (0, 3), "packets": (100, 999), "queue_mean": (0, 9), "utilisation": (0.5, 1)}
FLOW = {"goodput_bps": (1e5, 5e7), "throughput_bps": (1e5, 5e7), "goodput_cv": (0, 1), "goodput_trend": (-0.1, 0.1),
        "retransmits_whole_run": (0, 50), "retransmits": (0, 50)}  # fmt: skip
WHOLE = {"throughput_bps": (1e5, 1e7), "utilisation": (0.5, 1), "jain": (0.5, 1), "timeouts": (0, 3),
         "acks_per_data_packet": (0, 1), "reverse_utilisation": (0, 1)}  # fmt: skip


class RandomRun:
    def __init__(self, case: scenario.Case, seed: int, folder):
        self.case, self.seed, self.folder, self.valid = case, seed, folder, True
        name = f"{case.name} seed {seed}"
        self.record = {"name": name, "seed": seed, "key": name, "invalid": [], "point": case.point}
        self.record["agent"] = {
            "zero_ns": 0,
            "marks": {"measure": {"t_ns": 10}, "end": {"t_ns": 10**10}},
            "replies": {str(i): self.random(f"replies {i}").integers(11, 10**9, (20, 2)).tolist() for i in range(2)},
            "closed": {"0": self.random("closed").integers(1, 10**9, 2).tolist()},
        }

    def random(self, what: str) -> np.random.Generator:
        digest = hashlib.sha256(f"{self.record['name']} {what}".encode()).hexdigest()
        return np.random.default_rng(int(digest[:12], 16))

    def values(self, what: str, ranges: dict[str, tuple[float, float]]) -> dict[str, float]:
        random = self.random(what)
        return {name: float(random.uniform(*between)) for name, between in ranges.items()}

    @cached_property
    def job(self):
        return plan_job(self.case, self.seed)

    @property
    def programs(self) -> dict[str, dict]:
        """Each ends a while after its start."""
        return {
            program.name: {
                "start_s": program.start_s,
                "end_s": program.start_s + self.random(program.name).uniform(0.2, 9),
            }
            for program in self.case.scenario.programs and self.job.programs
        }

    @property
    def connections(self) -> list[dict]:
        return [self.values("connection", {"bytes": (1e3, 1e7), "goodput_bps": (1e5, 2e7)})]

    @cached_property
    def metrics(self) -> dict:
        flows = [
            self.values(f"flow {flow.id}", FLOW)
            | {"controller": flow.controller, "rtt_s": self.values(f"rtt {flow.id}", RTT)}
            for flow in self.job.flows
        ]
        sides = ("forward", "reverse")
        link = LINK | {"queue_delay_mean_s": (0, 1)}
        hops = [{side: self.values(f"{side} {n}", link) for side in sides} for n in range(len(self.job.watch))]
        total = sum(flow["goodput_bps"] for flow in flows)
        return self.values("whole", WHOLE) | {"flows": flows, "hops": hops, "goodput_bps": total} | hops[0]

    def table(self, what: str) -> np.ndarray:
        random = self.random(what)
        rows = np.zeros(ROWS, [("t", "f8"), ("dev", "U24"), *((column, "i8") for column in COLUMNS)])
        for column in COLUMNS:
            rows[column] = random.integers(1, 1000, ROWS)
        rows["t"] = np.sort(random.uniform(0, self.job.duration_s, ROWS))
        rows["cwnd"] = np.arange(1, ROWS + 1) + random.integers(0, 100, ROWS)  # it grows, as thresholds need
        rows["flow"] = random.integers(0, len(self.job.flows), ROWS)
        rows["ca_state"], rows["phase"] = random.integers(0, 4, ROWS), random.integers(0, 4, ROWS)
        rows["ca_state"][: ROWS // 10] = 0  # slow start has some ACKs
        rows["ssthresh"] = np.where(np.arange(ROWS) < ROWS // 3, 10**6, 500)
        devs = [side.dev for hop in self.job.watch for side in (hop.forward, hop.reverse)]
        rows["dev"] = np.array(devs)[random.integers(0, len(devs), ROWS)]
        return rows

    @property
    def acks(self) -> np.ndarray:
        return self.table("acks")

    @property
    def links(self) -> np.ndarray:
        return self.table("links")

    @property
    def goodput(self) -> np.ndarray:
        return self.table("goodput")

    @property
    def uplink(self) -> np.ndarray:
        random, rows = self.random("uplink"), np.zeros(ROWS, UPLINK_ROW)
        rows["t"] = np.sort(random.uniform(0, self.job.duration_s, ROWS))
        rows["rate"] = random.uniform(1e6, 1e8, ROWS)
        return rows

    def state(self, flow: int) -> np.ndarray:
        return self.table(f"state {flow}")

    def capture(self, side: str, hop: int = 1) -> np.ndarray:
        file = self.folder / "packets.pcap"
        if not file.exists():
            file.write_bytes(packets_of_formosa(rounds=800, gap_us=8000))
        return capture.read(file, 0)


def results_of(paper: str, folder, seeds: int = 1) -> Results:
    """The full set, with so many seeds of each case."""
    cases = [case for file in papers.scenarios(paper) for case in scenario.load(file, "full") if case.seeds]
    runs = [(case, RandomRun(case, seed, folder)) for case in cases for seed in case.seeds[:seeds]]
    return Results(paper, [(SimpleNamespace(case=case), run) for case, run in runs])
