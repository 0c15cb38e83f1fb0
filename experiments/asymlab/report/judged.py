# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A paper's finished runs, and what they say of its claims.

A judged claim is a record: what is claimed, its bounds, and the value that each run has. Its word, mean and interval
follow from these alone. sentences.py tells why it came out so.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from ..results.store import Run
from .absent import Absent, Missing
from .names import SuiteName

if TYPE_CHECKING:
    from ..run.tasks import Task

SYMBOLS = {
    "reproduced": "✓",
    "not reproduced": "✗",
    "inconclusive": "?",
    "holds": "✓",  # these three of a check
    "fails": "✗",
    "undecided": "?",
    "not measured": "–",
}
MEANINGS = (  # of the 95 % interval, and the word of a claim and of a check for it
    ("within the bounds", "reproduced", "holds"),
    ("outside", "not reproduced", "fails"),
    ("holds a bound", "inconclusive", "undecided"),
)
CHECKS = (
    "Checks are about our own code, a cause turned off, what any sender passes, something that the paper does not say, "
    "or a single short run."
)
NOT_MADE = "some of its runs were not made"  # why a claim is not measured that reads an absent run
RATIO_MAX = 1e3  # a ratio to what hardly moved counts as this
FEW_VALUES, MANY_RUNS = 2, 4  # no more values than this in so many runs are no sample ...
NEAR_VALUES = 0.01  # ... if they differ by less than this part of their mean

