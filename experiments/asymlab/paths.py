# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The places of things: the tree, what `make` built of it, the folder of all output, the store that machines may share.

In a clone `make` and the lab write into one folder, build/, and keep a kernel that they build in the user's cache. An
installed package brings the parts of the tree that it needs, with what was built of them, and writes into that cache.
"""

from __future__ import annotations

import os
import re
from pathlib import Path


def _given(variable: str) -> Path | None:
    """A folder that the environment names; an empty name is none."""
    return Path(os.environ[variable]).resolve() if os.environ.get(variable) else None


def _cache() -> Path:
    """The user's, by the XDG Base Directory Specification: a name that is not absolute counts for nothing."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return Path(named if os.path.isabs(named) else os.path.expanduser("~/.cache"), "asymlab")


CACHE = _cache()
PACKAGE = Path(__file__).resolve().parent
BROUGHT = PACKAGE / "tree"  # of an installation alone: setup.py lays it out
INSTALLED = BROUGHT.is_dir()
REPO = BROUGHT if INSTALLED else PACKAGE.parent.parent
GUEST = PACKAGE / "guest"
TEMPLATES = PACKAGE / "report" / "templates"
EXPERIMENTS = REPO / "experiments"
# Loader and BPF objects.
BUILT = REPO / "build" if INSTALLED else _given("ASYMLAB_BUILD") or REPO / "build"
# All that the lab writes, but what a command is told to write elsewhere. In a clone `make` looks for images there.
BUILD = _given("ASYMLAB_HOME") or CACHE if INSTALLED else BUILT
IMAGES = BUILD / "image"
BROUGHT_IMAGES = BUILT / "image"  # in a clone the same folder
STORE = _given("ASYMLAB_STORE") or BUILD / "store"
REPORT = BUILD / "report"
RESULTS = (Path.cwd() if INSTALLED else REPO) / "docs" / "results"  # published
ELSEWHERE = "; ASYMLAB_HOME names another folder" if INSTALLED else ""  # for one that cannot be written to
COMMAND = "asymlab" if INSTALLED else "build/venv/bin/asymlab"


def near(path: Path) -> Path:
    """The path from the current folder, for what is below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def split(file: Path) -> tuple[Path, str]:
    """A file of scenarios, and the case of it that FILE:CASE names; "": none."""
    found = re.fullmatch(r"(.+):([a-z0-9-]{1,40})", str(file))
    return (Path(found[1]), found[2]) if found and not os.path.exists(file) else (file, "")


def brought(file: Path) -> Path:
    """A file that the user names: from here, or if there is none the tree's own (experiments/links/cases.toml:leo)."""
    there = split(file)[0]
    own = not os.path.exists(there) and os.path.isfile(REPO / there)  # Path.exists raises in a closed folder
    return REPO / file if own else file
