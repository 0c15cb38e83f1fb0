# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Scenarios for tests: one Reno flow over one bottleneck, and what a test changes of it."""

from __future__ import annotations

import copy
from pathlib import Path

from asymlab.plan.toml import plain

WAY = {"rate": "10mbit", "delay": "20ms", "queue": 100}
BASE: dict = {
    "title": "test",
    "id": "TEST",
    "ack": "every",
    "profile": "ns2",
    "path": {"mtu": 1000, "forward": {**WAY}, "reverse": {**WAY}},
    "flows": [{"controller": "reno"}],
    "run": {"duration": "3s", "measure_from": "1s"},
}

FAST = {"flow": {"controller": "fast"}}
FORMOSA = {"flow": {"controller": "formosa"}}
PLAIN = {"run": {"traffic": "plain"}}
CAPTURE = {"run": {"capture": True}}
TUNED = {"profile": "tuned"}
LINUX = {"profile": "linux"}


def alpha(packets: int) -> dict:
    return {"controllers": {"fast": {"alpha": packets}}}


def merge(tree: dict, part: dict) -> dict:
    """Tables merge, lists grow, and any other value takes the place of the tree's; None leaves the key out."""
    for key, value in part.items():
        if value is None:
            tree.pop(key, None)
        elif isinstance(value, dict) and isinstance(tree.get(key), dict):
            merge(tree[key], value)
        elif isinstance(value, list) and isinstance(tree.get(key), list):
            tree[key] = tree[key] + copy.deepcopy(value)
        else:
            tree[key] = copy.deepcopy(value)
    return tree


def hop(forward: dict | None = None, reverse: dict | None = None) -> dict:
    """One hop of a chain: 10 Mbit/s, 10 ms, 50 packets each way, and what differs."""
    way = {"rate": "10mbit", "delay": "10ms", "queue": 50}
    return {"forward": merge({**way}, forward or {}), "reverse": merge({**way}, reverse or {})}


# Three hops instead of one; and two more flows, on parts of them.
CHAIN = {"hops": 3 * [hop()]}
CROSSING = {
    "flows": [{"controller": "reno", "enter": 2, "leave": 3}, {"controller": "reno", "enter": 3, "extra_delay": "2ms"}]
}


def side_by_side(*ways: dict, reverse: dict | None = None, **flow) -> dict:
    """A hop for each of these forward directions, and on each a flow of its own: one machine for all."""
    hops = [hop(WAY | way, WAY | (reverse or {})) for way in ways]
    return {"hops": hops, "flow": flow | {"hop": "each"}}


def build(*parts: dict, **more) -> dict:
    """BASE and what differs, as merge() has it.

    `flow` is the first flow; `mtu`, `forward`, `reverse` and `hops` belong to the path. Hops replace both directions.
    """
    tree = copy.deepcopy(BASE)
    for part in (*parts, more):
        part = dict(part)
        if "flow" in part:
            merge(tree["flows"][0], part.pop("flow"))
        path = {key: part.pop(key) for key in ("mtu", "forward", "reverse", "hops") if key in part}
        if "hops" in path:
            path = {"forward": None, "reverse": None} | path
        if path:
            merge(tree, {"path": path})
        merge(tree, part)
    return tree


def toml(tree: dict) -> str:
    """The tree as a file, with a section for each table, so that a test may append to the text."""
    values, sections = {}, ""
    for key, value in tree.items():
        listed = isinstance(value, list)
        if isinstance(value, dict) or listed and all(isinstance(item, dict) for item in value):
            heading = f"[[{key}]]" if listed else f"[{key}]"
            sections += "".join(f"\n{heading}\n{plain(table)}" for table in (value if listed else [value]))
        else:
            values[key] = value
    return plain(values) + sections


def write(folder: Path, *parts: dict, append: str = "", name: str = "test.toml", **more) -> Path:
    file = folder / name
    file.write_text(toml(build(*parts, **more)) + append)
    return file


SCENARIO = toml(BASE)
