# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs cases: one virtual machine per core, finished runs from the store, progress, clean stop."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import queue
import shlex
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from .. import LabError, printable
from ..guest import agent
from ..machine import vm
from ..machine.image import DEFAULT_KERNEL, Image
from ..paths import BUILD, REPO
from ..plan.scenario import Case
from ..plan.topology import compile_job
from ..results import store


class PlainConsole(Console):
    """Shows names and reasons as they are: no markup, and no control character of anybody's gets to the terminal."""

    def __init__(self, **options):
        super().__init__(**options, highlight=False, markup=False, emoji=False)

    def render(self, *args, **kw):
        for segment in super().render(*args, **kw):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


console = PlainConsole(stderr=True, soft_wrap=not os.isatty(2), width=None if os.isatty(2) else 160)

# Of one core, until the store holds runs that tell better.
BOOT_S = 2.0
PACKET_S = 0.26e-3  # a data packet with its ACK


@dataclass(frozen=True)
class Task:
    case: Case
    seed: int
    job: dict
    objects: dict[str, bytes]
    identity: dict
    key: str
    image: str = DEFAULT_KERNEL

    @property
    def name(self) -> str:
        return f"{self.case.name} seed {self.seed}"

    @property
    def packets(self) -> int:
        """Data packets that the run will carry at most, counted at each hop."""
        path, directions = self.case.scenario.path, {f.direction for f in self.case.scenario.flows}
        rate = 0.0
        for hop in path.chain:
            rate += (
                sum(getattr(hop, d).rate for d in directions) / path.mtu
                if len(directions) == 2
                else min(hop.forward.rate / path.mtu, hop.reverse.rate / 40)
            )
        return round(self.job["duration_s"] * rate / 8)

    def about(self, where: str) -> dict:
        s = self.case.scenario
        file = self.case.file.resolve()
        if file.is_relative_to(REPO):
            file = file.relative_to(REPO)
        point = [f"{k}={v}" for k, v in self.case.point.items()]
        command = [
            "asymlab",
            "run",
            str(file),
            "--set",
            self.case.which,
            "--seed",
            str(self.seed),
            *(x for p in point for x in ("--at", p)),
        ]
        if where == "lab" and self.image != DEFAULT_KERNEL:
            command += ["--image", self.image]
        return {
            "id": s.id,
            "title": s.title,
            "name": self.name,
            "point": self.case.point,
            "seed": self.seed,
            "where": where,
            "command": shlex.join(command),
        }


def plan(cases: list[Case], image: Image) -> list[Task]:
    """The runs of the cases, each once."""
    tasks = {}
    for case in cases:
        for seed in case.seeds:
            job = compile_job(case, seed)
            objects = vm.read_objects(job)
            identity = vm.identity(image, job, objects)
            key = store.key_of(identity)
            tasks.setdefault(key, Task(case, seed, job, objects, identity, key, image.folder.name))
    return list(tasks.values())


def plan_host(cases: list[Case]) -> list[Task]:
    """The same runs for this machine's kernel."""
    return [Task(case, seed, compile_job(case, seed), {}, {}, "") for case in cases for seed in case.seeds]


def shard(tasks: list[Task], number: int, shards: int) -> list[Task]:
    """The number-th (from 1) of so many parts of the tasks: each task in one, all of about the same cost.

    The same tasks are split alike anywhere: what a store holds does not enter.
    """
    parts: list[list[Task]] = [[] for _ in range(shards)]
    load = [0.0] * shards
    for task in sorted(tasks, key=lambda t: (-t.packets, t.key)):
        least = load.index(min(load))
        parts[least].append(task)
        load[least] += BOOT_S + task.packets * PACKET_S
    return parts[number - 1]


# --- what it costs ------------------------------------------------------------------------


