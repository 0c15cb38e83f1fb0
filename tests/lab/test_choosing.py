# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""docs/choosing.md: the sweeps behind it are sound, and named there; its commands are ones of `asymlab link`."""

from __future__ import annotations

import importlib.util
import re

import pytest

from asymlab.guest.wire import dump
from asymlab.plan import base, scenario
from asymlab.results.store import Run
from tests.ktap import built
from tests.shared import REPO, asymlab, compile_job, some_hop, some_job, some_probe

HERE = REPO / "experiments" / "choosing"
CASES = base.cases(HERE / "cases.toml")
PAGE = (REPO / "docs" / "choosing.md").read_text()
MEASURED = (HERE / "measured.md").read_text()

spec = importlib.util.spec_from_file_location("choosing_table", HERE / "table.py")
table = importlib.util.module_from_spec(spec)
spec.loader.exec_module(table)


@built
@pytest.mark.parametrize("name", CASES)
def test_a_sweep_is_sound(name):
    cases = scenario.load(HERE / f"cases.toml:{name}")
    assert len({case.name for case in cases}) == len(cases) > 20
    for case in cases:
        compile_job(case, 1)
        flows, path = case.scenario.flows, case.scenario.path
        assert len(flows) == 1 + (name == "beside") and flows[-1].ack == "delayed"
        rate, rtt, queue = re.match(r"(\d+) Mbit/s, (\d+) ms, queue (\d+)", case.scenario.title).groups()
        title = (int(rate) * 10**6, int(rtt) * 1000, int(queue))
        assert (path.forward.rate, path.forward.delay + path.reverse.delay, path.forward.queue) == title


def test_each_sweep_is_printed_and_on_the_page():
    assert set(CASES) == set(table.NAMES)
    assert all(f"experiments/choosing/table.py {name}\n" in PAGE for name in table.NAMES)


@built
def test_what_was_measured_has_the_paths_of_its_sweep():
    """Each table of a sweep stands behind its command, and has a row for each path."""
    tables = re.findall(r"table\.py (\w+)\n\n\| path .*\n\| ---.*\n((?:\|.*\n)+)", MEASURED)
    assert {name for name, _ in tables} == set(table.NAMES)
    for name, rows in tables:
        paths = sorted(row.split("|")[1].strip() for row in rows.splitlines())
        assert paths == sorted({case.scenario.title for case in scenario.load(HERE / f"cases.toml:{name}")})


@built
def test_what_was_measured_is_of_the_pages_commands():
    commands = re.findall(r"^    build/venv/bin/(asymlab link .*)$", MEASURED, re.M)
    assert len(commands) >= 6 and set(commands) <= set(
        re.findall(r"^    build/venv/bin/(asymlab link .*)$", PAGE, re.M)
    )


def test_a_cell_has_what_the_page_says():
    """The queue is what the mean RTT has above the empty path's. Data that waited behind a gap is of another time."""

    def run(*flows, invalid=()):
        rows = [{"controller": "fast", "goodput_bps": rate * 1e6, "rtt_s": {"mean": 0.052}} for rate in flows]
        job = dump(some_job(probes=[some_probe(40_000)], payload_share=0.965, watch=[some_hop(10e6)]))
        metrics = {"flows": rows, "goodput_bps": sum(flows) * 1e6, "utilisation": 1.0}
        return Run(HERE, {"metrics": metrics, "invalid": list(invalid), "identity": {"job": job}})

    assert table.cell(run(8.654)) == "8.65, 12" and table.cell(run(9.7)) == "9.65, 12"
    assert table.cell(run(1.264, 47.01)) == "1.26 / 47"
    assert table.cell(run(8.654, invalid=["CPU 90 % busy"])) == "invalid"


@built
def test_a_wrong_name_is_one_line():
    with pytest.raises(SystemExit, match="hugo: there are alone, beside"):
        table.main(["hugo"])


@built
def test_the_commands_are_ones_of_the_lab():
    commands = re.findall(r"^    build/venv/bin/asymlab (link .*)$", PAGE, re.M)
    assert len(commands) >= 6
    for words in commands:
        p = asymlab(*words.split(), "--dry-run")
        assert p.returncode == 0 and " runs, " in p.stderr, p
