# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Prints the sweeps behind docs/choosing.md as tables: build/venv/bin/python experiments/choosing/table.py [NAME ...]

NAME is a scenario of this folder: alone, beside, loss, jitter, acks. A cell has goodput in Mbit/s, then the mean RTT
above the empty path's in ms; beside CUBIC it has what CUBIC has instead. It runs what the store does not hold; all of
it takes some hours by the engine qemu.
"""

from __future__ import annotations

import sys
from pathlib import Path

from asymlab import controllers
from asymlab.link.row import Row
from asymlab.report import columns
from asymlab.results.store import Run

HERE = Path(__file__).parent
NAMES = ("alone", "beside", "loss", "jitter", "acks")


def cell(run: Run) -> str:
    if not run.valid:
        return "invalid"
    first, *others = run.metrics["flows"]
    if others:
        return f"{first['goodput_bps'] / 1e6:.3g} / {others[0]['goodput_bps'] / 1e6:.3g}"
    row = Row(first["controller"], run)
    return f"{row.goodput / 1e6:.3g}, {1e3 * row.rtt - run.job.probes[0].base_rtt_us / 1e3:.0f}"


def table(name: str) -> str:
    return columns.table(columns.runs(HERE / f"cases.toml:{name}"), cell, lambda name: controllers.of(name).label)


def main(names: list[str]) -> None:
    columns.tell(names, NAMES, table)


if __name__ == "__main__":
    main(sys.argv[1:])