@dataclass(frozen=True)
class Survey:
    """What the store has of some tasks, and what the others will cost."""

    tasks: list[Task]
    done: dict[str, store.Run]  # by key
    left: list[Task]  # the longest first: it keeps all cores busy to the end
    seconds: dict[str, float]  # of one core, by key

    @property
    def cost(self) -> float:
        return sum(self.seconds[t.key] for t in self.left)

    def line(self, places: int | None) -> str:
        """The plan and its cost, in words."""
        runs = f"{len(self.tasks)} runs, {len(self.done)} in the store, {len(self.left)} left"
        if not self.left:
            return runs
        virtual = sum(t.job["duration_s"] for t in self.left)
        cost = f"about {span(self.cost)} of one core"
        if places:
            # No shorter than its longest run.
            cost += f", {span(max(self.cost / places, self.seconds[self.left[0].key]))} on {places}"
        return f"{runs}: {virtual:.0f} virtual seconds, {cost}"

    def table(self) -> Table:
        """The same by scenario."""
        table = Table(box=None, header_style="bold")
        for column in ("scenario", "runs", "in the store", "left", "virtual s left", "core s left"):
            table.add_column(column, justify="left" if column == "scenario" else "right")
        scenarios = defaultdict(list)
        for t in self.tasks:
            scenarios[t.case.file.parent.name, t.case.scenario.id].append(t)
        for (folder, id), mine in scenarios.items():
            left = [t for t in mine if t.key not in self.done]
            table.add_row(
                f"{folder} {id}",
                *(
                    f"{n:.0f}"
                    for n in (
                        len(mine),
                        len(mine) - len(left),
                        len(left),
                        sum(t.job["duration_s"] for t in left),
                        sum(self.seconds[t.key] for t in left),
                    )
                ),
            )
        return table


def span(seconds: float) -> str:
    """A time to plan with."""
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.1f} {name}" if seconds < 10 * unit else f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def survey(tasks: list[Task], fresh: bool = False) -> Survey:
    """Look into the store. What it has tells what a packet costs: of the same case if any, else scenario, else all."""
    # A run may have been made for another scenario of the same content: here it bears this one's name.
    found = {t.key: replace(r, record=r.record | t.about("lab")) for t in tasks if (r := store.find(t.key))}
    boots = [r.record["boot_s"] for r in found.values() if r.record.get("boot_s")]
    boot = statistics.median(boots) if boots else BOOT_S
    spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])  # seconds, packets

    def kinds(t: Task) -> tuple[str, ...]:
        return t.case.name, t.case.scenario.id, ""

    for t in tasks:
        if t.key in found:
            for kind in kinds(t):
                spent[kind][0] += max(found[t.key].record["wall_s"] - boot, 0)
                spent[kind][1] += t.packets
    seconds = {}
    for t in tasks:
        took, packets = next((spent[k] for k in kinds(t) if k in spent and spent[k][1]), (PACKET_S, 1))
        seconds[t.key] = boot + t.packets * took / packets
    done = {} if fresh else found
    left = sorted((t for t in tasks if t.key not in done), key=lambda t: seconds[t.key], reverse=True)
    return Survey(tasks, done, left, seconds)


class Forecast(ProgressColumn):
    """When the rest will be done, by its cost and by how fast the cost went down so far."""

    def __init__(self, work: Survey):
        super().__init__()
        self.began, self.seconds, self.left = time.monotonic(), work.seconds, work.cost
        self.ended_cost = 0.0
        self.under_way: dict[str, float] = {}  # key: since when

    def started(self, task: Task) -> None:
        self.under_way[task.key] = time.monotonic()

    def ended(self, task: Task) -> None:
        self.under_way.pop(task.key, None)
        self.ended_cost += self.seconds[task.key]

    def __str__(self) -> str:
        now = time.monotonic()
        # A run that takes longer than it should has not ended all the same.
        gone = self.ended_cost + sum(
            min(now - since, 0.9 * self.seconds[key]) for key, since in list(self.under_way.items())
        )
        return f"{span((self.left - gone) * (now - self.began) / gone)} left" if gone > 0 else ""

    def render(self, task) -> Text:
        return Text(str(self))


# --- doing it -----------------------------------------------------------------------------

Started = Callable[[Task], None]


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def places(jobs: int | None = None) -> int:
    """Virtual machines at a time on this machine."""
    return jobs or len(cores())


