# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs cases: one virtual machine per core, finished runs from the store, progress, clean stop."""

from __future__ import annotations

import json
import os
import queue
import shlex
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import LabError, agent, store, vm
from .image import Image
from .paths import BUILD, REPO
from .scenario import Case
from .topology import compile_job

console = Console(stderr=True, highlight=False, soft_wrap=not os.isatty(2), width=None if os.isatty(2) else 160)


@dataclass(frozen=True)
class Task:
    case: Case
    seed: int
    job: dict
    objects: dict[str, bytes]
    identity: dict
    key: str

    @property
    def name(self) -> str:
        return f"{self.case.name} seed {self.seed}"

    def cost(self) -> float:
        """Packets that the run will carry at most: longest first keeps both cores busy to the end."""
        path = self.case.scenario.path
        return self.job["duration_s"] * sum(min(hop.forward.rate / path.mtu, hop.reverse.rate / 40) for hop in path.chain) + 30000

    def about(self, where: str) -> dict:
        s = self.case.scenario
        file = self.case.file.resolve()
        if file.is_relative_to(REPO):
            file = file.relative_to(REPO)
        point = [f"{k}={v}" for k, v in self.case.point.items()]
        command = ["asymlab", "run", str(file), "--set", self.case.which, "--seed", str(self.seed), *(x for p in point for x in ("--at", p))]
        return {"id": s.id, "title": s.title, "name": self.name, "point": self.case.point, "seed": self.seed, "where": where,
                "command": shlex.join(command)}


def plan(cases: list[Case], image: Image) -> list[Task]:
    """The runs of the cases, each once."""
    tasks = {}
    for case in cases:
        for seed in case.seeds:
            job = compile_job(case, seed)
            objects = vm.read_objects(job)
            identity = vm.identity(image, job, objects)
            key = store.key_of(identity)
            tasks.setdefault(key, Task(case, seed, job, objects, identity, key))
    return list(tasks.values())


def plan_host(cases: list[Case]) -> list[Task]:
    """The same runs for this machine's kernel."""
    return [Task(case, seed, compile_job(case, seed), {}, {}, "") for case in cases for seed in case.seeds]


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def execute(tasks: list[Task], image: Image, jobs: int | None = None, fresh: bool = False) -> dict[str, store.Run]:
    """Run what the store does not hold; returns all by key. LabError after the first failure, when
    the runs under way have been stopped; KeyboardInterrupt likewise. What is finished is kept."""
    # A run may have been made for another scenario of the same content: here it bears this one's name.
    done = {} if fresh else {t.key: replace(r, record=r.record | t.about("lab")) for t in tasks if (r := store.find(t.key))}
    left = sorted((t for t in tasks if t.key not in done), key=Task.cost, reverse=True)
    if not left:
        return done
    todo: queue.SimpleQueue[Task] = queue.SimpleQueue()
    for t in left:
        todo.put(t)
    ended: queue.SimpleQueue[tuple[Task, store.Run | Exception]] = queue.SimpleQueue()
    running: set[subprocess.Popen] = set()
    stopping = threading.Event()

    def started(p: subprocess.Popen) -> None:
        running.add(p)
        if stopping.is_set():
            p.kill()

    def worker(core: int) -> None:
        while not stopping.is_set():
            try:
                task = todo.get_nowait()
            except queue.Empty:
                return
            try:
                files, took = vm.run(image, task.job, task.objects, core=core, started=started)
                ended.put((task, store.save(task.key, task.identity, task.about("lab") | took, files)))
            except Exception as e:  # reported and re-raised by the main thread
                ended.put((task, e))

    places = cores()
    threads = [threading.Thread(target=worker, args=(places[i % len(places)],), daemon=True)
               for i in range(min(jobs or len(places), len(left)))]
    try:
        with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                      console=console, disable=not console.is_terminal) as bar:
            shown = bar.add_task("runs", total=len(tasks), completed=len(done))
            for t in threads:
                t.start()
            for _ in left:
                task, result = ended.get()
                if isinstance(result, Exception):
                    if isinstance(result, LabError):
                        raise LabError(f"{task.name}: {result}") from None
                    raise result
                done[task.key] = result
                bar.update(shown, advance=1, description=task.name)
                if not console.is_terminal:
                    console.print(f"{len(done)}/{len(tasks)} {task.name} ({result.record['wall_s']:.0f} s)")
    finally:
        stopping.set()
        for p in list(running):
            if p.poll() is None:
                p.kill()
        for t in threads:
            if t.is_alive():
                t.join(timeout=30)
    return done


def execute_on_host(task: Task) -> store.Run:
    """The same agent on this machine's kernel, as root, in real time. Never taken from the store."""
    if os.geteuid() != 0:
        raise LabError("--on host: not root: namespaces and BPF need it")
    identity = {"host": os.uname().release, "at": time.time_ns(), "job": task.job}
    key = store.key_of(identity)
    with vm.scratch("host-") as tmp:
        job, out = tmp / "job.json", tmp / "out"
        job.write_text(json.dumps(task.job))
        out.mkdir()
        env = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}"}
        began = time.monotonic()
        p = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", sys.executable, agent.__file__, str(job), str(out), str(BUILD)],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env,
                             start_new_session=True)
        try:
            _, errors = p.communicate(timeout=task.job["duration_s"] * 2 + 120)
        except subprocess.TimeoutExpired:
            raise LabError(f"{task.name}: no end after {task.job['duration_s'] * 2 + 120:.0f} s") from None
        finally:
            if p.poll() is None:
                p.terminate()  # it takes its namespaces down
                try:
                    p.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    p.kill()
        if p.returncode:
            words = errors.strip().splitlines()
            raise LabError(f"{task.name}: {words[-1] if words else f'agent ended with {p.returncode}'}")
        files = {f.name: f.read_bytes() for f in out.iterdir()}
    about = task.about("host") | {"wall_s": round(time.monotonic() - began, 2)}
    return store.save(key, identity, about, files)
