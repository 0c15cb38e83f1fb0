# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures that the papers' claims and figures share. What a number is of stands in its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..results.store import Run
from .verdicts import Ratio

Measure = Callable[[Any], float]
LEAST = 1e-9  # what a ratio is over, if that hardly moved
ABOVE_1, BELOW_1 = 1 + 1e-9, 1 - 1e-9  # bounds of "more than" and "less than"


def goodput(run: Run) -> float:
    """Of all flows together, Mbit/s."""
    return run.metrics["goodput_bps"] / 1e6


def goodput_of(run: Run, flow: int = 0) -> float:
    """Of one flow, Mbit/s."""
    return run.metrics["flows"][flow]["goodput_bps"] / 1e6


def goodput_each(run: Run) -> float:
    """Mean of the flows, Mbit/s."""
    return run.metrics["goodput_bps"] / len(run.metrics["flows"]) / 1e6


def throughput(run: Run) -> float:
    """Of all flows together as IP packets, Mbit/s."""
    return run.metrics["throughput_bps"] / 1e6


def jain_index(run: Run) -> float:
    """Of the goodputs of all flows."""
    return run.metrics["jain"]


def share(run: Run, a: int = 0, b: int = 1) -> float:
    """Flow a's share of the goodput of a and b."""
    return goodput_of(run, a) / max(goodput_of(run, a) + goodput_of(run, b), LEAST)


def timeouts(run: Run) -> float:
    return run.metrics["timeouts"]


# --- against runs of the same seed ---------------------------------------------------------


def by_seed(runs: Iterable[Run]) -> dict[int, Run]:
    """The valid ones."""
    return {run.record["seed"]: run for run in runs if run.valid}


def paired(runs: Iterable[Run], *others: dict[int, Run]) -> list[Run]:
    """Those whose seed all others have; and the invalid ones, which a verdict names."""
    return [run for run in runs if not run.valid or all(run.record["seed"] in other for other in others)]


def ratio_by_seed(
    runs: Iterable[Run],
    others: Sequence[Iterable[Run]],
    measure: Measure,
    theirs: Measure | None = None,
    best: Callable[[Iterable[float]], float] = max,
) -> tuple[list[Run], Ratio]:
    """(those runs of whose seed each list of others has one, measure over the best of theirs of the same seed).
    Without others nothing is compared."""
    seeds = [by_seed(other) for other in others]

    def ratio(run: Run) -> float:
        return measure(run) / max(best([(theirs or measure)(other[run.record["seed"]]) for other in seeds]), LEAST)

    return paired(runs, *seeds) if seeds else [], Ratio(ratio)
