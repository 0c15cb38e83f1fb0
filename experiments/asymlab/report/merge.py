# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a report of some cases (`asymlab suite --only`) brings to the published part of a paper.

A row is replaced if nothing that it rests on is missing here: over the published runs, as far as they are in this
report, the claim has the published value. A new row needs all cases of its scenarios. The other rows stay, with their
runs. Kernel, image, QEMU and controllers must be the same, so that one tree repeats all of them.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, fields, replace
from pathlib import Path

from .. import LabError
from ..console import console
from . import published
from .found import Found, registration, seeds
from .html import natural
from .published import COMMIT, REGISTERED, Part
from .verdicts import Verdict, settled


def merged(old: Part, new: Found, again: dict[str, float | None], whole: list[str], report: Path) -> Found:
    """The published part with what a report brings; LabError if the two do not go together.

    again: the claims' values over the published runs of this report. whole: its scenarios that have all their cases.
    """
    if new.which != old.which:
        raise LabError(f"{report}: of the {new.which} set, and {old.folder} is of the {old.which} one")
    for what in (about := without_history(new.about)):
        if what in old.about and about[what] != old.about[what]:
            raise LabError(
                f"{report}: made with another {what} than {old.folder}; "
                f"`asymlab suite {new.paper}` without --only makes all of it anew"
            )
    kept = {v["id"]: v for v in old.verdicts}
    rows = []
    for v in new.verdicts:
        was = kept.get(v["id"])
        complete = set(v["family"].split()) <= set(whole)
        if not was or not was["runs"]:
            rows.append(v if complete else unmeasured(v))
        elif same(was["value"], again.get(v["id"])) and cases(v, new.runs) >= cases(was, old.runs):
            rows.append(v if complete or v["claim"] == was["claim"] else was)  # it may name the rivals that ran
        else:
            rows.append(was)
    replaced = sum(row is v for row, v in zip(rows, new.verdicts, strict=True) if row["runs"])
    if not replaced:
        raise LabError(f"{report}: has all published runs of no row of {old.folder}, with the same bytes")
    console.print(f"{new.paper}: {replaced} row{'s' * (replaced > 1)} of this report, {len(rows) - replaced} stay")
    runs = {r["run"]: r for r in (*old.runs, *new.runs)}
    of = {one.name: old.folder / "figures" for one in map(Path, sorted(old_figures(old)))}
    of |= {name: folder for name, folder in new.figures.items() if no_less(name, folder, old.folder / "figures")}
    names = {field.name for field in fields(Verdict)}
    return replace(
        new,
        verdicts=[asdict(v) for v in settled([Verdict(**{k: v[k] for k in v if k in names}) for v in rows])],
        runs=sorted(runs.values(), key=lambda r: natural(r["run"])),
        about=history(old, new) | without_history(old.about) | about,
        figures=dict(sorted(of.items())),
    )


def same(published: float | None, again: float | None) -> bool:
    return published is not None and again is not None and math.isclose(published, again, rel_tol=1e-9, abs_tol=1e-12)


def cases(row: dict, runs: list[dict[str, str]]) -> Counter[str]:
    """How many seeds of each case a row rests on."""
    keys = set(row["runs"])
    return seeds([r["run"] for r in runs if r["key"] in keys])


def unmeasured(row: dict) -> dict:
    """A new claim of which runs are missing."""
    nothing = {"value": None, "low": None, "high": None, "verdict": "not measured", "runs": [], "n": 0, "cause": ""}
    return row | nothing | {"reason": "not in this set"}


HISTORY = (COMMIT, REGISTERED, published.CHANGED)


def without_history(about: dict[str, str]) -> dict[str, str]:
    return {what: value for what, value in about.items() if what not in HISTORY}


def history(old: Part, new: Found) -> dict[str, str]:
    """The commits of both."""

    def both(what: str) -> list[str]:
        said = [*old.about[what].split(", "), *new.about[what].split(", ")]
        return [one for one in dict.fromkeys(said) if one != "unknown"]

    return {COMMIT: ", ".join(both(COMMIT)) or "unknown"} | registration(new.paper, sorted(both(REGISTERED)))


def old_figures(old: Part) -> list[str]:
    return [file.stem for file in (old.folder / "figures").glob("*.png")]


def no_less(name: str, folder: Path, before: Path) -> bool:
    """Does a figure show at least as much of each series as the published one?"""
    if not (before / f"{name}.png").exists():
        return True
    was = points(before / name)
    now = points(folder / name)
    return all(now[series] >= count for series, count in was.items())


def points(figure: Path) -> Counter[tuple[str, str]]:
    """How many of each panel's series a figure's data have."""
    import pyarrow.csv
    import pyarrow.parquet

    file = figure.with_suffix(".csv")
    table = pyarrow.csv.read_csv(file) if file.exists() else pyarrow.parquet.read_table(figure.with_suffix(".parquet"))
    return Counter(zip(map(str, table["panel"].to_pylist()), map(str, table["series"].to_pylist()), strict=True))
