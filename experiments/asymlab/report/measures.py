# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures of the papers' claims and figures. A name says whose number it is.

A measure is a function of a run. A Value says of which runs it is taken, and which others each is compared with. Runs
are compared with those of the same seed only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import LabError
from ..results import programs
from ..results.metrics import jain
from ..results.store import Run
from .absent import Missing
from .judged import Ratio, Results

if TYPE_CHECKING:
    from ..run.tasks import Task

Measure = Callable[[Any], float]
SHARES = ("p50", "p95", "p99")  # of replies
LEAST = 1e-9  # what a ratio is over, if that hardly moved; and how far "above" and "below" are from a number


# --- of one run ------------------------------------------------------------------------------


def goodput(run: Run) -> float:
    """The sum over all flows, Mbit/s."""
    return run.metrics["goodput_bps"] / 1e6


def goodput_of(run: Run, flow: int = 0) -> float:
    """One flow's, Mbit/s."""
    return run.metrics["flows"][flow]["goodput_bps"] / 1e6


def goodput_each(run: Run) -> float:
    """Mean of the flows, Mbit/s."""
    return run.metrics["goodput_bps"] / len(run.metrics["flows"]) / 1e6


def throughput(run: Run) -> float:
    """The sum over all flows as IP packets, Mbit/s."""
    return run.metrics["throughput_bps"] / 1e6


def utilisation(run: Run) -> float:
    """The busiest hop's, forward."""
    return run.metrics["utilisation"]


def jain_index(run: Run) -> float:
    """The index of all flows' goodputs."""
    return run.metrics["jain"]


def jain_of(run: Run, flows: Iterable[int]) -> float:
    """The index of some flows' goodputs."""
    return jain([goodput_of(run, flow) for flow in flows])


def share(run: Run, a: int = 0, b: int = 1) -> float:
    """Flow a's share of the goodput of a and b."""
    return goodput_of(run, a) / max(goodput_of(run, a) + goodput_of(run, b), LEAST)


def ratio(run: Run, a: int = 0, b: int = 1) -> float:
    """Flow a's goodput over that of b."""
    return goodput_of(run, a) / max(goodput_of(run, b), LEAST)


def program(run: Run, path: str) -> float:
    """A number of a program, by its path (results/programs.py): page.took, client.result.end.sum_received.bytes."""
    try:
        return programs.number(run.programs, path)
    except LookupError as e:
        raise LabError(f"{run.record['name']}: {e}") from None


def done(run: Run, flow: int = 0) -> float:
    """The completion time of a flow with a size, s; without end if it is not done."""
    return run.metrics["flows"][flow].get("done_s") or float("inf")


def reply(run: Run, flow: int = 0, which: str = "p50") -> float:
    """A percentile of the time that a flow's replies took, s: p50, p95, p99, min, max, mean."""
    times = run.metrics["flows"][flow].get("reply_s", {})
    if which not in times:
        there = ", ".join(times) or "none: it has no replies"
        raise LabError(f"{run.record['name']}: flow {flow} has no {which!r} of replies; there are {there}")
    return times[which]


def times(run: Run) -> dict[str, float]:
    """The times of replies, of flows with a size, and programs' numbers, by the words that measure them."""
    numbers: dict[str, float] = {}
    for name, record in run.programs.items():
        numbers |= {f"program {name}.{path}": value for path, value in programs.numbers(record).items()}
    for flow in run.metrics["flows"]:
        if flow.get("done_s"):
            numbers[f"done {flow['flow']}"] = flow["done_s"]
        replies = flow.get("reply_s", {})
        numbers |= {f"reply {flow['flow']} {which}": replies[which] for which in SHARES if which in replies}
    return numbers


def timeouts(run: Run) -> float:
    return run.metrics["timeouts"]


# --- of which runs ---------------------------------------------------------------------------


class Runs:
    """Those of a scenario, and with + those of several."""

    def __init__(self, id: str, /, **point: Any):
        """`a__b="x"` chooses the points at which the swept key `a.b` is x."""
        self.parts: tuple[tuple[str, dict[str, Any]], ...] = ((id, point),)

    def __add__(self, other: Runs) -> Runs:
        both = Runs("")
        both.parts = self.parts + other.parts
        return both

    def tasks(self, results: Results) -> list[Task]:
        return [task for id, point in self.parts for task, _ in results.chosen(id, point)]

    def of(self, results: Results) -> list[Run]:
        """Invalid ones too, which a verdict names."""
        return [run for id, point in self.parts for run in results.all(id, **point)]

    def valid(self, results: Results) -> list[Run]:
        return [run for run in self.of(results) if run.valid]


