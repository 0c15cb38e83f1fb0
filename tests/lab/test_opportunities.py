# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Traces of links: what a file may hold, what is counted of it, and what a link does by it."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from asymlab import LabError
from asymlab.guest.player import BYTES, Packet, Trace
from asymlab.plan import opportunities, scenario, synthetic
from asymlab.plan.topology import plan_job
from tests.shared import asymlab, one_line

MS = 10**6


def write(folder: Path, *times: object) -> Path:
    file = folder / "link.trace"
    file.write_text("".join(f"{t}\n" for t in times))
    return file


def by_trace(trace, **more) -> dict:
    """The forward direction plays a trace, and so has no rate."""
    return {"forward": {"rate": None, "trace": trace, **more}}


def played(times, queue=100) -> Trace:
    ms, count = np.unique(times, return_counts=True)
    return Trace(opportunities.of(ms, count).pack(), queue)


@pytest.mark.parametrize("side", ["forward", "reverse"])
def test_a_trace_that_is_silent_while_the_run_measures_is_refused(tmp_path, scenario_file, side):
    silent = write(tmp_path, *range(1, 900), 5000)
    file = scenario_file(**{side: {"rate": None, "trace": str(silent)}})
    with pytest.raises(LabError, match=rf"run: path\.{side} passes 0\.0 packets of 1000 bytes from measure_from"):
        scenario.load(file)


def test_the_time_of_an_opportunity(tmp_path):
    trace = opportunities.read(write(tmp_path, 2, 2, 5, 5, 5, 10))
    assert [trace.time_ms(n) for n in range(1, 9)] == [2, 2, 5, 5, 5, 10, 12, 12]
    assert trace.time_ms(2.5) == 3.5 and trace.time_ms(0) == 0 and trace.time_ms(-1) == -5 and trace.time_ms(6.5) == 11


def test_what_is_counted_of_a_trace(tmp_path):
    trace = opportunities.read(write(tmp_path, 2, 2, 5, 5, 5, 10))
    assert list(trace.ms) == [2, 5, 10] and list(trace.count) == [2, 3, 1]
    assert trace.period_ms == 10 and trace.rate_bps == 6 * 1500 * 8 * 100
    assert trace.longest_gap_ms == 5
    assert [trace.until(t) for t in (0, 1.9, 2, 9, 10, 12, 15)] == [0, 0, 2, 5, 6, 8, 11]
    assert trace.rate_between(10, 30) == trace.rate_bps
    assert trace.peak_bps(1) == 3 * 12000 * 1000


def test_windows_line_ends_and_no_last_one(tmp_path):
    file = tmp_path / "link.trace"
    file.write_bytes(b"1\r\n2\r\n7")
    assert list(opportunities.read(file).ms) == [1, 2, 7]


@pytest.mark.parametrize(
    "text, reason",
    [
        (b"", "empty: a trace has a line for each delivery of 1500 bytes"),
        (b"1\nx\n", "line 2: 'x' is not a time in whole milliseconds"),
        (b"1\n\n2\n", "line 2: '' is not a time"),
        (b"1\n1.5\n", "line 2: '1.5' is not a time"),
        (b"-1\n", "line 1: '-1' is not a time"),
        (b"1\n 2\n", "line 2: ' 2' is not a time"),
        (b"1_0\n", "line 1: '1_0' is not a time"),
        (b"5\n5\n4\n", "line 3: 4 after 5: times must not decrease"),
        (b"0\n0\n", "it lasts 0 ms"),
        (b"1\n3600001\n", "line 2: 3600001 ms: a trace lasts an hour at most"),
        (b"9" * 4000, "line 1: '99999999999999999999999999999999' is not a time"),
        (b"\xff\xfe1\n", "line 1: "),
        (b"\0" * 100, "line 1: "),
    ],
)
def test_what_is_no_trace(tmp_path, scenario_file, text, reason):
    (tmp_path / "bad.trace").write_bytes(text)
    file = scenario_file(by_trace(f"{tmp_path}/bad.trace"))
    with pytest.raises(LabError) as e:
        scenario.load(file)
    assert str(e.value).startswith(f"{file}: path.forward.trace: {tmp_path}/bad.trace: {reason}")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    "trace, more, key, reason",
    [
        ("none.trace", {}, "path.forward.trace", "No such file or directory"),
        ("pipe", {}, "path.forward.trace", "not a regular file"),
        (".", {}, "path.forward.trace", "not a regular file"),
        ("a\0b", {}, "path.forward.trace", "must be the name of a file"),
        (7, {"rate": "1mbit"}, "path.forward.trace", "7 is not the name of a file"),
        ("a.trace", {"rate": "1mbit"}, "path.forward", "either rate or trace"),
        ("slow.trace", {}, "path.forward.trace", "8 bit/s on average is no link's"),
        ("long.trace", {"queue": 400}, "path", "in one of 400 packets a packet waits 7200 s"),
        ("a.trace", {"cake": {}}, "path.forward", "no cake"),
    ],
)
def test_what_does_not_go_with_a_trace(scenario_file, trace, more, key, reason):
    file = scenario_file(by_trace(trace, **more))
    os.mkfifo(file.parent / "pipe")
    (file.parent / "a.trace").write_text("1\n")
    (file.parent / "slow.trace").write_text("1600000\n")
    (file.parent / "long.trace").write_text(300 * "1\n" + "3600000\n")
    with pytest.raises(LabError, match=f"^{file}: {key}: .*{reason}"):
        scenario.load(file)


