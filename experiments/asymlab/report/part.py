# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What is published of a paper: its claims with the value of each run, its runs, where they come from, its figures.

A part is read from its folder (records.py), or taken from a report. A report of some cases (`asymlab suite --only`)
brings what the part lacks: the union of the rows of both, by claim and run.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from .. import LabError
from ..console import console
from ..run import registered
from . import decided, papers, records
from .html import natural
from .records import About
from .sentences import counts, verdicts
from .verdicts import Judged

OPEN = ("not reproduced", "inconclusive")
RAN_ON = ("kernel", "image", "qemu")
DAMAGED = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


@dataclass(frozen=True)
class Part:
    """A paper's published results."""

    name: str  # of the paper
    about: About
    claims: list[Judged]
    runs: list[dict[str, str]]  # by records.RUNS
    drawn: dict[str, Path]  # of each figure the folder of its files: the report's, or the published part's

    @property
    def title(self) -> str:
        return papers.about(self.name)[0]

    @property
    def subject(self) -> str:
        return papers.about(self.name)[1]

    @property
    def hash(self) -> str:
        """Of all its results."""
        return papers.results_hash(r["result_sha256"] for r in self.runs)

    @cached_property
    def verdicts(self) -> list[dict]:
        quoted = [c.id for c in self.claims] if papers.published(self.name) == self.hash else []
        return verdicts(self.claims, papers.causes(self.name), quoted)

    @property
    def counts(self) -> dict[str, int]:
        return counts(v["verdict"] for v in self.verdicts)

    @property
    def unexplained(self) -> int:
        """Claims, not reproduced or inconclusive, that no run with their cause turned off explains."""
        return sum(v["verdict"] in OPEN and v["cause"] != "measured" for v in self.verdicts)


def read(folder: Path) -> Part:
    """A published part; LabError if it is none."""
    try:
        drawn = {file.stem: file.parent for file in sorted((folder / "figures").glob("*.png"))}
        part = Part(folder.name, records.about(folder), records.claims(folder), records.runs(folder), drawn)
        if not part.runs:
            raise ValueError("runs.csv: no run")
        return part
    except DAMAGED as e:
        raise LabError(f"{folder}: no published results ({e}); `asymlab publish` makes them") from None


def parts(results: Path) -> list[Part]:
    """All of a folder."""
    return [read(file.parent) for file in sorted(results.glob("*/runs.csv"))]


def quoted(paper: str, claims: list[Judged], hashes: dict[str, str], results: Path) -> list[str]:
    """The ids of the claims whose runs, of these hashes by key, are those over which the `published` texts were
    written."""
    bound = papers.published(paper)
    if not bound or not (results / paper).exists() or bound != (part := read(results / paper)).hash:
        return []
    of = {r["key"]: r["result_sha256"] for r in part.runs}
    rows = {c.id: {of.get(key) for key in c.runs} for c in part.claims}
    return [c.id for c in claims if {hashes.get(key) for key in c.runs} == rows.get(c.id)]


# --- of a report -------------------------------------------------------------------------


def of_report(paper: str, claims: list[Judged], results: dict, figures: Path) -> Part:
    """What a report holds of a paper."""
    keys = set(results["papers"][paper])
    runs = [r for r in results["runs"] if r["key"] in keys]
    of = [r["provenance"] for r in runs]
    objects = {name for p in of for name in p["objects"]}
    found = sorted({p.get("registered", "") for p in of} - {""})
    about = About(
        date=datetime.date.today().isoformat(),
        set=results["set"],
        commits=[results["commit"]] if results.get("commit") else [],
        registered=found,
        changed=changed(paper, found),
        image_name=results["image_name"],
        kernel=sorted({p["kernel"] for p in of}),
        image=sorted({p["image"] for p in of}),
        qemu=sorted({p["qemu"] for p in of}),
        objects={name: sorted({p["objects"].get(name, "none") for p in of} - {"none"}) for name in sorted(objects)},
    )
    columns = (
        (r["name"], r["key"], r["provenance"]["result_sha256"], str(int(not r["invalid"])), r["command"]) for r in runs
    )
    return Part(
        paper,
        about,
        [c for c in claims if c.paper == paper],
        [dict(zip(records.RUNS, row, strict=True)) for row in columns],
        {file.stem: figures for file in sorted(figures.glob(f"{paper}-*.png"))},
    )


def changed(paper: str, commits: list[str]) -> list[str]:
    """The commits after these that changed what decides a paper's verdicts: short hash, date, subject."""
    later = [line for commit in commits for line in registered.later(commit, papers.PAPERS / paper)]
    return [line for line in dict.fromkeys(later) if decided.differs(line.split()[0], paper)]


def seeds(names: Iterable[str]) -> Counter[str]:
    """How many each case has, of runs called "CASE seed N"."""
    return Counter(name.rpartition(" seed ")[0] for name in names)


