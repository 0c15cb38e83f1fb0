# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Files that somebody else may have made."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from . import LabError


def read(file: Path, most: int) -> bytes:
    """LabError unless it is a regular file of at most so many bytes: a FIFO would be waited for without end."""
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), "rb") as opened:
        about = os.fstat(opened.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise LabError(f"{file}: not a regular file")
        if about.st_size > most:
            raise LabError(f"{file}: {about.st_size} bytes, more than the {most} that it may have")
        return opened.read(about.st_size)
