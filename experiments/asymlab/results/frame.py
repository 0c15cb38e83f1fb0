# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs as one table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from .programs import numbers
from .store import Run


def flows(runs: Iterable[Run]) -> pa.Table:
    """A row a flow: of its run key, name, seed, valid and the values of the sweep; then its metrics (metrics.py).

    The percentiles of its RTT are rtt_p50_s and so on, those of its replies reply_p50_s. `.to_pandas()` makes a frame
    of pandas, if that is installed.
    """
    return _table([_row(run, flow) for run in runs for flow in run.metrics["flows"]])


def programs(runs: Iterable[Run]) -> pa.Table:
    """A row a program: of its run the same; then its name and host, and its numbers by their paths (programs.py)."""
    return _table(
        [
            _of_run(run) | {"program": name, "host": record["host"], "start_s": record["start_s"]} | numbers(record)
            for run in runs
            for name, record in run.programs.items()
        ]
    )


def connections(runs: Iterable[Run]) -> pa.Table:
    """A row for each direction of a program's connection (connections.py)."""
    return _table([_row(run, connection) for run in runs for connection in run.connections])


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    columns = dict.fromkeys(column for row in rows for column in row)
    return pa.table({column: _array([row.get(column) for row in rows]) for column in columns})


def _row(run: Run, flow: dict) -> dict[str, Any]:
    metrics = {k: v for k, v in flow.items() if k not in ("rtt_s", "reply_s")}
    times = {f"{of}_{k}_s": v for of in ("rtt", "reply") for k, v in flow.get(f"{of}_s", {}).items()}
    return _of_run(run) | metrics | times


def _of_run(run: Run) -> dict[str, Any]:
    about = {"key": run.key, "name": run.record["name"], "seed": run.record["seed"], "valid": run.valid}
    return about | run.record["point"]


def _array(values: list) -> pa.Array:
    """Texts, if a sweep's values are of several kinds."""
    kinds = {type(v) for v in values if v is not None}
    if len(kinds) > 1 and not kinds <= {int, float} or not kinds <= {bool, int, float, str}:
        values = [None if v is None else str(v) for v in values]
    return pa.array(values)
