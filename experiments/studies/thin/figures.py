# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figures of ACK thinning, from valid runs; a figure without its runs is left out."""

from __future__ import annotations

from functools import partial
from statistics import fmean

import numpy as np
from matplotlib.figure import Figure

from asymlab.palette import BLACK
from asymlab.report import drawing, papers
from asymlab.report.measures import goodput
from asymlab.report.plot import bars, label

fast = papers.module("fast", "measures")
THINS: dict[int | str, str] = {0: "all ACKs", 1: "ACKs thinned"}
UPLINKS = {"200kbit": "a quarter of the rate that its ACKs need", "2mbit": "twice that rate"}


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


def downloads(results, id: str, series: str, names: dict[int | str, str], limit: float, name: str, words, **point):
    """Goodput of each controller, a bar for each value of a swept key."""
    controllers = results.points(id, "flows.controller", **point)
    if not controllers:
        return None

    def height(value, controller: str) -> float:
        runs = results.valid(id, **{series: value, "flows__controller": controller}, **point)
        return fmean(map(goodput, runs)) if runs else 0

    figure = Figure(figsize=(7.5, 4.2))
    ax = figure.subplots()
    groups = {text: [height(value, c) for c in controllers] for value, text in names.items()}
    bars(ax, groups, [label(c) for c in controllers])
    ax.axhline(limit, color=BLACK, linewidth=1, linestyle=":", label="the link")
    ax.set(ylabel="goodput, Mbit/s", ylim=(0, 1.3 * limit))
    ax.legend(ncols=3, loc="upper center")
    return drawing.Figure(name, *words, figure)


def slow(results):
    words = (
        "Stock senders at r = 20",
        "10 Mbit/s, 40 ms, packets of 1000 bytes; the reverse link carries 62 ACKs a second. The receiver knows its "
        "rate.",
    )
    return downloads(results, "TH-SLOW", "thin__thins", THINS, 10, "thin-slow", words)


def uplink(results, rate: str):
    words = (
        f"Downloads over an uplink of {rate.removesuffix('bit')}bit/s",
        f"50 Mbit/s, 40 ms, Linux's defaults; the uplink has {UPLINKS[rate]}. The receiver is told nothing.",
    )
    point = {"path__reverse__rate": rate}
    return downloads(results, "TH-UP", "thin__thins", THINS, 50, f"thin-uplink-{rate}", words, **point)


def cake(results):
    """Goodput of each controller under each of what a user may pick."""
    words = (
        "Downloads over a slow uplink that CAKE owns",
        "10 Mbit/s, 40 ms, Linux's defaults; the uplink has 40 kbit/s, a quarter of the rate that its ACKs need. The "
        "receiver is told nothing.",
    )
    titles = {title: title for title in results.points("TH-CAKE", "title")}
    return downloads(results, "TH-CAKE", "title", titles, 10, "thin-cake", words)


FIGURES = (over_k_f, slow, *(partial(uplink, rate=rate) for rate in UPLINKS), cake)
