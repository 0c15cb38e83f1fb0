# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The job between host and agent: the same bytes at both ends, and nothing that is not a job."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from asymlab.guest.job import Job, Refusals
from asymlab.guest.programs import kind_of
from asymlab.guest.run import Running, schedule
from asymlab.guest.system import Failure
from asymlab.guest.tracer import RING_KB_MAX, drain_ms, ring_kb
from asymlab.guest.traffic import Background, Traffic
from asymlab.guest.wire import dump, load
from asymlab.paths import EXPERIMENTS
from asymlab.plan import scenario, topology
from asymlab.report import papers
from tests.scenarios import FORMOSA, PLAIN
from tests.shared import compile_job

FILES = [*EXPERIMENTS.glob("bench/*.toml"), *(f for paper in papers.names() for f in papers.scenarios(paper))]


def text_of(job: dict) -> str:
    return json.dumps(job, sort_keys=True)


@pytest.mark.parametrize("file", sorted(FILES), ids=lambda f: f.parent.name)
@pytest.mark.parametrize("which", scenario.SETS)
def test_each_published_case_is_a_job_that_the_agent_reads(file, which):
    """FAST's default alpha follows the rate; the papers' are constants, and each job says its own. Some studies ask
    what a user has who sets nothing."""
    controllers = []
    for case in scenario.load(file, which):
        planned = topology.plan_job(case, 1)
        assert load(kind_of(dump(planned)) | Refusals, text_of(dump(planned)), "job") == planned
        controllers += planned.controllers
    fast = [c for c in controllers if c.object == "fast"]
    assert file.parent.name in ("ackratio", "c4", "grants", "l4s", "thin", "twoway") or all(
        c.set.get("alpha") for c in fast
    )
    assert fast or file.parent.name != "fast"


def test_many_flows_start_as_a_poisson_process(scenario_file):
    """400 in two seconds: gaps of 5 ms on average, of which a share 1/e is longer."""
    many = {"count": 400, "start": "500ms", "start_within": "2s", "size": 1000}
    (case,) = scenario.load(scenario_file(flow=many, flows=[{"controller": "reno"}]))
    *starts, other = [flow.start_s for flow in topology.plan_job(case, 1).flows]
    assert 0.5 <= min(starts) and max(starts) < 2.5 and other < 0.01
    gaps = np.diff(sorted(starts))
    assert gaps.mean() == pytest.approx(0.005, rel=0.05) and (gaps > 0.005).mean() == pytest.approx(1 / np.e, abs=0.08)
    assert starts != [flow.start_s for flow in topology.plan_job(case, 2).flows[:-1]]


@pytest.mark.parametrize(
    "words, kb",
    [
        ({}, 352),  # 20 Mbit/s in packets of 1000 bytes are 2500 records of 72 bytes a second
        ({"mtu": 500}, 703),
        ({"run": {"trace_every": "10ms"}}, 64),  # two hundred
        ({"run": {"trace_state": True}}, 1055),
        ({"changes": [{"at": "1s", "direction": "forward", "rate": "100mbit"}]}, 2109),
        ({"forward": {"rate": "1gbit"}, "reverse": {"rate": "1gbit"}}, RING_KB_MAX),
    ],
)
def test_the_tracers_room_is_for_what_the_path_can_carry(scenario_file, words, kb):
    (case,) = scenario.load(scenario_file(words))
    assert ring_kb(topology.plan_job(case, 1)) == kb


def test_a_path_that_fills_the_tracers_room_is_collected_from_more_often(scenario_file):
    rates = {"10mbit": 1000, "10gbit": 46}  # half of 16 MB is 46 ms of 2.5 million records a second
    for rate, ms in rates.items():
        (case,) = scenario.load(scenario_file(forward={"rate": rate}, reverse={"rate": rate}))
        assert drain_ms(topology.plan_job(case, 1)) == ms


# --- what is no job ------------------------------------------------------------------------

RICH = {
    "forward": {
        "jitter": "1ms",
        "duplicate": "1%",
        "red": {"min": 4, "max": 8, "probability": "10%"},
        "rewrite": [{"kind": 2, "offset": 2, "value": 500}],
    },
    "reverse": {"strip": {"kinds": [253], "syn": True}},
    "flows": [{"controller": "formosa", "start": "1s", "stop": "2s", "resume": "2.5s"}],
    "background": [{"rate": "1mbit", "packet": 500, "start": "1s", "stop": "2s"}],
    "changes": [
        {"at": "1s", "controller": "formosa", "set": {"forward_share": 50}},
        {"at": "1s", "controller": "formosa", "command": "replace"},
        {"at": "1s", "direction": "forward", "rate": "1mbit", "delay": "5ms", "mtu": 600},
    ],
}


@pytest.fixture
def rich(scenario_file) -> dict:
    """A job with an object of each type."""
    (case,) = scenario.load(scenario_file(FORMOSA, PLAIN, RICH))
    return compile_job(case, 1)


def objects(value, where: str = "job") -> Iterator[tuple[str, dict]]:
    """All objects in it that stand for a dataclass."""
    if isinstance(value, dict):
        yield where, value
    for key, member in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(member, dict | list) and key not in ("sysctls", "set"):
            yield from objects(member, f"{where}.{key}")


def kinds(job: dict) -> dict[str, dict]:
    """One object of each kind: where it stands, and the object."""
    return {where: one for where, one in {frozenset(one): (where, one) for where, one in objects(job)}.values()}


def refused(job: dict) -> str:
    with pytest.raises(Failure) as e:
        load(Job, text_of(job), "job")
    assert "\n" not in str(e.value) and len(str(e.value)) < 250
    return str(e.value)


