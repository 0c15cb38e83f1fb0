# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the papers' claims measure, on hand-made runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

from asymlab.report import measures, papers
from asymlab.report.judged import RATIO_MAX, Judged, Results
from tests.report.madeup import task
from tests.shared import some_flow, some_hop, some_job, some_probe

KEYS = count()


def run(seed: int = 1, mbps: float = 1, flows: int = 1, valid: bool = True, **more):
    return SimpleNamespace(
        record={"name": "a run", "seed": seed, "key": f"run {next(KEYS)}", "invalid": []},
        valid=valid,
        metrics={"goodput_bps": mbps * 1e6, "flows": [{}] * flows},
        **more,
    )


def results_of(paper: str, runs: dict[tuple[str, tuple], list]) -> Results:
    """(scenario, ((swept key, value), ...)) -> its runs."""
    return Results(paper, [(task(paper, id, dict(point)), r) for (id, point), rs in runs.items() for r in rs])


def judged(claims, results: Results) -> dict[str, Judged]:
    """Those of which there are runs."""
    rows = [c.judged(results) for c in claims if c.value.planned(results)]
    return {row.id: row for row in rows if row.runs}


@pytest.mark.parametrize("paper", papers.names())
def test_without_runs_nothing_is_claimed_to_hold(paper):
    """And no claim is written so that it cannot be judged."""
    nothing = Results(paper, [])
    [row] = papers.judged(paper, nothing)
    assert (row.verdict, row.claim) == ("not measured", f"{len(papers.claims(paper))} more claims")
    assert papers.module(paper, "figures").figures(nothing) == []


# --- what all share -------------------------------------------------------------------------


def values(*lists: list) -> tuple[Results, list[measures.Runs]]:
    """Runs of scenarios of their own, and what chooses each list."""
    tasks = [SimpleNamespace(case=SimpleNamespace(scenario=SimpleNamespace(id=str(n)), point={})) for n in range(9)]
    found = [(task, r) for task, runs in zip(tasks, lists) for r in runs]
    return Results("one", found), [measures.Runs(str(n)) for n in range(len(lists))]


def ratio_by_seed(mine, others, *more, **how):
    results, (first, *rest) = values(mine, *others)
    return measures.ratio_by_seed(first, rest, *more, **how).of(results)


def test_ratios_are_to_the_best_of_the_same_seed():
    mine = [run(1, 3), run(2, 8), run(3, 9), run(4, valid=False)]
    others = [[run(1, 1), run(2, 4), run(3, 1)], [run(2, 2), run(1, 2), run(3, 1, valid=False)]]
    complete, ratio = ratio_by_seed(mine, others, measures.goodput)
    assert [r.record["seed"] for r in complete] == [1, 2, 4]  # of seed 3 one rival's run is invalid; a verdict names 4
    assert [ratio(r) for r in complete[:2]] == [1.5, 2]
    _, ratio = ratio_by_seed(mine, others, measures.goodput, best=min)
    assert [ratio(r) for r in complete[:2]] == [3, 4]
    _, ratio = ratio_by_seed(mine, others, measures.goodput, lambda r: 10 * measures.goodput(r))
    assert ratio(mine[0]) == pytest.approx(0.15)


def test_nothing_is_compared_without_others_and_nothing_divided_by_zero():
    assert ratio_by_seed([run(1)], [], measures.goodput)[0] == []
    assert ratio_by_seed([run(1)], [[run(1)], []], measures.goodput)[0] == []
    assert ratio_by_seed([run(1)], [[run(1)], []], measures.goodput, some=True)[0] != []
    mine, ratio = ratio_by_seed([run(1)], [[run(1, 0)]], measures.goodput)
    assert ratio(mine[0]) == RATIO_MAX


def test_runs_of_a_seed_are_measured_together_and_values_divided():
    both, (a, b) = values([run(1, 3), run(2, 8), run(3, 1)], [run(2, 2), run(1, 2)])
    runs, total = measures.together([a, b], lambda rs: sum(map(measures.goodput, rs))).of(both)
    assert [(r.record["seed"], total(r)) for r in runs] == [(1, 5), (2, 10)]
    each = [measures.each(of, measures.goodput) for of in (a, b)]
    runs, ratio = measures.ratio_of_values(*each).of(both)
    assert [ratio(r) for r in runs] == [1.5, 4]
    runs, value = measures.joined(each).of(both)
    assert [value(r) for r in runs] == [3, 8, 1, 2, 2]


def test_goodputs_are_of_all_of_one_and_of_each():
    one = run(mbps=9, flows=3)
    one.metrics["flows"] = [{"goodput_bps": bps} for bps in (2e6, 6e6, 1e6)]
    assert [measures.goodput(one), measures.goodput_of(one), measures.goodput_of(one, 1)] == [9, 2, 6]
    assert measures.goodput_each(one) == pytest.approx(3) and measures.share(one) == 0.25
    assert measures.share(one, 1, 2) == pytest.approx(6 / 7)


