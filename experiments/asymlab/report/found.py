# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a report holds of a paper, as publish.py keeps it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ..run import registered
from . import papers
from .published import CHANGED, COLUMNS, COMMIT, REGISTERED


@dataclass(frozen=True)
class Found:
    """What is kept of a paper."""

    paper: str
    which: str  # the set
    verdicts: list[dict]
    runs: list[dict[str, str]]  # by COLUMNS
    about: dict[str, str]  # where the runs come from, a line each
    figures: dict[str, Path]  # of each the folder of its files: the report's, or the published part's


def found(paper: str, verdicts: list[dict], results: dict, figures: Path) -> Found:
    """What a report holds of a paper."""
    runs = runs_of(paper, results)
    values = (
        (r["name"], r["key"], r["provenance"]["result_sha256"], str(int(not r["invalid"])), r["command"]) for r in runs
    )
    return Found(
        paper,
        results["set"],
        [v for v in verdicts if v["paper"] == paper],
        [dict(zip(COLUMNS, row, strict=True)) for row in values],
        about(paper, runs, results.get("commit") or "unknown"),
        {file.stem: figures for file in sorted(figures.glob(f"{paper}-*.png"))},
    )


def runs_of(paper: str, results: dict) -> list[dict]:
    return [r for r in results["runs"] if f" experiments/papers/{paper}/" in r["command"]]


def seeds(names: list[str]) -> Counter[str]:
    """How many each case has, of runs called "CASE seed N"."""
    return Counter(name.rpartition(" seed ")[0] for name in names)


def about(paper: str, runs: list[dict], commit: str) -> dict[str, str]:
    """Where a paper's runs come from, a line each."""
    of = [r["provenance"] for r in runs]
    said = {what: ", ".join(sorted({p[what] for p in of})) for what in ("kernel", "image", "qemu")}
    objects: dict[str, set[str]] = {}
    for p in of:
        for name, digest in p["objects"].items():
            objects.setdefault(name, set()).add(digest)
    said |= {name: ", ".join(sorted(digests)) for name, digests in sorted(objects.items())}
    commits = sorted({p.get("registered", "") for p in of} - {""})
    return {COMMIT: commit} | registration(paper, commits) | said


def registration(paper: str, commits: list[str]) -> dict[str, str]:
    """Of the commits that had a paper's claims when its runs were made; and what changed after the first."""
    later = [line for commit in commits for line in registered.later(commit, papers.PAPERS / paper)]
    return {REGISTERED: ", ".join(commits) or "unknown", CHANGED: "; ".join(dict.fromkeys(later)) or "nothing"}
