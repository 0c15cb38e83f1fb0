# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Counts the instructions of a run, by kernel function, module, BPF program and user program: those of a data packet
with its ACK, and those that any run of the scenario takes.

The lab runs the scenario twice: with its own duration, and with a shorter one. A packet's instructions are the
difference of the two counts over the difference of the data packets that left the busiest hop's queue. Fixed is what
is left: set-up, self-check, the results' way out. Both runs must give the same bytes as
without counting. A program's calls into the kernel count among the kernel's functions.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.table import Table

from .. import LabError
from ..console import console
from ..machine.image import Image
from ..plan.scenario import BIN_MS, Case
from ..results.store import Run, result_hash
from ..run.execute import execute
from ..run.local import own_core
from ..run.tasks import Task, plan_runs
from .counting import Counted, check, count
from .parts import Part, of_run
from .symbols import Kernel

BIN_US = BIN_MS * 1000
KINDS = {"kernel": "kernel functions", "module": "modules", "bpf": "BPF programs", "user": "programs and libraries"}


@dataclass(frozen=True)
class Half:
    """One of the two runs."""

    run: Run
    packets: int
    counts: Counter[Part]
    by_clock: int

    @property
    def duration_s(self) -> float:
        return self.run.job.duration_s

    @property
    def total(self) -> int:
        return self.counts.total()


@dataclass(frozen=True)
class Profile:
    long: Half
    short: Half

    @property
    def packets(self) -> int:
        return self.long.packets - self.short.packets

    def a_packet(self, long: int, short: int) -> float:
        return (long - short) / self.packets

    def fixed(self, long: int, short: int) -> float:
        return long - self.a_packet(long, short) * self.long.packets

    def sums(self, key: Callable[[Part], str], kind: str | None = None) -> dict[str, tuple[int, int]]:
        """By key, the sums over its parts: instructions of the long run and of the short one."""
        found: dict[str, tuple[int, int]] = {}
        for part in self.long.counts.keys() | self.short.counts.keys():
            if kind in (None, part.kind):
                long, short = found.get(key(part), (0, 0))
                found[key(part)] = long + self.long.counts[part], short + self.short.counts[part]
        return found


def one(cases: list[Case]) -> Case:
    if len(cases) > 1 or len(cases[0].seeds) > 1:
        runs = sum(len(case.seeds) for case in cases)
        raise LabError(f"{cases[0].file}: {runs} runs; a profile is of one: --at KEY=VALUE and --seed choose it")
    return cases[0]


def shorter(case: Case) -> int:
    """A duration in us, halfway from the last thing that changes to the end: the difference is of a steady state."""
    s = case.scenario
    changes = [s.run.measure_from, *(change.at for change in s.changes)]
    changes += [t or 0 for flow in s.flows for t in (flow.start, flow.stop, flow.resume)]
    changes += [t or 0 for load in s.background for t in (load.start, load.stop)]
    return (max(changes) + s.run.duration) // 2 // BIN_US * BIN_US


def profile(long: Case, short: Case, image: Image, jobs: int | None = None) -> Profile:
    check(image)
    (a,), (b,) = plan_runs([long], image), plan_runs([short], image)
    if a.job.duration_s <= b.job.duration_s:
        raise LabError(f"{long.file}: the shorter run takes {b.job.duration_s:g} s, the run {a.job.duration_s:g} s")
    runs = execute([a, b], image, jobs)
    kernel = Kernel(image)
    halves = [_half(task, runs[task.key], image, kernel) for task in (a, b)]
    made = Profile(*halves)
    if made.packets <= 0:
        raise LabError(
            f"{long.file}: no data packets between {halves[1].duration_s:g} s and {halves[0].duration_s:g} s"
        )
    return made


def _half(task: Task, run: Run, image: Image, kernel: Kernel) -> Half:
    console.print(f"counting {task.name}, {task.job.duration_s:g} s")
    with own_core() as core:
        counted = count(image, kernel, task.job, task.objects, core)
    _check(task, counted, run)
    return Half(run, data_packets(run), of_run(counted, kernel), counted.by_clock)


