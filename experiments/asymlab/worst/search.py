# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A search for the point of a box where a value is least. First each quantity alone, then the worst of them together,
and from there on CMA-ES, begun anew where it has converged.

Each step depends on the seed and on values alone, and a run repeats to the byte. So a search that was interrupted goes
the same way again, and finds its runs in the store.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .box import Point

SIGMA = 0.3  # of the first steps, in parts of the box
PATIENCE, BETTER = 6, 0.01  # generations without a value that is less by this part: it has converged


@dataclass(frozen=True)
class Trial:
    number: int
    point: Point
    value: float  # NaN: the runs did not tell


Judge = Callable[[list[Point]], list[float]]


def together(plain: Point, ends: list[tuple[int, float]], judge: Judge) -> Iterator[list[Trial]]:
    """From a plain point each side moves alone to its ends. Then they move on top of each other, the worst first, and
    stay where the value falls."""
    moved = [(*plain[:side], x, *plain[side + 1 :]) for side, x in ends]
    first = [Trial(i, point, value) for i, (point, value) in enumerate(zip([plain, *moved], judge([plain, *moved])))]
    yield first
    best, number = least(first), len(first)
    left: dict[int, tuple[float, Trial]] = {}
    for (side, x), trial in sorted(zip(ends, first[1:]), key=lambda one: _known(one[1].value)):
        left.setdefault(side, (x, trial))
    for side, (x, alone) in left.items():
        if best and alone is not best:
            point = (*best.point[:side], x, *best.point[side + 1 :])
            trial = Trial(number, point, *judge([point]))
            yield [trial]
            number += 1
            if trial.value < best.value * (1 - BETTER):
                best = trial


def _known(value: float) -> float:
    return value if math.isfinite(value) else math.inf


def search(sides: int, trials: int, seed: int, judge: Judge, first: Trial | None = None) -> Iterator[list[Trial]]:
    """The trials, a generation at a time; `judge` gives the values of its points. `first`: where it begins."""
    from cmaes import CMA  # only who searches pays for it

    rng = np.random.default_rng(seed)
    number, population = first.number + 1 if first else 0, 4 + int(3 * math.log(sides))
    start = np.clip(first.point, 0.1, 0.9) if first else np.full(sides, 0.5)
    optimizer, best, idle = None, math.inf, 0
    while number < trials:
        if optimizer is None or idle == PATIENCE:
            mean = rng.uniform(0.2, 0.8, sides) if optimizer else start
            bounds = np.tile([0.0, 1.0], (sides, 1))
            optimizer = CMA(mean, SIGMA, bounds, seed=int(rng.integers(2**31)), population_size=population)
            best, idle = math.inf, 0
        asked = [optimizer.ask() for _ in range(population)]
        values = judge([tuple(map(float, x)) for x in asked])
        known = [value for value in values if math.isfinite(value)]
        failed = max(known, default=1.0) + 1
        optimizer.tell([(x, v if math.isfinite(v) else failed) for x, v in zip(asked, values)])
        better = min(known, default=math.inf) < best * (1 - BETTER)
        best, idle = (min(known), 0) if better else (best, idle + 1)
        yield [Trial(number + i, tuple(map(float, x)), v) for i, (x, v) in enumerate(zip(asked, values))]
        number += population


def least(trials: list[Trial]) -> Trial | None:
    known = [trial for trial in trials if math.isfinite(trial.value)]
    return min(known, key=lambda trial: trial.value, default=None)
