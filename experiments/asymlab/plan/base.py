# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A scenario's file, the files that it begins with, and the cases of a file that has several.

    base = "fig10.toml"             # relative to this file
    without = ["sweep"]             # keys of the base that fall away
    title = "BIC beside Reno"
    id = "BIC"
    flows.0.controller = "bic"

Tables merge key by key. A table over a list of tables changes its entries: `flows.0.ack` that of the first, `flows.ack`
that of each. All else, lists too, takes the place of what the base has. `title` and `id` are never the base's. A base
may have a base.

    ack = "every"                   # what stands before the cases is of each

    [cases.fig10]
    title = "Reno alone"
    ...

    [cases.bic]
    base = "fig10"                  # a case of this file; of another: FILE:CASE
    ...

A case without a base begins with what the file has beside its cases. FILE:CASE is that case, FILE all of them.
"""

from __future__ import annotations

import copy
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import LabError, reading
from ..paths import split
from . import keys
from .groups import Wrong
from .quantities import file_name, short

FILE_MAX = 1 << 20  # bytes
FILES_MAX = 8  # each of which begins with the next
REASON_MAX = 600  # characters: a stranger's key may be in it
OWN = ("title", "id")
CASE = re.compile(r"[a-z0-9-]{1,40}")
Layers = list[tuple[Path, dict[str, Any]]]
Above = list[tuple[os.stat_result, str]]  # files and cases that begin with one


@dataclass(frozen=True)
class Source:
    """A scenario as its file and its bases have it together."""

    tree: dict[str, Any]
    layers: Layers  # the file, then its bases: each with what stands in it
    which: str = ""  # the set that is loaded
    case: str = ""  # of a file that has several

    @property
    def file(self) -> Path:
        return self.layers[0][0]

    @property
    def name(self) -> str:
        """The word for commands."""
        return named(self.file, self.case)

    @property
    def bases(self) -> list[Path]:
        return [file for file, _ in self.layers[1:]]

    def wrong(self, key: str, reason: str) -> LabError:
        """One line, with the file that is run, and the base if the key stands there."""
        short = key if len(key) <= 60 else key[:57] + "..."
        reason = reason if len(reason) <= REASON_MAX else reason[: REASON_MAX - 3] + "..."
        where = self.file if key in ("", *OWN) else self.where(key)
        beside = "" if where == self.file else f" (it stands in {where})"
        return LabError(": ".join(filter(None, (self.name, short, reason))) + beside)

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


def named(file: Path, case: str) -> str:
    return f"{file}:{case}" if case else str(file)


def cases(file: Path) -> list[str]:
    """The names of a file's cases; none: it is one scenario. LabError (one line) if it cannot be read."""
    return list(_cases(file, parsed(file)[0]))


def sources(file: Path, which: str = "") -> list[Source]:
    """A file's scenario, or those of its cases; of FILE:CASE that one. LabError (one line) if it, or one that it
    begins with, cannot be read."""
    path, case = split(file)
    whole, about = parsed(path)
    there = _cases(path, whole)
    if case and case not in there:
        raise LabError(f"{path}: no case {case!r}; there are {', '.join(there) or 'none'}")
    chosen = [case] if case else [*there] or [""]
    return [Source(*_read(path, one, whole, about, []), which, one) for one in chosen]


def _cases(file: Path, whole: dict[str, Any]) -> dict[str, Any]:
    there = whole.get("cases", {})
    if not isinstance(there, dict) or "cases" in whole and not there:
        raise LabError(f"{file}: cases: must be tables, [cases.NAME]")
    for name, case in there.items():
        if not CASE.fullmatch(name) or not isinstance(case, dict):
            raise LabError(f"{file}: cases.{short(name)}: must be a table, called by small letters, digits and hyphens")
    return there


def _read(
    file: Path, case: str, whole: dict[str, Any], about: os.stat_result, above: Above
) -> tuple[dict[str, Any], Layers]:
    """A scenario with its bases. `above`: those that begin with it."""
    if any(os.path.samestat(about, other) and case == one for other, one in above):
        raise LabError(f"{named(file, case)}: a circle: it begins with itself")
    above = [*above, (about, case)]
    if not case:
        return _over_base(file, case, whole, whole, above)
    said = whole["cases"][case]
    if "base" in said:
        return _over_base(file, case, whole, said, above)
    shared = {key: value for key, value in whole.items() if key != "cases"}
    tree, under = _over_base(file, "", whole, shared, above)
    return _with(tree, said, [(file, said), *under], case)


def _over_base(
    file: Path, case: str, whole: dict[str, Any], said: dict[str, Any], above: Above
) -> tuple[dict[str, Any], Layers]:
    """A file or a case, over the base that it names. `whole`: all that stands in the file."""
    here = named(file, case)
    if "base" not in said:
        if "without" in said:
            raise LabError(f"{here}: without: there is no base")
        return said, [(file, said)]
    try:
        name = file_name(said["base"])
    except ValueError as e:
        raise LabError(f"{here}: base: {e}") from None
    if len(above) == FILES_MAX:
        raise LabError(f"{here}: base: more than {FILES_MAX} files, each of which begins with the next")
    try:
        if case and CASE.fullmatch(name):
            path, one, about = file, name, above[-1][0]
        else:
            path, one = split(file.parent / name)
            whole, about = parsed(path, regular=True)
        there = _cases(path, whole)
        if there and not one:
            raise LabError(f"{path}: has several cases, FILE:CASE is one: {', '.join(there)}")
        if one and one not in there:
            raise LabError(f"{path}: no case {one!r}; there are {', '.join(there) or 'none'}")
        tree, under = _read(path, one, whole, about, above)
    except LabError as e:
        raise LabError(f"{here}: base: {e}") from None
    return _with(tree, said, [(file, said), *under], case)


def _with(tree: dict[str, Any], said: dict[str, Any], layers: Layers, case: str) -> tuple[dict[str, Any], Layers]:
    try:
        return _merged(tree, said), layers
    except Wrong as e:
        raise Source({}, layers, "", case).wrong(*e.args) from None


def parsed(file: Path, regular: bool = False) -> tuple[dict[str, Any], os.stat_result]:
    """The tree of a TOML file, and what the file system tells of it. LabError for any other, or if it is a pipe and
    must be a regular file."""
    try:
        about = os.stat(file)
        if regular:
            data = reading.read(file, FILE_MAX)
        else:
            with open(file, "rb") as opened:  # a pipe, too
                data = opened.read(FILE_MAX + 1)
            if len(data) > FILE_MAX:
                raise LabError(f"{file}: more than {FILE_MAX} bytes are no scenario")
        return _toml(data), about
    except OSError as e:
        raise LabError(f"{file}: {e.strerror}") from None
    except ValueError as e:  # of tomllib, of decode(), of a number of thousands of digits
        raise LabError(f"{file}: not TOML: {e}") from None
    except RecursionError:
        raise LabError(f"{file}: tables or lists too deep in each other") from None


@lru_cache(8)
def _toml(data: bytes) -> dict[str, Any]:
    """Whoever changes it changes a copy."""
    return tomllib.loads(data.decode())


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
