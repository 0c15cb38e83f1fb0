# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""docs/options.md: its sweeps are sound and named there; and a contest with CUBIC, its end, and none without CUBIC."""

from __future__ import annotations

import pytest

from asymlab.plan import scenario, topology
from tests.ktap import built
from tests.shared import LAB, REPO, counters, run

HERE = REPO / "experiments" / "fair"
NAMES = ("beside", "alone", "leaves", "leo")


@built
@pytest.mark.parametrize("name", NAMES)
def test_a_sweep_is_sound_and_on_the_page(name):
    cases = scenario.load(HERE / f"{name}.toml")
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        topology.compile_job(case, 1)
    assert f"experiments/fair/{name}.toml\n" in (REPO / "docs" / "options.md").read_text()


def test_all_files_are_sweeps():
    assert {f.stem for f in HERE.glob("*.toml")} == {*NAMES}


@pytest.mark.lab
def test_a_contest_begins_and_ends_with_cubic(tmp_path):
    """A hop each: FAST, Pseudo-rate and Formosa beside a CUBIC flow that leaves, and FAST without one."""
    file = tmp_path / "fair.toml"
    side = '{ rate = "20mbit", delay = "20ms", queue = 67 }'
    file.write_text(f"""
title = "fair"
id = "FAIR"
profile = "tuned"
path.hops = [{{ count = 4, forward = {side}, reverse = {side} }}]
controllers.fast_fair = {{ object = "fast", fair = 1 }}
controllers.pseudorate_fair = {{ object = "pseudorate", fair = 1 }}
controllers.formosa_fair = {{ object = "formosa", fair = 1 }}
controllers.fast_alone = {{ object = "fast", fair = 1 }}
flows = [
    {{ controller = "fast_fair", hop = 1 }},
    {{ controller = "cubic", hop = 1, start = "1s", stop = "25s" }},
    {{ controller = "pseudorate_fair", hop = 2 }},
    {{ controller = "cubic", hop = 2, start = "1s", stop = "25s" }},
    {{ controller = "formosa_fair", hop = 3 }},
    {{ controller = "cubic", hop = 3, start = "1s", stop = "25s" }},
    {{ controller = "fast_alone", hop = 4 }},
]
run = {{ duration = "45s", measure_from = "10s" }}
""")
    r = run(file, LAB)
    assert r.valid, r.record["invalid"]
    for name in ("fast_fair", "pseudorate_fair", "formosa_fair"):
        assert (counters(r, name)["contests"], counters(r, name)["truces"]) == (1, 1), name
    alone = counters(r, "fast_alone")
    assert alone["looks"] > 50 and alone["contests"] == 0
