# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs as one table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from .store import Run


def flows(runs: Iterable[Run]) -> pa.Table:
    """A row a flow: of its run key, name, seed, valid and the values of the sweep; then its metrics (metrics.py).

    The percentiles of its RTT are rtt_p50_s and so on. `.to_pandas()` makes a frame of pandas, if that is installed.
    """
    rows = [_row(run, flow) for run in runs for flow in run.metrics["flows"]]
    columns = dict.fromkeys(column for row in rows for column in row)
    return pa.table({column: _array([row.get(column) for row in rows]) for column in columns})


def _row(run: Run, flow: dict) -> dict[str, Any]:
    of_run = {"key": run.key, "name": run.record["name"], "seed": run.record["seed"], "valid": run.valid}
    metrics = {k: v for k, v in flow.items() if k != "rtt_s"}
    rtt = {f"rtt_{k}_s": v for k, v in flow["rtt_s"].items()}
    return of_run | run.record["point"] | metrics | rtt


def _array(values: list) -> pa.Array:
    """Texts, if a sweep's values are of several kinds."""
    kinds = {type(v) for v in values if v is not None}
    if len(kinds) > 1 and not kinds <= {int, float} or not kinds <= {bool, int, float, str}:
        values = [None if v is None else str(v) for v in values]
    return pa.array(values)
