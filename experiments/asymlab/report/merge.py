# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a report of some cases (`asymlab suite --only`) brings to the published part of a paper.

A row is replaced if the report measures it, and so has all runs that the claim reads (absent.py). The other rows stay,
with their runs. Kernel, image, QEMU and the controllers that ran must be those of the published part.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, fields, replace
from pathlib import Path

from .. import LabError
from ..console import console
from . import published, reasons
from .found import Found, registration
from .html import natural
from .published import COMMIT, OPEN, REGISTERED, Part
from .verdicts import CAUSE, NOT_HERE, Verdict, settled


def merged(old: Part, new: Found, report: Path) -> Found:
    """The published part with what a report brings; LabError if the two do not go together."""
    for what in (about := without_history(new.about)):
        if what in old.about and about[what] != old.about[what]:
            raise LabError(
                f"{report}: made with another {what} than {old.folder}; "
                f"`asymlab suite {new.paper}` without --only makes all of it anew"
            )
    was = {v["id"]: v for v in old.verdicts}
    stay = {v["id"] for v in new.verdicts if v["reason"] == NOT_HERE and v["id"] in was}
    if len(stay) == len(new.verdicts):
        raise LabError(f"{report}: measures no claim of {old.folder}; --only must have all cases that a claim compares")
    rows = [was[v["id"]] if v["id"] in stay else v for v in new.verdicts]
    for id in stay:
        check(was[id], old, new, report)
    console.print(f"{new.paper}: {len(stay)} of {len(rows)} rows stay as published")
    runs = {r["run"]: r for r in (*old.runs, *new.runs)}
    figures = {file.stem: file.parent for file in (old.folder / "figures").glob("*.png")}
    figures |= {name: folder for name, folder in new.figures.items() if no_less(name, folder, old.folder / "figures")}
    names = {field.name for field in fields(Verdict)}
    return replace(
        new,
        verdicts=[asdict(v) for v in settled([Verdict(**{k: v[k] for k in v if k in names}) for v in rows])],
        runs=sorted(runs.values(), key=lambda r: (r["run"].partition(" ")[0], natural(r["run"]))),
        about=history(old, new) | without_history(old.about) | about,
        figures=dict(sorted(figures.items())),
    )


def check(row: dict, old: Part, new: Found, report: Path) -> None:
    """LabError if a row cannot stay as it is published: its runs are others now, or its reason."""
    mend = f"--only must have all cases of {row['id']} ({row['family']})"
    here = {r["run"]: r for r in new.runs}
    for run in old.runs:
        now = here.get(run["run"], run)
        if run["key"] in row["runs"] and any(now[what] != run[what] for what in ("key", "result_sha256")):
            raise LabError(f"{report}: {run['run']} is not as published, and {row['id']} rests on it; {mend}")
    known = reasons.load(new.paper)
    reason = known.of(row["id"])
    explained = row["verdict"] == "inconclusive" and not known.names(row["id"])  # it needs none
    if row["verdict"] in (*OPEN, "fails") and row["source"] != CAUSE and reason and not explained:
        if reason.why not in row["reason"]:
            raise LabError(f"{report}: {row['id']} has another reason than in {old.folder}; {mend}")


HISTORY = (COMMIT, REGISTERED, published.CHANGED)


def without_history(about: dict[str, str]) -> dict[str, str]:
    return {what: value for what, value in about.items() if what not in HISTORY}


def history(old: Part, new: Found) -> dict[str, str]:
    """The commits of both."""

    def both(what: str) -> list[str]:
        said = [*old.about[what].split(", "), *new.about[what].split(", ")]
        return [one for one in dict.fromkeys(said) if one != "unknown"]

    return {COMMIT: ", ".join(both(COMMIT)) or "unknown"} | registration(new.paper, sorted(both(REGISTERED)))


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
