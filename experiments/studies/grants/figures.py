# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Queue and goodput over the length of a turn, from valid runs."""

from __future__ import annotations

from statistics import fmean

from matplotlib.figure import Figure

from asymlab import controllers
from asymlab.report import drawing
from asymlab.report.measures import goodput

from . import measures

CONTROLLERS = ("cubic", "reno", "bbr", "bbr3", "fast", "fusion", "taichung", "pseudorate", "formosa")
TURNS = (0, 2, 4, 6, 8, 10)  # ms
WAYS = {"GR-DOWN": "download", "GR-UP": "upload"}
ROWS = {"goodput, Mbit/s": goodput, "mean queue, ms": measures.queue_ms}


def over_turns(results):
    """A column for each line and way, a row for goodput and one for the queue."""
    figure = Figure(figsize=(13, 6.5))
    axes = figure.subplots(2, 4, sharex=True)
    columns = [(line, id) for line in ("cable", "LTE") for id in WAYS]
    for column, (line, id) in enumerate(columns):
        for name in CONTROLLERS:
            runs = [results.valid(id, title=f"{line} {turn} ms", flows__controller=name) for turn in TURNS]
            if not all(runs):
                return None
            of = controllers.of(name)
            for ax, measure in zip(axes[:, column], ROWS.values(), strict=True):
                ax.plot(TURNS, [fmean(map(measure, of_turn)) for of_turn in runs], label=of.label, **of.look)
        axes[0, column].set_title(f"{line}, {WAYS[id]}")
        axes[1, column].set_xlabel("turn, ms")
        for ax in axes[:, column]:
            ax.set_ylim(0)
    for ax, label in zip(axes[:, 0], ROWS, strict=True):
        ax.set_ylabel(label)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center")
    return drawing.Figure(
        "grants-turns",
        "Goodput and queue over the medium's turns",
        "An uplink of 6 Mbit/s that sends in turns. Downloads have 24 Mbit/s and 20 ms, or 13 Mbit/s and 70 ms.",
        figure,
    )


FIGURES = (over_turns,)
