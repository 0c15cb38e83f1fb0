# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The aims of a search: how bad a controller or a tool is on a path, as a number of one or two runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..results.metrics import jain
from ..results.store import Run

OTHER = "cubic"  # the usual controller, whose place ours has
Flows = list[dict]
Keys = dict  # of a point of a scenario's sweep, its flows at least


@dataclass(frozen=True)
class Aim:
    """`runs`: the keys of each run, by its title, for a controller and a number of its flows. `value`: how good the
    controller is in these runs, for that number; a search makes it small. NaN: they do not tell. `shown`: a value as
    it is told, in words `told`; `shown` of two values says how near they are. `routed`: on paths with a router before
    the right hosts."""

    about: str
    runs: Callable[[str, int], dict[str, Keys]]
    value: Callable[[list[Run], int], float]
    flows: int = 1  # if nobody says
    compares: bool = False  # with OTHER
    routed: bool = False
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


def _in_place_of(name: str, count: int) -> dict[str, Keys]:
    return {who: {"flows": flows_of(who, count)} for who in (name, OTHER)}


def _beside(name: str, count: int) -> dict[str, Keys]:
    others = flows_of(OTHER, count)
    return {f"{who} beside {OTHER}": {"flows": flows_of(who, count) + others} for who in (name, OTHER)}


def _alone(name: str, count: int) -> dict[str, Keys]:
    return {name: {"flows": flows_of(name, count)}}


def _with_tool(name: str, count: int) -> dict[str, Keys]:
    """A tool of `asymcc`, on the router or on the receivers, for flows of OTHER; and without it."""
    return _tool_alone(name, count) | {"nothing": {"flows": flows_of(OTHER, count)}}


def _tool_alone(name: str, count: int) -> dict[str, Keys]:
    return {name: {f"{name}.at": "router" if name == "uplink" else "host", "flows": flows_of(OTHER, count)}}


def _sent_once(run: Run, count: int) -> float:
    """The part of what was sent that was not sent again."""
    again = sum(flow["retransmits"] for flow in run.metrics["flows"][:count])
    way = run.metrics["forward"]
    return 1 - part(again, way["packets"] + way["drops"])


def _room(run: Run, count: int) -> float:
    """The part of an RTT that no queue makes, for the median of the first flow."""
    rtt = run.metrics["flows"][0].get("rtt_s") or {}
    return part(run.job.probes[0].base_rtt_us / 1e6, rtt.get("p50", 0))


def _modem_room(run: Run) -> float:
    """The part of an RTT that the uplink's queue does not make, on average."""
    rtt = run.job.probes[0].base_rtt_us / 1e6
    return part(rtt, rtt + run.metrics["hops"][0]["reverse"]["queue_delay_mean_s"])


def _uploads(run: Run, downloads: int) -> float:
    return goodput(run, downloads, len(run.metrics["flows"]) - downloads)


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

# Those of the tools of `asymcc` beside its controllers.
TOOLS = {
    "thin": {
        "goodput": Aim(
            f"{OTHER}'s goodput with `asymcc thin`, in parts of that without",
            _with_tool,
            lambda runs, n: part(goodput(runs[0], 0, n), goodput(runs[1], 0, n)),
            told="in parts of that without",
        )
    },
    "uplink": {
        "goodput": Aim(
            f"the goodput of {OTHER}'s uploads with `asymcc uplink`, in parts of that without",
            _with_tool,
            lambda runs, n: part(_uploads(runs[0], n), _uploads(runs[1], n)),
            flows=4,
            routed=True,
            told="in parts of that without",
        ),
        "queue": Aim(
            "the RTT of an empty path, in parts of that with the modem's mean queue",
            _tool_alone,
            lambda runs, n: _modem_room(runs[0]),
            flows=4,
            routed=True,
            told="the RTT with the modem's mean queue, in parts of an empty path's",
            shown=lambda value: 1 / value if value else float("inf"),
        ),
    },
}


def aims_of(name: str) -> dict[str, Aim]:
    return TOOLS.get(name, AIMS)
