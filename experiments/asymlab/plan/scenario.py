# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Scenario files: what a user writes (TOML), checked, and expanded into cases.

`sweep` gives lists of values for dotted keys, `sweep.points` lists of tables for keys that change together, and
`sweep.pairs` controllers of which each meets each, itself included, as the first two flows. The product of all makes
the cases. `sets` changes keys for the quick and the full suite. model.py has all other keys, base.py reads the file
and those that it begins with, and groups.py writes out the entries that stand for several.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from .. import LabError
from . import delays, groups, keys, opportunities, programs, synthetic
from .anyone import named
from .base import Source, changed, sources
from .branch import draws
from .crossing import Background, Flow
from .delays import Delays
from .groups import Wrong
from .model import BIN_MS, Change, Direction, Scenario
from .objects import File
from .opportunities import Opportunities
from .quantities import RATE_MAX, RATE_MIN
from .queues import Red, Synthetic
from .reasons import explained

__all__ = ["BIN_MS", "Background", "Case", "Change", "Direction", "Flow", "Red", "SETS", "Scenario", "load"]
SETS = ("quick", "full")
PAIR = ("flows.0.controller", "flows.1.controller")
SEEDS_MAX, RUNS_MAX = 1000, 20_000  # of each case; of a file


@dataclass(frozen=True)
class Case:
    """One point of a scenario's sweep."""

    scenario: Scenario
    point: dict[
        str, Any
    ]  # the swept keys and this point's values; of `points` the first key, of a list its first value
    source: Source
    which: str  # the set it was taken from
    seeds: tuple[int, ...]
    places: dict[str, str]  # of each flow and hop: where it stands in the file
    files: dict[str, File]  # of the controllers that are given by their paths
    packs: tuple[programs.Contents, ...] = ()  # of its programs

    @property
    def file(self) -> Path:
        return self.source.file

    @property
    def name(self) -> str:
        return " ".join([self.scenario.id] + [str(v) for v in self.point.values()])

    def wrong(self, said: str) -> LabError:
        """An error that is found later than by load(): a key, ": ", the reason."""
        key, _, reason = _as_written(said, self.places).partition(": ")
        return self.source.wrong(key, reason)


def load(
    file: Path, which: str = "quick", seeds: tuple[int, ...] | None = None, settings: dict[str, Any] | None = None
) -> list[Case]:
    """The points of all sweeps of a file, or of FILE:CASE; `settings`: keys and values in place of its own. LabError
    (one line: file, key, reason) for anything wrong in it."""
    return [case for source in sources(file, which) for case in _loaded(source, which, seeds, settings or {})]


def _loaded(source: Source, which: str, seeds: tuple[int, ...] | None, settings: dict[str, Any]) -> list[Case]:
    try:
        return _cases(source, which, seeds, settings)
    except Wrong as e:
        raise source.wrong(*e.args) from None
    except RecursionError:
        raise LabError(f"{source.name}: tables or lists too deep in each other") from None


