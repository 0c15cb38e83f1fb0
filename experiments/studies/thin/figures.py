# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figures of ACK thinning, from valid runs; a figure without its runs is left out."""

from __future__ import annotations

from statistics import fmean

import numpy as np
from matplotlib.figure import Figure

from asymlab.palette import BLACK
from asymlab.report import drawing, papers
from asymlab.report.measures import goodput
from asymlab.report.plot import label

fast = papers.module("fast", "measures")
UPLINKS = {"200kbit": "a quarter of the rate that its ACKs need", "2mbit": "twice that rate"}


def figures(results) -> list[drawing.Figure]:
    with drawing.style():
        drawn = [over_k_f(results), slow(results), *(uplink(results, rate) for rate in UPLINKS), cake(results)]
    return [f for f in drawn if f]


def over_k_f(results):
    runs = {rate: results.valid("TH-KF", path__reverse__rate=rate) for rate in fast.RATES}
    runs = {rate: found for rate, found in runs.items() if found}
    if len(runs) < 3:
        return None
    figure = Figure(figsize=(7.5, 4.8))
    ax = figure.subplots()
    k = np.geomspace(0.35, 46, 200)
    ax.plot(k, [fast.theorem1(x) / 1e6 for x in k], color=BLACK, linewidth=1, label=r"Theorem 1, an ACK a packet")
    plain = {rate: of for rate in runs if (of := results.valid("FA-T1", path__reverse__rate=rate))}
    for found, style, name in ((plain, "s--", "FAST"), (runs, "o-", "FAST, ACKs thinned")):
        points = [
            (fast.k_f(fast.mbit(rate)), fmean(r.metrics["throughput_bps"] for r in of) / 1e6)
            for rate, of in found.items()
        ]
        if points:
            ax.plot(*zip(*points, strict=True), style, label=name)
    ax.set(xscale="log", xlabel="asymmetry factor $k_f$", ylabel="throughput, Mbit/s", ylim=(0, 105))
    ax.legend()
    return drawing.Figure(
        "thin-k-f",
        "FAST over the reverse rate, with ACK thinning",
        "100 Mbit/s, 40 ms. Theorem 1 holds for a receiver that answers each packet. With thinning the ACKs fit the "
        "reverse link.",
        figure,
    )


def bars(results, id: str, title: str, caption: str, name: str, limit: float, **point):
    """Goodput of each controller, without thinning and with it."""
    controllers = results.points(id, "flows.controller", **point)
    if not controllers:
        return None
    figure = Figure(figsize=(7.5, 4.2))
    ax = figure.subplots()
    for thins, offset, text in ((0, -0.2, "all ACKs"), (1, 0.2, "ACKs thinned")):
        heights = [
            fmean(map(goodput, of)) if (of := results.valid(id, thin__thins=thins, flows__controller=c, **point)) else 0
            for c in controllers
        ]
        drawn = ax.bar([i + offset for i in range(len(controllers))], heights, width=0.38, label=text)
        ax.bar_label(drawn, fmt="%.1f", fontsize=9)
    ax.axhline(limit, color=BLACK, linewidth=1, linestyle=":", label="the link")
    ax.set(ylabel="goodput, Mbit/s", xticks=range(len(controllers)), xticklabels=[label(c) for c in controllers])
    ax.set_ylim(0, limit * 1.25)
    ax.legend(ncols=3, loc="upper center")
    return drawing.Figure(name, title, caption, figure)


def slow(results):
    return bars(
        results,
        "TH-SLOW",
        "Stock senders at r = 20",
        "10 Mbit/s, 40 ms, packets of 1000 bytes; the reverse link carries 62 ACKs a second. The receiver knows its "
        "rate.",
        "thin-slow",
        10,
    )


def uplink(results, rate: str):
    return bars(
        results,
        "TH-UP",
        f"Downloads over an uplink of {rate.removesuffix('bit')}bit/s",
        f"50 Mbit/s, 40 ms, Linux's defaults; the uplink has {UPLINKS[rate]}. The receiver is told nothing.",
        f"thin-uplink-{rate}",
        50,
        path__reverse__rate=rate,
    )


def cake(results):
    """Goodput of each controller under each of what a user may pick."""
    titles, controllers = (results.points("TH-CAKE", key) for key in ("title", "flows.controller"))
    if not titles:
        return None
    figure = Figure(figsize=(7.5, 4.2))
    ax = figure.subplots()
    width = 0.8 / len(titles)
    for n, title in enumerate(titles):
        found = [results.valid("TH-CAKE", title=title, flows__controller=c) for c in controllers]
        heights = [fmean(map(goodput, of)) if of else 0 for of in found]
        at = [i + (n - (len(titles) - 1) / 2) * width for i in range(len(controllers))]
        ax.bar_label(ax.bar(at, heights, width=0.95 * width, label=title), fmt="%.1f", fontsize=8)
    ax.axhline(10, color=BLACK, linewidth=1, linestyle=":", label="the link")
    ax.set(ylabel="goodput, Mbit/s", xticks=range(len(controllers)), xticklabels=[label(c) for c in controllers])
    ax.set_ylim(0, 13.5)
    ax.legend(ncols=3, loc="upper center")
    return drawing.Figure(
        "thin-cake",
        "Downloads over a slow uplink that CAKE owns",
        "10 Mbit/s, 40 ms, Linux's defaults; the uplink has 40 kbit/s, a quarter of the rate that its ACKs need. The "
        "receiver is told nothing.",
        figure,
    )
