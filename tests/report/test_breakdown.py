# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A run by directions, and what a flow of a given size took."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from asymlab.plan import scenario
from asymlab.plan.topology import plan_job
from asymlab.report import compare, report
from asymlab.results import breakdown, metrics
from asymlab.run import summary

PATH = """
title = "two ways"
id = "T"
[[path.hops]]
forward = { rate = "20mbit", delay = "10ms", queue = 50 }
reverse = { rate = "5mbit", delay = "10ms", queue = 50 }
[[path.hops]]
forward = { rate = "20mbit", delay = "10ms", queue = 50 }
reverse = { rate = "5mbit", delay = "10ms", queue = 50 }
[run]
duration = "10s"
"""
FLOWS = {
    "forward": '[[flows]]\ncontroller = "cubic"\n',
    "reverse": '[[flows]]\ncontroller = "cubic"\ndirection = "reverse"\n',
    "second": '[[flows]]\ncontroller = "cubic"\nhop = 2\n',
    "second back": '[[flows]]\ncontroller = "cubic"\nhop = 2\ndirection = "reverse"\n',
    "from within": '[[flows]]\ncontroller = "cubic"\nenter = 2\ndirection = "reverse"\n',
}


def job_of(tmp_path, *names: str, path: str = PATH):
    file = tmp_path / "t.toml"
    file.write_text(path + "".join(FLOWS[name] for name in names))
    (case,) = scenario.load(file)
    return plan_job(case, 1)


def test_the_direction_of_each_flow(tmp_path):
    job = job_of(tmp_path, *FLOWS)
    assert [breakdown.direction_of(flow.src, flow.dst, job) for flow in job.flows] == [
        *("forward", "reverse", "forward", "reverse", "reverse")
    ]


def run_of(job, *flows: tuple[float, float]):
    metrics = {
        "flows": [
            {
                "flow": i,
                "controller": "cubic",
                "goodput_bps": bps,
                "retransmits": i,
                "rtt_s": {"p50": rtt, "p95": 2 * rtt},
            }
            for i, (bps, rtt) in enumerate(flows)
        ],
        "utilisation": 0.9,
        "reverse_utilisation": 0.4,
        "hops": job.watch,
        "busiest": "hop 1",
        "acks_per_data_packet": 0.5,
        "timeouts": 3,
    }
    return SimpleNamespace(job=job, metrics=metrics, record={"name": "T seed 1"})


def test_sums_are_of_one_direction(tmp_path):
    """20 Mbit/s down and 0.5 up are no unfair run; the RTT is that of a flow which is named."""
    job = job_of(tmp_path, "forward", "forward", "reverse")
    run = run_of(job, (10e6, 0.05), (10e6, 0.06), (0.5e6, 0.2))
    down, up = breakdown.directions(run)
    assert (down.name, down.goodput_bps, down.jain, down.utilisation, down.slowest["flow"]) == (
        "forward",
        20e6,
        1,
        0.9,
        1,
    )
    assert (up.name, up.goodput_bps, up.jain, up.utilisation, up.ack_utilisation) == ("reverse", 0.5e6, 1, 0.4, 0.9)
    rows = list(summary.rows_of(run))
    assert [row[:2] for row in rows] == [("T seed 1 forward", "20.000"), ("T seed 1 reverse", "0.500")]
    assert [row[6] for row in rows] == ["1", "2"] and rows[1][-1] == ""


def test_two_directions_are_compared_one_by_one(tmp_path):
    run = run_of(job_of(tmp_path, "forward", "forward", "reverse"), (10e6, 0.05), (10e6, 0.06), (0.5e6, 0.2))
    numbers = report.by_direction(run)
    assert numbers["goodput_bps reverse"] == 0.5e6 and numbers["jain forward"] == 1
    assert compare.numbers({"metrics": {"jain": 0.7, "timeouts": 3} | numbers}) == {"timeouts": 3} | numbers
    assert report.by_direction(run_of(job_of(tmp_path, "forward"), (10e6, 0.05))) == {}


