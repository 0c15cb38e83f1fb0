# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Many jobs from one boot of the engine uml: each leaves the bytes that it leaves in a guest of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from asymlab import LabError
from asymlab.machine import image, on_uml, vm
from asymlab.plan import scenario
from asymlab.results import trace
from asymlab.run import local
from asymlab.run.tasks import Task, plan_runs
from tests.machine.traced import host_calls
from tests.shared import BUILD, CAGES, wait_for

LABEL = "6.12-uml"
pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not (image.IMAGES / LABEL / "manifest.json").exists(),
        reason="no image of the engine uml: make image ENGINE=uml",
    ),
]
LOSSY = {"loss": "1%", "jitter": "2ms"}
KINDS: dict[str, dict] = {
    "loss": {"flow": {"controller": "cubic"}, "forward": LOSSY},
    "object": {"flow": {"controller": "fusion"}, "profile": "tuned", "run": {"audit": True, "verify": True}},
    "parameters": {
        "flow": {"controller": "fast"},
        "controllers": {"fast": {"alpha": 20}},
        "changes": [{"at": "2s", "controller": "fast", "set": {"alpha": 40}}],
    },
    "trace": {
        "flow": {"controller": "cubic"},
        "forward": {"rate": None, "trace": {"kind": "lte", "rate": "10mbit", "length": "5s", "seed": 3}},
    },
    "many": {"flow": {"controller": "taichung", "count": 20}, "profile": "tuned"},
    "large": {"flow": {"controller": "bbr", "count": 110}, "profile": "linux"},  # in a guest of more memory
}
FAILS = {"run": {"duration": "3s"}, "flow": {"controller": "cubic"}}


@pytest.fixture
def planned(scenario_file):
    def plan(**parts) -> Task:
        path = {"path": {"forward": parts.pop("forward")}} if "forward" in parts else {}
        (task,) = plan_runs(scenario.load(scenario_file(path, **parts)), image.open_image(LABEL))
        return task

    return plan


class Place(vm.Place):
    """With a list of the machines that it starts."""

    def __init__(self) -> None:
        self.machines: list = []
        super().__init__(image.open_image(LABEL), local.cores()[0], self.machines.append, many=True)

    def files(self, task: Task, objects: dict[str, bytes] | None = None) -> dict[str, bytes]:
        return self.run(task.job, task.objects | (objects or {}), vm.WALL_LIMIT_S)[0]

    @property
    def guest(self) -> on_uml.Process | None:
        assert self.server
        return self.server.guest


@pytest.fixture
def place() -> Iterator[Place]:
    with contextlib.closing(Place()) as place:
        yield place


def alone(task: Task) -> dict[str, bytes]:
    return vm.run(image.open_image(LABEL), task.job, task.objects)[0]


def children(guest: on_uml.Process | None) -> int:
    assert guest
    pid = guest.kernel()
    return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def test_each_of_many_jobs_leaves_the_bytes_of_a_guest_of_its_own(place, planned):
    tasks = {name: planned(**parts) for name, parts in KINDS.items()}
    own = {name: alone(task) for name, task in tasks.items()}
    assert len({files["trace.bin"] for files in own.values()}) == len(own)
    order = ["loss", "object", "parameters", "many", "trace", "object", "loss", "trace", "many", "parameters"]
    for name in order:
        assert place.files(tasks[name]) == own[name], name
    assert len(place.machines) == 1
    wait_for(lambda: children(place.guest) == 1)  # the agent: those of the jobs have ended
    for name in ("large", "loss"):
        assert place.files(tasks[name]) == own[name], name
    assert len(place.machines) == 3 and len([p for p in place.machines if p.poll() is None]) == 1


MOMENTS = "0s", "1.234567s", "2.9s"


@pytest.mark.parametrize("kind", ["loss", "object"])
def test_a_branch_leaves_the_bytes_of_a_straight_run(place, planned, kind):
    parts = KINDS[kind] | {"forward": LOSSY}
    for at in MOMENTS:
        first, other = (
            planned(**parts | {"run": parts.get("run", {}) | {"branch": {"at": at, "draw": n}}}) for n in (1, 2)
        )
        made = [place.files(task) for task in (first, other, first)]
        assert made == [alone(first), alone(other), made[0]], at
        assert made[0]["trace.bin"] != made[1]["trace.bin"]
    assert len(place.machines) == len(MOMENTS)  # a guest for each moment
    assert place.files(planned(**KINDS["trace"])) == alone(planned(**KINDS["trace"]))


def test_up_to_a_branch_a_run_is_as_it_is_without(planned):
    def acks(branch: dict) -> np.ndarray:
        parts = {"flow": {"controller": "cubic"}, "forward": LOSSY, "run": {"duration": "3s"} | branch}
        files = alone(planned(**parts))
        return trace.parse(files["trace.bin"], json.loads(files["agent.json"])["zero_ns"])["acks"]

    plain, branch = acks({}), acks({"branch": {"at": "2s"}})
    first, other = (of[of["t"] < 2] for of in (plain, branch))
    assert len(first) > 100 and np.array_equal(first, other)
    assert not np.array_equal(plain["cwnd"][-100:], branch["cwnd"][-100:])


