# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Which commit has the claims and scenarios that a run is judged by: those of its folder, and bases from outside.

A run keeps the last commit that changed them. Published results name it, and each later one that changed what decides.
"""

from __future__ import annotations

import contextlib
import subprocess
from functools import cache
from pathlib import Path

from .. import LabError
from ..paths import INSTALLED, REPO
from ..plan import base

GIT_LIMIT_S = 20
# Texts about results, and how they are drawn, may change afterwards.
JUDGED = [":(exclude)*/tables.md", ":(exclude)*/figures.py"]


def _git(*words: str) -> str:
    """The words of git; nothing outside a checkout. An installation may lie in somebody else's."""
    if INSTALLED:
        return ""
    try:
        done = subprocess.run(["git", "-C", REPO, *words], capture_output=True, text=True, timeout=GIT_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def head(but: str = "") -> str:
    """The commit of this tree, with + if files have changed since; "" outside a checkout. `but`: names of files that do
    not count, as a pattern."""
    digest = _git("rev-parse", "--short=12", "HEAD")
    paths = ["--", ".", f":(exclude)*/{but}"] if but else []
    return digest + "+" * bool(digest and _git("status", "--porcelain", "--untracked-files=no", *paths))


@cache
def _judged(folder: Path) -> list[str]:
    """The paths that git is to look at."""
    outside: set[Path] = set()
    for file in filter(Path.is_file, folder.glob("*.toml")):
        with contextlib.suppress(LabError):  # whoever runs it is told
            bases = [b.resolve() for source in base.sources(file) for b in source.bases]
            outside |= {at for at in bases if not at.is_relative_to(folder)}
    moved = folder.parent.parent / "papers" / folder.name  # git log follows no move
    return [str(folder), str(moved), *sorted(str(at) for at in outside if at.is_relative_to(REPO)), *JUDGED]


@cache
def commit(folder: Path) -> str:
    """The last one that changed a folder of scenarios, with + if they have changed since; "" outside a checkout."""
    digest = _git("log", "-1", "--format=%h", "--abbrev=12", "--", *_judged(folder))
    return digest + "+" * bool(digest and _git("status", "--porcelain", "--", *_judged(folder)))


def later(first: str, folder: Path) -> list[str]:
    """Commits after `first` that changed the folder's claims or scenarios: short hash, date, subject; newest first."""
    span = f"{first.rstrip('+')}..HEAD"  # somebody else's file may name it
    return _git("log", "--format=%h %as %s", "--end-of-options", span, "--", *_judged(folder)).splitlines()
