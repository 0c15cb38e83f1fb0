# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The goodput that bursts leave, and the RTT after a fall of the rate."""

from __future__ import annotations

from functools import partial
from statistics import fmean
from typing import NamedTuple

from matplotlib.figure import Figure

from asymlab import controllers
from asymlab.report import drawing
from asymlab.report.measures import goodput

from .measures import long_s, longest_rtt_ms

CONTROLLERS = ("prague", "cubic", "taichung", "fusion", "fast")
QUEUES = {"FQ-CoDel": "L4S-FQ-CODEL", "DualPI2": "L4S-DUALPI2"}
RTTS, RATES = (20, 80), (25, 5, 1)  # ms; Mbit/s


def kept(results, **of) -> float | None:
    """The goodput with bursts over that without."""
    rtt = of.pop("x")
    burst, even = (results.valid(title=f"{rtt} ms, {way}", **of) for way in ("bursts", "even"))
    return fmean(map(goodput, burst)) / fmean(map(goodput, even)) if burst and even else None


def after(results, measure, **of) -> float | None:
    rate = of.pop("x")
    runs = results.valid(title=f"to {rate} Mbit/s", **of)
    return fmean(map(measure, runs)) if runs else None


class Plot(NamedTuple):
    name: str
    title: str
    x: str
    xs: tuple[int, ...]
    y: str
    value: object


PLOTS = (
    Plot("l4s-bursts", "Goodput that bursts leave", "RTT, ms", RTTS, "goodput over that without bursts", kept),
    Plot(
        "l4s-longest",
        "The longest RTT after a fall",
        "Mbit/s, of 50",
        RATES,
        "ms",
        partial(after, measure=longest_rtt_ms),
    ),
    Plot("l4s-long", "How long RTTs stay above 280 ms", "Mbit/s, of 50", RATES, "s", partial(after, measure=long_s)),
)


def drawn(results, plot: Plot) -> drawing.Figure | None:
    figure = Figure(figsize=(7, 4))
    ax = figure.subplots()
    for queue, id in QUEUES.items():
        for name in CONTROLLERS:
            points = [(x, plot.value(results, id=id, flows__0__controller=name, x=x)) for x in plot.xs]
            if any(y is None for _, y in points):
                return None
            of = controllers.of(name)
            ax.plot(
                *zip(*points),
                **of.look | {"linestyle": "-" if queue == "DualPI2" else ":"},
                label=f"{of.label}, {queue}",
            )
    ax.set(xlabel=plot.x, ylabel=plot.y, ylim=0)
    ax.legend(fontsize=7)
    return drawing.Figure(plot.name, plot.title, "50 Mbit/s behind a hop of 100. FQ-CoDel is dotted.", figure)


FIGURES = tuple(partial(drawn, plot=plot) for plot in PLOTS)
