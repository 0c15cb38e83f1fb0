# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A cage: a program in it sees no network, no process but its own, and opens no file but those it is given.

Bubblewrap makes it of namespaces, and Landlock (landlock.py) makes one where that may not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from . import LabError, landlock
from .needs import how

CAGE = "ASYMLAB_CAGE"  # `none`: scenarios and sources are trusted with all that the user may do; or one of the kinds
WORDS = (
    *"bwrap --unshare-all --unshare-user --die-with-parent --new-session --clearenv --cap-drop ALL".split(),
    *"--uid 65534 --gid 65534 --hostname lab".split(),
)


class Cage(Enum):
    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    NONE = "none"


def kind(inmate: str, instead: str) -> Cage:
    """The cage that this machine can make, or the user wants. LabError where there can be none: `instead` is what the
    user may do."""
    wanted = os.environ.get(CAGE, "")
    if wanted and wanted not in [cage.value for cage in Cage]:
        raise LabError(f"{CAGE}={wanted[:20]}: none, bubblewrap or landlock")
    if wanted == Cage.NONE.value:
        return Cage.NONE
    lacks = {cage: lack for cage, lack in LACKS.items() if wanted in ("", cage.value)}
    reasons = []
    for cage, lack in lacks.items():
        if not (reason := lack()):
            return cage
        reasons.append(reason)
    raise LabError(
        f"no cage for {inmate} here ({'; '.join(reasons)}): {instead}; with {CAGE}=none in the environment {inmate} "
        "may do what you may, for scenarios, sources and objects that you trust"
    )


def _bubblewrap_lacks() -> str:
    if not shutil.which("bwrap"):
        return f"bwrap: not installed; {how(['bwrap'])}"
    trial = "--ro-bind / / --proc /proc --dev /dev --chdir / /bin/true"  # some containers let nobody mount a /proc
    p = subprocess.run([*WORDS, *trial.split()], capture_output=True, text=True)
    return (p.stderr.strip().splitlines() or ["bwrap: no word"])[-1] if p.returncode else ""


def _landlock_lacks() -> str:
    if os.uname().machine != "x86_64":
        return "Landlock: its filter of system calls is for x86-64"
    there = landlock.version()
    return "" if there >= landlock.WANTED else f"Landlock {there or 'is off'}, and {landlock.WANTED} keeps signals in"


LACKS = {Cage.BUBBLEWRAP: _bubblewrap_lacks, Cage.LANDLOCK: _landlock_lacks}


def confined(read: Iterable[Path], run: Iterable[Path], write: Iterable[Path], filter: int) -> list[str]:
    """The command that a program's goes behind. filter: the file descriptor of a seccomp program, which it inherits."""
    places = {key: [str(p) for p in paths] for key, paths in (("read", read), ("run", run), ("write", write))}
    return [sys.executable, "-I", "-S", landlock.__file__, json.dumps(places | {"filter": filter})]
