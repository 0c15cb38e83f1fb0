# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A machine that runs a job: what its console says, and how long it may take."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

from .. import LabError
from ..guest.protocol import Fault

CONSOLE_MAX = 1 << 20  # characters; a run says a few lines
WORDS_MAX = 1000  # characters of a guest's complaint that are repeated


class Watched:
    """A process of a machine, with its console in a file of its folder."""

    folder: Path
    process: subprocess.Popen
    heard = 0  # bytes of the console that are of jobs before

    def console(self) -> str:
        try:
            with open(self.folder / "console", errors="replace") as f:
                f.seek(self.heard)
                return f.read(CONSOLE_MAX)
        except FileNotFoundError:
            return ""

    def check_patience(self, until: float, limit_s: float) -> None:
        """LabError of one that does not end."""
        text = self.console()
        if len(text) == CONSOLE_MAX:
            raise LabError(f"virtual machine: talks without end: {text[-200:].splitlines()[-1]}", Fault.MACHINE)
        if time.monotonic() > until:
            late = f"no end after {limit_s:.0f} s of wall time ({self.complaint()})"
            raise LabError(f"virtual machine: {late}; a shorter duration or a lower rate helps", Fault.MACHINE)

    def complaint(self) -> str:
        """The console's words on a machine that ended without results."""
        lines = self.console().strip().splitlines()
        error = next((line for line in lines if re.search(r"Error|panic|BUG|Out of memory", line)), None)
        return (error or (lines[-1] if lines else "no word on its console"))[:WORDS_MAX]
