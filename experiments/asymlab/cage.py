# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A cage (bubblewrap): a program in it sees no network, no process but its own, and no file but those it is given."""

from __future__ import annotations

import os
import subprocess

from . import LabError
from .needs import check

CAGE = "ASYMLAB_CAGE"  # `none`: scenarios and sources are trusted with all that the user may do
WORDS = (
    *"bwrap --unshare-all --unshare-user --die-with-parent --new-session --clearenv --cap-drop ALL".split(),
    *"--uid 65534 --gid 65534 --hostname lab".split(),
)


def bubble(inmate: str, instead: str) -> tuple[str, ...]:
    """The command that a program's goes behind; its files are added. Empty if the user wants none. LabError where there
    can be none: `instead` is what the user may do."""
    if os.environ.get(CAGE) == "none":
        return ()
    check(["bwrap"], "", instead)
    p = subprocess.run([*WORDS, *"--ro-bind / / --chdir / /bin/true".split()], capture_output=True, text=True)
    if p.returncode:
        words = (p.stderr.strip().splitlines() or ["no word"])[-1]
        raise LabError(
            f"no cage for {inmate} here ({words}): {instead}; with {CAGE}=none in the environment {inmate} may do what "
            "you may, for scenarios, sources and objects that you trust"
        )
    return WORDS
