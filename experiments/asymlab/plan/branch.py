# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Branches: runs that are the same up to a moment, and have other chance from there on."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from .quantities import Time
from .queues import Model

DRAW = "run.branch.draw"
DRAWS_MAX = 10_000


class Branch(Model):
    """From a moment on chance is another: losses, jitter, ports and what controllers draw."""

    at: Time = Field(description="The moment, before the end.")
    draw: int = Field(1, ge=1, lt=2**31, description="Each has a chance of its own.")
    draws: int = Field(1, ge=1, le=DRAWS_MAX, description="Cases with so many of these, from `draw` on.")


def draws(tree: dict[str, Any]) -> dict[str, list[int]]:
    """The axis of a scenario's draws, if it asks for more than one. A value that cannot be is left to Branch."""
    run = tree.get("run")
    branch = run.get("branch") if isinstance(run, dict) else None
    first, count = (branch.get(key, 1) for key in ("draw", "draws")) if isinstance(branch, dict) else (1, 1)
    if type(first) is not int or type(count) is not int or not 1 < count <= DRAWS_MAX:
        return {}
    return {DRAW: list(range(first, first + count))}
