# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The map of downloads beside uploads, from valid runs."""

from __future__ import annotations

from statistics import fmean

from matplotlib.figure import Figure

from asymlab import controllers
from asymlab.report import drawing

from . import claims as two


def figures(results) -> list[drawing.Figure]:
    with drawing.style():
        drawn = [over_ratio(results)]
    return [f for f in drawn if f]


def mean_of(runs, measure) -> float | None:
    return fmean(map(measure, runs)) if runs else None


def over_ratio(results):
    """A panel for each number of uploads: download over the ratio of the rates, with the longer uplink queue."""
    figure = Figure(figsize=(11, 4.4))
    axes = figure.subplots(1, 3, sharey=True)
    for ax, uploads in zip(axes, (0, *two.UPLOADS)):
        for name in ("cubic", *two.OTHERS):
            points = []
            for rate, times in two.RATES.items():
                alone = two.Runs("TW-ALONE", path__reverse__rate=rate, flows__0__controller=name)
                runs = (two.at(name, uploads, rate, 40) if uploads else alone).valid(results)
                if (value := mean_of(runs, two.download)) is not None:
                    points.append((times, value))
            if not points:
                return None
            of = controllers.of(name)
            ax.plot(*zip(*points, strict=True), label=of.label, **of.look)
        ax.set(xscale="log", xlabel="downlink's rate over the uplink's", ylim=(0, 20))
        ax.set_xticks(list(two.RATES.values()), [str(times) for times in two.RATES.values()])
        ax.minorticks_off()
        ax.set_title("alone" if not uploads else f"beside {uploads} upload{'s' * (uploads > 1)}")
    axes[0].set_ylabel("download, Mbit/s")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center")
    return drawing.Figure(
        "twoway-ratio",
        "A download beside uploads",
        "20 Mbit/s and 40 ms down with a queue of one BDP, and 40 packets in the uplink's queue. CUBIC uploads.",
        figure,
    )
