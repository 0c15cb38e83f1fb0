# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The share of the flow whose receiver acknowledges each packet, from valid runs."""

from __future__ import annotations

from matplotlib.figure import Figure

from asymlab import controllers
from asymlab.palette import BLACK
from asymlab.report import drawing
from asymlab.report.measures import share

CONTROLLERS = ("cubic", "cubic9438", "reno", "fast", "fusion", "formosa", "taichung", "pseudorate", "bbr", "bbr3")
KINDS = ("every", "delayed", "swapped", "thinned")


def shares(results):
    """A column for each kind of receiver beside it, a dot for each seed."""
    figure = Figure(figsize=(10, 4))
    axes = figure.subplots(1, len(KINDS), sharex=True, sharey=True)
    for ax, kind in zip(axes, KINDS):
        order = (1, 0) if kind == "swapped" else (0, 1)
        for row, name in enumerate(CONTROLLERS):
            if not (runs := results.valid("AR-TWO", title=kind, flows__controller=name)):
                return None
            ax.plot([share(run, *order) for run in runs], [row] * len(runs), linestyle="", marker="|", color=BLACK)
        ax.axvline(0.5, linewidth=0.8, color="#aaaaaa")
        ax.set(xlim=(0, 1), title=kind, xlabel="share")
    axes[0].set_yticks(range(len(CONTROLLERS)), [controllers.of(name).label for name in CONTROLLERS])
    axes[0].invert_yaxis()
    return drawing.Figure(
        "ackratio-shares",
        "Two flows of one controller, of which one gets an ACK for each packet: its share of both",
        "10 Mbit/s, 80 ms, a queue of one BDP; a mark for each seed. Above: what the other receiver does.",
        figure,
    )


FIGURES = (shares,)