def _cases(source: Source, which: str, seeds: tuple[int, ...] | None, instead: dict[str, Any]) -> list[Case]:
    tree = dict(source.tree)
    sweep, sets = tree.pop("sweep", {}), tree.pop("sets", {})
    _tables({"sweep": sweep, "sets": sets})
    _tables({f"sets.{name}": value for name, value in sets.items()})
    if unknown := sorted(set(sets) - set(SETS)):
        raise Wrong(f"sets.{unknown[0]}", f"unknown key (sets are {', '.join(SETS)})")
    changes = dict(sets.get(which, {}))
    count = changes.pop("seeds", 1)
    if type(count) is not int or not 0 <= count <= SEEDS_MAX:
        raise Wrong(f"sets.{which}.seeds", f"must be a number up to {SEEDS_MAX}, 0 for no runs in this set")
    seeds = tuple(range(1, count + 1)) if seeds is None else seeds
    _tables({f"sets.{which}.sweep": changes.get("sweep", {})})
    swept = {**sweep, **changes.pop("sweep", {})}
    for key in [key for key, value in changes.items() if isinstance(value, dict)]:
        tree = changed(tree, key, changes.pop(key))
    axes = _axes(swept | draws(tree))
    if (points := math.prod(map(len, axes))) * len(seeds) > RUNS_MAX:
        raise Wrong("", f"more than {RUNS_MAX} runs: {len(seeds)} seeds of {points} cases")
    cases = []
    for chosen in itertools.product(*axes):
        one, settings = copy.deepcopy(tree), dict(changes)
        point: dict[str, Any] = {}
        for setting in chosen:
            settings |= setting.values
            point |= setting.point
        for key, value in (settings | instead).items():
            keys.put(one, key, copy.deepcopy(value))
        scenario, places, files = _checked(one, source)
        packs = tuple(programs.contents(scenario, lambda key: source.where(key).parent))
        cases.append(Case(scenario, point, source, which, seeds, places, files, packs))
    if twice := next((name for name, count in Counter(case.name for case in cases).items() if count > 1), None):
        raise Wrong("sweep", f"two cases are called {twice!r}: the first values of points must differ")
    used = {name for case in cases for _, name in case.scenario.senders}
    if unused := sorted({name for case in cases for name in case.scenario.controllers} - used):
        raise Wrong(f"controllers.{unused[0]}", "no flow uses it")
    return cases


def of_tree(tree: dict[str, Any]) -> Scenario:
    """One case without files of its own. ValidationError, Wrong: it is none."""
    plain, places = groups.expand(copy.deepcopy(tree))
    _read_traces(plain, places, None)
    return Scenario.model_validate(plain)


def _checked(tree: dict[str, Any], source: Source) -> tuple[Scenario, dict[str, str], dict[str, File]]:
    """The scenario of one case, where its flows and hops stand in the file, and the files of its controllers."""
    plain, places = groups.expand(tree)
    _read_traces(plain, places, source)
    try:
        plain, files = named(plain, lambda key: source.where(_as_written(key, places)).parent)
        return Scenario.model_validate(plain), places, files
    except Wrong as e:
        raise Wrong(_as_written(e.args[0], places), e.args[1]) from None
    except ValidationError as e:
        raise _explain(e, places) from None


def _read_traces(plain: dict[str, Any], places: dict[str, str], source: Source | None) -> None:
    """Each direction gets what the files of its traces have, and with `trace` its mean rate."""
    path = plain.get("path")
    hops = path.get("hops") if isinstance(path, dict) else None
    found = [("path", path)] + [(f"path.hops.{n}", hop) for n, hop in enumerate(hops if isinstance(hops, list) else ())]
    for place, hop in found:
        for side in ("forward", "reverse"):
            if isinstance(hop, dict) and isinstance(way := hop.get(side), dict):
                hop[side] = way | _traces(f"{places.get(place, place)}.{side}", way, source)


def _traces(key: str, way: dict[str, Any], source: Source | None) -> dict[str, Any]:
    """A direction's keys that change with its traces."""
    new: dict[str, Any] = {}
    said, delay_trace = way.get("trace"), way.get("delay_trace")
    if isinstance(said, str | dict):
        if "rate" in way:
            raise Wrong(key, "must have either rate or trace")
        trace = _trace(f"{key}.trace", said, source)
        new = {"trace": trace, "rate": f"{trace.rate_bps}bit"}
        if isinstance(said, dict) and said.get("delay"):
            if delay_trace is not None:
                raise Wrong(key, "must have either trace.delay or delay_trace")
            new["delay_trace"] = _beams(Synthetic.model_validate(said))
    if isinstance(delay_trace, str):
        assert source
        try:
            new["delay_trace"] = delays.read(source.beside(f"{key}.delay_trace", delay_trace))
        except LabError as e:
            raise Wrong(f"{key}.delay_trace", str(e)) from None
    return new