# Student's t, two-sided 95 %, for 1..30 degrees of freedom; 1.96 beyond.
# fmt: off
T95 = (
    12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
# fmt: on


@dataclass(frozen=True)
class Ratio:
    """A measure that is a ratio: its mean over the seeds is the geometric one, as the plain mean is too large."""

    measure: Callable[[Any], float]

    def __call__(self, run: Any) -> float:
        return min(max(self.measure(run), 1 / RATIO_MAX), RATIO_MAX)


def number(value: float | None) -> str:
    """The published form of a value."""
    return "–" if value is None else f"{value:.4g}"


def interval(samples: list[float]) -> tuple[float, float, float]:
    """(mean, low, high) with the 95 % confidence interval; a single sample is its own interval."""
    mean = statistics.fmean(samples)
    if len(samples) < 2:
        return mean, mean, mean
    t = T95[len(samples) - 2] if len(samples) <= len(T95) + 1 else 1.96
    half = t * statistics.stdev(samples) / math.sqrt(len(samples))
    return mean, mean - half, mean + half


class Sample(NamedTuple):
    """The value of a claim's measure for one run."""

    seed: int
    key: str  # of the run in the store
    value: float | None  # None: it is not known


class Judged(BaseModel):
    """A claim, or a check, and the values of its runs.

    A claim is reproduced if the whole 95 % interval lies within its bounds, not reproduced if all of it lies
    outside, and inconclusive otherwise. A check holds, fails, or is undecided, by the same
    rule. CHECKS says what they are about. Runs that hardly differ are no sample: their range stands for the interval.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    id: str
    paper: SuiteName
    source: str  # where the paper says it
    claim: str  # with the inequality that decides
    paper_value: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    check: bool = False
    worst: bool = False  # the worst run decides
    ratio: bool = False  # the mean is the geometric one
    picked: bool = False  # the samples are of one of several points: more runs may pick another
    preset: str = ""  # the check repeats the claim that lacks this word in its id
    family: str = ""  # scenarios of the runs: verdicts over the same runs are not independent
    note: str = ""  # what else the runs of a failed claim show
    missing: str = ""  # why it is not measured
    left_out: dict[str, str] = {}  # invalid runs by key: what is wrong with each
    samples: list[Sample] = Field([], exclude=True)  # kept apart: samples.csv, or columns of what is published

    @property
    def bounds(self) -> tuple[float, float]:
        low, high = self.at_least, self.at_most
        return (-math.inf if low is None else low), (math.inf if high is None else high)

    @property
    def unmeasured(self) -> str:
        """Why there is no value; empty if there is one."""
        if self.left_out and (self.worst or not self.samples):  # an invalid run may be the worst
            return next(iter(self.left_out.values()))
        return self.missing if self.samples else self.missing or "not in this set"

    @property
    def n(self) -> int:
        """Valid runs that the value was taken from."""
        return 0 if self.unmeasured else len(self.samples)

    @property
    def runs(self) -> list[str]:
        """Their keys in the store; of a claim without a value those of all its runs."""
        return [s.key for s in self.samples] + (list(self.left_out) if self.unmeasured else [])

    @property
    def values(self) -> list[float]:
        return [s.value for s in self.samples if s.value is not None]

    @property
    def distinct(self) -> int:
        """How many values there are that differ where they are published."""
        return len(set(map(number, self.values)))

    @property
    def sampled(self) -> bool:
        """Do the runs differ enough to be a sample?"""
        if self.distinct < 2:
            return False
        spread, mean = max(self.values) - min(self.values), statistics.fmean(self.values)
        near = self.n >= MANY_RUNS and spread < NEAR_VALUES * abs(mean)
        return not near or self.distinct > FEW_VALUES

    @property
    def seeds(self) -> int:
        """The number of seeds of its runs."""
        return len({s.seed for s in self.samples})

    @property
    def missed(self) -> int:
        """How many runs miss the bounds."""
        low, high = self.bounds
        return sum(not low <= value <= high for value in self.values)

    @property
    def interval(self) -> tuple[float, float, float] | tuple[None, None, None]:
        """(mean, low, high); of a claim about every run its worst one, three times; of no sample the range."""
        if self.unmeasured:
            return None, None, None
        if self.worst:
            return interval([(min if self.at_most is None else max)(self.values)])
        if self.ratio:
            mean, low, high = map(math.exp, interval([math.log(value) for value in self.values]))
        else:
            mean, low, high = interval(self.values)
        if self.sampled:
            return mean, low, high
        low, high = min(self.values), max(self.values)
        return min(max(mean, low), high), low, high  # exp() of log() rounds

    @property
    def value(self) -> float | None:
        return self.interval[0]

    @property
    def low(self) -> float | None:
        return self.interval[1]

    @property
    def high(self) -> float | None:
        return self.interval[2]

    @property
    def inside(self) -> bool:
        """Is the mean within the bounds?"""
        least, most = self.bounds
        return self.value is not None and least <= self.value <= most

    @property
    def straddled(self) -> list[float]:
        """The bounds that the interval holds."""
        _, low, high = self.interval
        return [] if low is None or high is None else [bound for bound in self.bounds if low < bound < high]

    @property
    def verdict(self) -> str:
        """A word of SYMBOLS."""
        if self.unmeasured:
            return "not measured"
        if self.straddled:
            return "undecided" if self.check else "inconclusive"
        if self.check:
            return "holds" if self.inside else "fails"
        return "reproduced" if self.inside else "not reproduced"


class Results:
    """The finished runs of a paper, by scenario id and point."""

    def __init__(self, paper: str, found: list[tuple[Task, Run]]):
        self.paper = paper
        self.found = found

    def chosen(self, id: str, point: dict[str, Any]) -> list[tuple[Task, Run]]:
        """A scenario's runs; `a__b` filters on the swept key `a.b`."""
        wanted = {k.replace("__", "."): v for k, v in point.items()}
        of_id = [(t, r) for t, r in self.found if t.case.scenario.id == id]
        return [(t, r) for t, r in of_id if all(t.case.point.get(k) == v for k, v in wanted.items())]

    def all(self, id: str, **point: Any) -> list[Run]:
        """One a seed. Invalid ones too."""
        return [r for _, r in self.chosen(id, point)]

    def valid(self, id: str, **point: Any) -> list[Run]:
        return [r for r in self.all(id, **point) if r.valid]

    def points(self, id: str, key: str, **point: Any) -> list:
        """The values of a swept key, in the file's order, at which there are valid runs."""
        at_points = [(t.case.point, r) for t, r in self.chosen(id, point)]
        return list(dict.fromkeys(at[key] for at, r in at_points if key in at and r.valid))

    def judge(
        self,
        id: str,
        source: str,
        claim: str,
        paper_value: float | None,
        runs: list[Run],
        measure: Callable[[Any], float] | None,
        note: Callable[[list[Run]], str] | None = None,
        **bounds: Any,
    ) -> Judged:
        """The claim that measure(run) of the valid runs lies in [at_least, at_most].

        bounds: at_least, at_most, worst, check (Judged). With worst the largest value decides, or the smallest if there
        is no at_most: for claims about every run, or every one of several set-ups.
        note: what else the runs of a failed claim show. Invalid runs are left out and named.
        """
        used = [r for r in runs if r.valid]
        values, missing = measured(used, measure)
        bad = {r.record["key"]: f"{r.record['name']} is invalid: {r.record['invalid'][0]}" for r in runs if not r.valid}
        row = Judged(
            **{"id": id, "paper": self.paper, "source": source, "claim": claim, "paper_value": paper_value} | bounds,
            ratio=isinstance(measure, Ratio),
            family=self.family(used),
            missing=missing,
            left_out=bad,
            samples=[Sample(r.record["seed"], r.record["key"], v) for r, v in zip(used, values, strict=True)],
        )
        if note and not row.unmeasured and not row.inside:
            return row.model_copy(update={"note": note(used)})
        return row

    def not_measured(self, id: str, source: str, claim: str, missing: str) -> Judged:
        """A claim about something that is not here."""
        return Judged(id=id, paper=self.paper, source=source, claim=claim, missing=missing)

    def family(self, runs: list[Run]) -> str:
        """Ids of the scenarios that the runs are of."""
        keys = {r.record["key"] for r in runs}
        return " ".join(sorted({t.case.scenario.id for t, r in self.found if r.record["key"] in keys}))


def measured(runs: list[Run], measure: Callable[[Any], float] | None) -> tuple[list[float | None], str]:
    """(the value of each run, why not all are known). An absent run has none, nor has one that is compared with it."""

    def value(run: Run) -> float | None:
        try:
            return None if isinstance(run, Absent) or measure is None else float(measure(run))
        except Missing:
            return None

    try:
        values = [value(r) for r in runs]
    except (ValueError, IndexError, ZeroDivisionError) as e:  # a run without what is to be measured
        nothing = f"{runs[0].record['name']} and others of its kind: nothing to measure ({e})"
    else:
        if all(v is None or math.isfinite(v) for v in values):
            return values, NOT_MADE if None in values else ""
        nothing = "a run has nothing to measure"
    return [None] * len(runs), nothing
