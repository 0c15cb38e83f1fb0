# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The figure of one ACK a window: drops over the margin, all paths on one axis."""

from __future__ import annotations

from statistics import fmean

from matplotlib.figure import Figure

from asymlab.palette import BLACK, BLUE, GREEN, ORANGE, PURPLE
from asymlab.report import drawing
from asymlab.report.plot import ticks_at

from . import measures as law

LOOKS = {
    "sixteenth": {"color": PURPLE, "marker": "v", "label": "delta 1/16"},
    "eighth": {"color": ORANGE, "marker": "s", "label": "delta 1/8, the paper's"},
    "quarter": {"color": GREEN, "marker": "^", "label": "delta 1/4"},
    law.OWN: {"color": BLUE, "marker": "o", "label": "delta max(1/8, 4/W)"},
}
ELSEWHERE = {"color": BLACK, "marker": "x", "label": "another path"}
TICKS = (0.1, 0.2, 0.5, 1, 2, 4, 8, 16, 32)
LOSS = (0, 0.01, 0.1, 1, 10)


def lost(results, links) -> tuple[list[float], list[float]]:
    """The margins of some links, and how many packets of a thousand their queues drop, mean of the seeds."""

    def per_thousand(link, run) -> float:
        forward = link.forward(run)
        return 1000 * forward["drops"] / max(forward["packets"] + forward["drops"], 1)

    found = [(link, runs) for link in links if (runs := link.runs.valid(results))]
    return [link.margin for link, _ in found], [fmean(per_thousand(link, run) for run in runs) for link, runs in found]


def drops(results):
    by_delta = {name: lost(results, [link for link in law.LAW if link.controller == name]) for name in LOOKS}
    if not all(margins for margins, _ in by_delta.values()):
        return None
    figure = Figure(figsize=(7.5, 5.4))
    ax = figure.subplots()
    ax.axvspan(law.GROWTH / 2, law.GROWTH, color="#eeeeee", linewidth=0)
    ax.axvline(law.GROWTH, color=BLACK, linewidth=1)
    for name, (margins, losses) in by_delta.items():
        ax.plot(margins, losses, linestyle="", markersize=5, markerfacecolor="none", **LOOKS[name])
    margins, losses = lost(results, law.ELSEWHERE)
    ax.plot(margins, losses, linestyle="", markersize=6, **ELSEWHERE)
    ax.set_xscale("log")
    ax.set_yscale("symlog", linthresh=0.01, linscale=0.4)
    ax.set(
        xlabel="packets: the smaller of delta W and B / N", ylabel="packets dropped of a thousand", ylim=(-0.003, None)
    )
    ticks_at(ax.xaxis, TICKS)
    ticks_at(ax.yaxis, LOSS)
    ax.legend(loc="upper right")
    return drawing.Figure(
        "oneack-drops",
        "A stability law for one ACK a window",
        "TCP Formosa with 1 to 10 flows, base RTTs of 10 to 80 ms, queues of 10 to 100 packets and four deltas, each "
        "with each. W is the largest there is, (BDP + B) / N. The line is g = 4 packets.",
        figure,
    )


FIGURES = (drops,)
