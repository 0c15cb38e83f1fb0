# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The labels of the published claims: a rate, an RTT or a loss rate that a claim names is of one of the paths that its
runs had. A goodput and a difference of RTTs are no labels; nor is a rate that a claim says to be the paper's."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from asymlab.plan import scenario
from asymlab.plan.model import Scenario
from asymlab.report import papers, part

from shared import REPO

RESULTS = REPO / "docs" / "results"
BPS = {"kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}
A_GOODPUT = r"(within \d+ % of|goodput >= 0\.9 of|throughput >= (Theorem 1's )?|where Theorem 1 has) ?[\d.]+( Mbit/s)?"
NO_LABEL = re.compile(rf"{A_GOODPUT}|for the paper's \d+ Mbit/s|>= -[\d.]+ ms")
RATE, RTT, LOSS = (
    r"(?P<rate>[\d.]+) (?P<unit>[kMG]bit/s)",
    r"(?P<rtt>[\d.]+)(?=(, [\d.]+)*( and [\d.]+)? ms)",
    r"(p =|at) (?P<loss>[\d.]+) ?%|(?P<lost>[\d.]+) ?% (of data|lost|loss)",
)
LABEL = re.compile(rf"{RATE}|{RTT}|{LOSS}")


def labels(claim: str) -> Iterator[tuple[str, float]]:
    """("rate", bit/s), ("rtt", ms) or ("loss", share) of each label."""
    for m in LABEL.finditer(NO_LABEL.sub("", claim)):
        if m["rate"]:
            yield "rate", float(m["rate"]) * BPS[m["unit"]]
        elif m["rtt"]:
            yield "rtt", float(m["rtt"])
        else:
            yield "loss", float(m["loss"] or m["lost"]) / 100


def ran(s: Scenario) -> dict[str, set[float]]:
    """The rates of a scenario's hops, loads and changes (bit/s), its flows' base RTTs (ms), its loss rates."""
    ways = [way for hop in s.path.chain for way in (hop.forward, hop.reverse)]
    changes = [change.of_path for change in s.changes]
    hops = [hop.forward.delay + hop.reverse.delay for hop in s.path.chain]  # us
    extra = {2 * (flow.extra_delay or 0) for flow in s.flows} | {0}
    return {
        "rate": {way.rate for way in ways}
        | {load.rate for load in s.background}
        | {value for change in changes for key, value in change.items() if "rate" in key},
        "rtt": {(base + more) / 1000 for base in (*hops, sum(hops)) for more in extra},
        "loss": {way.loss for way in ways} | {value for c in changes for key, value in c.items() if "loss" in key},
    }


def wrong(claim: str, scenarios: list[Scenario]) -> list[tuple[str, float]]:
    """The labels of a claim that are of none of the scenarios."""
    had = [ran(s) for s in scenarios]
    return [(k, x) for k, x in labels(claim) if not any(x == pytest.approx(y) for one in had for y in one[k])]


@pytest.mark.parametrize("paper", papers.names())
def test_a_claim_names_the_path_that_ran(paper):
    cases = [case for file in papers.scenarios(paper) for case in scenario.load(file, "full")]
    by_run = {f"{case.name} seed {seed}": case.scenario for case in cases for seed in case.seeds}
    published = part.read(RESULTS / paper)
    by_key = {row["key"]: by_run[row["run"]] for row in published.runs}
    found = {c.id: wrong(c.claim, [by_key[key] for key in c.runs]) for c in published.claims if c.runs}
    assert len(found) > 9 and {id: labels for id, labels in found.items() if labels} == {}


def test_a_claim_of_another_path_is_found():
    [case, *_] = scenario.load(papers.PAPERS / "fusion" / "fig9.toml", "full")
    assert wrong("20 Mbit/s, 20, 60 and 120 ms: goodput >= 0.9 of 19 Mbit/s", [case.scenario]) == []
    other = "100 Mbit/s (20 for the paper's 300 Mbit/s), 20 and 61 ms, p = 1%, 2 % of data lost"
    assert wrong(other, [case.scenario]) == [("rate", 100e6), ("rtt", 61), ("loss", 0.01), ("loss", 0.02)]
