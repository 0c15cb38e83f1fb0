# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Entries of a scenario that stand for several: equal hops, and groups of flows.

    [[path.hops]]
    count = 3
    forward = { rate = "10mbit", delay = "10ms", queue = [20, 40, 80] }
    reverse = { rate = "10mbit", delay = "10ms", queue = 80 }

    [[flows]]
    controller = ["reno", "cubic", "fast"]
    hop = "each"

A hop's `count`, and each value that is a list, say how many hops or flows an entry stands for; each takes its own
value of every list. `expand` writes them out, before the models look at them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice
from typing import Any

from .quantities import short

HOPS_MAX, FLOWS_MAX, LOADS_MAX = 8, 60, 8  # entries of path.hops, flows, background, once written out
PLACES = ("hop", "enter", "leave")


class Wrong(Exception):
    """A key of the file, and the reason."""


def expand(tree: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The scenario with each entry written out; and where each of these stands in the file: {"flows.8": "flows.1"}."""
    plain, hops = dict(tree), 1
    places: dict[str, str] = {}
    path = tree.get("path")
    if isinstance(path, dict) and isinstance(path.get("hops"), list):
        made = list(islice(_hops(path["hops"]), HOPS_MAX + 1))  # one more than fits: the models say so
        plain["path"] = path | {"hops": [hop for _, hop in made]}
        places |= {f"path.hops.{n}": f"path.hops.{i}" for n, (i, _) in enumerate(made)}
        hops = min(len(made), HOPS_MAX) or 1
    for section, most in (("flows", FLOWS_MAX), ("background", LOADS_MAX)):
        if isinstance(tree.get(section), list):
            made = list(islice(_flows(section, tree[section], hops, most), most + 1))
            plain[section] = [flow for _, flow in made]
            places |= {f"{section}.{n}": f"{section}.{i}" for n, (i, _) in enumerate(made)}
    return plain, places


def _hops(entries: list[Any]) -> Iterator[tuple[int, Any]]:
    """Each hop, and the entry that it comes from."""
    for i, entry in enumerate(entries):
        ways = {d: way for d, way in entry.items() if isinstance(way, dict)} if isinstance(entry, dict) else {}
        sizes = {f"{d}.{key}": len(values) for d, way in ways.items() for key, values in _lists(way).items()}
        if ways and "count" in entry:
            count = entry["count"]
            if type(count) is not int or not 1 <= count <= HOPS_MAX:
                raise Wrong(f"path.hops.{i}.count", f"{short(count)} is not a number from 1 to {HOPS_MAX}")
            sizes = {"count": count} | sizes
        if not sizes:
            yield i, entry
            continue
        for k in range(_size(f"path.hops.{i}", sizes, HOPS_MAX)):
            yield i, {key: _share(ways[key], k) if key in ways else v for key, v in entry.items() if key != "count"}


def _flows(section: str, entries: list[Any], hops: int, most: int) -> Iterator[tuple[int, Any]]:
    """Each flow, and the entry that it comes from. Neighbours with the same list of places take turns."""
    made: list[tuple[Any, int, Any, int]] = []  # what neighbours share, place, entry, flows
    for i, entry in enumerate(entries):
        if isinstance(entry, dict) and entry.get("hop") == "each":
            entry = {"hop": list(range(1, hops + 1))} | {key: v for key, v in entry.items() if key != "hop"}
        lists = _lists(entry) if isinstance(entry, dict) else {}
        size = _size(f"{section}.{i}", {key: len(values) for key, values in lists.items()}, most) if lists else 1
        ways = [lists.get(key) for key in PLACES]
        made.append((ways if any(ways) else i, i, entry, size))
    for _, group in groupby(made, lambda one: one[0]):
        neighbours = list(group)
        for k in range(neighbours[0][3]):
            yield from ((i, _share(entry, k)) for _, i, entry, _ in neighbours)


def _lists(table: dict[str, Any]) -> dict[str, list[Any]]:
    """Its values of which each hop or flow takes one; `rewrite` is a list of its own."""
    return {key: value for key, value in table.items() if isinstance(value, list) and key != "rewrite"}


def _share(entry: Any, k: int) -> Any:
    """The k-th one's part of it."""
    return entry | {key: values[k] for key, values in _lists(entry).items()} if isinstance(entry, dict) else entry


def _size(place: str, sizes: dict[str, int], most: int) -> int:
    """The size that all of them agree upon."""
    first, size = next(iter(sizes.items()))
    if not 1 <= size <= most:
        raise Wrong(f"{place}.{first}", f"must have 1 to {most} values, not {size}")
    for key, other in sizes.items():
        if other != size:
            raise Wrong(f"{place}.{key}", f"must have as many values as {first} asks for, {size}, not {other}")
    return size
