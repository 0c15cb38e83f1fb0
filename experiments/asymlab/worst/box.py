# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A box of paths: a point of the unit cube is one of them, as the tree of a scenario."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from .. import LabError
from ..plan.base import parsed
from ..plan.quantities import Rate, Share, Time, short
from ..plan.queues import ANYWHERE

DEFAULT = Path(__file__).with_name("box.toml")
OF_TOOL = {"uplink": Path(__file__).with_name("uplink.toml")}
MTU = 1500
NONE_BELOW = 0.2  # of a quantity that may be none: in this part of its range it is
DECADES = 100  # from the least to the most of the rest, where the box begins at none
LEAST_KBIT = 2  # of any rate
QUEUE_MAX = 10**6  # packets, of any queue of a scenario
DIGITS = 3  # of a number in a scenario
PACKETS, ROUNDS, LEAST_S, MOST_S = 10_000, 60, 6, 30  # of a run
ROUTED_S = 20  # of one with a router, at least: its shaper searches first
HOME = {"rate": "1gbit", "delay": "0ms", "queue": 1000}  # between the router and the right hosts

Point = tuple[float, ...]


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def kbit(rate: float, least: float) -> str:
    return f"{rounded(max(rate, least)):.10g}kbit"


@dataclass(frozen=True)
class Quantity:
    """A quantity of paths. `neutral` is its value on a plain path, `tick` its least that is not 0."""

    name: str
    kind: Any  # of its text; None: a plain number
    unit: str
    scale: float  # units in what the kind makes of a text
    neutral: float
    whole: bool = False
    bounds: tuple[float, float] = (0, float("inf"))
    tick: float = 0


@dataclass(frozen=True)
class Choice:
    name: str
    values: tuple[str, ...]  # all that there are; the first is a plain path's

    @property
    def neutral(self) -> str:
        return self.values[0]


QUANTITIES = (
    Quantity("rate", Rate, "kbit", 1e3, float("nan"), bounds=(100, 1e6)),
    Quantity("ratio", None, "", 1, 1, bounds=(1, 2000)),
    Quantity("rtt", Time, "ms", 1e3, float("nan"), bounds=(2, 2000)),
    Quantity("queue", None, "", 1, 1, bounds=(0.01, 100)),
    Quantity("back_queue", None, "", 1, 200, whole=True, bounds=(1, 10_000)),
    Quantity("loss", Share, "%", 0.01, 0, bounds=(0, 50), tick=1e-4),
    Quantity("burst", None, "", 1, 1, bounds=(1, 50)),
    Quantity("jitter", Time, "ms", 1e3, 0, bounds=(0, 500), tick=0.01),
    Quantity("reorder", Share, "%", 0.01, 0, bounds=(0, 50), tick=1e-4),
    Quantity("uploads", None, "", 1, 0, whole=True, bounds=(0, 50)),
    Quantity("change", None, "", 1, 1, bounds=(0.01, 100)),
    Quantity("back_change", None, "", 1, 1, bounds=(0.01, 100)),
    Quantity("farther", Time, "ms", 1e3, 0, bounds=(0, 2000), tick=0.01),
)
CHOICES = (Choice("ack", ("delayed", "every")), Choice("aqm", ("none", *ANYWHERE)))
OF_NAME: dict[str, Quantity | Choice] = {known.name: known for known in (*QUANTITIES, *CHOICES)}


@dataclass(frozen=True)
class Range:
    """A quantity from `low` to `high` in its unit, in equal steps of its logarithm."""

    of: Quantity
    low: float
    high: float

    def value(self, x: float) -> float:
        low = self.low
        if low == 0 < self.high:
            if x < NONE_BELOW:
                return 0
            low, x = max(self.high / DECADES, self.of.tick), (x - NONE_BELOW) / (1 - NONE_BELOW)
        exact = low * (self.high / low) ** x if low < self.high else low
        return round(exact) if self.of.whole else rounded(exact)

    def has(self, value: Any) -> bool:
        return self.low <= value <= self.high or value == self.of.neutral

    @property
    def plain(self) -> float | None:
        """Its place on a plain path, or the nearest; None: a plain path may have any."""
        neutral = self.of.neutral
        if math.isnan(neutral):
            return None
        if neutral <= self.low or self.low == 0:
            return 0.0
        return min(math.log(neutral / self.low) / math.log(self.high / self.low), 1.0) if self.low < self.high else 0.0

    @property
    def ends(self) -> list[float]:
        return [0.0, 1.0] if self.low < self.high else []


@dataclass(frozen=True)
class Values:
    of: Choice
    values: tuple[str, ...]

    def value(self, x: float) -> str:
        return self.values[min(int(x * len(self.values)), len(self.values) - 1)]

    def has(self, value: Any) -> bool:
        return value in self.values or value == self.of.neutral

    @property
    def plain(self) -> float:
        return self.ends[self.values.index(self.of.neutral)] if self.of.neutral in self.values else self.ends[0]

    @property
    def ends(self) -> list[float]:
        return [(at + 0.5) / len(self.values) for at in range(len(self.values))]


@dataclass(frozen=True)
class Box:
    sides: tuple[Range | Values, ...]

    def path(self, point: Point) -> dict[str, Any]:
        """The values of a point, by their names; a plain path's for what the box does not have."""
        values: dict[str, Any] = {known.name: known.neutral for known in OF_NAME.values()}
        return values | {side.of.name: side.value(x) for side, x in zip(self.sides, point)}

    def plain(self, seed: int) -> Point:
        """A path without what is odd, of a rate and an RTT that the seed draws."""
        drawn = np.random.default_rng(seed).uniform(0.2, 0.8, len(self.sides))
        return tuple(float(x if side.plain is None else side.plain) for side, x in zip(self.sides, drawn))

    def ends(self, plain: Point) -> list[tuple[int, float]]:
        """All ends of all sides, but where the plain path is."""
        return [(at, x) for at, side in enumerate(self.sides) for x in side.ends if abs(x - plain[at]) > 1e-9]


