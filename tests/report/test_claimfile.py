# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Claims as claims.toml has them."""

from __future__ import annotations

import pytest

from asymlab import LabError
from asymlab.report import papers
from asymlab.report.judged import Results
from tests.report.test_claims import run, values

MEASURES = """
def seeds(runs):
    return sum(run.record["seed"] for run in runs)
"""
CLAIM = """
[[claims]]
id = "X-1"
source = "Fig. 1"
says = "it is {bound}"
runs = "0"
measure = "goodput"
above = 1
"""


@pytest.fixture
def claims(tmp_path, monkeypatch):
    """Reads the claims of a text."""
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "measures.py").write_text(MEASURES)
    monkeypatch.setattr(papers, "PAPERS", tmp_path)

    def read(text: str):
        (tmp_path / "x" / "claims.toml").write_text(text)
        return papers.claims("x")

    return read


def judged(claims, results: Results) -> dict[str, tuple[str, list[float]]]:
    rows = [c.judged(results) for c in claims]
    return {row.id: (row.claim, row.values) for row in rows}


def test_a_claim_is_repeated_for_each_combination_of_rows(claims):
    text = CLAIM.replace('"X-1"', '"X-$n $c"').replace('says = "', 'says = "$c of $of: ') + (
        'for = ["ns", { c = ["reno"] }]\n[lists.ns]\nn = [0, 1]\nof = ["one", "two"]\n[names]\nreno = "Reno"\n'
    )
    assert [(c.id, c.says) for c in claims(text)] == [
        ("X-0 reno", "Reno of one: it is {bound}"),
        ("X-1 reno", "Reno of two: it is {bound}"),
    ]


def test_others_have_the_keys_that_they_do_not_give(claims):
    more = '[[claims.also]]\nid = "X-2"\nbelow = 3\n[[claims.also]]\nid = "X-3"\nfor = { n = ["1"] }\nruns = "$n"\n'
    first, second, third = claims(CLAIM + 'paper = 5\ncause = "ACKs come late"\n' + more)
    assert (first.paper, first.above, first.cause.why) == (5, 1, "ACKs come late")
    assert (second.paper, second.above, second.below, second.cause, second.source) == (None, None, 3, None, "Fig. 1")
    assert (third.above, third.value.runs.parts) == (1, (("1", {}),))
    group = CLAIM.replace('id = "X-1"\n', "").replace('says = "it is {bound}"\n', "").replace("[[claims]]", "")
    text = f'[[claims]]\n{group}paper = 5\n[[claims.also]]\nid = "X-2"\nsays = "it is"\n'
    assert [(c.id, c.paper) for c in claims(text)] == [("X-2", 5)]


def test_values_are_of_the_runs_that_are_named(claims):
    results, _ = values([run(1, 3), run(2, 8)], [run(1, 1, 2), run(2, 2, 2)], [run(1, 10), run(2, 1)])
    text = "".join(
        CLAIM.replace("X-1", id).replace('runs = "0"', how)
        for id, how in {
            "each": 'runs = "0"',
            "over": 'runs = "0"\nover = ["1", "2"]',
            "theirs": 'runs = "0"\nover = "1"\nover_measure = "goodput_each"',
            "least": 'runs = "$n"\nacross = { n = ["0", "1"] }\ntake = "min"',
            "most": 'runs = "$n"\nacross = { n = ["0", "1"] }\ntake = "max"',
            "all": 'runs = "$n"\nacross = { n = ["0", "1"] }\ntake = "all"',
            "ratios": 'runs = "0"\nover = "1"\nover_value = { runs = "2" }',
        }.items()
    )
    text += CLAIM.replace("X-1", "together").replace('"0"', '["0", "1"]').replace('"goodput"', '"seeds"')
    rows = {id: row[1] for id, row in judged(claims(text), results).items()}
    assert rows == {
        "each": [3, 8],
        "over": [0.3, 4],
        "theirs": [6, 8],
        "least": [1, 2],
        "most": [3, 8],
        "all": [3, 8, 1, 2],
        "ratios": [0.3, 8],
        "together": [2, 4],
    }


