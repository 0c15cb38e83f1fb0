# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Scenario files: what they mean, and the one line for each thing wrong in them."""

import pytest

from asymlab import LabError, scenario, topology
from asymlab.paths import EXPERIMENTS

from conftest import asymlab


def test_quantities_carry_units(scenario_file):
    s = scenario.load(scenario_file(('rate = "10mbit", delay = "20ms"', 'rate = "1.5mbit", delay = "250us", loss = "0.1%"')))[0].scenario
    assert s.path.forward.rate == 1_500_000
    assert s.path.forward.delay == 250
    assert s.path.forward.loss == 0.001
    assert s.run.duration == 3_000_000


@pytest.mark.parametrize("old, new, key, reason", [
    ('queue = 100 }\nreverse', 'queue = 0 }\nreverse', "path.forward.queue", "greater than or equal to 1"),
    ('forward = { rate = "10mbit"', 'forward = { rate = "-10mbit"', "path.forward.rate", "not a quantity"),
    ('forward = { rate = "10mbit"', 'forward = { rate = 10', "path.forward.rate", "not a quantity"),
    ('forward = { rate = "10mbit"', 'forward = { rate = "10ms"', "path.forward.rate", "not a quantity"),
    ('mtu = 1000', 'mtu = 1000\nmut = 3', "path.mut", "unknown key"),
    ('mtu = 1000', 'mtu = 20', "path.mtu", "greater than or equal to 200"),
    ('duration = "3s"', 'duration = "1s"', "run", "measure_from must come before duration"),
    ('controller = "reno"', 'controller = "reno"\nstart = "2s"\nstop = "1s"', "flows.0", "stop must come after start"),
    ('controller = "reno"', 'controller = "reno"\nstart = "9s"', "scenario", "starts or stops after run.duration"),
    ('duration = "3s"', 'duration = "3050ms"', "run", "multiples of 100ms"),
    ('id = "TEST"', 'id = "a test"', "id", "pattern"),
    ('profile = "ns2"', 'profile = "ns3"', "profile", "'linux' or 'ns2'"),
    ('queue = 100 }\nreverse', 'queue = 100, loss = "100%" }\nreverse', "path.forward.loss", "less than 1"),
])
def test_wrong_values_name_file_key_and_reason(scenario_file, old, new, key, reason):
    file = scenario_file((old, new))
    with pytest.raises(LabError) as e:
        scenario.load(file)
    text = str(e.value)
    assert text.startswith(f"{file}: {key}: ") and reason in text and "\n" not in text


def test_unknown_controller_lists_those_there_are(scenario_file):
    file = scenario_file(('"reno"', '"rneo"'))
    with pytest.raises(LabError, match="flows.0.controller: no controller 'rneo'; there are fast, reno"):
        topology.compile_job(scenario.load(file)[0], 1)


@pytest.mark.parametrize("text, reason", [("a = [", "not TOML"), ("[sets.fast]\n", "sets.fast: unknown key"),
                                          ("[sweep]\nx = []\n", "sweep.x: must be a list"), ("[controllers.fsat]\nalpha = 3\n", "controllers.fsat: no flow uses it"),
                                          ("[sets]\nquick = 3\n", "sets.quick: must be a table")])
def test_wrong_files(scenario_file, text, reason):
    with pytest.raises(LabError, match=reason):
        scenario.load(scenario_file(append="\n" + text))


def test_the_command_says_it_in_one_line(scenario_file):
    p = asymlab("run", scenario_file(("queue = 100 }\nreverse", "queue = 0 }\nreverse")))
    assert p.returncode == 1 and p.stdout == ""
    assert p.stderr.count("\n") == 1 and "path.forward.queue" in p.stderr
    p = asymlab("run", "no-such-file.toml")
    assert p.returncode == 1 and p.stderr == "asymlab: no-such-file.toml: No such file or directory\n"


def test_sweep_is_a_product_and_points_change_together(scenario_file):
    cases = scenario.load(scenario_file(append="""
[sweep]
points = [
  { "path.reverse.rate" = "1mbit", "run.duration" = "4s" },
  { "path.reverse.rate" = "2mbit", "run.duration" = "5s" },
]
"flows.controller" = ["reno", "cubic", "vegas"]

[sets.full]
seeds = 2
"path.mtu" = 1500
"""))
    assert len(cases) == 6
    assert cases[0].point == {"path.reverse.rate": "1mbit", "flows.controller": "reno"}
    assert {(c.scenario.path.reverse.rate, c.scenario.run.duration) for c in cases} == {(10**6, 4 * 10**6), (2 * 10**6, 5 * 10**6)}
    assert [c.scenario.flows[0].controller for c in cases] == ["reno", "cubic", "vegas"] * 2
    full = scenario.load(cases[0].file, "full")
    assert full[0].seeds == (1, 2) and full[0].scenario.path.mtu == 1500


@pytest.mark.parametrize("section, reason", [
    ('[controllers.reno]\nloader = "bpftol"', "'bpftol' is neither"),
    ('[controllers.reno]\nloader = "bpftool"\nobject = "fast"', "no other name"),
])
def test_bpftool_takes_an_object_as_it_is(scenario_file, section, reason):
    with pytest.raises(LabError, match=reason):
        topology.compile_job(scenario.load(scenario_file(append="\n" + section + "\n"))[0], 1)


def test_the_seed_decides_the_start_jitter(scenario_file):
    case = scenario.load(scenario_file())[0]
    starts = [topology.compile_job(case, seed)["flows"][0]["start_s"] for seed in (1, 1, 2)]
    assert starts[0] == starts[1] != starts[2]
    assert all(0 <= s < 0.01 for s in starts)


def test_ack_only_directions_have_a_small_bucket(scenario_file):
    one_way = topology.compile_job(scenario.load(scenario_file())[0], 1)
    both = topology.compile_job(scenario.load(scenario_file(append='\n[[flows]]\ncontroller = "reno"\ndirection = "reverse"\n'))[0], 1)
    assert one_way["probes"][0]["reverse"]["burst_bytes"] < 1000 <= both["probes"][0]["reverse"]["burst_bytes"]


@pytest.mark.parametrize("file", sorted(EXPERIMENTS.glob("papers/*/*.toml")), ids=lambda f: f.stem)
@pytest.mark.parametrize("which", scenario.SETS)
def test_the_papers_scenarios_are_sound(file, which):
    for case in scenario.load(file, which):
        topology.compile_job(case, 1)
