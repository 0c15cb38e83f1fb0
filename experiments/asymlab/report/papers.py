# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The papers, and studies of our own: each folder of experiments/papers or experiments/studies that has a claims.toml.

cases.toml      scenarios
claims.toml     title, subject (one line), and the claims (claimfile.py)
measures.py     measures that no other paper has
figures.py      FIGURES, each a function of results; the first stands for the paper in the report's summary
tables.md       tables of docs/NAME.md (tables.py)
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType

from .. import LabError
from ..paths import EXPERIMENTS
from ..plan import scenario
from .claim import Cause, Claim
from .claimfile import ClaimFile
from .judged import Judged, Results

PAPERS = EXPERIMENTS / "papers"


def folders() -> dict[str, Path]:
    """By name."""
    return {p.parent.name: p.parent for at in (PAPERS, PAPERS.with_name("studies")) for p in at.glob("*/claims.toml")}


def names() -> list[str]:
    return sorted(folders())


def folder(paper: str) -> Path:
    return folders().get(paper, PAPERS / paper)


def scenarios(paper: str) -> list[Path]:
    return sorted(file for file in folder(paper).glob("*.toml") if file.name != "claims.toml")


def module(paper: str, name: str) -> ModuleType:
    """A file of a paper's folder, which is a package of its own: from .measures import ..."""
    home, package = folder(paper), f"asymlab_papers_{paper}"
    sys.modules[package] = parent = ModuleType(package)
    parent.__path__ = [str(home)]
    spec = importlib.util.spec_from_file_location(f"{package}.{name}", home / f"{name}.py")
    assert spec and spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def about(paper: str) -> tuple[str, str]:
    """(title, one line on what it is about)."""
    if paper not in names():
        return paper, ""
    data = claim_file(paper).data
    return data["title"], data["subject"]


def claim_file(paper: str) -> ClaimFile:
    @cache
    def measures(name: str) -> ModuleType | None:
        return module(name, "measures") if (folder(name) / "measures.py").exists() else None

    def swept(case: str, key: str) -> list:
        cases = scenario.load(folder(paper) / f"cases.toml:{case}", "full")
        return list(dict.fromkeys(case.point[key] for case in cases))

    return ClaimFile(folder(paper) / "claims.toml", lambda name: measures(name or paper), swept)


def claims(paper: str) -> list[Claim]:
    every = claim_file(paper).claims()
    known = Counter(c.id for c in every)
    for c in every:
        if known[c.id] > 1:
            raise LabError(f"{paper}: two claims have the id {c.id}")
        if missing := [id for id in (c.cause.shown_by if c.cause else ()) if id not in known]:
            raise LabError(f"{paper}: {c.id}: its cause is shown by {missing[0]}, which is no claim")
    return every


def judged(paper: str, results: Results) -> list[Judged]:
    """The claims for which the set has runs, and a line for the others."""
    every = claims(paper)
    planned = [c for c in every if c.value.planned(results)]
    rows = [c.judged(results) for c in planned]
    if left := len(every) - len(planned):
        rows.append(results.not_measured(f"more of {paper}", "", f"{left} more claims", "in the full set"))
    return rows


def causes(paper: str) -> dict[str, Cause]:
    """By the id of the claim."""
    return {c.id: c.cause for c in claims(paper) if c.cause} if paper in names() else {}
