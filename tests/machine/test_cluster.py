# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Sweeps on Dask workers on loopback: nothing lost, nothing computed twice, the same bytes; who is not fit gets
nothing."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from asymlab.machine.image import DEFAULT_KERNEL, open_image
from asymlab.paths import IMAGES
from asymlab.plan import scenario
from asymlab.results import store
from asymlab.run.execute import execute
from asymlab.run.tasks import Task, plan_runs
from tests.scenarios import alpha
from tests.shared import LAB, REPO, asymlab

pytestmark = pytest.mark.lab

DASK = str(Path(sys.executable).with_name("dask"))
# Loaded by each worker (twice, by Dask): writes down what it computes; a liar computes something else.
PRELOAD = """
import os
from dataclasses import replace
from asymlab.machine import vm
from asymlab.results import store

def noted(plain):
    def run(image, job, objects, **kw):
        with open({notes!r}, "a") as f:
            f.write(f"{{os.getpid()}} {{store.key_of(vm.identity(image, job, objects))}}\\n")
        return plain(image, replace(job, seed=job.seed + {lie}), objects, **kw)
    return run

if not hasattr(vm, "noted"):
    vm.noted = True
    vm.run = noted(vm.run)
"""


class Cluster:
    def __init__(self, folder: Path):
        self.folder, self.processes, self.notes = folder, [], folder / "notes"
        self.address = ""

    def start(self, *argv, env: dict | None = None) -> subprocess.Popen:
        log = open(self.folder / f"log{len(self.processes)}", "w+")
        p = subprocess.Popen(
            [DASK, *argv],
            env={**os.environ, **(env or {})},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self.processes.append(p)
        p.log = log.name
        return p

    def scheduler(self) -> None:
        file = self.folder / "scheduler.json"
        self.start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
        written = wait_for(lambda: file.exists() and file.read_text())  # at once: what is there is whole
        self.address = json.loads(written)["address"]

    def worker(self, lie: int = 0, env: dict | None = None) -> subprocess.Popen:
        """One with a single place; it dies as a whole, no nanny starts it anew."""
        preload = self.folder / f"preload{len(self.processes)}.py"
        preload.write_text(PRELOAD.format(notes=str(self.notes), lie=lie))
        return self.start(
            "worker",
            self.address,
            *"--host 127.0.0.1 --nthreads 1 --no-nanny --no-dashboard --preload".split(),
            str(preload),
            env=env,
        )

    def computed(self) -> list[tuple[int, str]]:
        """(worker's process, key) of each run that was begun, canaries left out."""
        keys = {canary_task(image).key for image in (LAB, DEFAULT_KERNEL)}
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return [(int(pid), key) for pid, key in (line.split() for line in lines) if key not in keys]

    def stop(self) -> None:
        for p in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(p.pid, signal.SIGKILL)
            p.wait()


def wait_for(what, limit_s: float = 120, of: subprocess.Popen | None = None):
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if value := what():
            return value
        if of and of.poll() is not None:
            pytest.fail(of.stderr.read())
        time.sleep(0.05)
    pytest.fail(f"not within {limit_s} s")


@pytest.fixture
def cluster(tmp_path):
    dask = Cluster(tmp_path)
    try:
        dask.scheduler()
        yield dask
    finally:
        dask.stop()


def machines(folder: Path) -> list[str]:
    """The virtual machines that keep their files below a build folder. A cage ends with what is in it."""
    its = f"(qemu.*file=|bwrap.*bind ){folder}/tmp/"
    return subprocess.run(["pgrep", "-f", its], capture_output=True, text=True).stdout.split()


@functools.cache
def canary_task(image: str) -> Task:
    (task,) = plan_runs(scenario.load(REPO / "experiments/bench/cases.toml:canary"), open_image(image))
    return task


def canary(image: str) -> str:
    """The hash of the canary run on this machine."""
    task = canary_task(image)
    return execute([task], open_image(image))[task.key].record["result_sha256"]


def sweep(file: Path, cluster: Cluster, here: Path, image: str = LAB) -> subprocess.Popen:
    """`asymlab run` of a file on the cluster, into a store of its own."""
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "asymlab",
            "run",
            str(file),
            "--scheduler",
            cluster.address,
            "--canary",
            canary(image),
            "--image",
            image,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPO,
        env={**os.environ, "ASYMLAB_STORE": str(here)},
    )