# --- TCP-Taichung ---------------------------------------------------------------------------

taichung = papers.module("taichung", "measures")


def test_the_extreme_of_several_points_is_by_mean():
    high, low = [run(1, 1), run(2, 5)], [run(1, 2), run(2, 2)]
    results, of = values(high, [], low)
    each = [measures.each(runs, measures.goodput_each) for runs in of]
    assert measures.extreme(each, min).of(results)[0] == low  # means 2 and 3
    assert measures.extreme(each, max).of(results)[0] == high
    assert measures.extreme(each[1:2], min).of(results)[0] == []


def link(share: float) -> dict:
    """What a run of 10 s holds of a link of 10 Mbit/s that is busy so much of each second after the first ACK's."""
    bins = np.zeros(10, [("dev", "U4"), ("t", "f8"), ("packets", "i8"), ("bytes", "i8"), ("pure_acks", "i8"),
                         ("qlen_sum", "i8"), ("qlen_max", "i8")])  # fmt: skip
    bins["dev"], bins["t"], bins["packets"] = "a-b", np.arange(10), 1000
    bins["bytes"] = np.where(np.arange(10) < 3, 0, share * 10e6 / 8 + 14 * 1000)
    return {
        "job": some_job(watch=[some_hop(10e6, devs=("a-b", "b-a"))]),
        "acks": np.array([(2.0,)], [("t", "f8")]),
        "links": bins,
    }


@pytest.mark.parametrize("share", [1, 0.5])
def test_a_link_is_busy_from_the_first_second_on(share):
    assert taichung.busy(run(**link(share))) == pytest.approx(share)


# --- TCP Formosa ----------------------------------------------------------------------------

formosa = papers.module("formosa", "measures")


@pytest.mark.parametrize("controller, payload", [("reno", 0.96), ("formosa", 0.948), ("accsa", 0.948)])
def test_throughput_counts_the_option_of_those_packets_that_have_one(controller, payload):
    one = run()
    one.metrics["flows"] = [{"goodput_bps": 9.48e6, "controller": controller}]
    assert papers.module("formosa", "measures").packets_of(one) == pytest.approx(9.48 / payload)


def test_one_of_r_acks_arrives():
    one = run()
    one.metrics["reverse"] = {"packets": 250, "drops": 750}
    one.job = SimpleNamespace(watch=[SimpleNamespace(reverse=SimpleNamespace(rate_bps=100_000))])
    assert papers.module("formosa", "measures").arrived_of_r(one) == 1  # r = 4: of four sent one arrives


def formosas(*values, jain=1.0):
    """A run of each controller and Mbit/s of packets."""
    made = []
    for controller, mbps in values:
        one = run()
        payload = 0.948 if controller in ("formosa", "accsa") else 0.96
        one.metrics |= {
            "flows": [{"goodput_bps": mbps * payload * 1e6, "controller": controller}],
            "goodput_bps": mbps * payload * 1e6,
            "jain": jain,
        }
        made.append(one)
    return made


def test_formosas_statements_are_counted():
    """Of Fig. 2 as the paper has it all seven hold; each lost one counts, and those of Fig. 3 as well."""
    measures = papers.module("formosa", "measures")
    names = ("formosa", "reno", "vegas", "accsa") * 2
    ideal = (10, 5, 2.5, 6, 10, 8, 9, 8.5)

    def fig2(**other):
        values = [other.get(f"v{i}", v) for i, v in enumerate(ideal)]
        return measures.fig2_of(formosas(*zip(names, values)))

    assert fig2() == 7
    assert fig2(v3=4) == 6  # ACC+SA below Reno
    assert fig2(v0=5.5, v1=5, v3=6) == 5  # falls, and is not the best
    assert fig2(v6=10.3) == 6 and fig2(v2=8.9) == 6
    ten = formosas(*[("formosa", v) for v in (9, 9.5, 10)], jain=0.96)
    assert measures.fig3_of(ten) == 3
    ten[0].metrics["jain"] = 0.9
    assert measures.fig3_of(ten) == 2
    assert measures.fig3_of(formosas(*[("formosa", v) for v in (8, 8.9, 10)])) == 1
    one = formosas(("formosa", 9.9), ("formosa", 9.9))
    assert measures.reading_of(one + formosas(*[("formosa", 9.9)] * 3)) == 6
    assert measures.reading_of(formosas(("formosa", 9), ("formosa", 9.7)) + formosas(*[("formosa", 9.7)] * 3)) == 3


