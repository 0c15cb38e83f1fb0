# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The branches of TCP and of BPF programs that a run reached, as a kernel with CONFIG_ASYMLAB_COVERAGE tells them."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

SETTING = b"CONFIG_ASYMLAB_COVERAGE=y\n"
BITS, AT = 20, 511 << 20  # as in coverage.h


def told(shared: Path) -> str:
    """Those of a run that has ended, as a word of its record."""
    with open(shared, "rb") as file:
        file.seek(AT)
        return base64.b64encode(zlib.compress(file.read(1 << BITS))).decode()


def branches(word: str) -> bytes:
    """A byte for each place of the map, not 0 if it was reached."""
    return zlib.decompressobj().decompress(base64.b64decode(word), 1 << BITS)