def test_a_flows_share_is_that_of_its_direction(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(summary, "terminal", lambda columns, rows: told.extend(rows) or "")
    summary.print_flows([run_of(job_of(tmp_path, "forward", "reverse"), (20e6, 0.05), (0.5e6, 0.2))])
    assert [row[1:6] for row in told] == [
        ("0", "cubic", "forward", "20.000", "100.0%"),
        ("1", "cubic", "reverse", "0.500", "100.0%"),
    ]


def test_flows_of_one_direction_have_one_row_without_a_name(tmp_path):
    run = run_of(job_of(tmp_path, "forward", "second"), (1e6, 0.05), (3e6, 0.06))
    (way,) = breakdown.directions(run)
    assert way.name == "" and way.goodput_bps == 4e6 and 0.5 < way.jain < 1
    (back,) = breakdown.directions(run_of(job_of(tmp_path, "reverse"), (1e6, 0.05)))
    assert (back.name, back.utilisation) == ("reverse", 0.4)


@pytest.mark.parametrize("ended", [True, False])
def test_a_flow_of_a_given_size(tmp_path, ended):
    """Its own time: until the ACK of its last byte, which comes with that of its FIN."""
    path = PATH + '[[flows]]\ncontroller = "cubic"\nsize = 100000\n'
    job = job_of(tmp_path, "forward", path=path)
    closed = [round(job.flows[0].start_s * 1e9) + 4_900_000_000, 100_000_000] if ended else None
    run = SimpleNamespace(job=job, metrics={"flows": [{"flow": 0, "done_s": metrics.done_s(job.flows[0], closed)}]})
    done = breakdown.completion(run, 0)
    assert breakdown.completion(run, 1) is None
    if ended:
        assert done.seconds == pytest.approx(5) and done.goodput_bps == pytest.approx(8e5 / 5)
    else:
        assert done is None


def replying(tmp_path):
    """A flow that asks each second of ten, and got nine replies; measured from its fifth second on."""
    flow = '[[flows]]\ncontroller = "cubic"\nreply = 1000\nevery = "1s"\n'
    job = replace(job_of(tmp_path, path=PATH + flow), measure_from_s=5.0)
    return job, [[n * 10**9, (n + 1) * 10**7] for n in range(9)]


def test_replies_are_those_that_were_asked_for_in_time(tmp_path):
    job, replies = replying(tmp_path)
    (flow,) = job.flows
    assert metrics.reply_times(flow, job, replies, 5.0) == [60_000_000, 70_000_000, 80_000_000, 90_000_000, 10**9]
    assert metrics.reply_times(flow, job, replies[:5], 5.0) == [5 * 10**9], "the sixth never came"
    soon = [*replies, [9 * 10**9, 10**9 - 1]]
    assert len(metrics.reply_times(flow, job, soon)) == 10, "the next is not due before the end"


def test_completion_times_of_a_controller_have_percentiles(tmp_path):
    job, replies = replying(tmp_path)
    whole = job_of(tmp_path, path=PATH + '[[flows]]\ncontroller = "reno"\ncount = 3\nsize = 1000\n')
    sized = [replace(flow, id=number) for number, flow in enumerate(whole.flows, 1)]
    flows = [{"flow": 0}, *({"flow": number, "done_s": done} for number, done in ((1, 1.0), (2, 3.0), (3, None)))]
    record = {"name": "T seed 1", "agent": {"replies": {"0": replies}}}
    run = SimpleNamespace(job=replace(job, flows=[*job.flows, *sized]), metrics={"flows": flows}, record=record)
    rows = {row.controller: row for row in breakdown.times(run)}
    assert (rows["cubic"].what, rows["cubic"].done, rows["cubic"].seconds["p50"]) == ("replies", "5", 0.08)
    assert (rows["reno"].what, rows["reno"].done, rows["reno"].seconds["p50"]) == ("flows", "2 of 3", 2.0)
    assert rows["reno"].seconds["p99"] == pytest.approx(2.98)
