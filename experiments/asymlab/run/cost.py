# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The cost of runs: which the store has, how long the others take, which machine of several takes which."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from rich.progress import ProgressColumn
from rich.table import Table
from rich.text import Text

from ..results import store
from ..table import left, right, terminal
from .tasks import Task


@dataclass(frozen=True)
class Price:
    """The costs of an engine's runs, in units of its own."""

    counted: str  # the member of a record that has what a run took
    unit: str  # as it is shown
    scale: float  # units in one of them
    fixed: float  # of any run
    packet: float  # of a data packet with its ACK, at one hop, until the store holds runs that tell better
    speed: float  # units a second of one core of this machine, until the store holds runs that tell
    start_s: float  # a machine begins and ends

    def expected(self, packets: int) -> float:
        """The costs of a run of which nothing is known but its packets."""
        return self.fixed + packets * self.packet


# qemu's prices are instructions, the same on any machine: tests/machine/test_lab.py compares them with a run's.
# A BPF controller takes 110e6 to 200e6 more to load. uml's prices are seconds of one core of this machine.
QEMU = Price("executed", "10^9 instructions", 1e9, 128e6, 35e3, 200e6, 1.0)
UML = Price("wall_s", "core s", 1.0, 0.3, 3e-6, 1.0, 0.0)


def price(task: Task) -> Price:
    return UML if "uml" in task.identity else QEMU


def shard(tasks: list[Task], number: int, shards: int) -> list[Task]:
    """The number-th (from 1) of so many parts of the tasks: each task in one, all of about the same cost.

    The same tasks are split alike anywhere: what a store holds does not enter.
    """
    parts: list[list[Task]] = [[] for _ in range(shards)]
    load = [0.0] * shards
    for task in sorted(tasks, key=lambda t: (-t.packets, t.key)):
        least = load.index(min(load))
        parts[least].append(task)
        load[least] += price(task).expected(task.packets)
    return parts[number - 1]


@dataclass(frozen=True)
class Survey:
    """The tasks that the store has, and the costs of the others."""

    tasks: list[Task]
    done: dict[str, store.Run]  # by key
    left: list[Task]  # a paper's together, for its rows come with its last run; longest first: so all cores stay busy
    work: dict[str, float]  # by key, in units of the engine's price
    seconds: dict[str, float]  # of one core, by key

    @property
    def cost(self) -> float:
        return sum(self.seconds[t.key] for t in self.left)

    def line(self, places: int | None) -> str:
        """The plan and its cost, in words."""
        runs = f"{len(self.tasks)} runs, {len(self.done)} in the store, {len(self.left)} left"
        if not self.left:
            return runs
        virtual = sum(t.job.duration_s for t in self.left)
        cost = f"about {span(self.cost)} of one core"
        if places:
            # No shorter than its longest run.
            cost += f", {span(max(self.cost / places, self.seconds[self.left[0].key]))} on {places}"
        return f"{runs}: {virtual:.0f} virtual seconds, {cost}"

    def table(self) -> Table:
        """The same by scenario."""
        of = price(self.tasks[0]) if self.tasks else QEMU
        unit = () if of.unit == "core s" else (f"{of.unit} left",)  # else the work is the cost
        columns = "runs", "in the store", "left", "virtual s left", *unit, "core s left"
        scenarios = defaultdict(list)
        for t in self.tasks:
            scenarios[t.case.file.parent.name, t.case.scenario.id].append(t)
        rows = []
        for (folder, id), group in scenarios.items():
            todo = [t for t in group if t.key not in self.done]
            virtual = sum(t.job.duration_s for t in todo)
            work, cost = (sum(each[t.key] for t in todo) for each in (self.work, self.seconds))
            worked = (work / of.scale,) if unit else ()
            numbers = len(group), len(group) - len(todo), len(todo), virtual, *worked, cost
            rows.append((f"{folder} {id}", *(f"{n:.0f}" for n in numbers)))
        return terminal(left("scenario") + right(*columns), rows)


def span(seconds: float) -> str:
    """A time to plan with."""
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.1f} {name}" if seconds < 10 * unit else f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def survey(tasks: list[Task], fresh: bool = False) -> Survey:
    """Look into the store. Its runs tell the cost of a packet: those of the same case if any, else scenario, else all.

    It tells the machine's speed as well, as busy as the machine was then.
    """
    # A run may have been made for another scenario of the same content: here it bears this one's name.
    runs = {t.key: replace(r, record=r.record | t.about("lab")) for t in tasks if (r := store.held(t.key))}
    spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])  # units, packets
    took = wall_s = 0.0

    def kinds(t: Task) -> tuple[str, ...]:
        return t.case.name, t.case.scenario.id, ""

    for t in tasks:
        of = price(t)
        if t.key in runs and of.counted in (record := runs[t.key].record):
            took += record[of.counted]
            wall_s += max(record["wall_s"] - of.start_s, 0)
            for kind in kinds(t):
                spent[kind][0] += max(record[of.counted] - of.fixed, 0)
                spent[kind][1] += t.packets
    work, seconds = {}, {}
    for t in tasks:
        of = price(t)
        units, packets = next((spent[k] for k in kinds(t) if k in spent and spent[k][1]), (of.packet, 1))
        work[t.key] = of.fixed + t.packets * units / packets
        seconds[t.key] = of.start_s + work[t.key] / (took / wall_s if wall_s else of.speed)
    done = {} if fresh else runs
    papers: dict[Path, list[Task]] = defaultdict(list)
    for t in sorted(tasks, key=lambda t: seconds[t.key], reverse=True):
        if t.key not in done:
            papers[t.case.file.parent].append(t)
    left = [t for mine in papers.values() for t in mine]
    return Survey(tasks, done, left, work, seconds)


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