def test_the_rate_of_a_trace_does_not_change(tmp_path, scenario_file):
    write(tmp_path, 1)
    change = {"at": "1s", "direction": "forward", "rate": "1mbit"}
    with pytest.raises(LabError, match="changes.0.rate: the direction has a trace"):
        scenario.load(scenario_file(by_trace("link.trace"), changes=[change]))


def test_a_trace_is_beside_the_file_that_names_it(tmp_path, scenario_file):
    """Also where another file begins with that one; and each hop of a list has its own."""
    base = scenario_file(by_trace("one.trace"))
    (base.parent / "one.trace").write_text("1\n")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "two.trace").write_text("1\n1\n")
    above = tmp_path / "far" / "above.toml"
    above.write_text(f'base = "{base}"\ntitle = "t"\nid = "T"\npath.reverse.queue = 7\n')
    assert scenario.load(above)[0].scenario.path.forward.rate == 12_000_000
    swept = '\n[sweep]\n"path.forward.trace" = ["two.trace"]\n'
    above.write_text(above.read_text() + swept)
    (case,) = scenario.load(above)
    assert case.scenario.path.forward.rate == 24_000_000 and case.point == {"path.forward.trace": "two.trace"}


def test_a_job_names_its_trace_by_its_hash(tmp_path, scenario_file):
    """Not by its file's name: the same trace gives the same job."""
    jobs = []
    for name in ("a", "b"):
        (tmp_path / name).write_text("1\n2\n2\n3\n")
        jobs.append(plan_job(scenario.load(scenario_file(by_trace(name)))[0], 1))
    assert jobs[0] == jobs[1]
    trace = next(end.shape.trace for end in jobs[0].ends if getattr(end.shape, "trace", None))
    digest = trace.file.removeprefix("traces/")
    kept = opportunities.kept(digest)
    assert kept and list(kept.count) == [1, 2, 1] and kept.digest == digest
    assert opportunities.kept("0" * 64) is None


# --- what a link does -----------------------------------------------------------------------


def mahimahi(times, period, queue, packets, end):
    """link_queue.cc of Mahimahi: the opportunities come one by one, and look at the queue."""
    waiting, out, at, i, in_transit = [], [None] * len(packets), 0, 0, 0
    turn = 0
    while turn * period <= end:
        now = (turn * period + times[at]) * MS
        while i < len(packets) and packets[i].came_ns <= now:
            if len(waiting) < queue:
                waiting.append(i)
            i += 1
        room = BYTES
        while room and waiting:
            in_transit = in_transit or packets[waiting[0]].bytes
            sent = min(room, in_transit)
            room, in_transit = room - sent, in_transit - sent
            if not in_transit:
                out[waiting.pop(0)] = now
        at += 1
        if at == len(times):
            at, turn = 0, turn + 1
    return out