def test_an_ack_reports_gaps_if_it_has_sack_blocks():
    has_sack = formosa.has_sack
    block = b"\x01\x01\x05\x0a" + bytes(8)
    assert has_sack(block) and has_sack(bytes.fromhex("fd08f0a200010000") + block)
    for options in (
        b"",
        b"\x00" + block,
        b"\x05",
        bytes.fromhex("fd08f0a205050505"),
        b"\x01\x01\x08\x0a" + b"\x05" * 8,
    ):
        assert not has_sack(options)


# --- Pseudo-rate TCP ------------------------------------------------------------------------

pseudorate = papers.module("pseudorate", "measures")


def cycles(windows: list[int], first_s: float = 0.1, cycle_s: float = 0.04):
    """A run whose cycles end with these windows: two ACKs each, the last of which ends it."""
    n = len(windows)
    t = first_s + cycle_s * np.repeat(np.arange(n), 2) + np.tile([0, 0.01], n)
    rows = np.zeros(2 * n, [("t", "f8"), ("round_stamp", "u8"), ("base", "u4"), ("offset", "u4")])
    rows["t"], rows["round_stamp"] = t, 1000 + np.repeat(np.arange(n), 2)
    rows["offset"], rows["base"] = 1, np.repeat(windows, 2) - 1
    return run(state=lambda flow: np.append(rows, np.array([(t[-1] + cycle_s, 10**6, 0, 1)], rows.dtype)))


def test_windows_are_those_at_the_ends_of_cycles():
    t, windows = pseudorate.cycle_ends(cycles([1, 2, 4, 8]), 1)
    assert windows.tolist() == [1, 2, 4, 8] and t == pytest.approx([0.11, 0.15, 0.19, 0.23])


@pytest.mark.parametrize(
    "windows, agree", [([1, 2, 4, 8, 16], 4), ([1, 2, 3, 4], 2), ([10, 20, 40, 80], 0), ([1, 2], 2)]
)
def test_agreement_with_table_1(windows, agree):
    assert pseudorate.as_table1(cycles(windows)) == agree


@pytest.mark.parametrize(
    "windows, agree",
    [
        ([8, 8, 9, 11, 15, 23, 39], 5),
        ([7, 8, 10, 14, 22], 5),
        ([8, 9, 10, 11, 12], 2),
        ([8, 16, 32], 1),
        ([8, 8, 8], 0),
    ],
)
def test_agreement_with_fig_1(windows, agree):
    assert pseudorate.as_fig1(cycles([1, 2, 4, 8, *windows], first_s=pseudorate.RISE_S - 4 * 0.04)) == agree


def test_the_largest_step_is_of_any_active_source():
    of = {s - 1: cycles(w).state(0) for s, w in {2: [5, 6, 7], 4: [5, 8, 9], 5: [4, 4, 3]}.items()}
    assert pseudorate.largest_step(run(state=of.__getitem__)) == 3


def lot(windows: dict[int, list[tuple[float, float]]], goodput=None):
    """A run of the parking lot: of each source the window from a time on."""
    rows = [(t, s - 1, w, 20_000) for s, steps in windows.items() for t, w in steps]
    acks = np.array(rows, [("t", "f8"), ("flow", "i8"), ("cwnd", "i8"), ("srtt_us", "i8")])
    return SimpleNamespace(acks=acks, goodput=goodput, job=SimpleNamespace(bin_ms=100))


def test_windows_by_rtt_take_the_smaller_of_both_ratios():
    at_rest = lot({2: [(8, 20)], 4: [(8, 30)], 5: [(8, 36)]})
    assert pseudorate.windows_by_rtt(at_rest) == pytest.approx(1.2)  # 36 over 30, and 30 over 20
    assert pseudorate.windows_by_rtt(lot({2: [(8, 40)], 4: [(8, 30)], 5: [(8, 36)]})) == 0.75


def test_what_follows_a_ramp_is_over_what_was_just_after_it():
    one = lot({5: [(0.1, 90), (0.3, 40), (4, 20), (5.1, 70), (5.3, 60), (8, 45)]})
    assert [pseudorate.after_ramp(one, 5, half) for half in (0, 1)] == [0.5, 0.75]


def test_fairness_is_compared_step_by_step():
    def made(unfair_from_s):
        rows = [
            (t / 10, source - 1, 100 if source == 2 or t < 10 * unfair_from_s else 300)
            for t in range(100)
            for source in pseudorate.ACTIVE
        ]
        return lot({}, np.array(rows, [("t", "f8"), ("flow", "i8"), ("bytes", "i8")]))

    assert len(pseudorate.fairness_over_time(made(10))) == 20
    assert pseudorate.fairer([made(10), made(5)]) == 0.5 and pseudorate.fairer([made(5), made(10)]) == 0


# --- FAST -----------------------------------------------------------------------------------


