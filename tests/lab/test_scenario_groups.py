# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Entries that stand for several hops or flows: the same job as written out, and one line for each wrong use."""

import pytest

from asymlab import LabError, cli, options
from asymlab.conformance.explore import draw, explore, shrink
from asymlab.plan import scenario
from tests.scenarios import hop
from tests.shared import compile_job


def hops(*those: dict) -> dict:
    return {"hops": list(those)}


def group(count, **forward) -> dict:
    """An entry for so many hops."""
    return {"count": count, **hop(forward)}


def flows(*those: dict) -> dict:
    """All the flows that there are."""
    return {"flow": those[0], "flows": list(those[1:])}


def flow(controller="reno", **keys) -> dict:
    return {"controller": controller, **keys}


def loads(*those: dict) -> dict:
    return {"background": [{"rate": "1mbit", "packet": 500} | load for load in those]}


THREE, ALL_THREE = hops(group(3)), hops(*3 * [hop()])


@pytest.mark.parametrize(
    "short, long",
    [
        pytest.param([THREE], [ALL_THREE], id="equal hops"),
        pytest.param([hops(hop(), group(2))], [ALL_THREE], id="a hop and two equal ones"),
        pytest.param(
            [hops(hop({"queue": [5, 6], "loss": ["1%", "0%"]}))],
            [hops(hop({"queue": 5, "loss": "1%"}), hop({"queue": 6, "loss": "0%"}))],
            id="hops with values of their own",
        ),
        pytest.param([THREE, flows(flow(hop=2))], [ALL_THREE, flows(flow(enter=2, leave=3))], id="a flow on one hop"),
        pytest.param(
            [THREE, flows(flow(hop=2, direction="reverse"))],
            [ALL_THREE, flows(flow(enter=3, leave=2, direction="reverse"))],
            id="a flow on one hop, the other way",
        ),
        pytest.param(
            [THREE, flows(flow(hop="each"), flow("cubic", hop="each", start=["0s", "1s", "2s"]), flow("bbr"))],
            [
                ALL_THREE,
                flows(
                    *(one for k in (1, 2, 3) for one in (flow(hop=k), flow("cubic", hop=k, start=f"{k - 1}s"))),
                    flow("bbr"),
                ),
            ],
            id="neighbours on each hop take turns",
        ),
        pytest.param(
            [THREE, flows(flow(enter=[3, 2, 1]), flow("bbr", hop="each", direction="reverse", count=2))],
            [
                ALL_THREE,
                flows(
                    *(flow(enter=k) for k in (3, 2, 1)),
                    *(flow("bbr", hop=k, direction="reverse", count=2) for k in (1, 2, 3)),
                ),
            ],
            id="other places come after",
        ),
        pytest.param(
            [flows(flow(start=["0s", "1s"]), flow("bbr", start=["1s", "2s"]))],
            [flows(flow(start="0s"), flow(start="1s"), flow("bbr", start="1s"), flow("bbr", start="2s"))],
            id="no chain, no turns",
        ),
        pytest.param(
            [THREE, loads({"hop": "each"})],
            [ALL_THREE, loads({"hop": 1}, {"hop": 2}, {"hop": 3})],
            id="a load on each hop",
        ),
    ],
)
def test_an_entry_for_several_is_the_same_job_as_each_written_out(scenario_file, short, long):
    jobs = [
        [compile_job(scenario.load(scenario_file(*changes, name=name))[0], seed) for seed in (1, 2)]
        for name, changes in (("short.toml", short), ("long.toml", long))
    ]
    assert jobs[0] == jobs[1]


