# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reads claims.toml, which has the claims of a paper as data. CONTRIBUTING.md tells how to write one.

    [[claims]]
    id = "FU-10 $c"                                     # id of its row
    for = { c = ["fusion", "bic"] }                     # a claim for each; or the name of a table of `lists`
    source = "Fig. 10"                                  # where the paper says it
    says = "{rate}, {rtt[0]} ms: $c takes {bound} of what it and a Reno flow get"
    runs = { id = "FU-10", flows.0.controller = "$c" }  # a scenario's runs at a point; a list in it is several points
    measure = "share"                                   # of measures.py, the paper's or the report's; then arguments
    within = [0.4, 0.6]                                 # any bound of claim.py
    cause = "search"                                    # why it may not hold: a name of `causes`, or the words
    shown_by = ["FU-C BIC"]                             # checks over runs in which this cause is turned off

`$c` stands for the value of this row; in `says` for its name in the table `names`, if it has one.

set_up          "paper" if those runs are as near to what the paper tells as the claim's, or nearer; else "another"
ceiling         the cause is that a rival has all: nothing is turned off
at, in runs     a table of keys
listed, in runs those of a name in LINKS of measures.py
over            the measure is divided by that of these runs; without an id they are `runs` with these keys changed
over_measure    another measure of theirs
over_value      the value is divided by another, which has the keys that differ
some            rivals that the set has not are left out
geometric       the measure is a ratio
across, take    rows as of `for`; "all" takes the runs of all, "min" and "max" the row with that mean
also            claims with the keys of this one, but for the paper's number, the cause, and those that they give;
                without `says` this one is none itself, and they have all its keys

Several `runs` are measured together, one of each for a seed.

    [presets]
    default = { fusion = "fusion-default" }             # controllers whose runs stand in for those of others

A check of this preset repeats each claim that has such runs: its id has the preset's name at the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from .. import LabError
from ..plan.base import parsed
from . import measures
from .claim import CAUSE, Cause, Ceiling, Claim
from .judged import Ratio
from .measures import Runs, Value

NAME = re.compile(r"\$(\w+)|\$\{(\w+)\}")
OF_CLAIM = {f.name for f in fields(Claim)} - {"value", "preset"} | {"shown_by", "ceiling", "set_up"}
OF_VALUE = {"runs", "measure", "over", "over_measure", "over_value", "some", "geometric", "across", "take"}
BOUNDS = {"at_least", "at_most", "above", "below", "within", "near"}
OWN = {"paper", "cause", "shown_by", "ceiling", "set_up"}  # what is true of one claim alone
STAND_INS = "stand-ins"  # in the row of a preset's check
TAKE = {"all": measures.joined, "min": lambda v: measures.extreme(v, min), "max": lambda v: measures.extreme(v, max)}

Row = dict[str, Any]


