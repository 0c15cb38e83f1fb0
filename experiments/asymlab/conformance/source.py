# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The source of an image's kernel, which has the kernel's own tests."""

from __future__ import annotations

from pathlib import Path

from .. import LabError
from ..console import console
from ..machine.kernel import series
from ..machine.uml import source


def of_release(release: str) -> Path:
    """The source of a package, with its tests: fetched, unless it is there."""
    if here := sorted(source.TREES.glob(f"linux-source-*_{release}-*/tools/testing/selftests")):
        return here[0].parents[2]
    found = source.find(".".join(map(str, series(release))), console.print).called("to-read")
    if not found.version.startswith(f"{release}-"):
        raise LabError(f"source of Linux {release}: the package source has {found.version}; name the folder of yours")
    source.unpack(found, console.print)
    return found.tree
