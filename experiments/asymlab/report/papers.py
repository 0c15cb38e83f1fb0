# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The papers: each folder of experiments/papers that has a claims.py.

*.toml          scenarios, each other
claims.py       TITLE, SUBJECT (one line), and `claims(results)`, which yields each Claim (verdicts.py)
figures.py      `figures(results)`, which yields Figures; the first stands for the paper in the report's summary
reasons.toml    why claims are not reproduced (reasons.py)
tables.md       tables of docs/NAME.md (tables.py)
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from ..paths import EXPERIMENTS

PAPERS = EXPERIMENTS / "papers"


def names() -> list[str]:
    return sorted(p.parent.name for p in PAPERS.glob("*/claims.py"))


def scenarios(paper: str) -> list[Path]:
    return sorted(file for file in (PAPERS / paper).glob("*.toml") if file.name != "reasons.toml")


def module(paper: str, name: str) -> ModuleType:
    """A file of a paper's folder, which is a package of its own: from .claims import ..."""
    folder, package = PAPERS / paper, f"asymlab_papers_{paper}"
    sys.modules[package] = parent = ModuleType(package)
    parent.__path__ = [str(folder)]
    spec = importlib.util.spec_from_file_location(f"{package}.{name}", folder / f"{name}.py")
    assert spec and spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def about(paper: str) -> tuple[str, str]:
    """(title, one line on what it is about)."""
    if paper not in names():
        return paper, ""
    claims = module(paper, "claims")
    return getattr(claims, "TITLE", paper), getattr(claims, "SUBJECT", "")
