# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of all papers on random runs, and what all measures share."""

from __future__ import annotations

import re
from itertools import count
from types import SimpleNamespace

import pytest

from asymlab.plan import scenario
from asymlab.report import measures, papers, report
from asymlab.report.judged import RATIO_MAX, Judged, Results
from tests.report import random_runs

KEYS = count()


def run(seed: int = 1, mbps: float = 1, flows: int = 1, valid: bool = True, **more):
    return SimpleNamespace(
        record={"name": "a run", "seed": seed, "key": f"run {next(KEYS)}", "invalid": []},
        valid=valid,
        metrics={"goodput_bps": mbps * 1e6, "flows": [{}] * flows},
        **more,
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
@pytest.mark.parametrize("paper", papers.names())
def test_what_claims_say_of_random_runs(paper, tmp_path, snapshot):
    """A change here is a change of what is claimed, of a bound, or of a measure."""
    rows = papers.judged(paper, random_runs.results_of(paper, tmp_path))
    snapshot("".join(f"{row.id}: {row.claim}; {shown(row)}\n" for row in rows), paper)


def shown(row: Judged) -> str:
    bounds = " to ".join("" if bound is None else f"{bound:.5g}" for bound in (row.at_least, row.at_most))
    value = row.unmeasured if row.value is None else f"{row.value:.5g}"
    kind, runs = "check" if row.check else "claim", f"{row.family} x {len(row.samples)}"
    return f"{kind} of {row.source}, paper {row.paper_value}, bounds {bounds}, {runs}: {value}"


@pytest.mark.parametrize("paper", papers.names())
def test_without_runs_nothing_is_claimed_to_hold(paper):
    """And no claim is written so that it cannot be judged."""
    nothing = Results(paper, [])
    [row] = papers.judged(paper, nothing)
    assert (row.verdict, row.claim) == ("not measured", f"{len(papers.claims(paper))} more claims")
    assert report.figures_of(papers.module(paper, "figures"), nothing) == []


def test_the_quick_set_is_small():
    """A study joins it only on purpose: each case has one seed there by default."""
    planned = {
        paper: sum(len(case.seeds) for file in papers.scenarios(paper) for case in scenario.load(file, "quick"))
        for paper in papers.names()
    }
    assert " ".join(paper for paper, runs in planned.items() if runs) == "fast formosa fusion pseudorate taichung thin"
    assert sum(planned.values()) < 80


def test_runs_that_are_said_to_have_no_jitter_have_none():
    """A case takes each key of its base that it does not name."""
    ids = {
        id
        for paper in papers.names()
        for claim in papers.claims(paper)
        if re.search("without (jitter|noise)", claim.says)
        for id, _ in claim.value.runs.parts
    }
    cases = [case.scenario for case in scenario.load(papers.folder("twoway") / "cases.toml", "full")]
    exact = [one for one in cases if one.id in ids]
    assert {one.id for one in exact} == ids, "one is of another suite"
    assert all(one.path.forward.jitter == one.path.reverse.jitter == 0 for one in exact)


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


def test_the_extreme_of_several_points_is_by_mean():
    high, low = [run(1, 1), run(2, 5)], [run(1, 2), run(2, 2)]
    results, of = values(high, [], low)
    each = [measures.each(runs, measures.goodput_each) for runs in of]
    assert measures.extreme(each, min).of(results)[0] == low  # means 2 and 3
    assert measures.extreme(each, max).of(results)[0] == high
    assert measures.extreme(each[1:2], min).of(results)[0] == []
