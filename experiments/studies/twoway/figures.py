# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The map of downloads beside uploads, from valid runs."""

from __future__ import annotations

from statistics import fmean

from matplotlib.figure import Figure

from asymlab import controllers
from asymlab.report import drawing

from . import measures

CONTROLLERS = ("cubic", "bbr", "bbr3", "fast", "fusion", "taichung", "pseudorate", "formosa")
RATES = {"2mbit": 10, "0.4mbit": 50, "0.2mbit": 100}  # of the uplink, and how many times as much the downlink has


def downloads(results, name: str, uploads: int) -> list[tuple[int, float]]:
    """(how many times slower the uplink is, Mbit/s), mean of the seeds."""
    points = []
    for rate, times in RATES.items():
        beside = {"path__reverse__queue": 40, "flows__1__count": uploads}
        id, more = ("TW-MAP", beside) if uploads else ("TW-ALONE", {})
        if runs := results.valid(id, path__reverse__rate=rate, flows__0__controller=name, **more):
            points.append((times, fmean(map(measures.download, runs))))
    return points


def over_ratio(results):
    """A panel for each number of uploads: download over the ratio of the rates, with the longer uplink queue."""
    figure = Figure(figsize=(11, 4.4))
    axes = figure.subplots(1, 3, sharey=True)
    for ax, uploads in zip(axes, (0, 1, 4)):
        for name in CONTROLLERS:
            if not (points := downloads(results, name, uploads)):
                return None
            of = controllers.of(name)
            ax.plot(*zip(*points, strict=True), label=of.label, **of.look)
        ax.set(xscale="log", xlabel="downlink's rate over the uplink's", ylim=(0, 20))
        ax.set_xticks(list(RATES.values()), [str(times) for times in RATES.values()])
        ax.minorticks_off()
        ax.set_title("alone" if not uploads else f"beside {uploads} upload{'s' * (uploads > 1)}")
    axes[0].set_ylabel("download, Mbit/s")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
    return drawing.Figure(
        "twoway-ratio",
        "A download beside uploads",
        "20 Mbit/s and 40 ms down with a queue of one BDP, and 40 packets in the uplink's queue. CUBIC uploads.",
        figure,
    )


FIGURES = (over_ratio,)
