# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A claim: one record, with its bound and its cause.

The bound is at_least, at_most, above, below, one of each side, or within=(low, high), or near=(value, share).

In the sentence stand, in braces: `bound`, and what the scenario of its runs has: `rate` and `reverse` of the path,
`loss` of data packets, `rtt[0]` of the empty path for the first flow in ms, `load` of UDP, `queue` in packets. `others`
are the controllers that it is compared with. So a sentence cannot differ from what ran, nor from what decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .. import LabError, controllers
from ..plan.crossing import Flow
from ..plan.model import Scenario
from ..results.store import Run
from .judged import Judged, Results
from .measures import LEAST, Value

SET_UPS = ("paper", "another")
CAUSE = "cause"  # source of a check over runs in which a cause is turned off
REFERENCE = re.compile(r"\b(RFC|section|Fig\.|Table|equation|claim) [\w.-]+")  # a number that nobody measured


class Cause:
    """Why a claim is not reproduced, as far as it is known. It is shown where the mean misses the bounds, or where the
    interval holds one of them."""

    def __init__(self, why: str, *shown_by: str, set_up: str = "another"):
        """why: in words, shown over any runs; it has no number.
        shown_by: the ids of checks over runs in which this cause is turned off, or of other claims. If they all hold,
        the cause is measured; if one does not, or there is none, it is a guess.
        set_up: "paper" if these runs are as near to what the paper tells of its own as the claim's, or nearer: then the
        cause tells why the claim differs from the paper. In another set-up it tells what the claim depends on."""
        if set_up not in SET_UPS:
            raise LabError(f"cause {why[:40]!r}...: set_up is {set_up!r}; it takes {' or '.join(SET_UPS)}")
        if number := re.search(r"\S*\d\S*", REFERENCE.sub("", why)):
            raise LabError(f"cause {why[:40]!r}...: {number[0]} is a number: a cause is shown over any runs")
        self.why, self.shown_by, self.set_up = why, list(shown_by), set_up


class Ceiling(Cause):
    """Why nobody can have more: checks show that a rival has all that the link carries. Nothing is turned off."""


@dataclass(frozen=True)
class Claim:
    id: str
    source: str
    says: str
    value: Value
    paper: float | None = field(default=None, kw_only=True)  # the paper's number
    at_least: float | None = field(default=None, kw_only=True)
    at_most: float | None = field(default=None, kw_only=True)
    above: float | None = field(default=None, kw_only=True)
    below: float | None = field(default=None, kw_only=True)
    within: tuple[float, float] | None = field(default=None, kw_only=True)
    near: tuple[float, float] | None = field(default=None, kw_only=True)
    worst: bool = field(default=False, kw_only=True)  # the worst run decides
    note: Callable[[list[Run]], str] | None = field(default=None, kw_only=True)  # what else runs of a failed one show
    cause: Cause | None = field(default=None, kw_only=True)
    # A check is about our own code, what any sender passes, something that the paper does not say, or a short run.
    check: bool = field(default=False, kw_only=True)
    preset: str = field(default="", kw_only=True)  # the check repeats the claim that lacks this word in its id

    def __post_init__(self) -> None:
        sides = [{name for name in side if getattr(self, name) is not None} for side in (LOW, HIGH)]
        if not any(sides) or any(len(names) > 1 for names in sides):
            raise LabError(f"claim {self.id}: takes one bound of each side, of {', '.join(dict.fromkeys(LOW + HIGH))}")

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The values that ours must not be below, and not above."""
        if self.within:
            return self.within
        if self.near:
            value, share = self.near
            return value * (1 - share), value * (1 + share)
        low = self.at_least if self.above is None else self.above + LEAST
        high = self.at_most if self.below is None else self.below - LEAST
        return low, high

    @property
    def bound(self) -> str:
        """In words."""
        if self.near:
            return f"within {100 * self.near[1]:g} % of {self.near[0]:g}"
        low, high = self.within or (self.at_least, self.at_most)
        low, high = (low if self.above is None else self.above), (high if self.below is None else self.below)
        if low is not None and high is not None:
            return f"{'[' if self.above is None else '('}{low:g}, {high:g}{']' if self.below is None else ')'}"
        if low is not None:
            return f"{'>=' if self.above is None else '>'} {low:g}"
        return f"{'<=' if self.below is None else '<'} {high:g}"

    def judged(self, results: Results) -> Judged:
        runs, measure = self.value.of(results)
        low, high = self.bounds
        words = self.says.format_map(Words(self, results))
        row = results.judge(
            self.id,
            self.source,
            words,
            self.paper,
            runs,
            measure,
            self.note,
            at_least=low,
            at_most=high,
            worst=self.worst,
            check=self.check,
        )
        also = {} if runs else {"missing": "no seed has all the runs that are compared"}
        return row.model_copy(update={"picked": self.value.picked, "preset": self.preset} | also)


LOW, HIGH = ("at_least", "above", "within", "near"), ("at_most", "below", "within", "near")


# --- what a sentence takes of the scenario ---------------------------------------------------


def mbits(rate: float) -> str:
    return f"{rate / 1e6:g} Mbit/s"


def crossed(flow: Flow, hops: list) -> list:
    """The hops on a flow's way."""
    if flow.hop is not None:
        return [hops[flow.hop - 1]]
    ends = [at for at in (flow.enter, flow.leave) if at is not None]
    first, last = (min(ends), max(ends)) if len(ends) == 2 else (1, len(hops) + 1)
    return hops[first - 1 : last - 1]


def base_rtts(s: Scenario) -> tuple[str, ...]:
    """Each flow's, ms."""
    times = [
        sum(hop.forward.delay + hop.reverse.delay for hop in crossed(f, s.path.chain)) + 2 * s.access_delay(f)
        for f in s.flows
    ]
    return tuple(f"{us / 1000:g}" for us in times)


OF_SCENARIO: dict[str, Callable[[Scenario], list]] = {
    "rate": lambda s: [mbits(hop.forward.rate) for hop in s.path.chain],
    "reverse": lambda s: [mbits(hop.reverse.rate) for hop in s.path.chain],
    "loss": lambda s: [f"{100 * hop.forward.loss:g}%" for hop in s.path.chain],
    "queue": lambda s: [hop.forward.queue for hop in s.path.chain],
    "load": lambda s: [mbits(load.rate) for load in s.background],
    "rtt": lambda s: [base_rtts(s)],
}


class Words(dict):
    """The words that stand for names in braces."""

    def __init__(self, claim: Claim, results: Results):
        super().__init__(bound=claim.bound)
        self.claim, self.results = claim, results

    def __missing__(self, name: str) -> Any:
        if name == "others":
            return ", ".join(self.others())
        if name not in OF_SCENARIO:
            known = ", ".join(["bound", "others", *OF_SCENARIO])
            raise LabError(f"claim {self.claim.id}: {{{name}}}: a sentence may have {known}")
        cases = [task.case for task in self.claim.value.runs.tasks(self.results)]
        values = dict.fromkeys(value for case in cases for value in OF_SCENARIO[name](case.scenario))
        if len(values) != 1:
            raise LabError(f"claim {self.claim.id}: {{{name}}}: its runs have {len(values)} of them")
        return next(iter(values))

    def others(self) -> list[str]:
        """Labels of the controllers that are compared with."""
        tasks: list[Any] = [one for other in self.claim.value.others for one in other.tasks(self.results)]
        names = dict.fromkeys(task.case.scenario.flows[0].controller for task in tasks)
        return [controllers.of(name).label for name in names]
