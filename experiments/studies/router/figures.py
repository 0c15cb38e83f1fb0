# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The figure of thinning on a router: how fair 20 downloads are."""

from __future__ import annotations

from matplotlib.figure import Figure

from asymlab.palette import BLACK
from asymlab.report import drawing
from asymlab.report.plot import label

FAIR = 0.95  # as RT-1a has it
RATES = {"": 500, ", 200 kbit/s": 200}  # how a title of hosts ends, and the rate
KINDS = {"all ACKs": "o", "thinned, rate told": "s", "CAKE, ack-filter": "^"}


def fairness(results):
    places = [(c, end, kbit) for c in ("cubic", "reno", "bbr") for end, kbit in RATES.items()]
    figure = Figure(figsize=(7.5, 4.2))
    ax = figure.subplots()
    found = 0
    for n, (kind, marker) in enumerate(KINDS.items()):
        x, y = [], []
        for at, (c, end, _) in enumerate(places):
            indices = [r.metrics["jain"] for r in results.valid("RT-HOSTS", title=kind + end, flows__controller=c)]
            x += [at + 0.2 * (n - 1)] * len(indices)
            y += indices
        found += len(y)
        ax.plot(x, y, marker, linestyle="", markerfacecolor="none", label=kind)
    if not found:
        return None
    ax.axhline(FAIR, color=BLACK, linewidth=1, linestyle=":", label=f"{FAIR:g}")
    names = [f"{label(c)},\n{kbit} kbit/s" for c, _, kbit in places]
    ax.set(ylabel="Jain index of 20 downloads", ylim=(0, 1.15), xticks=range(len(places)), xticklabels=names)
    ax.legend(ncols=4, loc="upper center")
    return drawing.Figure(
        "router-fairness",
        "Six hosts with 20 downloads behind a router",
        "50 Mbit/s, 40 ms; the ACKs need 870 kbit/s, and the uplink has less. A point is a run. CAKE owns the uplink, "
        "and without it the uplink has one queue.",
        figure,
    )


FIGURES = (fairness,)
