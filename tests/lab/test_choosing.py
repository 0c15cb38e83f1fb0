# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""docs/choosing.md: the sweeps behind it are sound, and named there; its commands are ones of `asymlab link`."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace

import pytest

from asymlab.guest.wire import dump
from asymlab.link import real
from asymlab.plan import base, scenario
from asymlab.results.store import Run
from tests.ktap import built
from tests.lab.test_link import LINK, beside, row
from tests.lab.test_link_questions import with_upload
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


def test_each_sweep_is_printed():
    assert set(CASES) == set(table.SWEEPS)


def outputs():
    """The text behind each command of measured.md."""
    return {words: text for _, words, text in table.OUTPUT.findall(MEASURED)}


def rows_of(text):
    """The first cell of each row, of each table."""
    tables = re.findall(r"^\|.*\n\| ?:?---.*\n((?:\|.*\n)+)", text, re.M)
    return [[row.split("|")[1].strip() for row in rows.splitlines()] for rows in tables]


@built
def test_all_that_was_measured_is_output_of_a_command():
    """Each command of the page has its table, and is one that the tool knows. A sweep has a row for each path."""
    found = outputs()
    assert len(found) == len(re.findall(r"^    ", MEASURED, re.M)) and {*table.SWEEPS, "real", "trials"} <= set(found)
    for words, text in found.items():
        assert rows_of(text), words
        if words.startswith("link "):
            table.asked(words.removeprefix("link "))
        elif words in table.SWEEPS:
            paths = {case.scenario.title for case in scenario.load(HERE / f"cases.toml:{words}")}
            assert [sorted(rows) for rows in rows_of(text)] == [sorted(paths)]
        else:
            assert words in table.TABLES
    assert rows_of(found["real"]) == 2 * [list(real.LINKS)] and rows_of(found["trials"]) == [list(table.TRIED)]


def made_up(words):
    """A link, and what is there: Fusion has more beside an upload, and FAST leaves CUBIC little."""
    usual = with_upload((9.0, 1.0), (9.0, 1.0))
    rows = [
        replace(row("cubic", 9.6, 0.06, met=beside(usual=4.8)), upload=usual),
        replace(row("fusion", 9.6, 0.05, met=beside((4.8, 4.8))), upload=with_upload((9.9, 0.8), (9.0, 1.0))),
        replace(row("fast", 9.6, 0.05, met=beside((8.4, 1.2))), upload=usual),
        row("cubic+thin", 9.6, 0.06),
        *(row(name, 3.0, 0.05) for name in table.OURS if name not in ("fast", "fusion")),
    ]
    return replace(LINK, like=words.removeprefix("--like ")), [replace(r, usual=rows[0].run) for r in rows]


@built
def test_tables_of_links(monkeypatch, snapshot):
    monkeypatch.setattr(table, "tried", made_up)
    monkeypatch.setattr(table.real, "LINKS", {"lte": None, "dsl": None})
    snapshot("\n\n".join((table.of_link("--like lte"), table.of_real(), table.of_controllers())))


@built
def test_a_page_is_filled_by_its_commands(monkeypatch):
    """A page that is up to date stays as it is; old output goes, whatever it was, and prose above commands stays."""
    monkeypatch.setattr(table, "output", lambda words: outputs()[words].rstrip("\n"))
    assert table.filled(HERE / "measured.md", MEASURED) == MEASURED
    old = re.sub(r"^\|.*\n", "old\n", MEASURED, flags=re.M)
    assert table.filled(HERE / "measured.md", old) == MEASURED != old
    monkeypatch.setattr(table, "printed", lambda words: f"    link: {words}\n")
    assert re.search(r"asymlab (link .*)\n    link: \1\n", table.filled(REPO / "docs" / "choosing.md", PAGE))
    monkeypatch.setattr(table, "of_name", lambda name: f"| {name} |")
    readme = table.filled(REPO / "README.md", (REPO / "README.md").read_text())
    assert "<!-- table.py controllers -->\n| controllers |\n<!-- end of table -->\n" in readme


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
    commands = re.findall(r"^    build/venv/bin/asymlab (link .*)$", PAGE + MEASURED, re.M)
    assert len(commands) >= 10
    for words in commands:
        p = asymlab(*words.split(), "--dry-run")
        assert p.returncode == 0 and " runs, " in p.stderr, p
