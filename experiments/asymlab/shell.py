# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Other programs: their output, or why they failed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from . import LabError
from .needs import how


def word(part: str | Path) -> str:
    """A word of a command. A path, which may have a stranger's name, is no option and no file of options (@FILE)."""
    return f"./{part}" if isinstance(part, Path) and str(part).startswith(("-", "@")) else str(part)


def sh(*argv: str | Path, **kw) -> str:
    """Output of a command; LabError with its last words if it fails."""
    try:
        p = subprocess.run(list(map(word, argv)), capture_output=True, text=True, **kw)
    except FileNotFoundError:
        raise LabError(f"{argv[0]}: not installed; {how([str(argv[0])])}") from None
    if p.returncode:
        words = (p.stderr or p.stdout).strip().splitlines()
        raise LabError(f"{argv[0]} failed: {words[-1] if words else f'exit {p.returncode}'}")
    return p.stdout
