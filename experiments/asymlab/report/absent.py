# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A run of a set that was not made (`asymlab suite --only`): whoever reads a result of it is told so by Missing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..results.store import Run

if TYPE_CHECKING:
    from ..run.tasks import Task


class Missing(Exception):
    """A result of a run that was not made."""


class _Record(dict):
    def __missing__(self, key: str) -> Any:
        raise Missing


class Absent(Run):
    """It knows what it would run, and no result."""

    @classmethod
    def of(cls, task: Task) -> Absent:
        about = {"key": task.key, "identity": task.identity, "invalid": []}
        return cls(Path(), _Record(task.about("lab") | about))

    def _table(self, name: str) -> Any:
        raise Missing

    def capture(self, side: str, hop: int = 1) -> Any:
        raise Missing

    def state(self, flow: int) -> Any:
        raise Missing