def _check(task: Task, counted: Counted, run: Run) -> None:
    if result_hash(counted.files) != run.record["result_sha256"]:
        raise LabError(f"{task.name}: counting changed the run: its results are not those of {run.folder}")


def data_packets(run: Run) -> int:
    """All that left the queues of the busiest hop, but pure ACKs."""
    hop = next(hop for hop in run.job.watch if hop.name == run.metrics["busiest"])
    rows = run.links[[dev in (hop.forward.dev, hop.reverse.dev) for dev in run.links["dev"]]]
    return int(rows["packets"].sum()) - int(rows["pure_acks"].sum())


# --- what is shown ------------------------------------------------------------------------


def show(made: Profile, top: int) -> None:
    long, short = made.long, made.short
    total = long.total, short.total
    over = 100 * (long.total / long.by_clock - 1)
    rows = [
        f"runs        {long.run.record['name']}: {long.duration_s:g} s and {short.duration_s:g} s, on "
        f"{long.run.record['identity']['kernel']}; their results are those of the runs without counting",
        f"executed    {long.total:,} and {short.total:,} instructions ({over:.3f} % more than by QEMU's clock: a block "
        "counts whole that a fault interrupts)",
        f"carried     {long.packets:,} and {short.packets:,} data packets",
        f"a packet    {made.a_packet(*total):,.0f} instructions with its ACK: the difference of the runs over that of "
        "the packets",
        f"fixed       {made.fixed(*total):,.0f} instructions of each run: what is left",
    ]
    for row in rows:
        console.print(row)
    for title, figure, unit in (
        ("a data packet with its ACK", made.a_packet, 1),
        ("fixed, in millions", made.fixed, 1e6),
    ):
        console.print(table(made, title, partial(_in, figure, unit), top, 0 if unit == 1 else 2))


def _in(figure: Callable[[int, int], float], unit: float, pair: tuple[int, int]) -> float:
    return figure(*pair) / unit


def table(made: Profile, title: str, figure: Callable[[tuple[int, int]], float], top: int, digits: int) -> Table:
    """The greatest parts of each kind."""
    shown = Table(box=None, header_style="bold", title=f"\n{title}", title_justify="left", title_style="bold")
    for column in ("instructions of", "", "share %"):
        shown.add_column(column, justify="right" if column != "instructions of" else "left")
    whole = figure((made.long.total, made.short.total))

    def row(name: str, value: float, style: str | None = None) -> None:
        shown.add_row(name, f"{value:,.{digits}f}", f"{100 * value / whole:.1f}", style=style)

    row("all", whole, "bold")
    for kind, values in of_kinds(made, figure):
        row(KINDS[kind], sum(values.values()), "bold")
        ranked = sorted(values, key=lambda name: -abs(values[name]))
        shown_parts = [name for name in ranked[:top] if round(values[name], digits)]
        for name in shown_parts:
            row(f"  {name}", values[name])
        if rest := ranked[len(shown_parts) :]:
            row(f"  {len(rest)} others", sum(values[name] for name in rest))
    return shown


def of_kinds(made: Profile, figure: Callable[[tuple[int, int]], float]) -> Iterator[tuple[str, dict[str, float]]]:
    for kind in KINDS:
        yield kind, {name: figure(pair) for name, pair in made.sums(lambda part: part.part, kind).items()}


def write_csv(made: Profile, file: Path) -> None:
    """All parts, modules by function."""
    with open(file, "w", newline="") as f:
        rows = csv.writer(f)
        rows.writerow(("kind", "part", "function", "long", "short", "a_packet", "fixed"))
        for part in sorted(made.long.counts.keys() | made.short.counts.keys()):
            pair = made.long.counts[part], made.short.counts[part]
            rows.writerow((*part, *pair, f"{made.a_packet(*pair):.3f}", round(made.fixed(*pair))))
