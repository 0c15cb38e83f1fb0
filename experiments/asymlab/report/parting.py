# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The first ACK at which two runs part, with the sender's state in both.

The same kernel gives the same bytes again. So the first difference is where the code first behaved in another way.
ACKs are paired flow by flow: the first of a flow with the first, and so on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..results.store import Run

OTHER_TABLES = ("goodput", "links")
SAME = "each table is the same"


class Parting(NamedTuple):
    """A difference, and its time."""

    t: float  # s
    words: str


def parting(a: Run, b: Run) -> str:
    """In one line; SAME if the tables tell no difference."""
    flows = sorted({*np.unique(a.acks["flow"]), *np.unique(b.acks["flow"])})
    first = [_of_flow(int(flow), *(run.acks[run.acks["flow"] == flow] for run in (a, b))) for flow in flows]
    if known := [one for one in first if one]:
        return min(known).words
    for name in OTHER_TABLES:
        x, y = (getattr(run, name) for run in (a, b))
        if at := _row(x, y, _common(x, y)):
            row, words = at
            return f"all ACKs are the same; {name} at t = {x['t'][row]:.6f} s: {words}"
    unlike = _unlike(a.record["agent"], b.record["agent"], "agent")
    return f"{SAME}; {unlike}" if unlike else SAME


def _of_flow(flow: int, x: np.ndarray, y: np.ndarray) -> Parting | None:
    """The first ACK of a flow whose state differs; or whose time does, if no state differs."""
    state = [c for c in _common(x, y) if c not in ("flow", "t")]
    if not (at := _row(x, y, state) or _row(x, y, ["t"])):
        return None
    row, words = at
    there = x if row < len(x) else y
    t = float(there["t"][row])
    return Parting(t, f"t = {t:.6f} s, flow {flow}, ACK {row + 1}: {words}")


def _common(x: np.ndarray, y: np.ndarray) -> list[str]:
    """The columns that both have: another version of the lab may write one more."""
    return [c for c in x.dtype.names or () if c in (y.dtype.names or ())]


def _row(x: np.ndarray, y: np.ndarray, columns: list[str]) -> tuple[int, str] | None:
    """The first row in which one of the columns differs, and both values of those that do."""
    both = min(len(x), len(y))
    differs = np.zeros(both, bool)
    for c in columns:
        differs |= x[c][:both] != y[c][:both]
    if differs.any():
        row = int(differs.argmax())
        values = ((c, x[c][row].item(), y[c][row].item()) for c in columns)
        return row, "; ".join(
            f"{c} {v:.10g}, {w:.10g}" if c == "t" else f"{c} {v}, {w}" for c, v, w in values if v != w
        )
    if len(x) != len(y):
        return both, f"{'B' if len(x) == both else 'A'} alone has it"
    return None


def _unlike(a: Any, b: Any, where: str) -> str:
    """The first member in which two values of JSON differ, and both of its values."""
    if isinstance(a, dict) and isinstance(b, dict):
        names = [name for name in {**a, **b} if a.get(name) != b.get(name)]
        return _unlike(a.get(names[0]), b.get(names[0]), f"{where}.{names[0]}") if names else ""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)
        return "" if at is None else _unlike(a[at], b[at], f"{where}.{at}")
    return "" if a == b else f"{where}: {str(a)[:60]}, {str(b)[:60]}"