@pytest.mark.parametrize(
    "changes, line",
    [
        ([hops(group(0))], "path.hops.0.count: 0 is not a number from 1 to 8"),
        ([hops(group(True))], "path.hops.0.count: True is not a number from 1 to 8"),
        ([hops(group(1))], "path.hops: List should have at least 2 items"),
        ([hops(*3 * [group(3)])], "path.hops: List should have at most 8 items"),
        (
            [hops(group(2, queue=[5, 6, 7]))],
            "path.hops.0.forward.queue: must have as many values as count asks for, 2, not 3",
        ),
        (
            [hops(hop(), hop({"queue": list(range(1, 10))}))],
            "path.hops.1.forward.queue: must have 1 to 8 values, not 9",
        ),
        ([hops(hop({"queue": [5, "x"]}))], "path.hops.0.forward.queue: must be a whole number"),
        ([THREE, flows(flow(hop=0))], "flows.0.hop: 0 is neither a hop's number nor 'each'"),
        ([THREE, flows(flow(hop="all"))], "flows.0.hop: 'all' is neither a hop's number nor 'each'"),
        ([THREE, flows(flow(hop=4))], "flows.0.hop: no hop 4; there are 1 to 3"),
        ([flows(flow(hop=2))], "flows.0.hop: no hop 2; there are 1 to 1"),
        ([THREE, flows(flow(hop=2, enter=2))], "flows.0: must have either hop, or enter and leave"),
        ([THREE, flows(flow(hop="each", leave=2))], "flows.0: must have either hop, or enter and leave"),
        (
            [THREE, flows(flow(), flow(hop="each", count=[1, 2]))],
            "flows.1.count: must have as many values as hop asks for, 3, not 2",
        ),
        (
            [flows(flow(start=["0s", "1s"], count=[1, 2, 3]))],
            "flows.0.count: must have as many values as start asks for, 2, not 3",
        ),
        ([flows(flow(start=[]))], "flows.0.start: must have 1 to 60 values, not 0"),
        ([flows(flow(count=[1] * 61))], "flows.0.count: must have 1 to 60 values, not 61"),
        ([THREE, flows(*21 * [flow(hop="each")])], "flows: List should have at most 60 items"),
        ([flows(flow(controler=["reno", "bbr"]))], "flows.0.controler: unknown key"),
        ([flows(flow(start=["0s", "1 h"]))], "flows.0.start: '1 h' is not a quantity"),
        # Behind a group: the entry's own number in the file.
        ([THREE, flows(flow(hop="each"), flow(start="9s"))], "flows.1: starts, stops or resumes after"),
        ([THREE, flows(flow(hop="each"), flow(count=0))], "flows.1.count: must be at least 1"),
        ([hops(group(2), hop({"queue": 0}))], "path.hops.1.forward.queue: must be at least 1"),
        (
            [THREE, loads({"hop": "each"}, {"packet": 1400})],
            "background.1.packet: 1400 bytes are more than the path's mtu",
        ),
        ([THREE, flows(flow(hop="each"), flow("rneo"))], "flows.1.controller: no controller 'rneo'; there are "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_wrong_use_has_its_line(scenario_file, changes, line):
    file = scenario_file(*changes)
    with pytest.raises(LabError) as e:
        compile_job(scenario.load(file)[0], 1)
    assert str(e.value).startswith(f"{file}: {line}") and "\n" not in str(e.value)


def test_what_explore_makes_smaller_is_written_out(scenario_file):
    judged = {"measure_from": None, "traffic": "plain", "verify": True, "audit": True}
    file = scenario_file(THREE, flow={"hop": "each"}, run=judged)
    tree = explore.read([file])["test"]
    assert len(tree["path"]["hops"]) == 3 and [f["hop"] for f in tree["flows"]] == [1, 2, 3]
    assert any(draw.valid(less) for less in shrink.simpler(tree))


def test_a_swept_list_gives_each_hop_its_own_and_its_first_value_is_the_name(scenario_file):
    lists = [["reno", "bbr", "cubic"], ["bbr", "cubic", "reno"]]
    file = scenario_file(THREE, flow={"hop": "each"}, sweep={"flows.controller": lists})
    cases = scenario.load(file)
    assert [case.name for case in cases] == ["TEST reno", "TEST bbr"]
    assert [f.controller for f in cases[1].scenario.flows] == ["bbr", "cubic", "reno"]
    args = cli.parser().parse_args(["run", str(file), "--at", "flows.controller=bbr"])
    assert [case.name for case in options.cases_of(args)] == ["TEST bbr"]
    sweep = {"flows.controller": [["bbr", "bbr", "cubic"], lists[1]]}
    twice = scenario_file(THREE, flow={"hop": "each"}, sweep=sweep, name="b.toml")
    with pytest.raises(LabError, match="sweep.flows.controller: lists must begin with different values"):
        scenario.load(twice)


def test_swept_keys_are_those_of_the_entries_in_the_file(scenario_file):
    sweep = {"flows.0.controller": ["bbr"], "path.hops.0.forward.queue": [7]}
    file = scenario_file(THREE, flows(flow(hop="each"), flow("cubic")), sweep=sweep)
    (case,) = scenario.load(file)
    assert [f.controller for f in case.scenario.flows] == ["bbr", "bbr", "bbr", "cubic"]
    assert [h.forward.queue for h in case.scenario.path.chain] == [7, 7, 7]


@pytest.mark.parametrize("duration, half", [("3s", 1.5), ("3100ms", 1.5), ("1s", 0.5), ("61s", 30.5)])
def test_the_second_half_is_measured_unless_told(scenario_file, duration, half):
    file = scenario_file(run={"measure_from": None, "duration": duration})
    assert compile_job(scenario.load(file)[0], 1)["measure_from_s"] == half


def test_the_half_is_of_each_cases_duration(scenario_file):
    file = scenario_file(run={"measure_from": None}, sweep={"run.duration": ["4s", "8s"]})
    assert [case.scenario.run.measure_from for case in scenario.load(file)] == [2_000_000, 4_000_000]
    file = scenario_file(run={"measure_from": None, "duration": "3"}, name="wrong.toml")
    with pytest.raises(LabError, match="run.duration: '3' is not a quantity"):
        scenario.load(file)
