# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A scenario's file, and the files that it begins with.

    base = "fig10.toml"             # relative to this file
    without = ["sweep"]             # keys of the base that fall away
    title = "BIC beside Reno"
    id = "BIC"
    flows.0.controller = "bic"

Tables merge key by key. A table over a list of tables changes its entries: `flows.0.ack` that of the first, `flows.ack`
that of each. All else, lists too, takes the place of what the base has. `title` and `id` are never the base's. A base
may have a base.
"""

from __future__ import annotations

import copy
import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import LabError, reading
from . import keys
from .groups import Wrong
from .quantities import file_name

FILE_MAX = 1 << 20  # bytes
REASON_MAX = 600  # characters: a stranger's key may be in it
FILES_MAX = 8  # each of which begins with the next
OWN = ("title", "id")
Layers = list[tuple[Path, dict[str, Any]]]


@dataclass(frozen=True)
class Source:
    """A scenario as its file and its bases have it together."""

    tree: dict[str, Any]
    layers: Layers  # the file, then its bases: each with what stands in it
    which: str = ""  # the set that is loaded

    @property
    def file(self) -> Path:
        return self.layers[0][0]

    @property
    def bases(self) -> list[Path]:
        return [file for file, _ in self.layers[1:]]

    def wrong(self, key: str, reason: str) -> LabError:
        """One line, with the file that is run, and the base if the key stands there."""
        short = key if len(key) <= 60 else key[:57] + "..."
        reason = reason if len(reason) <= REASON_MAX else reason[: REASON_MAX - 3] + "..."
        where = self.file if key in ("", *OWN) else self.where(key)
        beside = "" if where == self.file else f" (it stands in {where})"
        return LabError(": ".join(filter(None, (str(self.file), short, reason))) + beside)

    def beside(self, key: str, name: str) -> Path:
        """A file that a key names, from the folder of the file that the key stands in."""
        try:
            return self.where(key).parent / file_name(name)
        except ValueError as e:
            raise LabError(str(e)) from None

    def where(self, key: str) -> Path:
        """The file that a key's value comes from; of a missing one, the file that has the table."""
        for file, said in self.layers:
            if any(keys.covers(dotted, key) for dotted in _swept(said, self.which)):
                return file
        while key:
            for file, said in self.layers:
                if keys.stands(said, key):
                    return file
            key = key.rpartition(".")[0]
        return self.file


def _swept(said: dict[str, Any], which: str) -> Iterator[str]:
    """The dotted keys of a file's sweep and of one of its sets, whose values go before all others."""
    sets = said.get("sets")
    chosen = sets.get(which) if isinstance(sets, dict) else None
    instead = chosen.get("sweep") if isinstance(chosen, dict) else None
    for table in (said.get("sweep"), chosen, instead):
        if isinstance(table, dict):
            yield from keys.leaves(table)
            points = table.get("points")
            yield from (key for p in (points if isinstance(points, list) else ()) if isinstance(p, dict) for key in p)


def read(file: Path, which: str = "") -> Source:
    """LabError (one line) if it, or one that it begins with, cannot be read."""
    tree, layers = _read(file, [])
    return Source(tree, layers, which)


def _read(file: Path, above: list[os.stat_result]) -> tuple[dict[str, Any], Layers]:
    """`above`: of the files that begin with it."""
    said, about = _parsed(file, above)
    layers = [(file, said)]
    if "base" not in said:
        if "without" in said:
            raise LabError(f"{file}: without: there is no base")
        return said, layers
    try:
        name = file_name(said["base"])
    except ValueError as e:
        raise LabError(f"{file}: base: {e}") from None
    if len(above) == FILES_MAX - 1:
        raise LabError(f"{file}: base: more than {FILES_MAX} files, each of which begins with the next")
    try:
        tree, under = _read(file.parent / name, [*above, about])
    except LabError as e:
        raise LabError(f"{file}: base: {e}") from None
    try:
        return _merged(tree, said), layers + under
    except Wrong as e:
        raise Source({}, layers).wrong(*e.args) from None


def _parsed(file: Path, above: list[os.stat_result]) -> tuple[dict[str, Any], os.stat_result]:
    try:
        about = os.stat(file)
        if any(os.path.samestat(about, other) for other in above):
            raise LabError(f"{file}: a circle: it begins with itself")
        if above:
            data = reading.read(file, FILE_MAX)
        else:
            with open(file, "rb") as opened:  # a pipe, too
                data = opened.read(FILE_MAX + 1)
            if len(data) > FILE_MAX:
                raise LabError(f"{file}: more than {FILE_MAX} bytes are no scenario")
        return tomllib.loads(data.decode()), about
    except OSError as e:
        raise LabError(f"{file}: {e.strerror}") from None
    except ValueError as e:  # of tomllib, of decode(), of a number of thousands of digits
        raise LabError(f"{file}: not TOML: {e}") from None
    except RecursionError:
        raise LabError(f"{file}: tables or lists too deep in each other") from None


def _merged(base: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    tree = copy.deepcopy({key: value for key, value in base.items() if key not in OWN})
    own = {key: value for key, value in said.items() if key not in ("base", "without")}
    without = said.get("without", [])
    if not isinstance(without, list) or not all(isinstance(key, str) for key in without):
        raise Wrong("without", "must be a list of keys")
    for key in without:
        if not keys.remove(tree, key):
            raise Wrong("without", f"{key!r:.60} is no key of the base")
    return _over(tree, own, "")


def changed(tree: dict[str, Any], key: str, table: dict[str, Any]) -> dict[str, Any]:
    """A tree with a table of a set merged into what it has at a key with dots, as a file's is into its base's."""
    nested: Any = table
    for part in reversed(key.split(".")):
        nested = {part: nested}
    return _over(tree, nested, "")


def _over(under: Any, own: Any, place: str) -> Any:
    """A value of the file over what its base has there."""
    if isinstance(own, dict) and isinstance(under, dict):
        return under | {key: _over(under.get(key), value, f"{place}{key}.") for key, value in own.items()}
    if isinstance(own, dict) and isinstance(under, list) and all(isinstance(entry, dict) for entry in under):
        each = {key: value for key, value in own.items() if not keys.numbered(key)}
        entries = [_over(entry, each, f"{place}{n}.") for n, entry in enumerate(under)]
        for key in filter(keys.numbered, own):
            if int(key) >= len(entries):
                raise Wrong(f"{place}{key}", f"no such entry: it has {len(entries)}, from 0 on")
            entries[int(key)] = _over(entries[int(key)], own[key], f"{place}{key}.")
        return entries
    return copy.deepcopy(own)
