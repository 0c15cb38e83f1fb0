# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Entries that stand for several hops or flows: the same job as written out, and one line for each wrong use."""

import pytest

from asymlab import LabError, cli
from asymlab.conformance.explore import draw, explore, shrink
from asymlab.plan import scenario, topology
from tests.shared import HOP, PATH

FLOW = '[[flows]]\ncontroller = "reno"\n'
THREE = (PATH, HOP.replace("[[path.hops]]", "[[path.hops]]\ncount = 3"))
LOAD = '[[background]]\nrate = "1mbit"\npacket = 500\n'


def hop(queue, loss="0%"):
    return HOP.replace("queue = 50 }\nreverse", f'queue = {queue}, loss = "{loss}" }}\nreverse')


def flow(controller="reno", **keys):
    return f'[[flows]]\ncontroller = "{controller}"\n' + "".join(f"{k} = {v}\n" for k, v in keys.items())


@pytest.mark.parametrize(
    "short, long",
    [
        pytest.param([THREE], [(PATH, 3 * HOP)], id="equal hops"),
        pytest.param(
            [(PATH, HOP + HOP.replace("[[path.hops]]", "[[path.hops]]\ncount = 2"))],
            [(PATH, 3 * HOP)],
            id="a hop and two equal ones",
        ),
        pytest.param(
            [(PATH, HOP.replace("queue = 50 }\nreverse", 'queue = [5, 6], loss = ["1%", "0%"] }\nreverse'))],
            [(PATH, hop(5, "1%") + hop(6))],
            id="hops with values of their own",
        ),
        pytest.param(
            [THREE, (FLOW, flow(hop=2))], [(PATH, 3 * HOP), (FLOW, flow(enter=2, leave=3))], id="a flow on one hop"
        ),
        pytest.param(
            [THREE, (FLOW, flow(hop=2, direction='"reverse"'))],
            [(PATH, 3 * HOP), (FLOW, flow(enter=3, leave=2, direction='"reverse"'))],
            id="a flow on one hop, the other way",
        ),
        pytest.param(
            [THREE, (FLOW, flow(hop='"each"') + flow("cubic", hop='"each"', start='["0s", "1s", "2s"]') + flow("bbr"))],
            [
                (PATH, 3 * HOP),
                (
                    FLOW,
                    "".join(
                        flow(hop=k) + flow("cubic", hop=k, start=f'"{start}"')
                        for k, start in ((1, "0s"), (2, "1s"), (3, "2s"))
                    )
                    + flow("bbr"),
                ),
            ],
            id="neighbours on each hop take turns",
        ),
        pytest.param(
            [THREE, (FLOW, flow(enter="[3, 2, 1]") + flow("bbr", hop='"each"', direction='"reverse"', count=2))],
            [
                (PATH, 3 * HOP),
                (
                    FLOW,
                    "".join(flow(enter=k) for k in (3, 2, 1))
                    + "".join(flow("bbr", hop=k, direction='"reverse"', count=2) for k in (1, 2, 3)),
                ),
            ],
            id="other places come after",
        ),
        pytest.param(
            [(FLOW, flow(start='["0s", "1s"]') + flow("bbr", start='["1s", "2s"]'))],
            [(FLOW, flow(start='"0s"') + flow(start='"1s"') + flow("bbr", start='"1s"') + flow("bbr", start='"2s"'))],
            id="no chain, no turns",
        ),
        pytest.param(
            [THREE, (FLOW, FLOW + LOAD + 'hop = "each"\n')],
            [(PATH, 3 * HOP), (FLOW, FLOW + "".join(f"{LOAD}hop = {k}\n" for k in (1, 2, 3)))],
            id="a load on each hop",
        ),
    ],
)
def test_an_entry_for_several_is_the_same_job_as_each_written_out(scenario_file, short, long):
    jobs = [
        [topology.compile_job(scenario.load(scenario_file(*changes, name=name))[0], seed) for seed in (1, 2)]
        for name, changes in (("short.toml", short), ("long.toml", long))
    ]
    assert jobs[0] == jobs[1]


