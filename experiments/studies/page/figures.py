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
END_S = 15  # the page had so long beside others


def times(results, id: str, name: str, thins: int) -> list[tuple[int, float]]:
    """(kbit/s, s), mean of the seeds."""
    key = {"title": name} if id == "PG-DOWN" else {"hosts__server__controller": name}
    points = []
    for rate, kbit in RATES.items():
        if runs := results.valid(id, path__reverse__rate=rate, thin__thins=thins, **key):
            points.append((kbit, fmean(map(measures.page_s, runs))))
    return points


def over_rate(results):
    """A panel for each neighbour; dashed with thinning."""
    figure = Figure(figsize=(11, 4.4))
    axes = figure.subplots(1, 3, sharey=True)
    for ax, (id, title) in zip(axes, BESIDE.items()):
        for name in CONTROLLERS:
            of = controllers.of(name)
            for thins, line in ((0, "-"), (1, "--")):
                if not (points := times(results, id, name, thins)):
                    return None
                label = f"{of.label}{', thinned' * thins}"
                ax.plot(*zip(*points, strict=True), label=label, **(of.look | {"linestyle": line}))
        ax.axhline(END_S, color="black", linewidth=0.8, linestyle=":")
        ax.set(xscale="log", yscale="log", xlabel="uplink, kbit/s", ylim=(0.2, 20))
        ax.set_xticks(list(RATES.values()), [str(kbit) for kbit in RATES.values()])
        ax.set_yticks([0.3, 1, 3, 10], ["0.3", "1", "3", "10"])
        ax.minorticks_off()
        ax.set_title(title)
    axes[0].set_ylabel("the page took, s")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center")
    return drawing.Figure(
        "page-time",
        "A page of 30 files over a slow uplink",
        "20 Mbit/s and 40 ms, queues of 100 packets, six connections. Dotted: the run's end. "
        "A page that was not there by then counts with that time.",
        figure,
    )


FIGURES = (over_rate,)