def replaceable(old: Part, new: Part, folder: Path, report: Path, some: bool) -> None:
    """LabError if a report has less of a paper than what is published of it. One of some cases only adds to it."""
    mend = f"`asymlab suite {new.name}` makes a full report, --to names another folder"
    if new.about.set != "full" and old.about.set == "full":
        raise LabError(f"{report}: of the {new.about.set} set, and {folder} is of the full one; {mend}")
    if some:
        return
    before, now = (seeds(r["run"] for r in part.runs) for part in (old, new))
    for case, count in now.items():
        if count < before[case]:
            raise LabError(f"{report}: {count} of the {before[case]} seeds of {case} that {folder} has; {mend}")


# --- the union of two --------------------------------------------------------------------


def union(old: Part, new: Part, folder: Path, report: Path) -> Part:
    """The published part with what a report of some cases brings; LabError if the two do not go together."""
    whole = f"`asymlab suite {new.name}` without --only makes all of it anew"
    a, b = old.about, new.about
    for what, was, now in (
        *((what, getattr(a, what), getattr(b, what)) for what in RAN_ON),
        *((name, a.objects[name], b.objects[name]) for name in b.objects.keys() & a.objects.keys()),
    ):
        if not set(now) <= set(was):
            raise LabError(f"{report}: made with another {what} than {folder}; {whole}")
    runs = {r["run"]: r for r in old.runs}
    for run in new.runs:
        was = runs.setdefault(run["run"], run)
        if any(was[what] != run[what] for what in ("key", "result_sha256")):
            raise LabError(
                f"{report}: {run['run']} is not as published, and rows that stay may rest on it or be compared with "
                f"it; {whole}"
            )
    before = {c.id: c for c in old.claims}
    claims = [joined(before[c.id], c, report) if c.id in before else c for c in new.claims]
    stay = sum(c is not n and c.samples == before[c.id].samples for c, n in zip(claims, new.claims))
    if stay == len(claims):
        raise LabError(f"{report}: measures no claim of {folder}; --only must have all cases that a claim compares")
    console.print(f"{new.name}: {stay} of {len(claims)} rows stay as published")
    commits = sorted({*a.registered, *b.registered})
    figures = old.drawn | {name: place for name, place in new.drawn.items() if no_less(name, place, old.drawn)}
    return replace(
        new,
        about=a.model_copy(
            update={
                "date": b.date,
                "commits": list(dict.fromkeys((*a.commits, *b.commits))),
                "registered": commits,
                "changed": changed(new.name, commits),
                "objects": dict(sorted((a.objects | b.objects).items())),
            }
        ),
        claims=claims,
        runs=sorted(runs.values(), key=lambda r: (r["run"].partition(" ")[0], natural(r["run"]))),
        drawn=dict(sorted(figures.items())),
    )


def joined(old: Judged, new: Judged, report: Path) -> Judged:
    """A row as it is afterwards. It is the new one if that has all its runs. If the new one adds none, the old one
    stays, as a check if its claim has become one. Otherwise it has the samples of both."""
    known = {s.key: s for s in new.samples if s.value is not None}
    mine = {s.key: s.value for s in old.samples}
    if not new.missing and known and mine.keys() <= known.keys():
        return new
    if new.picked and known.keys().isdisjoint(mine):
        if new.missing or not known:  # not all points were there: nothing tells which is to be picked
            return old.model_copy(update={"check": new.check})
        if len(known) >= len(mine):
            return new
        raise LabError(f"{report}: {old.id} is of another point now, with fewer runs; all of {old.family} is needed")
    if any(mine.get(key) not in (None, s.value) for key, s in known.items()):
        raise LabError(f"{report}: {old.id} has other values of the same runs; --only must have all of {old.family}")
    added = [s for key, s in known.items() if key not in mine]
    if not added or old.unmeasured or old.taken_over:
        return old.model_copy(update={"check": new.check})
    if any(getattr(old, what) != getattr(new, what) for what in ("at_least", "at_most", "worst", "ratio")):
        raise LabError(f"{report}: {old.id} has other bounds now; --only must have all of {old.family}")
    both = {"samples": [*old.samples, *added], "left_out": old.left_out | new.left_out, "note": ""}
    return old.model_copy(update=both | {"check": new.check})


def no_less(name: str, place: Path, before: dict[str, Path]) -> bool:
    """Does a figure show at least as much of each series as the published one?"""
    if name not in before:
        return True
    now = points(place / name)
    return all(now[series] >= count for series, count in points(before[name] / name).items())


def points(figure: Path) -> Counter[tuple[str, str]]:
    """How many of each panel's series a figure's data have."""
    import pyarrow.csv
    import pyarrow.parquet

    file = figure.with_suffix(".csv")
    if not file.exists():
        file = figure.with_suffix(".parquet")
    try:
        table = pyarrow.csv.read_csv(file) if file.suffix == ".csv" else pyarrow.parquet.read_table(file)
        return Counter(zip(map(str, table["panel"].to_pylist()), map(str, table["series"].to_pylist()), strict=True))
    except (OSError, ValueError, LookupError) as e:  # Arrow's errors are among them
        raise LabError(f"{file}: no data of a figure ({e})") from None
