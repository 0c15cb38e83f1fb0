# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The published results of a paper: its claims with the value of each run, its runs, and their provenance.

A part is read from its folder (records.py), or taken from a report.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .. import LabError
from ..run import registered
from . import papers, records
from .judged import Judged, Sample
from .points import points
from .records import DATA, About, Point, PublishedRun
from .sentences import by_cause, clusters, counts, verdicts

DAMAGED = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


@dataclass(frozen=True)
class Part:
    """A paper's published results. A sample's key is the name of its run."""

    name: str  # of the paper
    about: About
    claims: list[Judged]
    runs: list[PublishedRun]
    points: dict[str, Point]  # of figures, as far as a page's table has them

    @property
    def title(self) -> str:
        return papers.about(self.name)[0]

    @property
    def subject(self) -> str:
        return papers.about(self.name)[1]

    @cached_property
    def verdicts(self) -> list[dict]:
        return verdicts(self.claims, papers.causes(self.name))

    @property
    def counts(self) -> dict[str, int]:
        return counts(v["verdict"] for v in self.verdicts)

    @property
    def clusters(self) -> int:
        return clusters(self.verdicts)

    @property
    def causes(self) -> dict[str, int]:
        return by_cause(self.verdicts)


def read(folder: Path) -> Part:
    """A published part; LabError if it is none."""
    try:
        return Part(folder.name, *records.published(folder / DATA))
    except DAMAGED as e:
        raise LabError(f"{folder}: no published results ({e}); `asymlab publish` makes them") from None


def parts(results: Path) -> list[Part]:
    """All of a folder."""
    return [read(file.parent) for file in sorted(results.glob(f"*/{DATA}"))]


# --- of a report -------------------------------------------------------------------------


def of_report(paper: str, claims: list[Judged], results: dict, figures: Path) -> Part:
    """The part of a report that is one paper's."""
    keys = set(results["papers"][paper])
    runs = [r for r in results["runs"] if r["key"] in keys]
    of = [r["provenance"] for r in runs]
    objects = {name for p in of for name in p["objects"]}
    commits = sorted({p.get("registered", "") for p in of} - {""})
    about = About(
        date=datetime.date.today().isoformat(),
        set=results["set"],
        commits=[results["commit"]] if results.get("commit") else [],
        registered=commits,
        changed=changed(paper, commits),
        image_name=results["image_name"],
        kernel=sorted({p["kernel"] for p in of}),
        image=sorted({p["image"] for p in of}),
        qemu=sorted({p["qemu"] for p in of}),
        objects={name: sorted({p["objects"].get(name, "none") for p in of} - {"none"}) for name in sorted(objects)},
    )
    names = {r["key"]: r["name"] for r in runs}
    return Part(
        paper,
        about,
        [by_name(c, names) for c in claims if c.paper == paper],
        [PublishedRun(r["name"], r["provenance"]["result_sha256"][: records.DIGITS], not r["invalid"]) for r in runs],
        points(paper, figures),
    )


def by_name(claim: Judged, names: dict[str, str]) -> Judged:
    """The claim with the names of its runs in place of their keys."""
    samples = [Sample(s.seed, names[s.key], s.value) for s in claim.samples]
    left_out = {names.get(key, key): reason for key, reason in claim.left_out.items()}
    return claim.model_copy(update={"samples": samples, "left_out": left_out})


def changed(paper: str, commits: list[str]) -> list[str]:
    """The commits after these to a paper's claims and scenarios: short hash, date, subject."""
    later = [line for commit in commits for line in registered.later(commit, papers.folder(paper))]
    return list(dict.fromkeys(later))


def seeds(names: Iterable[str]) -> Counter[str]:
    """How many each case has, of runs called "CASE seed N"."""
    return Counter(name.rpartition(" seed ")[0] for name in names)


def replaceable(old: Part, new: Part, folder: Path, report: Path) -> None:
    """LabError if a report has less of a paper than what is published of it."""
    mend = f"`asymlab suite {new.name}` makes a full report, --to names another folder"
    if new.about.set != "full" and old.about.set == "full":
        raise LabError(f"{report}: of the {new.about.set} set, and {folder} is of the full one; {mend}")
    before, now = (seeds(r.name for r in part.runs) for part in (old, new))
    for case, count in now.items():
        if count < before[case]:
            raise LabError(f"{report}: {count} of the {before[case]} seeds of {case} that {folder} has; {mend}")