@pytest.mark.parametrize(
    "changes, said",
    [
        ([(PATH, HOP.replace("]]", "]]\ncount = 0"))], "path.hops.0.count: 0 is not a number from 1 to 8"),
        ([(PATH, HOP.replace("]]", "]]\ncount = true"))], "path.hops.0.count: True is not a number from 1 to 8"),
        ([(PATH, HOP.replace("]]", "]]\ncount = 1"))], "path.hops: List should have at least 2 items"),
        ([(PATH, 3 * HOP.replace("]]", "]]\ncount = 3"))], "path.hops: List should have at most 8 items"),
        (
            [(PATH, hop([5, 6, 7]).replace("]]", "]]\ncount = 2"))],
            "path.hops.0.forward.queue: must have as many values as count asks for, 2, not 3",
        ),
        ([(PATH, HOP + hop(list(range(1, 10))))], "path.hops.1.forward.queue: must have 1 to 8 values, not 9"),
        ([(PATH, hop([5, "x"]))], "path.hops.0.forward.queue: must be a whole number"),
        ([THREE, (FLOW, flow(hop=0))], "flows.0.hop: 0 is neither a hop's number nor 'each'"),
        ([THREE, (FLOW, flow(hop='"all"'))], "flows.0.hop: 'all' is neither a hop's number nor 'each'"),
        ([THREE, (FLOW, flow(hop=4))], "flows.0.hop: no hop 4; there are 1 to 3"),
        ([(FLOW, flow(hop=2))], "flows.0.hop: no hop 2; there are 1 to 1"),
        ([THREE, (FLOW, flow(hop=2, enter=2))], "flows.0: must have either hop, or enter and leave"),
        ([THREE, (FLOW, flow(hop='"each"', leave=2))], "flows.0: must have either hop, or enter and leave"),
        (
            [THREE, (FLOW, FLOW + flow(hop='"each"', count="[1, 2]"))],
            "flows.1.count: must have as many values as hop asks for, 3, not 2",
        ),
        (
            [(FLOW, flow(start='["0s", "1s"]', count="[1, 2, 3]"))],
            "flows.0.count: must have as many values as start asks for, 2, not 3",
        ),
        ([(FLOW, flow(start="[]"))], "flows.0.start: must have 1 to 60 values, not 0"),
        ([(FLOW, flow(count=[1] * 61))], "flows.0.count: must have 1 to 60 values, not 61"),
        ([THREE, (FLOW, 21 * flow(hop='"each"'))], "flows: List should have at most 60 items"),
        ([(FLOW, flow(controler='["reno", "bbr"]'))], "flows.0.controler: unknown key"),
        ([(FLOW, flow(start='["0s", "1 h"]'))], "flows.0.start: '1 h' is not a quantity"),
        # Behind a group: the entry's own number in the file.
        ([THREE, (FLOW, flow(hop='"each"') + flow(start='"9s"'))], "flows.1: starts, stops or resumes after"),
        ([THREE, (FLOW, flow(hop='"each"') + flow(count=0))], "flows.1.count: must be at least 1"),
        ([(PATH, HOP.replace("]]", "]]\ncount = 2") + hop(0))], "path.hops.1.forward.queue: must be at least 1"),
        (
            [THREE, (FLOW, FLOW + LOAD + 'hop = "each"\n' + LOAD.replace("500", "1400"))],
            "background.1.packet: 1400 bytes are more than the path's mtu",
        ),
        ([THREE, (FLOW, flow(hop='"each"') + flow("rneo"))], "flows.1.controller: no controller 'rneo'; there are "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_wrong_use_has_its_line(scenario_file, changes, said):
    file = scenario_file(*changes)
    with pytest.raises(LabError) as e:
        topology.compile_job(scenario.load(file)[0], 1)
    assert str(e.value).startswith(f"{file}: {said}") and "\n" not in str(e.value)


def test_what_explore_makes_smaller_is_written_out(scenario_file):
    judged = ('measure_from = "1s"', 'traffic = "plain"\nverify = true\naudit = true')
    file = scenario_file(THREE, (FLOW, flow(hop='"each"')), judged)
    tree = explore.read([file])["test"]
    assert len(tree["path"]["hops"]) == 3 and [f["hop"] for f in tree["flows"]] == [1, 2, 3]
    assert any(draw.valid(less) for less in shrink.simpler(tree))


def test_a_swept_list_gives_each_hop_its_own_and_its_first_value_is_the_name(scenario_file):
    sweep = '\n[sweep]\n"flows.controller" = [["reno", "bbr", "cubic"], ["bbr", "cubic", "reno"]]\n'
    file = scenario_file(THREE, (FLOW, flow(hop='"each"')), append=sweep)
    cases = scenario.load(file)
    assert [case.name for case in cases] == ["TEST reno", "TEST bbr"]
    assert [f.controller for f in cases[1].scenario.flows] == ["bbr", "cubic", "reno"]
    args = cli.parser().parse_args(["run", str(file), "--at", "flows.controller=bbr"])
    assert [case.name for case in cli.cases_of(args)] == ["TEST bbr"]
    twice = scenario_file(THREE, (FLOW, flow(hop='"each"')), append=sweep.replace('[["reno"', '[["bbr"'), name="b.toml")
    with pytest.raises(LabError, match="sweep.flows.controller: lists must begin with different values"):
        scenario.load(twice)


def test_swept_keys_are_those_of_the_entries_in_the_file(scenario_file):
    file = scenario_file(
        THREE,
        (FLOW, flow(hop='"each"') + flow("cubic")),
        append='\n[sweep]\n"flows.0.controller" = ["bbr"]\n"path.hops.0.forward.queue" = [7]\n',
    )
    (case,) = scenario.load(file)
    assert [f.controller for f in case.scenario.flows] == ["bbr", "bbr", "bbr", "cubic"]
    assert [h.forward.queue for h in case.scenario.path.chain] == [7, 7, 7]


@pytest.mark.parametrize("duration, half", [("3s", 1.5), ("3100ms", 1.5), ("1s", 0.5), ("61s", 30.5)])
def test_the_second_half_is_measured_unless_told(scenario_file, duration, half):
    file = scenario_file(('measure_from = "1s"\n', ""), ('duration = "3s"', f'duration = "{duration}"'))
    assert topology.compile_job(scenario.load(file)[0], 1)["measure_from_s"] == half


def test_the_half_is_of_each_cases_duration(scenario_file):
    file = scenario_file(('measure_from = "1s"\n', ""), append='\n[sweep]\n"run.duration" = ["4s", "8s"]\n')
    assert [case.scenario.run.measure_from for case in scenario.load(file)] == [2_000_000, 4_000_000]
    file = scenario_file(('measure_from = "1s"\n', ""), ('duration = "3s"', 'duration = "3"'), name="wrong.toml")
    with pytest.raises(LabError, match="run.duration: '3' is not a quantity"):
        scenario.load(file)