@dataclass(frozen=True)
class Value:
    """A quantity that a claim bounds."""

    runs: Runs  # that have it
    of: Callable[[Results], tuple[list[Run], Measure]]  # those that can be measured, and how
    planned: Callable[[Results], bool]  # is it of this set?
    others: tuple[Runs, ...] = ()  # that they are compared with
    picked: bool = False  # the runs that can be measured are those of one of several points


def each(runs: Runs, measure: Measure) -> Value:
    """The measure of each run."""
    return Value(runs, lambda results: (runs.of(results), measure), lambda results: bool(runs.tasks(results)))


def by_seed(runs: Iterable[Run]) -> dict[int, Run]:
    """The valid ones."""
    return {run.record["seed"]: run for run in runs if run.valid}


def paired(runs: Iterable[Run], *others: dict[int, Run]) -> list[Run]:
    """Those whose seed all others have; and the invalid ones, which a verdict names."""
    return [run for run in runs if not run.valid or all(run.record["seed"] in other for other in others)]


def ratio_by_seed(
    runs: Runs,
    others: Runs | Sequence[Runs],
    measure: Measure,
    theirs: Measure | None = None,
    best: Callable[[Iterable[float]], float] = max,
    some: bool = False,
) -> Value:
    """The measure over the best of theirs of the same seed; of those runs of whose seed each list of others has one.
    some: others of which the set has no runs are left out."""
    rivals = (others,) if isinstance(others, Runs) else tuple(others)

    def there(results: Results) -> list[Runs]:
        return [other for other in rivals if other.tasks(results)]

    def of(results: Results) -> tuple[list[Run], Measure]:
        seeds = [by_seed(other.of(results)) for other in (there(results) if some else rivals)]

        def over(run: Run) -> float:
            return measure(run) / max(best([(theirs or measure)(other[run.record["seed"]]) for other in seeds]), LEAST)

        return paired(runs.of(results), *seeds) if seeds else [], Ratio(over)

    def planned(results: Results) -> bool:
        found = len(there(results))
        return bool(runs.tasks(results)) and (found > 0 if some else 0 < found == len(rivals))

    return Value(runs, of, planned, rivals)


def ratio_of_values(a: Value, b: Value) -> Value:
    """One value over another of the same seed."""

    def of(results: Results) -> tuple[list[Run], Measure]:
        (mine, measure), (others, theirs) = a.of(results), b.of(results)
        seeds = by_seed(others)
        return paired(mine, seeds), Ratio(lambda run: measure(run) / theirs(seeds[run.record["seed"]]))

    return Value(a.runs, of, lambda results: a.planned(results) and b.planned(results), (b.runs,))


def together(lists: Sequence[Runs], measure: Callable[[list[Run]], float]) -> Value:
    """A measure of the runs of a seed together, one of each list; lists that the set has not are left out."""

    def there(results: Results) -> list[Runs]:
        return [runs for runs in lists if runs.tasks(results)]

    def of(results: Results) -> tuple[list[Run], Measure]:
        seeds = [by_seed(runs.of(results)) for runs in there(results)]

        def joint(run: Run) -> float:
            return measure([s[run.record["seed"]] for s in seeds])

        return paired(lists[0].of(results), *seeds), Ratio(joint) if isinstance(measure, Ratio) else joint

    return Value(lists[0], of, lambda results: len(there(results)) > 1 and bool(lists[0].tasks(results)))


def joined(values: Sequence[Value]) -> Value:
    """The runs of all, each by the measure of its own value."""

    def of(results: Results) -> tuple[list[Run], Measure]:
        found = [value.of(results) for value in values]
        own = {run.record["key"]: measure for runs, measure in found for run in runs}
        return [run for runs, _ in found for run in runs], Ratio(lambda run: own[run.record["key"]](run))

    return _of_several(values, of)


def extreme(values: Sequence[Value], most: Callable) -> Value:
    """The one with the most extreme mean, by `most` (min or max): for claims about all of several points.

    A point whose runs are all invalid, or absent, may be it: then that one is taken, and nothing is judged."""

    def of(results: Results) -> tuple[list[Run], Measure]:
        found = [value.of(results) for value in values]
        if invalid := [one for one in found if one[0] and not any(run.valid for run in one[0])]:
            return invalid[0]
        there = [one for one in found if one[0]]
        for one in there:
            try:
                mean(one)
            except Missing:
                return one
        return most(there, key=mean) if there else found[0]

    def mean(one: tuple[list[Run], Measure]) -> float:
        runs, measure = one
        return float(np.mean([measure(run) for run in runs if run.valid]))

    return replace(_of_several(values, of), picked=True)


def _of_several(values: Sequence[Value], of: Callable) -> Value:
    runs = values[0].runs
    for value in values[1:]:
        runs += value.runs
    return Value(runs, of, lambda results: any(value.planned(results) for value in values))
