# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs as one table: a list of rows, which `pandas.DataFrame` and its like take as it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .programs import numbers
from .store import Run


def flows(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """A row a flow: of its run key, name, seed, valid and the values of the sweep; then its metrics (metrics.py).

    The percentiles of its RTT are rtt_p50_s and so on, those of its replies reply_p50_s. All rows have all columns; a
    value that a flow has not is None.
    """
    return _even([_row(run, flow) for run in runs for flow in run.metrics["flows"]])


def programs(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """A row a program: of its run the same; then its name and host, and its numbers by their paths (programs.py)."""
    return _even(
        [
            _of_run(run) | {"program": name, "host": record["host"], "start_s": record["start_s"]} | numbers(record)
            for run in runs
            for name, record in run.programs.items()
        ]
    )


def connections(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """A row for each direction of a program's connection (connections.py)."""
    return _even([_row(run, connection) for run in runs for connection in run.connections])


def _even(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    columns = dict.fromkeys(column for row in rows for column in row)
    return [columns | row for row in rows]


def _row(run: Run, flow: dict) -> dict[str, Any]:
    metrics = {k: v for k, v in flow.items() if k not in ("rtt_s", "reply_s")}
    times = {f"{of}_{k}_s": v for of in ("rtt", "reply") for k, v in flow.get(f"{of}_s", {}).items()}
    return _of_run(run) | metrics | times


def _of_run(run: Run) -> dict[str, Any]:
    about = {"key": run.key, "name": run.record["name"], "seed": run.record["seed"], "valid": run.valid}
    return about | run.record["point"]
