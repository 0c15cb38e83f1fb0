# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Where things are: the repository, the build folder that holds all output, the store that machines may share."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
GUEST = PACKAGE / "guest"
TEMPLATES = PACKAGE / "report" / "templates"
REPO = PACKAGE.parent.parent
EXPERIMENTS = REPO / "experiments"
BUILD = Path(os.environ.get("ASYMLAB_BUILD", REPO / "build")).resolve()
IMAGES = BUILD / "image"
STORE = Path(os.environ.get("ASYMLAB_STORE", BUILD / "store")).resolve()
REPORT = BUILD / "report"
RESULTS = REPO / "docs" / "results"  # published


def near(path: Path) -> Path:
    """As it is called from here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
