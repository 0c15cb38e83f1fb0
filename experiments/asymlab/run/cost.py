# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The cost of runs: which the store has, how long the others take, which machine of several takes which."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, replace

from rich.progress import ProgressColumn
from rich.table import Table
from rich.text import Text

from ..results import store
from .tasks import Task

# Instructions, which are the same on any machine: tests/machine/test_lab.py compares them with a run's.
FIXED = 180e6  # of any run; a BPF controller takes 140e6 more to load
PACKET = 35e3  # of a data packet with its ACK, at one hop, until the store holds runs that tell better
# Of this machine, until the store holds runs that tell.
SPEED = 200e6  # instructions a second of one core
START_S = 1.0  # a virtual machine begins and ends


def expected(packets: int) -> float:
    """Instructions of a run of which nothing is known but its packets."""
    return FIXED + packets * PACKET


def shard(tasks: list[Task], number: int, shards: int) -> list[Task]:
    """The number-th (from 1) of so many parts of the tasks: each task in one, all of about the same cost.

    The same tasks are split alike anywhere: what a store holds does not enter.
    """
    parts: list[list[Task]] = [[] for _ in range(shards)]
    load = [0.0] * shards
    for task in sorted(tasks, key=lambda t: (-t.packets, t.key)):
        least = load.index(min(load))
        parts[least].append(task)
        load[least] += expected(task.packets)
    return parts[number - 1]


@dataclass(frozen=True)
class Survey:
    """What the store has of some tasks, and what the others will cost."""

    tasks: list[Task]
    done: dict[str, store.Run]  # by key
    left: list[Task]  # the longest first: it keeps all cores busy to the end
    instructions: dict[str, float]  # by key
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
        table = Table(box=None, header_style="bold")
        columns = "runs", "in the store", "left", "virtual s left", "10^9 instructions left", "core s left"
        for column in ("scenario", *columns):
            table.add_column(column, justify="left" if column == "scenario" else "right")
        scenarios = defaultdict(list)
        for t in self.tasks:
            scenarios[t.case.file.parent.name, t.case.scenario.id].append(t)
        for (folder, id), mine in scenarios.items():
            left = [t for t in mine if t.key not in self.done]
            virtual = sum(t.job.duration_s for t in left)
            work, cost = (sum(of[t.key] for t in left) for of in (self.instructions, self.seconds))
            numbers = len(mine), len(mine) - len(left), len(left), virtual, work / 1e9, cost
            table.add_row(f"{folder} {id}", *(f"{n:.0f}" for n in numbers))
        return table


def span(seconds: float) -> str:
    """A time to plan with."""
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.1f} {name}" if seconds < 10 * unit else f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def survey(tasks: list[Task], fresh: bool = False) -> Survey:
    """Look into the store. What it has tells what a packet costs: of the same case if any, else scenario, else all.

    It tells the machine's speed as well, as busy as the machine was then.
    """
    # A run may have been made for another scenario of the same content: here it bears this one's name.
    found = {t.key: replace(r, record=r.record | t.about("lab")) for t in tasks if (r := store.held(t.key))}
    spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])  # instructions, packets
    executed = wall_s = 0.0

    def kinds(t: Task) -> tuple[str, ...]:
        return t.case.name, t.case.scenario.id, ""

    for t in tasks:
        if t.key in found and "executed" in (record := found[t.key].record):
            executed += record["executed"]
            wall_s += max(record["wall_s"] - START_S, 0)
            for kind in kinds(t):
                spent[kind][0] += max(record["executed"] - FIXED, 0)
                spent[kind][1] += t.packets
    speed = executed / wall_s if wall_s else SPEED
    instructions = {}
    for t in tasks:
        took, packets = next((spent[k] for k in kinds(t) if k in spent and spent[k][1]), (PACKET, 1))
        instructions[t.key] = FIXED + t.packets * took / packets
    seconds = {key: START_S + n / speed for key, n in instructions.items()}
    done = {} if fresh else found
    left = sorted((t for t in tasks if t.key not in done), key=lambda t: seconds[t.key], reverse=True)
    return Survey(tasks, done, left, instructions, seconds)


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