class ClaimFile:
    def __init__(self, file: Path, module: Callable[[str], Any], swept: Callable[..., list]):
        """module: measures of a paper by its name, "" is the file's own. swept: values of a case's swept key."""
        self.file, self.module, self.swept = file, module, swept
        self.data, _ = parsed(file, regular=True)
        self.names = self.data.get("names", {})

    def claims(self) -> list[Claim]:
        tables = [self.data.get("defaults", {}) | table for table in self.data.get("claims", [])]
        rows = [pair for whole in tables for pair in self.expanded(whole, {})]
        return [one for table, row in rows for one in self.by_preset(self.claim(table, row), table, row)]

    def by_preset(self, claim: Claim, table: dict, row: Row) -> Iterator[Claim]:
        """The claim, and a check for each preset of a controller whose runs it has."""
        yield claim
        for preset, stand_ins in self.data.get("presets", {}).items() if not claim.check else ():
            value = self.value(table, row | {STAND_INS: stand_ins})
            if runs_of(value) != runs_of(claim.value):
                says = f"{self.names.get(preset, preset)}: {claim.says}"
                also = {"id": f"{claim.id} {preset}", "says": says, "value": value, "preset": preset}
                yield replace(claim, **also, check=True, cause=None)

    def expanded(self, table: dict, outer: Row) -> Iterator[tuple[dict, Row]]:
        """Each claim of a table, and its row."""
        own = {key: value for key, value in table.items() if key not in ("for", "also")}
        for row in self.rows(table.get("for", []), outer):
            if "says" in own:
                yield own, row
            for part in table.get("also", []):
                dropped = (BOUNDS if BOUNDS & part.keys() else set()) | (OWN if "says" in own else set())
                inherited = {key: v for key, v in own.items() if key not in dropped}
                yield from self.expanded(inherited | part, row)

    def rows(self, spec: Any, outer: Row) -> list[Row]:
        """Every combination of the rows of some tables; a table has columns."""
        tables = []
        for one in spec if isinstance(spec, list) else [spec]:
            columns = self.data.get("lists", {}).get(filled(one, outer)) if isinstance(one, str) else one
            if columns is None:
                raise LabError(f"{self.file}: no list {one!r}")
            values = [self.swept(**v) if isinstance(v, dict) else v for v in columns.values()]
            if len(set(map(len, values))) != 1:
                raise LabError(f"{self.file}: columns {', '.join(columns)}: one is longer than another")
            tables.append([dict(zip(columns, row)) for row in zip(*values, strict=True)])
        rows = []
        for combination in product(*tables):
            row = dict(outer)
            for part in combination:
                row |= part
            rows.append(row)
        return rows

    def claim(self, table: dict, row: Row) -> Claim:
        try:
            if unknown := table.keys() - OF_CLAIM - OF_VALUE:
                raise LabError(f"no key {sorted(unknown)[0]!r}; there are {', '.join(sorted(OF_CLAIM | OF_VALUE))}")
            one = {key: filled(value, row) for key, value in table.items() if key in OF_CLAIM - {"says"}}
            one = {key: v for key, v in one.items() if v != ""}
            one |= {key: tuple(one[key]) for key in ("within", "near") if key in one}
            one["says"] = filled(table["says"], {key: self.names.get(str(v), v) for key, v in row.items()})
            kind, shown_by = (Ceiling if one.pop("ceiling", False) else Cause), one.pop("shown_by", [])
            set_up = one.pop("set_up", "another")
            if "cause" in one:
                words = self.data.get("causes", {}).get(one["cause"], one["cause"])
                one["cause"] = kind(words, *shown_by, set_up=set_up)
            if "note" in one:
                one["note"] = self.measure(one["note"])
            one["check"] = one.get("check", False) or one["source"] == CAUSE
            return Claim(value=self.value(table, row), **one)
        except (LabError, KeyError, TypeError) as e:
            what = f"lacks {e}" if isinstance(e, KeyError) else str(e)
            raise LabError(f"{self.file}: {table.get('id', 'a claim without id')}: {what}") from None

    # --- values ---------------------------------------------------------------------------

    def value(self, table: dict, row: Row) -> Value:
        if "across" in table:
            once = {key: v for key, v in table.items() if key not in ("across", "take")}
            return TAKE[table["take"]]([self.value(once, inner) for inner in self.rows(table["across"], row)])
        if "over_value" in table:
            once = {key: v for key, v in table.items() if key != "over_value"}
            return measures.ratio_of_values(self.value(once, row), self.value(once | table["over_value"], row))
        points = self.points(table["runs"], row)
        measure = self.measure(filled(table["measure"], row))
        runs = [Runs(id, **point) for id, point in points]
        measured = Ratio(measure) if table.get("geometric") else measure
        if len(runs) > 1:
            return measures.together(runs, measured)
        if "over" not in table:
            return measures.each(runs[0], measured)
        others = [Runs(id, **point) for id, point in self.points(table["over"], row, *points)]
        theirs = self.measure(filled(table["over_measure"], row)) if "over_measure" in table else None
        return measures.ratio_by_seed(runs[0], others, measure, theirs, some=table.get("some", False))

    def points(self, spec: Any, row: Row, *base: tuple[str, Row]) -> list[tuple[str, Row]]:
        """(scenario, keywords for Runs) of each."""
        if isinstance(spec, list):
            return [point for one in spec for point in self.points(one, row, *base)]
        if isinstance(spec, dict) and "listed" in spec:
            return [(one.id, dict(one.point)) for one in self.module("").LINKS[filled(spec["listed"], row)]]
        keys = flat({"id": spec} if isinstance(spec, str) else spec)
        keys = {key: filled(value, row) for key, value in keys.items()}
        keys |= flat(keys.pop("at", {}))
        keys = {key: stood_in(value, row.get(STAND_INS, {})) for key, value in keys.items()}
        values = (value if isinstance(value, list) else [value] for value in keys.values())
        points = [dict(zip(keys, combination)) for combination in product(*values)]
        if "id" not in keys:
            points = [{"id": base[0][0]} | base[0][1] | point for point in points]
        return [(point.pop("id"), point) for point in points]

    def measure(self, text: str) -> Callable[[Any], Any]:
        """A function by name, with the words behind it as further arguments."""
        name, *words = text.split()
        paper, _, function = name.rpartition(".")
        own = self.module(paper)
        measure = getattr(own, function, None) or getattr(measures, function, None)
        if not callable(measure):
            raise LabError(f"no measure {name!r}; {self.file.parent / 'measures.py'} and {measures.__file__} have them")
        arguments = [number(word) for word in words]
        return (lambda runs: measure(runs, *arguments)) if arguments else measure


def runs_of(value: Value) -> list[Any]:
    return [one.parts for one in (value.runs, *value.others)]


def stood_in(value: Any, stand_ins: dict[str, str]) -> Any:
    """A key's value, or each of a list, with the controller that stands in for it."""
    if isinstance(value, list):
        return [stood_in(one, stand_ins) for one in value]
    return stand_ins.get(value, value) if isinstance(value, str) else value


def number(word: str) -> Any:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            pass
    return word


def flat(table: dict, before: str = "") -> Row:
    """Nested tables as keywords for Runs: a__b for a.b. A table at a quoted key that has a dot is a value."""
    keys: Row = {}
    for key, value in table.items():
        name = before + key.replace(".", "__")
        keys |= flat(value, f"{name}__") if isinstance(value, dict) and "." not in key else {name: value}
    return keys


def filled(value: Any, row: Row) -> Any:
    """The value with each $NAME as the row has it."""
    if isinstance(value, list):
        return [filled(one, row) for one in value]
    if not isinstance(value, str):
        return value
    if whole := NAME.fullmatch(value):
        return row[whole[1] or whole[2]]
    return NAME.sub(lambda name: str(row[name[1] or name[2]]), value)
