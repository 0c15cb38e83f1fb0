# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Paths that grow out of earlier ones: a path that reaches a new branch is kept, and varied.

It takes an image that tells what a run reached (experiments/kernels/coverage.config). A round's paths come from what
the rounds before reached, in the order of their numbers: the same command draws the same paths.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from ...machine.uml import coverage
from ...plan.topology import DIRECTIONS
from .draw import PACKETS, Facts, rate_of, valid
from .shrink import tidy

ROUND = 16  # paths
STEPS = (1, 1, 2, 3)  # by which a path varies
LATELY = 64  # paths of a kind, by which the next is chosen
LEAST = 0.1  # of either kind
WHOLE = ("profile", "ecn", "coalesce", "offloads", "segment", "background", "thin", "uplink")
OF_FLOW = ("controller", "ack", "extra_delay", "source_sysctls", "sink_sysctls")


@dataclass
class Guide:
    reached: np.ndarray = field(default_factory=lambda: np.zeros(1 << coverage.BITS, bool))
    kept: list[dict] = field(default_factory=list)
    gains: dict[bool, list[int]] = field(default_factory=lambda: {False: [], True: []})  # new branches, of each varied?
    varied: set[str] = field(default_factory=set)  # their titles

    def learn(self, tree: dict, word: str) -> None:
        there = np.frombuffer(coverage.branches(word), bool)
        gain = int((there & ~self.reached).sum())
        self.gains[tree["title"] in self.varied].append(gain)
        if gain:
            self.kept.append(tree)
            self.reached |= there

    def share(self) -> float:
        """The part of varied paths: each kind has what it lately gained."""
        drawn, varied = (fmean(self.gains[kind][-LATELY:] or [1]) for kind in (False, True))
        return min(max(varied / (drawn + varied or 1), LEAST), 1 - LEAST)

    def path(self, drawn: dict, rng: random.Random, known: dict[str, Facts]) -> dict:
        """The drawn path, or a kept one with parts of it. The first controller is that of the drawn one."""
        if not self.kept or rng.random() >= self.share():
            return drawn
        self.varied.add(drawn["title"])
        while True:
            tree = copy.deepcopy(rng.choice(self.kept))
            tree["flows"][0]["controller"] = drawn["flows"][0]["controller"]
            for _ in range(rng.choice(STEPS)):
                rng.choice((whole, way, way, flow, number, number, change))(tree, drawn, rng)
            tree = tidy(tree)
            if cheap(tree) and together(tree, known) and valid(tree):
                return tree | {"title": drawn["title"]}


def hops(tree: dict) -> list[dict]:
    return tree["path"].get("hops", [tree["path"]])


def ways(tree: dict) -> Iterator[tuple[dict, str]]:
    for hop in hops(tree):
        for direction in DIRECTIONS:
            yield hop, direction


def whole(tree: dict, donor: dict, rng: random.Random) -> None:
    """One of the things that a path has once."""
    key = rng.choice(WHOLE)
    tree.pop(key, None)
    if key in donor:
        tree[key] = donor[key]


def way(tree: dict, donor: dict, rng: random.Random) -> None:
    """A direction, but its rate, which a run's length goes by."""
    hop, direction = rng.choice([*ways(tree)])
    theirs, of = rng.choice([*ways(donor)])
    old, new = hop[direction], copy.deepcopy(theirs[of])
    rate = old.get("trace", old)["rate"]
    new.get("trace", new)["rate"] = rate
    hop[direction] = new


def flow(tree: dict, donor: dict, rng: random.Random) -> None:
    """A flow's controller and its hosts. When it starts and stops is of its own path."""
    mine, theirs = rng.choice(tree["flows"]), rng.choice(donor["flows"])
    for key in OF_FLOW:
        mine.pop(key, None)
        if key in theirs:
            mine[key] = theirs[key]
    name = mine["controller"]
    if name in donor.get("controllers", {}):
        tree["controllers"] = tree.get("controllers", {}) | {name: donor["controllers"][name]}


def number(tree: dict, donor: dict, rng: random.Random) -> None:
    """A rate, a delay or a queue, up to three times as much or as little."""
    hop, direction = rng.choice([*ways(tree)])
    factor = math.exp(rng.uniform(-1, 1) * math.log(3))
    of = hop[direction]
    key = rng.choice(("rate", "delay", "queue"))
    if key == "rate":
        of.get("trace", of)["rate"] = f"{max(round(rate_of(of) * factor / 1000), 2)}kbit"
    elif key == "delay":
        of["delay"] = f"{round(min(max(float(of['delay'].removesuffix('ms')), 1) * factor, 300))}ms"
    else:
        of["queue"] = max(round(of["queue"] * factor), 1)


def change(tree: dict, donor: dict, rng: random.Random) -> None:
    """One change of the path more, or one less. Those of controllers hang on each other, and stay."""
    mine = tree.get("changes", [])
    of_path = [c for c in donor.get("changes", []) if "hop" in c and c["hop"] <= len(hops(tree))]
    if of_path:
        tree["changes"] = sorted([*mine, rng.choice(of_path)], key=lambda c: float(c["at"].removesuffix("s")))
    elif gone := [c for c in mine if "hop" in c]:
        mine.remove(rng.choice(gone))


def cheap(tree: dict) -> bool:
    """A path of many steps may not carry more and more packets."""
    rate = max(rate_of(hop[d]) for hop in hops(tree) for d in DIRECTIONS)
    return float(tree["run"]["duration"].removesuffix("s")) * rate / 8 / tree["path"]["mtu"] <= 4 * PACKETS


def together(tree: dict, known: dict[str, Facts]) -> bool:
    """A path has one controller that answers for a cgroup's ACKs."""
    names = {flow["controller"] for flow in tree["flows"]}
    return sum(known[name].alone for name in names if name in known) <= 1