def test_a_ratio_of_several_runs_has_the_geometric_mean(claims):
    results, _ = values([run(1, 3), run(2, 8)], [run(1, 1, 2), run(2, 2, 2)])
    text = CLAIM.replace('"0"', '["0", "1"]').replace('"goodput"', '"seeds"') + "geometric = true\n"
    (row,) = (c.judged(results) for c in claims(text))
    assert row.values == [2, 4] and row.ratio and row.value == pytest.approx(8**0.5)


def test_a_check_repeats_each_claim_of_a_preset(claims):
    text = (
        CLAIM.replace('"0"', '{ id = "0", flows.controller = "$c" }\nover = { flows.controller = ["reno", "fast"] }')
        + 'paper = 5\ncause = "ACKs come late"\ncheck = "$check"\n'
        + 'for = { c = ["fast", "bic"], check = [false, true] }\n'
        + '[presets]\ndefault = { fast = "own" }\n[names]\ndefault = "by default"\n'
    ).replace('"X-1"', '"X-$c"')
    first, repeated, check = claims(text)
    assert [first.id, repeated.id, check.id] == ["X-fast", "X-fast default", "X-bic"]
    assert (repeated.says, repeated.check, repeated.preset) == ("by default: it is {bound}", True, "default")
    assert (repeated.above, repeated.paper, repeated.cause) == (1, 5, None)
    of = [one.parts[0][1]["flows__controller"] for one in (repeated.value.runs, *repeated.value.others)]
    assert of == ["own", "reno", "own"]
    assert len(claims(CLAIM + '[presets]\ndefault = { fast = "own" }\n')) == 1  # it has no run of FAST's


def test_points_are_keys_of_the_runs_and_a_list_is_several(claims):
    (one,) = claims(CLAIM.replace('"0"', '{ id = "A", flows.0.controller = ["reno", "bic"], at = "$at" }')
                    + 'for = { at = [{ path.forward.rate = "1mbit", "path.forward.red" = { min = 5 } }] }\n'
                    + 'measure = "seeds"\n'.replace("measure", "# measure"))  # fmt: skip
    more = {"path__forward__rate": "1mbit", "path__forward__red": {"min": 5}}
    assert one.value.runs.parts == (("A", {"flows__0__controller": "reno"} | more),)
    over = 'over = { flows.controller = "bic" }'
    (one,) = claims(CLAIM.replace('"0"', f'{{ id = "A", title = "t", flows.controller = "reno" }}\n{over}'))
    assert [other.parts for other in one.value.others] == [(("A", {"title": "t", "flows__controller": "bic"}),)]


@pytest.mark.parametrize(
    "text, words",
    [
        (CLAIM + CLAIM, "x: two claims have the id X-1"),
        (CLAIM + 'cause = "c"\nshown_by = ["C-7"]', "x: X-1: its cause is shown by C-7, which is no claim"),
        (CLAIM + "abve = 1", "claims.toml: X-1: no key 'abve'; there are above, across, at_least"),
        (CLAIM.replace("goodput", "godput"), "claims.toml: X-1: no measure 'godput'; "),
        (CLAIM.replace("Fig. 1", "$fig"), "claims.toml: X-1: lacks 'fig'"),
        (CLAIM.replace('runs = "0"\n', ""), "claims.toml: X-1: lacks 'runs'"),
        (CLAIM + "below = 1\nat_most = 2", "claims.toml: X-1: claim X-1: takes one bound of each side"),
        (CLAIM + "a = ", "claims.toml: not TOML: Invalid value"),
        ("#" * (1 << 25), "claims.toml: 33554432 bytes, more than the "),
        (CLAIM + 'for = "many"', "claims.toml: no list 'many'"),
        (CLAIM + "for = { n = [1, 2], c = [1] }", "claims.toml: columns n, c: one is longer than another"),
    ],
)
def test_what_a_file_cannot_have_is_one_line(claims, text, words):
    with pytest.raises(LabError) as e:
        claims(text)
    assert words in str(e.value) and "\n" not in str(e.value)
