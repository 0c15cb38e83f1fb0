# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The aims of a search: how bad a controller is on a path, as a number of one or two runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..results.metrics import jain
from ..results.store import Run

OTHER = "cubic"  # the usual controller, whose place ours has
Flows = list[dict]


@dataclass(frozen=True)
class Aim:
    """`runs`: the flows of each run, by its title, for a controller and a number of its flows. `value`: how good the
    controller is in these runs, for that number; a search makes it small. NaN: they do not tell. `shown`: a value as
    it is told, in words `told`; `shown` of two values says how near they are."""

    about: str
    runs: Callable[[str, int], dict[str, Flows]]
    value: Callable[[list[Run], int], float]
    flows: int = 1  # if nobody says
    compares: bool = False  # with OTHER
    told: str = ""
    shown: Callable[[float], float] = float

    def near(self, a: float, b: float, part: float) -> bool:
        """Whether these values differ by that part of b at most, as they are shown."""
        return abs(self.shown(a) - self.shown(b)) <= part * abs(self.shown(b))


def flows_of(name: str, count: int) -> Flows:
    return [{"controller": name} | ({"count": count} if count > 1 else {})]


def goodput(run: Run, first: int, count: int) -> float:
    """The sum of these flows, bit/s."""
    return sum(flow["goodput_bps"] for flow in run.metrics["flows"][first : first + count])


def part(value: float, whole: float) -> float:
    return value / whole if whole else float("nan")


def _in_place_of(name: str, count: int) -> dict[str, Flows]:
    return {name: flows_of(name, count), OTHER: flows_of(OTHER, count)}


def _beside(name: str, count: int) -> dict[str, Flows]:
    others = flows_of(OTHER, count)
    return {f"{who} beside {OTHER}": flows_of(who, count) + others for who in (name, OTHER)}


def _alone(name: str, count: int) -> dict[str, Flows]:
    return {name: flows_of(name, count)}


def _sent_once(run: Run, count: int) -> float:
    """The part of what was sent that was not sent again."""
    again = sum(flow["retransmits"] for flow in run.metrics["flows"][:count])
    way = run.metrics["forward"]
    return 1 - part(again, way["packets"] + way["drops"])


def _room(run: Run, count: int) -> float:
    """The part of an RTT that no queue makes, for the median of the first flow."""
    rtt = run.metrics["flows"][0].get("rtt_s") or {}
    return part(run.job.probes[0].base_rtt_us / 1e6, rtt.get("p50", 0))


AIMS = {
    "goodput": Aim(
        f"its goodput, in parts of {OTHER}'s in its place",
        _in_place_of,
        lambda runs, n: part(goodput(runs[0], 0, n), goodput(runs[1], 0, n)),
        compares=True,
        told=f"in parts of {OTHER}'s",
    ),
    "harm": Aim(
        f"the goodput of {OTHER} beside it, in parts of that beside {OTHER}",
        _beside,
        lambda runs, n: part(goodput(runs[0], n, n), goodput(runs[1], n, n)),
        compares=True,
        told=f"{OTHER}'s goodput beside it, in parts of that beside {OTHER}",
    ),
    "share": Aim(
        "Jain's index of its own flows",
        _alone,
        lambda runs, n: jain(np.array([flow["goodput_bps"] for flow in runs[0].metrics["flows"][:n]])),
        flows=4,
        told="Jain's index of four flows",
    ),
    "loss": Aim(
        "the part of the data packets that it does not send again",
        _alone,
        lambda runs, n: _sent_once(runs[0], n),
        told="the part of what is sent that is sent again",
        shown=lambda value: 1 - value,
    ),
    "queue": Aim(
        "the RTT of an empty path, in parts of its median",
        _alone,
        lambda runs, n: _room(runs[0], n),
        told="the median RTT, in parts of an empty path's",
        shown=lambda value: 1 / value if value else float("inf"),
    ),
}