def read(file: Path) -> Box:
    """LabError names the file, the key, and what it may have."""
    tree, _ = parsed(file, regular=True)
    if unknown := sorted(tree.keys() - OF_NAME.keys()):
        raise LabError(f"{file}: {unknown[0][:40]}: not a quantity; there are {', '.join(OF_NAME)}")
    if missing := [name for name in ("rate", "rtt") if name not in tree]:
        raise LabError(f"{file}: {missing[0]}: a box has it")
    return Box(tuple(_side(file, known, tree[name]) for name, known in OF_NAME.items() if name in tree))


def _side(file: Path, known: Quantity | Choice, given: Any) -> Range | Values:
    where = f"{file}: {known.name}"
    if isinstance(known, Choice):
        if not isinstance(given, list) or not given or any(value not in known.values for value in given):
            raise LabError(f"{where}: a list of {', '.join(known.values)}")
        return Values(known, tuple(dict.fromkeys(given)))
    if not isinstance(given, list) or len(given) != 2:
        raise LabError(f"{where}: the least and the most, a list of two")
    low, high = (_number(where, known, value) for value in given)
    least, most = known.bounds
    if not least <= low <= high <= most:
        raise LabError(f"{where}: from {least:g} to {most:g}{known.unit} at the most, the less first")
    if known.whole and (low % 1 or high % 1):
        raise LabError(f"{where}: whole numbers")
    if any(0 < value < known.tick for value in (low, high)):
        raise LabError(f"{where}: 0, or {known.tick:g}{known.unit} and more")
    return Range(known, float(low), float(high))


def _number(where: str, known: Quantity, value: Any) -> float:
    if known.kind is None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise LabError(f"{where}: {short(value)} is no number")
        return value
    try:
        return TypeAdapter(known.kind).validate_python(value) / known.scale
    except ValidationError as e:
        raise LabError(f"{where}: {e.errors()[0]['msg'].removeprefix('Value error, ')}") from None


# --- a scenario ----------------------------------------------------------------------------


def packets(path: dict[str, Any]) -> int:
    """The limit of the data's queue."""
    return min(max(round(path["queue"] * path["rate"] * path["rtt"] / 8 / MTU), 2), QUEUE_MAX)


def seconds(path: dict[str, Any]) -> int:
    """A run's length: PACKETS or ROUNDS, between LEAST_S and MOST_S."""
    pps = path["rate"] * 1000 / 8 / MTU
    return round(min(max(PACKETS / pps, ROUNDS * path["rtt"] / 1000, LEAST_S), MOST_S))


def chance(path: dict[str, Any]) -> bool:
    """Whether another seed gives other runs."""
    return bool(path["loss"] or path["jitter"] or path["reorder"] or path["aqm"] == "pie")


def changes(path: dict[str, Any], at_s: int) -> list[dict[str, Any]]:
    """Those of the path, at that time."""
    ways: dict[str, dict[str, str]] = {"forward": {}, "reverse": {}}
    for way, name, ratio in (("forward", "change", 1), ("reverse", "back_change", path["ratio"])):
        if path[name] != 1:
            ways[way]["rate"] = kbit(path["rate"] / ratio * path[name], LEAST_KBIT)
    if path["farther"]:
        ways["reverse"]["delay"] = f"{path['rtt'] / 2 + path['farther']:g}ms"
    return [{"at": f"{at_s}s", "direction": way} | given for way, given in ways.items() if given]


def tree(path: dict[str, Any], flows: list[dict], routed: bool = False) -> dict[str, Any]:
    """A scenario of that path with these flows toward its receivers, which may have a router before them."""
    half = f"{path['rtt'] / 2:g}ms"
    forward: dict[str, Any] = {"rate": kbit(path["rate"], 0), "delay": half, "queue": packets(path)}
    reverse: dict[str, Any] = {"rate": kbit(path["rate"] / path["ratio"], LEAST_KBIT), "delay": half}
    reverse["queue"] = path["back_queue"]
    if path["loss"]:
        forward["loss"] = f"{path['loss']:g}%"
        if path["burst"] > 1:
            forward["loss_burst"] = path["burst"]
    if jitter := min(path["jitter"], path["rtt"] / 2):
        for way in (forward, reverse):
            way["jitter"] = f"{jitter:g}ms"
    elif path["reorder"]:  # a path has one of both
        forward["reorder"] = f"{path['reorder']:g}%"
    if path["aqm"] != "none":
        forward[path["aqm"]] = {}
    ways = {"forward": forward, "reverse": reverse}
    whole = max(seconds(path), ROUTED_S if routed else 0)
    own = [flow | {"ack": path["ack"]} for flow in flows]
    if path["uploads"]:
        own.append({"controller": "cubic", "direction": "reverse", "count": path["uploads"]})
    scenario: dict[str, Any] = {
        "title": "a path",
        "id": "WORST",
        "profile": "tuned",
        "path": {"mtu": MTU} | ({"hops": [ways, {way: HOME for way in ways}]} if routed else ways),
        "flows": own,
        "run": {"duration": f"{whole}s", "measure_from": f"{max(whole // 4, 1)}s", "traffic": "plain"},
    }
    if changed := changes(path, whole // 2):
        scenario["changes"] = changed
    return scenario
