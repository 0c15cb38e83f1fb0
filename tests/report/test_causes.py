# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Claims as records: their bounds, their words, their causes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from asymlab import LabError
from asymlab.plan import scenario
from asymlab.report import papers
from asymlab.report.claim import Cause, Ceiling, Claim
from asymlab.report.judged import Judged, Results, Sample
from asymlab.report.measures import Runs, each, goodput, ratio_by_seed
from asymlab.report.sentences import fisher, verdicts
from tests.scenarios import CHAIN

ANOTHER = "measured by another set-up"
VALUE = each(Runs("TEST"), goodput)


# --- bounds and words ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bound, words, inside, outside",
    [
        ({"at_least": 0.98}, ">= 0.98", 0.98, 0.97),
        ({"at_most": 0.6}, "<= 0.6", 0.6, 0.61),
        ({"above": 1}, "> 1", 1.001, 1),
        ({"below": 0.4}, "< 0.4", 0.399, 0.4),
        ({"within": (0.4, 0.6)}, "[0.4, 0.6]", 0.4, 0.61),
        ({"above": 1, "at_most": 1.234}, "(1, 1.234]", 1.234, 1),
        ({"near": (25, 0.05)}, "within 5 % of 25", 23.8, 23.7),
    ],
)
def test_a_bound_is_said_as_it_decides(bound, words, inside, outside):
    one = Claim("X-1", "Fig. 1", "it is {bound}", VALUE, **bound)
    assert one.bound == words
    low, high = one.bounds
    for value, word in ((inside, "reproduced"), (outside, "not reproduced")):
        row = missed("X-1", value, at_least=low, at_most=high)
        assert row.verdict == word, value


@pytest.mark.parametrize("bound", [{}, {"at_least": 1, "above": 1}, {"within": (1, 2), "at_most": 2}])
def test_a_claim_has_one_bound_of_each_side(bound):
    with pytest.raises(LabError, match="claim X-1: takes one bound of each side, of at_least, above"):
        Claim("X-1", "Fig. 1", "it is", VALUE, **bound)


def results_of(cases: list[scenario.Case]) -> Results:
    run = SimpleNamespace(record={"seed": 1, "key": "k", "invalid": []}, valid=True, metrics={"goodput_bps": 1e6})
    return Results("one", [(SimpleNamespace(case=case), run) for case in cases])


def said(file, says: str) -> str:
    value = ratio_by_seed(Runs("TEST"), Runs("TEST"), goodput)
    return Claim("X-1", "Fig. 1", says, value, above=0.5).judged(results_of(scenario.load(file))).claim


def test_a_sentence_has_the_path_that_ran(scenario_file):
    far = {"controller": "cubic", "extra_delay": "10ms"}
    load = {"rate": "1mbit", "packet": 500}
    file = scenario_file(forward={"loss": "0.25%"}, flows=[far], background=[load])
    text = "{rate}, {reverse}, {loss}, {queue} packets, {rtt[0]} and {rtt[1]} ms, {load} of UDP: {bound} of {others}"
    first = "10 Mbit/s, 10 Mbit/s, 0.25%, 100 packets, 40 and 60 ms, 1 Mbit/s of UDP: > 0.5 of Reno"
    assert said(file, text) == first
    places = [{"controller": "reno", "hop": 2}, {"controller": "reno", "enter": 1, "leave": 3}]
    assert said(scenario_file(CHAIN, flows=places), "{rtt[0]}, {rtt[1]}, {rtt[2]}") == "60, 20, 40"


@pytest.mark.parametrize(
    "says, words",
    [
        ("{rate}", "claim X-1: {rate}: its runs have 2 of them"),
        ("{load}", "claim X-1: {load}: its runs have 0 of them"),
        ("{rat}", "claim X-1: {rat}: a sentence may have bound, others, rate, reverse, loss"),
    ],
)
def test_what_a_sentence_cannot_have_is_one_line(scenario_file, says, words):
    file = scenario_file(sweep={"path.forward.rate": ["1mbit", "2mbit"]})
    with pytest.raises(LabError) as e:
        said(file, says)
    assert str(e.value).startswith(words) and "\n" not in str(e.value)


@pytest.mark.parametrize("paper", papers.names())
def test_the_full_set_has_each_claim(paper):
    cases = [case for file in papers.scenarios(paper) for case in scenario.load(file, "full") if case.seeds]
    results = Results(paper, [(SimpleNamespace(case=case), None) for case in cases])
    claims = papers.claims(paper)
    assert claims and not [c.id for c in claims if not c.value.planned(results)]


# --- causes ----------------------------------------------------------------------------------


def missed(id: str, value: float = 0.5, **more) -> Judged:
    """A claim that its only run misses."""
    about = {"paper": "x", "source": "Fig. 1", "claim": "a claim", "at_least": 1, "samples": [Sample(1, "k", value)]}
    return Judged(**{"id": id} | about | more)


def reason(claim: Judged, causes: dict[str, Cause]) -> str:
    return verdicts([claim], causes)[0]["reason"]


def test_a_claim_without_a_cause_says_what_was_measured():
    causes = {"X-1": Cause("ACKs come late")}
    assert reason(missed("X-1"), causes) == "a guess: ACKs come late"
    assert reason(missed("X-2"), causes) == "0.5 is below 1; unexplained"
    assert reason(missed("X-2", source="cause"), causes) == "0.5 is below 1"


CAUSES = {"X-1": Cause("ACKs come late", "C-1", "C-2"), "X-2": Cause("losses come in pairs")}


