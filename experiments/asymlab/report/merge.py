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
from . import reasons
from .found import Found, registration
from .html import natural
from .published import CHANGED, COMMIT, OPEN, REGISTERED, Part
from .verdicts import CAUSE, NOT_MADE, STRADDLES, Verdict, settled, shown_in

HISTORY = (COMMIT, REGISTERED, CHANGED)
CHECKED = {"reproduced": "holds", "not reproduced": "fails", "inconclusive": "undecided"}


def merged(old: Part, new: Found, report: Path) -> Found:
    """The published part with what a report brings; LabError if the two do not go together."""
    for what in (about := without_history(new.about)):
        if what in old.about and about[what] != old.about[what]:
            raise LabError(
                f"{report}: made with another {what} than {old.folder}; "
                f"`asymlab suite {new.paper}` without --only makes all of it anew"
            )
    was = {v["id"]: v for v in old.verdicts}
    stay = {v["id"] for v in new.verdicts if v["reason"] == NOT_MADE and v["id"] in was}
    if len(stay) == len(new.verdicts):
        raise LabError(f"{report}: measures no claim of {old.folder}; --only must have all cases that a claim compares")
    known = reasons.load(new.paper)
    made = {v["id"] for v in new.verdicts} - stay
    rows = [staying(was[v["id"]], v, known, made) if v["id"] in stay else v for v in new.verdicts]
    if stay:
        unchanged(old, new, report)
    for row in rows:
        if row["id"] in stay:
            same_reason(row, old, new, report)
    console.print(f"{new.paper}: {len(stay)} of {len(rows)} rows stay as published")
    runs = {r["run"]: r for r in (*old.runs, *new.runs)}
    figures = {file.stem: file.parent for file in (old.folder / "figures").glob("*.png")}
    figures |= {name: folder for name, folder in new.figures.items() if no_less(name, folder, old.folder / "figures")}
    keys = {r["key"] for r in runs.values()}
    names = {field.name for field in fields(Verdict)}
    settle = settled([Verdict(**{k: v[k] for k in v if k in names}) for v in rows])
    return replace(
        new,
        verdicts=[asdict(v) | {"runs": [key for key in v.runs if key in keys]} for v in settle],
        runs=sorted(runs.values(), key=lambda r: (r["run"].partition(" ")[0], natural(r["run"]))),
        about=history(old, new) | without_history(old.about) | about,
        figures=dict(sorted(figures.items())),
    )


def staying(row: dict, now: dict, known: reasons.Reasons, made: set[str]) -> dict:
    """A published row as it stays: a check if its claim has become one since, or a claim again. An open row without a
    reason takes one that was found since. A measured cause takes its new words, if the verdicts that show it are among
    those that the report made."""
    if row.get("check", False) != now["check"]:
        word = CHECKED if now["check"] else {check: claim for claim, check in CHECKED.items()}
        row = row | {"check": now["check"], "verdict": word.get(row["verdict"], row["verdict"])}
    reason = known.of(row["id"])
    open_still = row["verdict"] == "inconclusive" and row["reason"].startswith(STRADDLES)
    if open_still and reason and reason.why and known.names(row["id"]):
        row = row | {"reason": f"{reason.why}; {row['reason']}"}
    if row.get("cause") == "measured" and reason and reason.why and made.issuperset(reason.shown_by):
        said, shown, rest = row["reason"].partition(shown_in(reason.shown_by))
        # After a "; " it is not known where the cause begins: same_reason() refuses it if the words are other ones.
        if shown and not said.endswith(reason.why) and "; " not in said:
            row = row | {"reason": f"{reason.why}{shown}{rest}"}
    return row


def unchanged(old: Part, new: Found, report: Path) -> None:
    """LabError if a run is not as published: rows that stay may rest on it, or be compared with it."""
    here = {r["run"]: r for r in new.runs}
    for run in old.runs:
        now = here.get(run["run"], run)
        if any(now[what] != run[what] for what in ("key", "result_sha256")):
            raise LabError(
                f"{report}: {run['run']} is not as published, and rows that stay may rest on it; "
                f"`asymlab suite {new.paper}` without --only makes all of it anew"
            )


def same_reason(row: dict, old: Part, new: Found, report: Path) -> None:
    """LabError if reasons.toml has another reason now for a row that stays."""
    if row["source"] == CAUSE or row["verdict"] not in (*OPEN, "fails"):
        return
    known = reasons.load(new.paper)
    reason = known.of(row["id"])
    why = reason.why if reason else ""
    has_one = row.get("cause") in ("measured", "a guess")
    needs_one = row["verdict"] != "inconclusive" or known.names(row["id"])
    if (has_one and not why) or (why and why not in row["reason"] and (has_one or needs_one)):
        raise LabError(
            f"{report}: {row['id']} has another reason than in {old.folder}; "
            f"--only must have all cases that it compares ({row['family']})"
        )


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
