# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Which of two kernels a third one is like, by the results of a scenario: a step of `git bisect run`.

One metric of one case decides: that in which the good kernel and the bad one are farthest apart, for its size, and no
run of the one comes near those of the other. The third kernel is like the one whose mean is nearer.

The exit code is git's: 0 good, 1 bad, 125 not to be told since a run is invalid or lacks the metric. 255 ends the
search: something is wrong, or both kernels give the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from .. import LabError
from ..console import console
from ..results.store import Run
from ..table import left, right, terminal
from . import report
from .compare import numbers, words

GOOD, BAD, UNTOLD, WRONG = 0, 1, 125, 255
APART = 0.01  # of the larger mean: less is no difference


@dataclass(frozen=True)
class Measure:
    """A metric of a case, and its values over the seeds."""

    case: str
    metric: str
    good: list[float]
    bad: list[float]

    @property
    def apart(self) -> float:
        """The gap between both kernels' runs, as a share of the larger mean; below 0 they overlap."""
        low, high = sorted((self.good, self.bad), key=fmean)
        most = max(abs(fmean(low)), abs(fmean(high)))
        return (min(high) - max(low)) / most if most else 0.0

    def like(self, values: list[float]) -> int:
        value = fmean(values)
        return GOOD if abs(value - fmean(self.good)) <= abs(value - fmean(self.bad)) else BAD


def values(runs: list[Run]) -> dict[tuple[str, str], list[float]]:
    """Each metric of each case, over the seeds. LabError: a run is invalid."""
    samples: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        if not run.valid:
            raise LabError(f"{run.record['name']} is invalid: {run.record['invalid'][0]}")
        summary = report.summary(run)
        for metric, value in numbers(summary).items():
            if value is not None:
                samples.setdefault((summary["case"], metric), []).append(value)
    return samples


def measure(good: list[Run], bad: list[Run], of: str | None) -> Measure:
    """The measure that tells them apart; `of`: this metric. LabError if nothing does."""
    a, b = values(good), values(bad)
    names = dict.fromkeys(name for _, name in a)
    if of and of not in names:
        raise LabError(f"--by {of}: no such metric; there are {', '.join(names)}")
    # By itself it takes no number that a program has printed: one may be of chance, as a port is.
    usable = [of] if of else [name for name in names if ".result." not in name]
    both = [Measure(*key, a[key], b[key]) for key in a if key in b and key[1] in usable]
    best = max(both, key=lambda m: m.apart, default=None)
    if not best or best.apart < APART:
        raise LabError(
            f"{of or 'each metric'} is the same on both kernels, to a hundredth, or overlaps: "
            "take more seeds, or another scenario"
        )
    return best


def judge(by: Measure, now: list[Run]) -> int:
    try:
        third = values(now).get((by.case, by.metric))
        if not third:
            raise LabError(f"{by.case}: this kernel's runs have no {by.metric}")
    except LabError as e:
        console.print(f"not to be told: {e}")
        return UNTOLD
    label, scale, unit = words(by.metric)
    rows = [
        (name, f"{scale * fmean(each):.4g}", " ".join(f"{scale * value:.4g}" for value in each))
        for name, each in (("good", by.good), ("bad", by.bad), ("this one", third))
    ]
    title = f"{by.case}: {label} {unit}".rstrip()
    console.print(terminal(left("kernel") + right("mean", "each seed"), rows, title=title))
    code = by.like(third)
    console.print("like the good one" if code == GOOD else "like the bad one")
    return code