@pytest.mark.parametrize(
    "second, cause, said",
    [
        ({}, ANOTHER, "ACKs come late (measured by another set-up: turned off in C-1 and C-2, and it comes true)"),
        (
            {"samples": [Sample(1, "k", 0.5)]},
            "guess",
            "a guess, as with it turned off (C-1 and C-2) it does not come true: ACKs come late",
        ),
        ({"samples": [Sample(1, "k", 0.5), Sample(2, "l", 1.6)]}, "guess", "a guess: ACKs come late"),
        (None, "guess", "a guess: ACKs come late"),  # the quick set has no such runs
    ],
)
def test_a_cause_is_measured_if_the_claim_comes_true_without_it(second, cause, said):
    shown = [missed("C-1", 1.5, check=True)]
    if second is not None:
        shown.append(missed("C-2", 1.5, **{"check": True} | second))
    found = verdicts([missed("X-1"), missed("X-2"), missed("X-3"), *shown], CAUSES)
    assert [v["cause"] for v in found[:3]] == [cause, "guess", "unexplained"]
    assert found[0]["reason"] == said
    assert found[1]["reason"] == "a guess: losses come in pairs"
    assert found[2]["reason"] == "0.5 is below 1; unexplained"


def test_a_cause_tells_of_the_paper_only_in_its_own_set_up():
    causes = {"X-1": Cause("ACKs come late", "C-1", set_up="paper")}
    found = verdicts([missed("X-1"), missed("C-1", 1.5, check=True)], causes)[0]
    assert found["cause"] == "measured in the paper's set-up"
    assert found["reason"] == "ACKs come late (measured in the paper's set-up: turned off in C-1, and it comes true)"
    with pytest.raises(LabError, match="set_up is 'mine'; it takes paper or another"):
        Cause("ACKs come late", "C-1", set_up="mine")


def runs(*values: float) -> list[Sample]:
    return [Sample(n, str(n), value) for n, value in enumerate(values)]


@pytest.mark.parametrize(
    "rows, check, worst, weak",
    [
        ([0.9] * 3 + [1.1] * 177, [1.1] * 18, True, "there 0 of 18 runs miss it, by chance with p = 0.75"),
        ([0.9] * 60 + [1.1] * 120, [1.1] * 18, True, ""),
        ([0.97, 0.98, 0.99, 0.98, 0.97], [1.04, 1.05, 1.06, 1.05], False, ""),
        ([0.98, 0.99, 1.2, 0.99, 0.97], [1.04, 1.05, 1.06, 1.05], False, "its interval and this one overlap"),
    ],
)
def test_a_check_that_chance_may_explain_shows_no_cause(rows, check, worst, weak):
    shown = missed("C-1", samples=runs(*check), worst=worst, check=True)
    found = verdicts([missed("X-1", samples=runs(*rows), worst=worst), shown], {"X-1": Cause("it is late", "C-1")})
    assert found[1]["verdict"] == "holds" and found[0]["cause"] == ("guess" if weak else ANOTHER)
    assert (f"a guess, as C-1 cannot tell: {weak}: it is late" in found[0]["reason"]) == bool(weak)


def test_fishers_exact_test():
    """The lady who tasted tea: of four cups she names all, or three."""
    assert fisher(4, 4, 0, 4) == pytest.approx(1 / 70)
    assert fisher(3, 4, 1, 4) == pytest.approx(17 / 70)


def test_a_ceiling_is_shown_by_the_runs_in_which_somebody_has_all():
    causes = {"X-1": Ceiling("nobody can have more", "C-1")}
    full, not_full = (missed("C-1", value, check=True) for value in (1.5, 0.5))
    found = verdicts([missed("X-1"), full], causes)[0]
    assert (found["cause"], found["reason"]) == (ANOTHER, f"nobody can have more ({ANOTHER}: C-1)")
    found = verdicts([missed("X-1"), not_full], causes)[0]
    assert (found["cause"], found["reason"]) == ("guess", "a guess, as C-1 fails: nobody can have more")


def test_an_open_claim_whose_mean_is_inside_has_its_cause_told():
    samples = [Sample(1, "k", 1.0), Sample(2, "l", 1.05)]
    claims = [missed(id, samples=samples) for id in ("X-1", "X-3")]
    shown = [missed(id, 2.5, check=True) for id in ("C-1", "C-2")]
    named, none = verdicts([*claims, *shown], CAUSES)[:2]
    assert [v["verdict"] for v in (named, none)] == ["inconclusive"] * 2
    assert [v["cause"] for v in (named, none)] == [ANOTHER, ""]
    why = "ACKs come late (measured by another set-up: turned off in C-1 and C-2, and it comes true)"
    assert named["reason"] == f"{why}; {none['reason']}"
    assert none["reason"] == "the 95 % interval holds 1; more seeds: `asymlab suite x --seeds 4`"


def test_a_claim_about_every_run_says_how_many_miss_it():
    samples = [Sample(n, str(n), value) for n, value in enumerate((0.5, 1.5, 0.7))]
    assert reason(missed("X", samples=samples, worst=True, note="a note"), {}) == (
        "2 of 3 runs miss it; a note; 0.5 is below 1; unexplained"
    )
    bad = {"left_out": {"9": "run 9 is invalid: CPU"}}
    assert reason(missed("X", **bad), {}) == "0.5 is below 1; run 9 is invalid: CPU; unexplained"
    assert reason(missed("X", samples=samples, worst=True, **bad), {}) == "run 9 is invalid: CPU"


def test_a_number_in_a_cause_is_one_line():
    assert Cause("as Fig. 2 and RFC 6582 have it").why
    with pytest.raises(LabError, match="cause 'it took 37 s'...: 37 is a number: a cause is shown over any runs"):
        Cause("it took 37 s")
