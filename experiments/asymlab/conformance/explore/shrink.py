# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The smallest scenario that breaks the same."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator

from pydantic import TypeAdapter

from ...plan.quantities import Time
from ...plan.queues import RULES
from ...plan.toml import toml
from ...plan.topology import DIRECTIONS
from .draw import OBJECT, valid
from .invariants import Broken


def without(tree: dict, *keys) -> dict:
    found = copy.deepcopy(tree)
    place = found
    for key in keys[:-1]:
        place = place[key]
    del place[keys[-1]]
    return found


def replaced(tree: dict, value, *keys) -> dict:
    found = copy.deepcopy(tree)
    place = found
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return found


def tidy(tree: dict) -> dict:
    """Without what belongs to flows that are no more."""
    names = {f["controller"] for f in tree["flows"]}
    tree = copy.deepcopy(tree)
    tree["controllers"] = {
        name: given for name, given in tree.get("controllers", {}).items() if name in names and given
    }
    tree["changes"] = [c for c in tree.get("changes", []) if c.get("controller", next(iter(names))) in names]
    return {key: value for key, value in tree.items() if value not in ({}, [])}


DURATION = TypeAdapter(Time)
ROUND = re.compile(r"([0-9.]+)([a-z%]+)")


def rounder(text: str) -> str | None:
    """The quantity with one digit, if it has more."""
    if not (parts := ROUND.fullmatch(text)):
        return None
    number, unit = parts.groups()
    short = f"{float(f'{float(number):.0e}'):g}{unit}"
    return short if short != text and float(number) else None


def simpler(tree: dict) -> Iterator[dict]:
    """Smaller scenarios, the boldest steps first."""
    for i in range(len(tree["flows"])):
        if len(tree["flows"]) > 1:
            yield without(tree, "flows", i)
    for what in ("background", "changes"):
        for i in range(len(tree.get(what, []))):
            yield without(tree, what, i)
    hops = tree["path"].get("hops")
    for k in range(len(hops or [])):
        less = without(tree, "path", "hops", k)
        less["changes"] = [c for c in less.get("changes", []) if "hop" not in c]
        less["flows"] = [
            {key: value for key, value in f.items() if key not in ("enter", "leave")} for f in less["flows"]
        ]
        if len(less["path"]["hops"]) == 1:
            less["path"] = without(less, "path", "hops")["path"] | less["path"]["hops"][0]
        yield less
    ways = [("path", *(("hops", k) if hops else ()), d) for k in range(len(hops or [0])) for d in DIRECTIONS]
    seconds = DURATION.validate_python(tree["run"]["duration"]) // 10**6
    for shorter in (seconds // 2, seconds - 2):
        if shorter >= 2:
            less = replaced(tree, f"{shorter}s", "run", "duration")
            yield replaced(less, f"{max(shorter // 4, 1)}s", "run", "measure_from")
    for way in ways:
        place = tree
        for step in way:
            place = place[step]
        for key in (
            *("loss_burst", "loss", "reorder", "duplicate", "disorder", "jitter", "policer", *RULES),
            *("strip", "rewrite"),
        ):
            if key in place:
                yield without(tree, *way, key)
        if "trace" in place and isinstance(place["trace"], dict):
            yield replaced(without(tree, *way, "trace"), place["trace"]["rate"], *way, "rate")
    for what in ("segment", "coalesce", "offloads", "ip", "ecn", "sysctls", "profile", "thin"):
        if what in tree:
            yield without(tree, what)
    for key in tree.get("thin", {}):
        yield without(tree, "thin", key)
    for name, given in tree.get("controllers", {}).items():
        for key in [key for key in given if key != OBJECT]:
            yield without(tree, "controllers", name, key)
    for i, flow in enumerate(tree["flows"]):
        for key in (
            *("resume", "stop", "size", "extra_delay", "ack", "enter", "leave", "start", "direction"),
            *("source_sysctls", "sink_sysctls", "hosts_of", "count"),
        ):
            if key in flow:
                yield without(tree, "flows", i, key)
    for way in ways:
        place = tree
        for step in way:
            place = place[step]
        for key in ("rate", "delay", "loss", "jitter", "reorder", "duplicate"):
            if key in place and (short := rounder(place[key])):
                yield replaced(tree, short, *way, key)
        if (queue := int(f"{place['queue']:.0e}".split("e")[0]) * 10 ** (len(str(place["queue"])) - 1)) != place[
            "queue"
        ]:
            yield replaced(tree, queue, *way, "queue")


def size(tree: dict) -> int:
    return len(json.dumps(tree))


def shrink(tree: dict, invariant: str, attempt: Callable[[dict], list[Broken]], runs: int) -> dict:
    """The smallest tree found that still breaks it."""
    tried, best = {toml(tree)}, tree
    progress = True
    while progress:
        progress = False
        for less in map(tidy, simpler(best)):
            if toml(less) in tried or not valid(less):
                continue
            if not runs:
                return best
            runs -= 1
            tried.add(toml(less))
            if any(b.invariant == invariant for b in attempt(less)):
                best, progress = less, True
                break
    return best
