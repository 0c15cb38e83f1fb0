# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Delays and losses that change: what a file may hold, what a job has of it, and what a way does by it."""

from __future__ import annotations

import json
import random
import re
import subprocess

import numpy as np
import pytest

from asymlab import LabError
from asymlab.guest import delayer, job
from asymlab.guest.wire import dump
from asymlab.plan import delays, opportunities, scenario, synthetic
from asymlab.plan.topology import plan_job
from tests.scenarios import hop
from tests.shared import REPO, asymlab, one_line

MS = 10**6
LEO = {"kind": "leo", "rate": "20mbit", "length": "60s"}


def read(folder, text: str | bytes) -> delays.Delays:
    file = folder / "way.delays"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return delays.read(file)


def forward(**more) -> dict:
    return {"forward": more}


def jobs_of(file, seed=1) -> job.Job:
    (case,) = scenario.load(file)
    return plan_job(case, seed)


def ways(planned: job.Job) -> dict[str, job.Delays]:
    return {end.dev: end.shape for end in planned.ends if isinstance(end.shape, job.Delays)}


def test_what_a_file_says(tmp_path):
    trace = read(tmp_path, "0 5 0\n10 12.345 0.5\n30\t0   1")
    assert trace.parts.tolist() == [(0, 5000, 0), (10, 12_345, 2**31), (30, 0, 2**32)]
    assert trace.period_ms == 30 and trace.longest_us == 12_345
    assert read(tmp_path, b"0 5.000 0.0\r\n10 12.345 0.50\r\n30 0 1\r\n") == trace
    assert list(trace.lines()) == ["0 5 0", "10 12.345 0.5", "30 0 1"]
    assert read(tmp_path, "0 5 0\n10 12.345 0.5\n31 0 1\n") != trace


def test_an_hour_of_milliseconds_is_read(tmp_path):
    text = "".join(f"{ms} {ms % 7} 0.00{ms % 5}\n" for ms in range(0, delays.LENGTH_MAX + 1, 10))
    trace = read(tmp_path, text)
    assert trace.period_ms == 3_600_000 and len(trace.pack()) == 16 * 360_001


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "fewer than two lines"),
        ("0 5 0\n", "fewer than two lines: the first one's time is 0, and the last one's the trace's length"),
        ("5 5 0\n9 1 0\n", "line 1: begins at 5 ms: the first line's time is 0"),
        ("0 5 0\n9 1 0\n9 1 0\n", "line 3: 9 after 9: each time is later than the one before"),
        ("0 5 0\n3600001 1 0\n", "line 2: 3600001 ms: a trace lasts an hour at most"),
        ("0 10000.1 0\n9 1 0\n", "line 1: a delay of 10000.1 ms: at most 10000 ms"),
        ("0 5 1.01\n9 1 0\n", "line 1: a share of 1.01: at most 1, which loses all packets"),
        (
            "0 5\n9 1 0\n",
            "line 1: '0 5' is not a time in whole ms, a delay in ms and a share of losses, such as '20 32.5",
        ),
        ("0 5 0 0\n", "line 1: '0 5 0 0' is not a time"),
        ("0 5 1%\n", "line 1: '0 5 1%' is not a time"),
        ("0 -5 0\n", "line 1: '0 -5 0' is not a time"),
        ("0.5 5 0\n", "line 1: '0.5 5 0' is not a time"),
        ("0 5 0\n\n", "line 2: '' is not a time"),
        ("0 1.2345 0\n", "line 1: '0 1.2345 0' is not a time"),
        ("0 nan 0\n", "line 1: '0 nan 0' is not a time"),
        (b"\xff\xfe1\n", "line 1: "),
        (b"9" * 4000, "line 1: '9999"),
    ],
)
def test_what_is_no_such_file(tmp_path, scenario_file, text, reason):
    """One line: the scenario and its key, the file, its line, and what is to be there."""
    file = scenario_file(forward(delay_trace="bad.delays"))
    bad = file.parent / "bad.delays"
    bad.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(LabError) as e:
        scenario.load(file)
    assert str(e.value).startswith(f"{file}: path.forward.delay_trace: {bad}: {reason}")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    "way, key, reason",
    [
        ({"delay_trace": "none"}, "path.forward.delay_trace", "No such file or directory"),
        ({"delay_trace": "."}, "path.forward.delay_trace", "not a regular file"),
        ({"delay_trace": 7}, "path.forward.delay_trace", "7 is not the name of a file"),
        ({"delay_trace": LEO}, "path.forward.delay_trace", "is not the name of a file"),
        ({"delay_trace": "none", "trace": LEO | {"delay": True}}, "path.forward", "either trace.delay or delay_trace"),
        ({"trace": LEO | {"kind": "lte", "delay": True}}, "path.forward.trace.delay", "lte has none, only leo"),
        ({"trace": LEO | {"delay": 1}}, "path.forward.trace.delay", "must be true or false"),
        ({"ecn_codepoint": "bleach"}, "path.forward.ecn_codepoint", "'bleached', 'remarked' or 'marked'"),
    ],
)
def test_what_does_not_go(scenario_file, way, key, reason):
    file = scenario_file(forward(**({"rate": None} if "trace" in way else {}), **way))
    with pytest.raises(LabError, match=f"^{file}: {key}: .*{reason}"):
        scenario.load(file)


