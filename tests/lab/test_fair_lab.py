# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""docs/options.md: its sweeps are sound and named there; and a contest with CUBIC, its end, and none without CUBIC."""

from __future__ import annotations

import pytest

from asymlab.plan import base, scenario
from tests.ktap import built
from tests.scenarios import TUNED
from tests.shared import LAB, REPO, compile_job, counters, run

HERE = REPO / "experiments" / "fair"
NAMES = ("beside", "alone", "leaves", "leo")


@built
@pytest.mark.parametrize("name", NAMES)
def test_a_sweep_is_sound(name):
    cases = scenario.load(HERE / f"cases.toml:{name}")
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        compile_job(case, 1)


def test_the_pages_command_runs_all_sweeps():
    assert base.cases(HERE / "cases.toml") == sorted(NAMES)
    ids = {case.scenario.id for case in scenario.load(HERE / "cases.toml")}
    assert ids == {f"FAIR-{name.upper()}" for name in NAMES}
    assert "asymlab run experiments/fair/cases.toml\n" in (REPO / "docs" / "options.md").read_text()


@pytest.mark.lab
def test_a_contest_begins_and_ends_with_cubic(scenario_file):
    """A hop each: FAST, Pseudo-rate and Formosa beside a CUBIC flow that leaves, and FAST without one."""
    side = {"rate": "20mbit", "delay": "20ms", "queue": 67}
    laws = ("fast", "pseudorate", "formosa")
    names = {f"{law}_fair": law for law in laws} | {"fast_alone": "fast"}
    flows = [
        flow
        for hop, law in enumerate(laws, 1)
        for flow in (
            {"controller": f"{law}_fair", "hop": hop},
            {"controller": "cubic", "hop": hop, "start": "1s", "stop": "25s"},
        )
    ]
    file = scenario_file(
        TUNED,
        ack="every",
        mtu=None,
        hops=[{"count": 4, "forward": side, "reverse": side}],
        controllers={name: {"object": law, "fair": 1} for name, law in names.items()},
        flow=flows[0],
        flows=[*flows[1:], {"controller": "fast_alone", "hop": 4}],
        run={"duration": "45s", "measure_from": "10s"},
    )
    r = run(file, LAB)
    for name in ("fast_fair", "pseudorate_fair", "formosa_fair"):
        assert (counters(r, name)["contests"], counters(r, name)["truces"]) == (1, 1), name
    alone = counters(r, "fast_alone")
    assert alone["looks"] > 50 and alone["contests"] == 0