@pytest.mark.parametrize("caged", [*CAGES, "none"])
def test_a_guest_serves_in_each_cage(place, planned, monkeypatch, caged):
    monkeypatch.setenv("ASYMLAB_CAGE", caged)
    on_uml.cage.cache_clear()
    try:
        first, second = (place.files(planned(**KINDS["loss"])) for _ in range(2))
        assert first == second and len(place.machines) == 1
    finally:
        on_uml.cage.cache_clear()


def test_a_guest_that_is_killed_costs_no_job_its_result(place, planned):
    task = planned(**KINDS["object"])
    own = place.files(task)
    kernel = place.guest.kernel()

    def kill() -> None:
        wait_for(lambda: "first packet" in place.guest.console())
        os.kill(kernel, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    assert place.files(task) == own
    killer.join()
    assert place.guest is None and len(place.machines) == 2  # the job ran again, alone
    assert place.files(task) == own and place.guest


def test_a_guest_that_was_killed_between_two_jobs(place, planned):
    task = planned(**KINDS["loss"])
    own = place.files(task)
    os.kill(place.guest.kernel(), signal.SIGKILL)
    assert place.files(task) == own


def test_a_job_that_its_agent_cannot_make_fails_alone(place, planned):
    task = planned(**FAILS)
    own = place.files(task)
    lame = replace(task, job=replace(task.job, flows=[replace(task.job.flows[0], controller="no_such")]))
    with pytest.raises(LabError, match="cannot run here: .*no_such"):
        place.files(lame)
    assert place.files(task) == own and len(place.machines) == 1


def test_a_job_without_memory_fails_alone(place, planned, monkeypatch):
    monkeypatch.setattr(on_uml, "memory_mb", lambda job, maps: 72)
    monkeypatch.setattr(on_uml, "STALL_S", 20)
    small, large = planned(**FAILS), planned(flow={"controller": "cubic", "count": 60})
    own = place.files(small)
    with pytest.raises(LabError, match="its 72 MB of memory do not hold this run"):
        place.files(large)
    assert place.files(small) == own


def test_a_job_with_an_object_of_anyones_has_a_guest_of_its_own(place, planned):
    """So has one whose object is called as one of ours is, and has other bytes."""
    task = planned(**KINDS["object"])
    own = place.files(task)
    served = place.guest
    mine = (BUILD / "fusion.bpf.o").read_bytes() + b"\0"
    assert place.files(task, {"fusion.bpf.o": mine}) == own
    assert len(place.machines) == 2 and place.machines[1].poll() is not None
    assert place.files(task, {"mine.bpf.o": mine}) == own
    assert len(place.machines) == 3 and place.guest is served


def test_branches_of_a_run_with_an_object_of_anyones_have_a_guest_for_themselves(place, planned):
    plain = planned(**KINDS["object"])
    own = place.files(plain)
    mine = {"mine.bpf.o": (BUILD / "fusion.bpf.o").read_bytes() + b"\0"}
    of = [planned(**KINDS["object"] | {"run": {"branch": {"at": "1s", "draw": draw}}}) for draw in (1, 2)]
    for task in of:
        place.files(task, mine)
    theirs, machines = place.guest, len(place.machines)
    assert place.files(of[0], mine) and place.guest is theirs
    place.files(of[0])  # another run, without that object
    assert place.guest is not theirs and len(place.machines) == machines + 1
    assert place.files(plain) == own and len(place.machines) == machines + 2


SLOW = {"rate": "2mbit", "delay": "20ms", "queue": 100}
VISITS = 11_500  # of the host's processes that stand for the guest's: each stops, is looked at and goes on


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
def test_a_path_with_all_that_is_judged_takes_few_visits(planned, tmp_path, monkeypatch):
    """A boot, and 10 s at 2 Mbit/s: 20 us each, most of what a short path costs."""
    path = {"path": {"mtu": 1500, "forward": SLOW, "reverse": SLOW}}
    task = planned(**path, flow={"controller": "fusion"}, run={"duration": "10s", "audit": True, "verify": True})
    calls = host_calls(image.open_image(LABEL), task, tmp_path, monkeypatch)
    assert calls.count("PTRACE_SYSEMU, ") < VISITS


def test_a_packaged_kernel_and_a_lone_job_have_machines_of_their_own():
    uml, packaged = (image.Image(BUILD, image.NATIVE, "6.12", engine, "", {}, 10) for engine in ("uml", "qemu"))
    assert not vm.Place(packaged, 0, None, many=True).server and not vm.Place(uml, 0, None, many=False).server