def test_the_pages_command_makes_one_of_a_delay_for_each_10_ms(tmp_path):
    (command,) = re.findall(r"^    (awk .*) > leo\.delays$", (REPO / "docs" / "scenarios.md").read_text(), re.M)
    (tmp_path / "delay_example.txt").write_text("24\n18\n18.5\n")
    made = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert list(read(tmp_path, made.stdout).lines()) == ["0 24 0", "10 18 0", "20 18.5 0", "30 0 0"]


# --- what a job has -------------------------------------------------------------------------


def test_a_job_names_its_trace_by_its_hash_and_has_the_seeds_of_its_losses(scenario_file):
    """Beside a rate or a trace; the run's seed and the direction choose the losses, and the file's name nothing."""
    for name in ("a", "b"):
        file = scenario_file(forward(delay_trace=name), reverse={"delay_trace": name})
        (file.parent / name).write_text("0 5 0.1\n1000 0 0\n")
        found = [ways(jobs_of(file, seed)) for seed in (1, 1, 2)]
        assert found[0] == found[1]
    one, _, other = found
    assert set(one) == {"far1-right", "far1-left"} and len({way.file for way in one.values()}) == 1
    assert len({way.seed for of in (one, other) for way in of.values()}) == 4
    kept = (opportunities.TRACES / one["far1-left"].file.removeprefix("traces/")).read_bytes()
    assert kept == delays.read(file.parent / "a").pack()


def test_it_is_found_beside_the_file_that_names_it(tmp_path, scenario_file):
    base = scenario_file(forward(delay_trace="way"))
    (base.parent / "way").write_text("0 5 0\n1000 0 0\n")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "own").write_text("0 7 0\n1000 0 0\n")
    above = tmp_path / "far" / "above.toml"
    above.write_text(f'base = "{base}"\ntitle = "t"\nid = "T"\n[sweep]\n"path.reverse.delay_trace" = ["own"]\n')
    longest = {dev: way.longest_us for dev, way in ways(jobs_of(above)).items()}
    assert longest == {"far1-right": 5000, "far1-left": 7000}


def test_a_hop_has_one_more_node_and_no_other_hop_has(scenario_file):
    """Packets pass the queue, then the delay that changes, then the hop's own."""
    file = scenario_file(hops=[hop(), hop({"delay_trace": "way"})])
    (file.parent / "way").write_text("0 5 0\n1000 0 0\n")
    planned = jobs_of(file)
    shapes = {end.dev: type(end.shape).__name__ for end in planned.ends if not end.node.startswith(("src", "dst"))}
    assert {dev: shape for dev, shape in shapes.items() if "src" not in dev and "dst" not in dev} == {
        "sw1-wire1": "Bottleneck",
        "wire1-sw1": "Propagation",
        "wire1-sw2": "Propagation",
        "sw2-wire1": "Bottleneck",
        "sw2-far2": "Bottleneck",
        "far2-sw2": "Propagation",
        "far2-wire2": "Delays",
        "wire2-far2": "Unshaped",
        "wire2-sw3": "Propagation",
        "sw3-wire2": "Bottleneck",
    }
    assert planned.watch[1].forward.dev == "sw2-far2" and planned.watch[1].reverse.dev == "sw3-wire2"