def test_formosa_is_judged_against_fast_of_the_same_seed():
    def of(seed, mbps):
        one = run(seed)
        one.metrics |= {"throughput_bps": mbps * 1e6}
        one.metrics["flows"] = [{"goodput_cv": 0, "goodput_trend": 0, "rtt_s": {"mean": 0.36}}]
        one.job = some_job(probes=[some_probe(40_000)])
        return one

    rate = (("path.reverse.rate", "1mbit"),)
    found = {("FA-T1", rate): [of(1, 25), of(2, 50)], ("FA-X3", rate): [of(1, 100), of(2, 100)]}
    verdicts = judged(papers.claims("fast"), results_of("fast", found))
    assert verdicts["FA-X3 1mbit"].value == pytest.approx(8**0.5)  # of 4 and 2, the geometric mean
    assert verdicts["FA-X3 1mbit"].verdict == "undecided"
    assert verdicts["FA-2a"].family == "FA-T1"
    assert "FA-X3 0.1mbit" not in verdicts and "FA-4a" not in verdicts  # no run, no row


# --- the matrix -----------------------------------------------------------------------------

matrix = papers.module("matrix", "measures")


def pair(a: float, b: float, seed: int, names=("fast", "reno")):
    one = run(seed, a + b)
    one.metrics |= {"jain": 0.9, "flows": [{"controller": c, "goodput_bps": x * 1e6} for c, x in zip(names, (a, b))]}
    return one


def lone(controller: str, mbps: float, seed: int):
    one = run(seed, mbps)
    one.metrics["flows"] = [{"controller": controller, "goodput_bps": mbps * 1e6}]
    return one


def test_a_pairs_share_and_harm_are_means_over_seeds_each_against_its_own():
    at = ("path.reverse.rate", "3mbit")
    results = results_of(
        "matrix",
        {
            ("MX-PAIR", (at,)): [
                pair(1, 3, 1),
                pair(2, 2, 2),
                pair(1, 2, 1, ("bbr", "bbr")),
                pair(0, 0, 1, ("bic", "vegas")),
            ],
            ("MX-ALONE", (at,)): [lone("fast", 4, 1), lone("fast", 2.5, 2), lone("reno", 3, 1)],
        },
    )
    assert matrix.shares(results, "3mbit") == pytest.approx(
        {("fast", "reno"): 0.375, ("reno", "fast"): 0.625, ("bbr", "bbr"): 2 / 3}
    )
    assert matrix.harms(results, "3mbit") == pytest.approx({("fast", "reno"): (0.75 + 0.2) / 2, ("reno", "fast"): 0})
    assert matrix.jains(results, "3mbit")["reno", "fast"] == 0.9
    assert matrix.shares(results, "30kbit") == {}


def alone(controller: str, mbps: float, rtt_ms: float = 60, seed: int = 1):
    one = lone(controller, mbps, seed)
    one.metrics["flows"][0]["rtt_s"] = {"mean": rtt_ms / 1e3, "min": 0.04}
    one.job = some_job(probes=[some_probe(40_000)])
    return [one]


def test_a_rival_that_did_not_run_leaves_nobody_the_best():
    def rows(names) -> dict[str, Judged]:
        runs = {
            ("MX-ALONE-DOCSIS", (("thin.thins", thins), ("flows.controller", c))): alone(c, 6 + thins, 150 - 60 * thins)
            for c in names
            for thins in (0, 1)
        }
        return judged(papers.claims("matrix"), results_of("matrix", runs))

    everybody = (*matrix.OURS, *matrix.MET)
    found = rows(everybody)
    assert found["MX-4a"].value == 1 and found["MX-5 bbr"].value == pytest.approx(7 / 6)
    assert found["MX-4c"].value == pytest.approx(50 / 110)  # of what the RTT is above 40 ms
    assert found.keys() - rows([c for c in everybody if c != "reno"]).keys() == {"MX-4a", "MX-5 reno"}


def test_a_share_is_that_of_the_named_controller():
    one = pair(4, 6, 1, ("fusion", "cubic"))
    assert [matrix.share_of(one, c) for c in ("fusion", "cubic")] == [0.4, 0.6]


def test_a_run_is_measured_against_its_path():
    """A flow begins after a second of nine, on a link that carries 1000 packets a second."""
    (one,) = alone("reno", 10)
    one.metrics["flows"][0]["rtt_s"]["min"] = 39.5 / 1e3
    one.job = replace(one.job, flows=[some_flow(0, "reno", start_s=1.0)], watch=[some_hop(8e6)], duration_s=9.0)
    # What comes after the end does not count.
    one.goodput = np.array([(5.0, 960 * 8000), (9.0, 10**6)], [("t", "f8"), ("bytes", "i8")])
    assert matrix.of_link(one) == pytest.approx(1) and matrix.rtt_above_ms(one) == pytest.approx(-0.5)
