# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Prints what docs/options.md tells of: build/venv/bin/python experiments/slowstart/table.py [NAME ...]

NAME is a scenario of this folder: queues, acks, jitter, leo. A cell has when the first slow start ends, in s; the
packets that the queue drops in ten seconds; goodput in Mbit/s. With `figure` it draws docs/slowstart.png instead. It
runs what the store does not hold.
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.figure import Figure

from asymlab.palette import BLUE, GREEN, GREY, VERMILLION
from asymlab.paths import REPO
from asymlab.report import columns, drawing
from asymlab.report.plot import steps
from asymlab.report.report import saved
from asymlab.results.store import Run

HERE = Path(__file__).parent
NAMES = ("queues", "acks", "jitter", "leo")
ENDLESS = 1 << 20  # packets: a larger ssthresh is none
PICTURE = "50 Mbit/s, 150 ms, 4 BDP"
DRAWN = {
    "cubic": ("CUBIC (HyStart)", GREY, "-"),
    "fusion": ("Fusion", VERMILLION, "-"),
    "fusion_hypp": ("Fusion, HyStart++", BLUE, "--"),
    "fusion_search": ("Fusion, SEARCH", GREEN, "-"),
}


def runs(name: str) -> dict[tuple[str, str], Run]:
    return columns.runs(HERE / f"cases.toml:{name}", jobs=1)


def left_at(run: Run) -> float | None:
    """When ssthresh is first a window."""
    over = run.acks["t"][run.acks["ssthresh"] <= ENDLESS]
    return float(over[0]) if len(over) else None


def cell(run: Run) -> str:
    if not run.valid:
        return "invalid"
    at, flow = left_at(run), run.metrics["flows"][0]
    return f"{'-' if at is None else f'{at:.2f}'} / {run.metrics['forward']['drops']} / {flow['goodput_bps'] / 1e6:.3g}"


def table(name: str) -> str:
    return columns.table(runs(name), cell)


def picture() -> Figure:
    found, figure = runs("queues"), Figure(figsize=(6, 2.9))
    ax = figure.subplots()
    for name, (label, colour, style) in DRAWN.items():
        acks = found[PICTURE, name].acks
        steps(ax, acks["t"], acks["cwnd"], (0, 6), label=label, color=colour, linestyle=style)
    ax.set(xlim=(0, 6), ylim=(0, None), xlabel="time, s", ylabel="window, packets")
    ax.legend()
    return figure


def figure() -> None:
    with drawing.style():
        drawn = saved(drawing.Figure("slowstart", "", "", picture()), "png", dpi=100)
    (REPO / "docs" / "slowstart.png").write_bytes(drawn)


def main(names: list[str]) -> None:
    columns.tell(names, NAMES, table, {"figure": figure})


if __name__ == "__main__":
    main(sys.argv[1:])