def test_a_job_without_is_as_it_was(scenario_file):
    text = json.dumps(dump(jobs_of(scenario_file(hops=[hop(), hop()]))))
    assert not any(word in text for word in ("far", "codepoint", "longest_us"))


# --- what a way does ------------------------------------------------------------------------


def test_a_way_does_by_its_trace(tmp_path):
    """By the lines themselves, one packet at a time: the part that holds, its delay, and no packet overtakes."""
    rng, rows, at = random.Random(1), [], 0
    for _ in range(40):
        rows.append((at, rng.randrange(30_000), rng.choice([0.0, 0.0, 0.3, 1.0])))
        at += rng.randint(1, 20)
    trace = read(tmp_path, "".join(f"{t} {us / 1000} {lost}\n" for t, us, lost in [*rows, (at, 0, 0)]))
    way, last, lost, some = delayer.Trace(trace.pack(), trace.period_ms, 99), 0, 0, 0
    for since in sorted(rng.randrange(-5 * MS, 5 * at * MS) for _ in range(3000)):
        time = max(since, 0) % (at * MS)
        _, us, share = next(row for row in reversed(rows) if row[0] * MS <= time)
        found = way.cross(since)
        assert found is None if share == 1 else found is not None if share == 0 else True
        some, lost = some + (share == 0.3), lost + (share == 0.3 and found is None)
        if found is not None:
            assert found == max(last, since + us * 1000)
            last = found
    assert some > 300 and lost / some == pytest.approx(0.3, abs=0.08)


def test_draws_are_even_and_another_seed_has_others():
    part = delays.of([0, 1000], [0, 0], [delays.lost_of(0.01), 0]).pack()
    runs = []
    for seed in (2**63 + 12345, 2**63 + 98765):
        way = delayer.Trace(part, 1000, seed)
        runs.append([way.cross(0) is None for _ in range(50_000)])
    assert [np.mean(run) for run in runs] == pytest.approx([0.01, 0.01], abs=0.002) and runs[0] != runs[1]


# --- those that are made --------------------------------------------------------------------


def test_the_beams_of_leo():
    """Each 15 s another delay, and losses for 200 ms; the rates are those of `leo` without."""
    trace = synthetic.beams(60_000, 1)
    at, us, lost = (trace.parts[name].tolist() for name in ("at_ms", "delay_us", "lost"))
    assert at == [0, 200, 15_000, 15_200, 30_000, 30_200, 45_000, 45_200, 60_000]
    assert us[:-1:2] == us[1::2] and len(set(us[:-1])) == 4 and max(us) <= 30_000
    assert [n / 2**32 for n in lost] == pytest.approx([0.05, 0] * 4 + [0]) and synthetic.beams(60_000, 2) != trace
    assert trace.digest.startswith("aa6e64b9c9a98e24")
    assert synthetic.beams(15_100, 1).parts["at_ms"].tolist() == [0, 200, 15_000, 15_100]


def test_leo_has_its_delays_on_request(scenario_file):
    plain, more = (jobs_of(scenario_file(forward(rate=None, trace=LEO | also))) for also in ({}, {"delay": True}))
    assert not ways(plain) and list(ways(more)) == ["far1-right"]
    traces = [next(end.shape.trace for end in of.ends if getattr(end.shape, "trace", None)) for of in (plain, more)]
    assert traces[0] == traces[1]


def test_the_command_writes_what_a_scenario_makes(tmp_path):
    p = asymlab("trace", "leo", "20mbit", "40s", "--seed", "4", "--delay")
    assert read(tmp_path, p.stdout) == synthetic.beams(40_000, 4)
    one_line(asymlab("trace", "wifi", "20mbit", "3s", "--delay"), "delay: wifi has none, only leo")
