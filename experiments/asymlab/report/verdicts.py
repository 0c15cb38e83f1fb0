# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A paper's finished runs, and what becomes of its claims over them."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..paths import RESULTS
from ..results.store import Run
from . import reasons
from .absent import Absent, Missing, Unknown

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
NOT_MADE = "some of its runs were not made"  # why a claim is not measured that reads an absent run
STRADDLES = "the 95 % interval holds"  # how the reason of an open verdict begins, if no other is known
CAUSE = "cause"  # source of a verdict over runs in which a cause is turned off
FAILED, HELD = ("not reproduced", "fails"), ("reproduced", "holds")
RATIO_MAX = 1e3  # a ratio to what hardly moved counts as this

# Student's t, two-sided 95 %, for 1..30 degrees of freedom; 1.96 beyond.
# fmt: off
T95 = (
    12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
# fmt: on


@dataclass(frozen=True)
class Verdict:
    """What became of one claim, or of a check. low..high is the 95 % interval of our value over the seeds.

    A claim is reproduced if the whole interval lies within the claim's bounds, not reproduced if all of it lies
    outside, and inconclusive otherwise. A check holds, fails, or is undecided, by the same
    rule. Checks are about our own code, a cause turned off, what any sender passes, something that the paper does not
    say, or a single short run.
    """

    id: str
    paper: str
    source: str  # where the paper says it
    claim: str  # with the inequality that decides
    paper_value: float | None
    value: float | None
    low: float | None
    high: float | None
    verdict: str  # of SYMBOLS
    reason: str
    runs: list[str]  # keys in the store
    n: int = 0  # valid runs that the value was taken from
    check: bool = False
    family: str = ""  # scenarios of the runs: verdicts over the same runs are not independent
    cause: str = ""  # of one that failed: measured (turned off, it holds), a guess, or not found
    worst: bool = False  # the value is that of the worst run, which has no interval


@dataclass(frozen=True)
class Ratio:
    """A measure that is a ratio: its mean over the seeds is the geometric one, as the plain mean is too large."""

    measure: Callable[[Any], float]

    def __call__(self, run: Any) -> Any:
        try:
            return min(max(self.measure(run), 1 / RATIO_MAX), RATIO_MAX)
        except Missing:
            return Unknown()


def interval(samples: list[float]) -> tuple[float, float, float]:
    """(mean, low, high) with the 95 % confidence interval; a single sample is its own interval."""
    mean = statistics.fmean(samples)
    if len(samples) < 2:
        return mean, mean, mean
    t = T95[len(samples) - 2] if len(samples) <= len(T95) + 1 else 1.96
    half = t * statistics.stdev(samples) / math.sqrt(len(samples))
    return mean, mean - half, mean + half


def summary(samples: list[float], measure: Callable[[Any], float]) -> tuple[float, float, float]:
    """interval() of a measure's samples; of a Ratio on the logarithmic scale."""
    if isinstance(measure, Ratio):
        mean, low, high = map(math.exp, interval([math.log(value) for value in samples]))
        return mean, low, high
    return interval(samples)


class Results:
    """The finished runs of a paper, by scenario id and point."""

    def __init__(self, paper: str, found: list[tuple[Task, Run]]):
        self.paper = paper
        self.found = found

    def all(self, id: str, **point) -> list[Run]:
        """Runs of a scenario, one a seed; keyword `a__b` filters on the swept key `a.b`. Invalid ones too."""
        wanted = {k.replace("__", "."): v for k, v in point.items()}
        return [
            r
            for t, r in self.found
            if t.case.scenario.id == id and all(t.case.point.get(k) == v for k, v in wanted.items())
        ]

    def valid(self, id: str, **point) -> list[Run]:
        return [r for r in self.all(id, **point) if r.valid]

    def points(self, id: str, key: str, **point) -> list:
        """The values of a swept key, in the file's order, at which there are valid runs."""
        wanted = {k.replace("__", "."): v for k, v in point.items()}
        return list(
            dict.fromkeys(
                t.case.point[key]
                for t, r in self.found
                if t.case.scenario.id == id
                and key in t.case.point
                and r.valid
                and all(t.case.point.get(k) == v for k, v in wanted.items())
            )
        )

    def judge(
        self,
        id: str,
        source: str,
        claim: str,
        paper_value: float | None,
        runs: list[Run],
        measure: Callable[[Any], float] | None,
        at_least: float = -math.inf,
        at_most: float = math.inf,
        note: Callable[[list[Run]], str] | None = None,
        worst: bool = False,
        check: bool = False,
    ) -> Verdict:
        """Judge measure(run) over the valid runs: does its 95 % interval lie in [at_least, at_most]?

        One run has no interval: its value decides, and what shows the verdict says so.
        worst: the largest value decides, or the smallest if there is no at_most: for claims about every run, or every
        one of several set-ups.
        note: what else the runs of a failed claim show; reasons.toml has what explains it. Invalid runs are left
        out and named.
        """
        used = [r for r in runs if r.valid]
        dropped = [f"{r.record['name']} is invalid: {r.record['invalid'][0]}" for r in runs if not r.valid]

        def unknown(reason: str) -> Verdict:
            keys = [r.record["key"] for r in runs]
            return self.not_measured(id, source, claim, reason, paper_value, keys, check)

        if not used or measure is None:
            return unknown(dropped[0] if dropped else "not in this set")
        if worst and dropped:  # it may be the worst
            return unknown(dropped[0])
        try:
            samples: list[Any] = [Unknown() if isinstance(r, Absent) else measure(r) for r in used]
            if any(isinstance(sample, Unknown) for sample in samples):
                raise Missing
        except Missing:
            return unknown(NOT_MADE)
        except (ValueError, IndexError, ZeroDivisionError) as e:  # a run without what is to be measured
            return unknown(f"{used[0].record['name']} and others of its kind: nothing to measure ({e})")
        if not all(map(math.isfinite, samples)):
            return unknown("a run has nothing to measure")
        deciding = [(max if at_most < math.inf else min)(samples)] if worst else samples
        mean, low, high = summary(deciding, measure)
        inside = at_least <= mean <= at_most
        straddled = [bound for bound in (at_least, at_most) if low < bound < high]
        said = []
        if not inside:
            missed = sum(not at_least <= value <= at_most for value in samples)
            said += [f"{missed} of {len(samples)} runs miss it"] if worst and len(samples) > 1 else []
            said += [note(used)] if note else []
            low_side = mean < at_least
            by = f"{mean:.4g} is {'below' if low_side else 'above'} {at_least if low_side else at_most:.4g}"
            said += self.explained(id, by, used)
        elif straddled and self.reasons.names(id):
            said += self.explained(id, "", used)
        if straddled:
            said.append(f"{STRADDLES} {straddled[0]:.4g}; more seeds: {self.with_seeds(used)}")
        return Verdict(
            id,
            self.paper,
            source,
            claim,
            paper_value,
            mean,
            low,
            high,
            decided(inside, bool(straddled), check),
            "; ".join(said + dropped),
            [r.record["key"] for r in used],
            len(used),
            check,
            self.family(used),
            worst=worst,
        )

    def check(self, *args: Any, **kw: Any) -> Verdict:
        """judge() for a check."""
        return self.judge(*args, **(kw | {"check": True}))

    def family(self, runs: list[Run]) -> str:
        """Ids of the scenarios that the runs are of."""
        keys = {r.record["key"] for r in runs}
        return " ".join(sorted({t.case.scenario.id for t, r in self.found if r.record["key"] in keys}))

    @cached_property
    def reasons(self) -> reasons.Reasons:
        return reasons.load(self.paper)

    @cached_property
    def published(self) -> dict[str, set[str]]:
        """The hashes of each published row's runs, as far as the published texts are of these results."""
        return reasons.rows(self.paper, RESULTS)

    def explained(self, id: str, missed: str, runs: list[Run]) -> list[str]:
        """Why a claim failed or is open, as far as it is known. Numbers stand over the published row's runs only."""
        known = self.reasons.of(id)
        if not known:
            return [missed]
        if known.published and {r.record["result_sha256"] for r in runs} == self.published.get(id):
            return [text for text in (known.why, known.published) if text]
        see = f"published reason: see docs/{self.paper}.md" if known.published else ""
        return [text for text in (known.why or missed, see) if text]

    def with_seeds(self, runs: list[Run]) -> str:
        """The command that doubles the seeds of these runs."""
        return f"`asymlab suite {self.paper} --seeds {2 * len({r.record['seed'] for r in runs})}`"

    def not_measured(
        self,
        id: str,
        source: str,
        claim: str,
        reason: str,
        paper_value: float | None = None,
        runs: list[str] | None = None,
        check: bool = False,
    ) -> Verdict:
        """Of a claim about something that is not here, or of runs that do not show it."""
        return Verdict(
            id,
            self.paper,
            source,
            claim,
            paper_value,
            None,
            None,
            None,
            "not measured",
            reason,
            runs or [],
            check=check,
        )


def decided(inside: bool, straddled: bool, check: bool) -> str:
    """The word for a mean inside the bounds or not, and an interval that holds one of them or not."""
    if straddled:
        return "undecided" if check else "inconclusive"
    if check:
        return "holds" if inside else "fails"
    return "reproduced" if inside else "not reproduced"


def counts(verdicts: Iterable[str]) -> dict[str, int]:
    """How many verdicts have each word, in the order of SYMBOLS."""
    found = Counter(verdicts)
    return {word: found[word] for word in SYMBOLS}


def settled(verdicts: list[Verdict]) -> list[Verdict]:
    """A paper's verdicts, each failed one with a word on its cause: measured, a guess, or not found. Published verdicts
    have that word already: it is found anew, as the runs that decide it may be new."""
    became = {v.id: v.verdict for v in verdicts}
    known = reasons.load(verdicts[0].paper) if verdicts else reasons.Reasons()

    def one(v: Verdict) -> Verdict:
        reason = known.of(v.id)
        if v.cause and reason and reason.why:
            v = replace(v, reason=unsettled(v.reason, reason.why))
        if v.cause == "not found":
            v = replace(v, reason=v.reason.removesuffix("; cause not found"))
        if not reason or not reason.why or reason.why not in v.reason:
            return replace(v, cause="not found", reason=f"{v.reason}; cause not found") if v.verdict in FAILED else v
        shown = {became.get(id) for id in reason.shown_by}
        if shown and shown <= set(HELD):
            cause, said = "measured", reason.why + shown_in(reason.shown_by)
        elif shown & set(FAILED):
            where = " and ".join(reason.shown_by)
            cause, said = "a guess", f"a guess, as with it turned off ({where}) it does not come true: {reason.why}"
        else:  # nobody turned it off, not in this set, or that is undecided
            cause, said = "a guess", f"a guess: {reason.why}"
        return replace(v, cause=cause, reason=v.reason.replace(reason.why, said, 1))

    return [one(v) if v.source != CAUSE and v.verdict in (*FAILED, "inconclusive") else v for v in verdicts]


def shown_in(checks: list[str]) -> str:
    """The words after a measured cause."""
    return f" (measured: turned off in {' and '.join(checks)}, and it comes true)"


def unsettled(text: str, why: str) -> str:
    """A reason as it was before settled() said of its cause what it is."""
    guess = r"(a guess(, as with it turned off \([^)]*\) it does not come true)?: )?"
    measured = r"( \(measured: [^)]*\))?"
    return re.sub(guess + re.escape(why) + measured, lambda _: why, text, count=1)
