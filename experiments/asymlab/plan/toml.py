# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Scenarios as TOML."""

from __future__ import annotations

import json
import os
import re


def bare(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def inline(value) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{bare(k)} = {inline(v)}" for k, v in value.items()) + " }"
    if value is None:
        raise TypeError("None")
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(inline, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def plain(tree: dict) -> str:
    """Any tree, a line for each of its keys."""
    return "".join(f"{bare(key)} = {inline(value)}\n" for key, value in tree.items())


def toml(tree: dict) -> str:
    """A scenario's tree as its file."""
    tables = [
        ("[sysctls]", tree.get("sysctls", {})),
        ("[path]", {k: v for k, v in tree["path"].items() if k != "hops"}),
        *(("[[path.hops]]", hop) for hop in tree["path"].get("hops", ())),
        ("[thin]", tree.get("thin", {})),
        ("[uplink]", tree.get("uplink", {})),
        *((f"[controllers.{name}]", given) for name, given in tree.get("controllers", {}).items()),
        *((f"[[{what}]]", item) for what in ("flows", "background", "changes") for item in tree.get(what, ())),
        ("[run]", tree["run"]),
        *(("[[sweep.points]]", point) for point in tree.get("sweep", {}).get("points", ())),
    ]
    lines = [f"{key} = {inline(value)}" for key, value in tree.items() if not isinstance(value, dict | list)]
    for heading, values in tables:
        if values:
            lines += ["", heading, *(f"{bare(k)} = {inline(v)}" for k, v in values.items())]
    return "\n".join(lines) + "\n"
