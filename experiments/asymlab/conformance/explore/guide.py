# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Coverage as a guide: a path on which something happens that happened on none before is kept, and varied.

A run shows what happened by its counters: those of its hosts' TCP, of senders and receivers, and those of its
controllers. Its signature has each counter with the power of two that it reached. All follows from the seed and from
the runs: paths are drawn a generation at a time, whose length hangs neither on the host's cores nor on its time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...results import store
from .draw import valid
from .shrink import replaced, tidy, without

GENERATION = 16  # paths that are drawn before the next is learned from
LAST = 24  # paths of each kind, drawn or varied, that tell what the kind brings
LEAST = 0.1  # of all paths, for each kind
WHOLE = ("changes",)  # taken as a whole: a command may need the one before it
KEPT = ("title", "id", "run")  # of a path that is varied

Signature = frozenset[tuple[str, int]]
Place = tuple[str | int, ...]


def signature(run: store.Run) -> Signature:
    agent = run.record["agent"]
    hosts = *agent["marks"]["end"]["tcp"].values(), *agent["receivers"].values()
    shown = agent["controllers"] | ({"thin": agent["thin"]} if "thin" in agent else {})
    ours = {f"{name}.{c['name']}": c["value"] for name, of in shown.items() for c in of.get("counters", [])}
    return frozenset((name, value.bit_length()) for each in (*hosts, ours) for name, value in each.items() if value > 0)


def places(tree, at: Place = ()) -> Iterator[Place]:
    """The places where a tree has a value, or a part of itself."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if at or key not in KEPT:
            yield (*at, key)
            if isinstance(value, (dict, list)) and key not in WHOLE:
                yield from places(value, (*at, key))


def grafted(tree: dict, other: dict, place: Place) -> dict:
    """The tree with what another has at a place, and without it if that has nothing there."""
    value = other
    try:
        for key in place:
            value = value[key]  # type: ignore[index]
    except (LookupError, TypeError):
        return without(tree, *place)
    return replaced(tree, value, *place)


def vary(rng: random.Random, tree: dict, other: dict, alone: set[str]) -> dict:
    """The tree with one or two values of another. `alone`: of these a scenario has one at most."""
    there = [*dict.fromkeys((*places(tree), *places(other)))]
    while True:
        varied = tree
        try:
            for place in rng.sample(there, rng.choice((1, 2))):
                varied = grafted(varied, other, place)
            varied = tidy(varied)
        except (LookupError, TypeError):  # no such part in this tree, or one that each scenario has
            continue
        if varied != tree and len({f["controller"] for f in varied["flows"]} & alone) < 2 and valid(varied):
            return varied


@dataclass
class Guide:
    """The marks that a search has seen so far, and the paths that showed them first."""

    seen: Counter[tuple[str, int]] = field(default_factory=Counter)  # in how many runs
    corpus: list[tuple[dict, Signature]] = field(default_factory=list)
    varied: set[str] = field(default_factory=set)  # names of paths
    new: dict[bool, list[int]] = field(default_factory=lambda: {True: [], False: []})  # of varied paths, and of others

    def learn(self, name: str, tree: dict, of_run: Signature) -> None:
        new = sum(mark not in self.seen for mark in of_run)
        self.new[name in self.varied].append(new)
        self.seen.update(of_run)
        if new:
            self.corpus.append((tree, of_run))

    def share(self) -> float:
        """The share of paths that are varied: that of the new marks which variations bring. At first every draw
        brings many."""
        varied, drawn = ((1 + sum(new[-LAST:])) / (1 + len(new[-LAST:])) for new in (self.new[True], self.new[False]))
        return min(max(varied / (varied + drawn), LEAST), 1 - LEAST)

    def next(self, name: str, rng: random.Random, fresh: dict, alone: set[str]) -> dict:
        """A variation of a path that is kept, or the draw as it is. The more marks a path has that no other has shown,
        the more often it is varied."""
        rare = [sum(self.seen[mark] == 1 for mark in of_run) for _, of_run in self.corpus]
        if rng.random() >= self.share() or not any(rare):
            return fresh
        [(tree, _)] = rng.choices(self.corpus, rare)
        self.varied.add(name)
        return vary(rng, tree, fresh, alone) | {"title": f"{fresh['title']}, after {tree['title'].partition(',')[0]}"}
