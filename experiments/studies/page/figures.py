# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The page's time over the uplink's rate, from valid runs."""

from __future__ import annotations

from statistics import fmean

from matplotlib.figure import Figure

from asymlab import controllers
from asymlab.report import drawing

from . import measures

CONTROLLERS = ("cubic", "bbr", "bbr3", "formosa")
RATES = {"1mbit": 1000, "0.2mbit": 200, "0.05mbit": 50}  # of the uplink, kbit/s
BESIDE = {"PG-ALONE": "alone", "PG-DOWN": "beside a download", "PG-UP": "beside an upload"}
CAKE = {"PG-DOWN": "PG-CAKE", "PG-UP": "PG-UP-CAKE"}
END_S = 15  # the page had so long beside others
PLAIN, THINS = {"thin__thins": 0}, {"thin__thins": 1}
SENDERS = {  # of a download: scenario, point, colour, line
    "TCP, CUBIC": ("PG-TCP", PLAIN | {"hosts__server__controller": "cubic"}, "tab:blue", "-"),
    "the same, thinned": ("PG-TCP", THINS | {"hosts__server__controller": "cubic"}, "tab:blue", "--"),
    "QUIC, quic-go": ("PG-QUIC", {}, "tab:green", "-"),
    "QUIC, quinn": ("PG-QUINN", {"title": "two"}, "tab:red", "-"),
    "the same, an ACK for ten packets": ("PG-QUINN", {"title": "ten"}, "tab:red", "--"),
}


def means(results, id: str, measure, **point) -> list[tuple[int, float]]:
    """Over the uplink's rate, kbit/s; of the seeds."""
    points = []
    for rate, kbit in RATES.items():
        if runs := results.valid(id, path__reverse__rate=rate, **point):
            points.append((kbit, fmean(map(measure, runs))))
    return points


def over_rates(ax) -> None:
    ax.set(xscale="log", yscale="log", xlabel="uplink, kbit/s")
    ax.set_xticks(list(RATES.values()), [str(kbit) for kbit in RATES.values()])
    ax.minorticks_off()


def pages(results):
    """A panel for each neighbour; dashed with thinning, thin with CAKE."""
    figure = Figure(figsize=(11, 4.4))
    axes = figure.subplots(1, 3, sharey=True)
    for ax, (id, title) in zip(axes, BESIDE.items()):
        for name in CONTROLLERS:
            of = controllers.of(name)
            sender = {"hosts__server__controller" if "UP" in id or "ALONE" in id else "title": name}
            lines = [(id, PLAIN, "", {}), (id, THINS, ", thinned", {"linestyle": "--"})]
            if id in CAKE:
                lines.append((CAKE[id], {}, ", CAKE", {"linestyle": "-.", "linewidth": 0.8}))
            for scenario, router, word, look in lines:
                if not (points := means(results, scenario, measures.page_s, **sender, **router)):
                    return None
                ax.plot(*zip(*points, strict=True), label=of.label + word, **(of.look | {"linestyle": "-"} | look))
        ax.axhline(END_S, color="black", linewidth=0.8, linestyle=":")
        over_rates(ax)
        ax.set(ylim=(0.2, 20), title=title)
        ax.set_yticks([0.3, 1, 3, 10], ["0.3", "1", "3", "10"])
    axes[0].set_ylabel("the page took, s")
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside right center")
    return drawing.Figure(
        "page-time",
        "A page of 30 files over a slow uplink",
        "20 Mbit/s and 40 ms, queues of 100 packets, six connections. Dotted: the run's end. "
        "A page that was not there by then counts with that time.",
        figure,
    )


def downloads(results):
    figure = Figure(figsize=(6.4, 4.2))
    ax = figure.subplots()
    for label, (id, point, colour, line) in SENDERS.items():
        if not (points := means(results, id, measures.download, **point)):
            return None
        ax.plot(*zip(*points, strict=True), label=label, color=colour, linestyle=line, marker="o", markersize=3)
    over_rates(ax)
    ax.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    ax.set(ylabel="goodput, Mbit/s", ylim=(1, 20))
    ax.legend(frameon=False)
    return drawing.Figure(
        "page-download",
        "A download by QUIC and by TCP over a slow uplink",
        "5 MB over 20 Mbit/s and 40 ms, from the first to the last packet. quic-go has NewReno, the others CUBIC.",
        figure,
    )


FIGURES = (pages, downloads)