@pytest.mark.parametrize("seed", range(40))
def test_a_look_ahead_is_what_mahimahi_does(seed):
    """For any trace, any packets and any queue; arrivals stand between the opportunities."""
    rng = random.Random(seed)
    times = sorted(rng.choices(range(rng.randint(0, 3), 40), k=rng.randint(1, 60)))
    times[-1] = max(times[-1], 1)
    arrivals = sorted(rng.randrange(200 * MS) // 2 * 2 + 1 for _ in range(rng.randint(1, 150)))
    packets = [Packet(t, rng.choice([40, 52, 740, 1499, 1500, 1501, 9000])) for t in arrivals]
    queue = rng.choice([1, 2, 5, 30, 1000])
    end = 200 + (len(packets) * 7 + 2) * times[-1]
    assert played(times, queue).leave(packets) == mahimahi(times, times[-1], queue, packets, end)


def test_an_hour_is_read_in_bounded_memory(tmp_path):
    """3.6 million times are 29 MB for the guest, however many opportunities each of them has."""
    with open(tmp_path / "hour.trace", "w") as f:
        f.writelines(f"{ms}\n{ms}\n" for ms in range(1, opportunities.LENGTH_MAX + 1))
    trace = opportunities.read(tmp_path / "hour.trace")
    assert trace.period_ms == 3_600_000 and trace.rate_bps == 24_000_000
    assert len(trace.pack()) == 8 * 3_600_000


# --- traces that are made -------------------------------------------------------------------

DIGESTS = {
    "lte": "53b3f3255aa8726f",
    "radio": "abea8f928c034cd9",
    "leo": "7a49ffadf63ebd71",
    "wifi": "ebb6e90c7308bb70",
}
RATES = {"lte": 10_000_000, "radio": 10_000_000, "leo": 150_000_000, "wifi": 100_000_000}


@pytest.mark.parametrize("kind", DIGESTS)
def test_a_trace_that_is_made_is_the_same_everywhere(kind):
    trace = synthetic.of_kind(kind, RATES[kind], 60_000, 1)
    assert trace.digest.startswith(DIGESTS[kind]) and trace.period_ms == 60_000
    assert synthetic.of_kind(kind, RATES[kind], 60_000, 2) != trace
    assert trace.rate_bps == pytest.approx(RATES[kind], rel=0.01)


def test_what_the_models_say():
    """A beam's first packets come late, its others evenly; a station waits 2 to 10 ms; a walk has an outage."""
    leo = synthetic.of_kind("leo", 150_000_000, 60_000, 1)
    silent = leo.ms[1:][np.diff(leo.ms) > 1]
    assert len(silent) == 4 - 1 and all(40 <= ms % 15_000 <= 160 for ms in silent) and 40 <= leo.ms[0] <= 160
    wifi = synthetic.of_kind("wifi", 100_000_000, 60_000, 1)
    gaps = np.diff(wifi.ms)[:-1]
    assert gaps.min() == 2 and gaps.max() == 10 and wifi.count.max() <= 64
    lte = synthetic.of_kind("lte", 10_000_000, 600_000, 1)
    assert lte.rate_bps == pytest.approx(10e6, rel=0.01) and 500 < lte.longest_gap_ms < 10_000
    radio = synthetic.of_kind("radio", 10_000_000, 600_000, 1)
    per_second = [radio.until(1000 * (s + 1)) - radio.until(1000 * s) for s in range(599)]
    assert min(per_second) > 0.1 * np.mean(per_second) and max(per_second) > 1.5 * np.mean(per_second)


@pytest.mark.parametrize(
    "table, key, reason",
    [
        ({"kind": "lta", "rate": "1mbit", "length": "9s"}, "trace.kind", "'lte', 'radio', 'leo' or 'wifi'"),
        ({"kind": "lte", "rate": "1mbit"}, "trace.length", "is missing"),
        ({"kind": "lte", "rate": "1mbit", "length": "2h"}, "trace.length", "not a quantity"),
        ({"kind": "lte", "rate": "1mbit", "length": "3601s"}, "trace.length", "must be at most 3600s, not 3601s"),
        ({"kind": "lte", "rate": "1mbit", "length": "9s", "x": 1}, "trace.x", "unknown key"),
    ],
)
def test_what_cannot_be_made(scenario_file, table, key, reason):
    file = scenario_file(by_trace(table))
    with pytest.raises(LabError, match=f"^{file}: path.forward.{key}: .*{reason}"):
        scenario.load(file)


def test_the_command_writes_what_a_scenario_makes(tmp_path):
    p = asymlab("trace", "wifi", "20mbit", "3s", "--seed", "4")
    (tmp_path / "link.trace").write_text(p.stdout)
    assert opportunities.read(tmp_path / "link.trace") == synthetic.of_kind("wifi", 20_000_000, 3000, 4)
    one_line(asymlab("trace", "wifi", "20mbps", "3s"), "rate: '20mbps' is not a quantity")