@contextlib.contextmanager
def own_core() -> Iterator[int]:
    """A core to pin a virtual machine to: one that no other of any lab on this machine has, else one that few have."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mark:
        for machines, core in ((m, c) for m in itertools.count() for c in cores()):
            try:
                mark.bind(f"\0asymlab-core-{core}-{machines}")  # no file: the kernel frees the name with its holder
            except OSError as e:
                if e.errno != errno.EADDRINUSE:
                    raise
                continue
            yield core
            return


def runs(
    left: list[Task],
    image: Image,
    jobs: int | None,
    started: Started,
    limit_s: float = vm.WALL_LIMIT_S,
    go_on: bool = False,
) -> Iterator[tuple[Task, store.Run | LabError]]:
    """The runs as they end. LabError after the first failure, or with `go_on` in place of each run that failed;
    whoever closes this stops what is under way."""
    todo: queue.SimpleQueue[Task] = queue.SimpleQueue()
    for t in left:
        todo.put(t)
    ended: queue.SimpleQueue[tuple[Task, store.Run | Exception]] = queue.SimpleQueue()
    running: set[subprocess.Popen] = set()
    stopping = threading.Event()

    def booted(p: subprocess.Popen) -> None:
        running.add(p)
        if stopping.is_set():
            p.kill()

    def worker() -> None:
        while not stopping.is_set():
            try:
                task = todo.get_nowait()
            except queue.Empty:
                return
            try:
                started(task)
                with own_core() as core:
                    files, took = vm.run(image, task.job, task.objects, core=core, limit_s=limit_s, started=booted)
                ended.put((task, store.save(task.key, task.identity, task.about("lab") | took, files)))
            except Exception as e:  # reported and re-raised by the main thread
                ended.put((task, e))

    threads = [threading.Thread(target=worker, daemon=True) for _ in range(min(places(jobs), len(left)))]
    try:
        for t in threads:
            t.start()
        for _ in left:
            task, result = ended.get()
            if isinstance(result, LabError) and not go_on:
                raise LabError(f"{task.name}: {result}") from None
            if isinstance(result, Exception) and not isinstance(result, LabError):
                raise result
            yield task, result
    finally:
        stopping.set()
        for p in list(running):
            if p.poll() is None:
                p.kill()
        for t in threads:
            if t.is_alive():
                t.join(timeout=30)


def execute(
    tasks: list[Task],
    image: Image,
    jobs: int | None = None,
    fresh: bool = False,
    scheduler: str | None = None,
    canary: str | None = None,
) -> dict[str, store.Run]:
    """Run what the store does not hold, here or on a scheduler's workers (cluster.py); returns all by key.

    LabError after the first failure, when the runs under way have been stopped; KeyboardInterrupt likewise.
    What is finished is kept.
    """
    work = survey(tasks, fresh)
    done = dict(work.done)
    if not work.left:
        return done
    console.print(work.line(None if scheduler else min(places(jobs), len(work.left))))
    left = Forecast(work)
    if scheduler:
        from . import cluster  # only who asks for it pays for Dask

        under_way = cluster.runs(work.left, image, scheduler, canary, left.started)
    else:
        under_way = runs(work.left, image, jobs, left.started)
    with (
        contextlib.closing(under_way),
        Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            left,
            console=console,
            disable=not console.is_terminal,
        ) as bar,
    ):
        shown = bar.add_task("runs", total=work.cost, count=f"{len(done)}/{len(tasks)}")
        for task, result in under_way:
            done[task.key] = result
            left.ended(task)
            count = f"{len(done)}/{len(tasks)}"
            bar.update(shown, completed=left.ended_cost, description=task.name, count=count)
            if not console.is_terminal:
                console.print(
                    ", ".join(
                        filter(
                            None,
                            (
                                f"{count} {task.name} ({result.record['wall_s']:.0f} s)",
                                str(left) if len(done) < len(tasks) else "",
                            ),
                        )
                    )
                )
    return done


def execute_shard(tasks: list[Task], which: tuple[int, int], *args, **kw) -> list[store.Run]:
    """Fill the store with one shard's runs, and say how far the others are."""
    number, shards = which
    mine = shard(tasks, number, shards)
    done = execute(mine, *args, **kw)
    others = [t for t in tasks if t.key not in done]
    there = sum((store.STORE / t.key).exists() for t in others)
    rest = (
        "the same command without --shard goes on from here"
        if there == len(others)
        else f"{len(others) - there} of them are missing"
    )
    console.print(
        f"shard {number}/{shards}: its {len(mine)} runs are in {store.STORE}; of the other shards' {len(others)} there are {there}: {rest}"
        if others
        else f"shard {number}/{shards}: its {len(mine)} runs are in {store.STORE}: {rest}"
    )
    return list(done.values())


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
        p = subprocess.Popen(
            [
                "setpriv",
                "--pdeathsig",
                "TERM",
                sys.executable,
                "-P",
                "-m",
                agent.__name__,
                str(job),
                str(out),
                str(BUILD),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            start_new_session=True,
        )
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