def edited(job: dict, where: str) -> tuple[dict, dict]:
    """A copy, and the object in it that stands there."""
    job = copy.deepcopy(job)
    return job, dict(objects(job))[where]


def test_a_member_that_is_unknown(rich):
    assert len(kinds(rich)) > 15
    for where in kinds(rich):
        job, one = edited(rich, where)
        one["no\nmember"] = 1
        assert refused(job) == f"{where}: 'no\\nmember' is no member of it"


def test_a_member_that_is_missing(rich):
    left_out = {"red", "duplicate", "jitter_us", "rewrites", "verify", "trips", "early"}
    for where, keys in kinds(rich).items():
        for key in keys:
            job, one = edited(rich, where)
            del one[key]
            if key in left_out or key == "command":  # without it, it is a change of parameters
                load(Job, text_of(job), "job")
            elif len(one) and "shape" not in where and "changes" not in where:
                assert refused(job) == f"{where}: '{key}' is missing"
            elif one:  # of several types the nearest is meant
                assert refused(job).startswith(where)


WRONG = {
    str: ([1, None, True, [], {}], "a text"),
    int: (["1", 1.5, None, True, []], "a whole number"),
    float: (["1", None, False, {}, float("inf"), float("nan")], "a finite number"),
    bool: ([0, 1, None, "true"], "true or false"),
    list: ([{}, None, "abc", 3], "a list"),
    dict: ([[], None, "abc", 3], "an object"),
}


def test_a_member_of_another_type(rich):
    """A member that may be of two types, or null, takes no other value."""
    may_be_null = {"red", "stop_s", "resume_s", "object", "forward", "reverse"}
    for where, members in kinds(rich).items():
        for key, member in members.items():
            for wrong in WRONG[type(member)][0] if member is not None else [True]:
                if wrong is None and key in may_be_null and "watch" not in where:
                    continue
                job, one = edited(rich, where)
                one[key] = wrong
                assert refused(job).startswith(f"{where}.{key}: {wrong!r}: must "), (where, key, wrong)


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, "[]", "null", '"job"', "{}", '{"seed": 1, "refused": {}}', "1" * 5000]
)
def test_a_text_that_is_no_job(text):
    with pytest.raises(Failure, match="^job: ") as e:
        load(Job, text, "job")
    assert "\n" not in str(e.value)


def test_commands_to_refuse_are_a_guests_alone():
    text = '{"seed": 1, "refused": {"a": ["asymcc", "load"]}}'
    assert load(Job | Refusals, text, "job") == Refusals(1, {"a": ["asymcc", "load"]})
    with pytest.raises(Failure, match="^job: 'refused' is no member of it"):
        load(Job, text, "job")


def test_names_become_paths_and_arguments_and_so_are_names(rich):
    for where, key, wrong in (
        ("job.nodes.0", "name", "../x"),
        ("job.links.0.a", "dev", "a b"),
        ("job.links.0.a", "dev", "-" * 16),
        ("job.links.0.b", "addr", "10.0.0.1 dev x"),
        ("job.links.0.b", "mac", "0\n"),
        ("job.routes.0", "dst", "default via 1.1.1.1"),
        ("job.routes.0", "attrs", "mtu 600\nlink del lo"),
        ("job.strips.0", "dev", "a; drop"),
        ("job.controllers.0", "object", "../fast"),
        ("job.controllers.0", "loader", "sh"),
        ("job.flows.0", "controller", "reno via 10.0.0.1"),
        ("job.changes.1", "command", "show"),
        ("job.watch.0.forward", "dev", "x y"),
    ):
        job, one = edited(rich, where)
        one[key] = wrong
        assert refused(job).startswith(f"{where}.{key}: {wrong!r}: must match ")
    for where, key, members in (
        ("job.nodes.0", "sysctls", {"kernel.core_pattern": "x"}),
        ("job.nodes.0", "sysctls", {"net.ipv4.ip_forward": "1\n"}),
        ("job.controllers.0", "set", {"--all": 1}),
        ("job.controllers.0", "set", {"x": "a b"}),
    ):
        job, one = edited(rich, where)
        one[key] = members
        assert refused(job).startswith(f"{where}.{key}") and "must match" in refused(job)


# --- what happens when ---------------------------------------------------------------------


def test_what_happens_at_the_same_time_has_an_order(rich):
    """Flow 1 and the load start at 1 s, where three changes come and the measurement begins; both stop at 2 s."""
    job = load(Job, text_of(rich | {"measure_from_s": 1}), "job")
    job.flows[:] = [replace(flow, start_s=float(flow.id)) for flow in job.flows]
    waiting = Running(job, *[None] * 4, Traffic(job, None), object.__new__(Background), None, None, None)
    marks = []
    events = schedule(waiting, marks.append)
    assert [(e.at_s, e.rank.name, e.act.func.__name__, whose(e.act.args[0])) for e in events] == [
        (0, "BEGIN", "start", "Flow 0"),
        (1, "CHANGE", "apply", "SetParameters"),
        (1, "CHANGE", "apply", "Command"),
        (1, "CHANGE", "apply", "ChangePath"),
        (1, "BEGIN", "start", "Flow 1"),
        (1, "BEGIN", "start", "Background 0"),
        (1, "MEASURE", "append", "measure"),
        (2, "CHANGE", "stop", "Flow 1"),
        (2, "CHANGE", "stop", "Background 0"),
        (2.5, "CHANGE", "resume", "Flow 1"),
        (3, "END", "append", "end"),
    ]


def whose(arg) -> str:
    return arg if isinstance(arg, str) else f"{type(arg).__name__} {getattr(arg, 'id', '')}".strip()