def test_a_worker_is_killed_and_nothing_is_lost_or_done_twice(scenario_file, cluster, tmp_path, monkeypatch):
    """Three runs, FAST's among them, on a worker that has neither image nor objects of its own, and one of this tree
    that comes later. The longest is begun first: so it is under way for long enough."""
    points = [
        {"flows.controller": controller, "run.duration": duration}
        for controller, duration in (("fast", "30s"), ("reno", "2s"), ("cubic", "2s"))
    ]
    file = scenario_file(alpha(20), sweep={"points": points})
    there, here = tmp_path / "build", tmp_path / "store"
    first = cluster.worker(env={"ASYMLAB_BUILD": str(there)})
    p = sweep(file, cluster, here)
    wait_for(lambda: cluster.computed() and machines(there), of=p)
    cluster.worker()
    os.kill(first.pid, signal.SIGKILL)
    ((_, died),) = cluster.computed()
    wait_for(lambda: not machines(there), 5)
    output = p.communicate(timeout=300)[1]
    assert p.returncode == 0, output
    assert re.search(r"worker tcp://\S+: lost; its 1 runs go to others", output)
    begun = [key for _, key in cluster.computed()]
    tasks = plan_runs(scenario.load(file), open_image(LAB))
    assert sorted(begun) == sorted([*(t.key for t in tasks), died])
    with monkeypatch.context() as patch:
        patch.setattr(store, "STORE", here)
        remote = {t.key: store.find(t.key).record for t in tasks}
    assert all(r["worker"] for r in remote.values())
    # The same command finds all in the store, and a local run gives the same bytes.
    again = asymlab("run", file, "--image", LAB, "--scheduler", cluster.address, env={"ASYMLAB_STORE": str(here)})
    assert again.returncode == 0 and len(cluster.computed()) == len(begun)
    local = execute(tasks, open_image(LAB))
    assert {key: r.record["result_sha256"] for key, r in local.items()} == {
        key: r["result_sha256"] for key, r in remote.items()
    }


def test_workers_that_are_not_fit_get_nothing(scenario_file, cluster, tmp_path):
    """One computes something else, one has an image that is not what its manifest says."""
    there = tmp_path / "build"
    shutil.copytree(IMAGES / LAB, there / "image" / LAB)
    biggest = max((there / "image" / LAB).iterdir(), key=lambda file: file.stat().st_size)
    with open(biggest, "r+b") as f:
        f.seek(1 << 20)
        f.write(b"another machine")
    cluster.worker(lie=1)
    cluster.worker(env={"ASYMLAB_BUILD": str(there)})  # damaged
    p = sweep(scenario_file(run={"duration": "2s"}), cluster, tmp_path / "store")
    lines = []
    for line in p.stderr:
        lines.append(line.strip())
        if sum("gets no runs" in line for line in lines) == 2:
            break
    refused = sorted(re.sub(r"tcp://[0-9.:]*[0-9]", "ADDRESS", line) for line in lines if "gets no runs" in line)
    assert re.fullmatch(
        rf"worker ADDRESS: gets no runs: \S+/{LAB}: not what its manifest says; remove it, or make it anew", refused[0]
    )
    assert re.fullmatch(r"worker ADDRESS: gets no runs: its canary run gives \w{12}, not \w{12}", refused[1])
    cluster.worker()  # the sweep waits for a fit one
    output = p.communicate(timeout=120)[1]
    assert p.returncode == 0, output
    ((pid, _),) = cluster.computed()
    assert pid == cluster.processes[-1].pid


def test_a_sweep_that_ends_early_leaves_no_machine(scenario_file, cluster, tmp_path):
    """By Ctrl-C, or by SIGKILL of either side."""
    there = tmp_path / "build"
    cluster.worker(env={"ASYMLAB_BUILD": str(there)})
    for whom, image in (("interrupt", LAB), ("client", DEFAULT_KERNEL), ("scheduler", LAB)):
        before = len(cluster.computed())
        p = sweep(scenario_file(run={"duration": "600s"}), cluster, tmp_path / "store", image)
        wait_for(lambda: len(cluster.computed()) > before and machines(there), of=p)
        if whom == "interrupt":
            p.send_signal(signal.SIGINT)
        else:
            (p if whom == "client" else cluster.processes[0]).kill()
        wait_for(lambda: not machines(there), 60)
        output = p.communicate(timeout=30)[1]
        assert "Traceback" not in output
        last = output.strip().splitlines()[-1]
        if whom == "interrupt":
            assert p.returncode == 130 and "interrupted" in last
    assert p.returncode == 1 and re.match(r"asymlab: scheduler tcp://\S+: lost", last), output


def one_line(p: subprocess.CompletedProcess, *words: str) -> None:
    assert p.returncode == 1, p.stderr
    last = p.stderr.strip().splitlines()[-1]
    assert "Traceback" not in p.stderr and all(word in last for word in words), p.stderr


def test_no_scheduler(scenario_file):
    file = scenario_file(mtu=998)
    one_line(
        asymlab("run", file, "--scheduler", "tcp://127.0.0.1:1"),
        "--scheduler tcp://127.0.0.1:1",
        "`dask scheduler` starts one",
    )
    one_line(asymlab("run", file, "--scheduler", "nonsense://x"), "--scheduler nonsense://x")


@pytest.mark.parametrize(
    "code, absent",
    [
        ("cli.parser().format_help()", "numpy pydantic rich matplotlib dask distributed"),
        ("[cli.command(name) for name in cli.COMMANDS]", "matplotlib dask distributed"),
    ],
)
def test_large_packages_are_imported_once_they_are_needed(code, absent):
    code = f"import sys; from asymlab import cli; {code}; print(*set({absent.split()}) & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "\n"