def _trace(key: str, said: str | dict[str, Any], source: Source | None) -> Opportunities:
    try:
        if isinstance(said, str):
            assert source
            trace = opportunities.read(source.beside(key, said))
        else:
            trace = _made(Synthetic.model_validate(said))
    except LabError as e:
        raise Wrong(key, str(e)) from None
    except ValidationError as e:
        below, reason = explained(e, Synthetic)
        raise Wrong(".".join(filter(None, (key, below))), reason) from None
    if not RATE_MIN <= trace.rate_bps <= RATE_MAX:
        raise Wrong(key, f"{trace.rate_bps} bit/s on average is no link's rate")
    return trace


def _made(table: Synthetic) -> Opportunities:
    return synthetic.of_kind(table.kind, table.rate, table.length // 1000, table.seed)


def _beams(table: Synthetic) -> Delays:
    return synthetic.beams(table.length // 1000, table.seed)


def synthesize(kind: str, rate: str, length: str, seed: int, delay: bool) -> Opportunities | Delays:
    """The trace of a table `trace` with these values; `delay`: its delays. LabError: one of them is wrong."""
    said = {"kind": kind, "rate": rate, "length": length, "seed": seed, "delay": delay}
    try:
        return (_beams if delay else _made)(Synthetic.model_validate(said))
    except ValidationError as e:
        raise LabError(": ".join(filter(None, explained(e, Synthetic)))) from None


# --- sweeps -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """The values that one point of an axis sets, and its name."""

    values: dict[str, Any]
    point: dict[str, Any]


def _axes(sweep: dict[str, Any]) -> list[list[Setting]]:
    """The settings of each swept key, or of keys that change together."""
    axes, runs = [], 1
    for key, values in sweep.items():
        if not isinstance(values, list) or not values:
            raise Wrong(f"sweep.{key}", "must be a list of values")
        if key == "points" and not all(isinstance(v, dict) and v for v in values):
            raise Wrong("sweep.points", "must be a list of tables")
        runs *= len(values) * (len(values) + 1) // 2 if key == "pairs" else len(values)
        if runs > RUNS_MAX:
            raise Wrong(f"sweep.{key}", f"with it there are more than {RUNS_MAX} runs")
        axes.append(_axis(key, values))
    return axes


def _axis(key: str, values: list[Any]) -> list[Setting]:
    if key == "pairs":
        pairs = [dict(zip(PAIR, two)) for two in itertools.combinations_with_replacement(values, 2)]
        return [Setting(pair, pair) for pair in pairs]
    if key == "points":
        return [Setting(v, {first: _called(v[first])}) for v in values for first in [next(iter(v))]]
    called = [_called(v) for v in values]
    if called != values and len(set(map(str, called))) < len(called):
        raise Wrong(f"sweep.{key}", "lists must begin with different values, which name the cases")
    return [Setting({key: v}, {key: name}) for v, name in zip(values, called)]


def _called(value: Any) -> Any:
    """A swept value in the name of a case: the first of a list, which has one for each hop."""
    return value[0] if isinstance(value, list) and value and isinstance(value[0], str | int) else value


# --- what is wrong ------------------------------------------------------------------------


def _tables(values: dict[str, Any]) -> None:
    for key, value in values.items():
        if not isinstance(value, dict):
            raise Wrong(key, "must be a table")


def _explain(error: ValidationError, places: dict[str, str]) -> Wrong:
    key, reason = explained(error, Scenario)
    return Wrong(_as_written(key, places), reason)


def _as_written(said: str, places: dict[str, str]) -> str:
    """It begins with a place of the scenario: that in the file instead."""
    found = re.match(r"(flows|background|path\.hops)\.[0-9]+", said)
    return places[found[0]] + said[found.end() :] if found and found[0] in places else said
