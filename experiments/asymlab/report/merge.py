# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a report of some cases (`asymlab suite --only`) brings to the published part of a paper.

A row is replaced if the report has its runs: of each case at least the seeds that the published row rests on. The other
rows stay, with their runs. Kernel, image, QEMU and controllers must be the same, so that one tree repeats all of them.
"""

from __future__ import annotations

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


def merged(old: Part, new: Found, report: Path) -> Found:
    """The published part with what a report brings; LabError if the two do not go together."""
    if new.which != old.which:
        raise LabError(f"{report}: of the {new.which} set, and {old.folder} is of the {old.which} one")
    for what in (about := without_history(new.about)):
        if what in old.about and about[what] != old.about[what]:
            raise LabError(
                f"{report}: made with another {what} than {old.folder}; "
                f"`asymlab suite {new.paper}` without --only makes all of it anew"
            )
    kept = {v["id"]: v for v in old.verdicts}
    rows = [chosen(v, kept.get(v["id"]), old, new, report) for v in new.verdicts]
    replaced = sum(row is v for row, v in zip(rows, new.verdicts, strict=True) if row["runs"])
    if not replaced:
        raise LabError(f"{report}: has no row's runs with at least the seeds that {old.folder} has")
    console.print(f"{new.paper}: {replaced} row{'s' * (replaced > 1)} of this report, {len(rows) - replaced} stay")
    runs = {r["run"]: r for r in (*old.runs, *new.runs)}
    of = {one.name: old.folder / "figures" for one in map(Path, sorted(old_figures(old)))}
    of |= {name: folder for name, folder in new.figures.items() if whole(name, folder, old.folder / "figures")}
    names = {field.name for field in fields(Verdict)}
    return replace(
        new,
        verdicts=[asdict(v) for v in settled([Verdict(**{k: v[k] for k in v if k in names}) for v in rows])],
        runs=sorted(runs.values(), key=lambda r: natural(r["run"])),
        about=history(old, new) | without_history(old.about) | about,
        figures=dict(sorted(of.items())),
    )


def chosen(row: dict, kept: dict | None, old: Part, new: Found, report: Path) -> dict:
    """A claim's row: the report's, or the published one if the report has less of its runs."""
    if not kept or not kept["runs"]:
        return row
    has, needs = cases(row, new.runs), cases(kept, old.runs)
    if row["verdict"] != "not measured" and all(has[case] >= count for case, count in needs.items()):
        return row
    if kept["claim"] != row["claim"]:
        raise LabError(
            f"{report}: {row['id']} has another claim than in {old.folder}; "
            f"--only must have the runs of {kept['family']} too"
        )
    return kept


def cases(row: dict, runs: list[dict[str, str]]) -> Counter[str]:
    """How many seeds of each case a row rests on."""
    keys = set(row["runs"])
    return seeds([r["run"] for r in runs if r["key"] in keys])


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


def whole(name: str, folder: Path, before: Path) -> bool:
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
