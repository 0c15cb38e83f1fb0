# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figures for "Throughput of FAST TCP in Asymmetric Networks" (Ge, Tan, Zukerman 2008).

Each function draws one figure from valid runs, or returns None when a run that it needs is missing.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, ScalarFormatter

from asymlab import controllers
from asymlab.palette import BLACK, BLUE, SKY
from asymlab.report import drawing, measures
from asymlab.report.plot import EXPECTED, colour, label, marked, plain, points
from asymlab.results import metrics

from . import measures as paper  # its quantities and its theorem

K_F = {rate: paper.k_f(paper.mbit(rate)) for rate in paper.RATES}
SIMULATED = {4: 25, 40: 2.5, 20: 5}  # Figs. 2, 3, 4: k_f -> Mbit/s at rest
BASELINES = ("reno", "cubic", "vegas")
FEW = 4  # points of k_f that make a curve
WINDOW, RTT = 1125, 0.36  # at rest, k_f = 4: q0 = alpha / x0 = 0.32 s, w0 = (d + q0) x0


def sweep(results, controller: str) -> dict[float, list]:
    """k_f -> the controller's valid runs there, a run a seed."""
    found = {}
    for rate, k in K_F.items():
        runs = (
            results.valid("FA-T1", path__reverse__rate=rate)
            if controller == "fast"
            else results.valid("FA-T1-BASE", path__reverse__rate=rate, flows__controller=controller)
        )
        if runs:
            found[k] = runs
    return found


def over_k_f(ax) -> None:
    ax.set(xscale="log", xlabel="asymmetry factor $k_f$", xticks=list(K_F.values()))
    ax.xaxis.set_major_formatter(lambda k, _: f"{k:.3g}")
    ax.xaxis.set_minor_locator(NullLocator())


def throughput(results):
    fast = sweep(results, "fast")
    if len(fast) < FEW:
        return None
    figure = Figure(figsize=(7.5, 7))
    ax, relative = figure.subplots(2, sharex=True, height_ratios=[3, 1])
    k = np.geomspace(0.35, 46, 200)
    ax.plot(k, 100 * np.minimum(1, 1 / k), color=BLACK, linewidth=1, label=r"Theorem 1: $\min(1,\ 1/k_f)\ c_f$")
    ax.plot(
        k,
        200 / (1 + k),
        color="#555555",
        linestyle=":",
        linewidth=1,
        label=r"the letter's sum model, eq. 14: $2c_f/(1+k_f)$",
    )
    ax.plot(
        list(SIMULATED),
        list(SIMULATED.values()),
        linestyle="",
        marker="o",
        markersize=12,
        markerfacecolor="none",
        markeredgecolor=BLACK,
        label="the letter's simulations (Figs. 2, 3, 4)",
    )
    relative.axhline(1, color=BLACK, linewidth=1)
    for controller, aside in zip(("fast", *BASELINES), (1, 0.94, 1.06, 1.12)):
        if runs := sweep(results, controller):
            look = marked(controller, linestyle="", label=f"{label(controller)}, measured")
            look |= {"zorder": 3} if controller == "fast" else {"markerfacecolor": "none"}
            points(ax, runs, measures.throughput, **look)
            points(relative, runs, over_theorem, aside, **look)
    formosa = {K_F[rate]: runs for rate in K_F if (runs := results.valid("FA-X3", path__reverse__rate=rate))}
    if formosa:
        look = marked("formosa", linestyle="", label="Formosa, an ACK a round trip")
        points(ax, formosa, measures.throughput, **look)
    over_k_f(relative)
    ax.set(yscale="log", ylabel="throughput, Mbit/s", yticks=[2, 5, 10, 20, 50, 100], ylim=(1.7, 180))
    plain(ax.yaxis)
    ax.legend(loc="lower left")
    relative.set(
        ylabel="relative to\nTheorem 1",
        ylim=(min(0.85, relative.dataLim.ymin - 0.05), max(1.15, relative.dataLim.ymax + 0.05)),
    )
    return drawing.Figure(
        "fast-throughput",
        "Throughput over the asymmetry factor",
        "One flow, 100 Mbit/s forward, the reverse rate swept from 10 to 0.1 Mbit/s. The sum of the two links' "
        "equations (14) would give the dotted curve, which is right at k_f = 1 only. Below, the same points over "
        "Theorem 1, a little apart sideways; above 1 is who goes on adding to the ACK queue.",
        figure,
    )


def over_theorem(run) -> float:
    reverse = run.job.watch[0].reverse.rate_bps
    return run.metrics["throughput_bps"] / paper.theorem1(paper.k_f(reverse))


def series(results):
    wanted = (
        (
            "Fig. 2",
            "1000-byte packets, reverse 1 Mbit/s: $k_f = 4$",
            results.valid("FA-T1", path__reverse__rate="1mbit"),
            25,
        ),
        (
            "Fig. 3",
            "1000-byte packets, reverse 0.1 Mbit/s: $k_f = 40$",
            results.valid("FA-T1", path__reverse__rate="0.1mbit"),
            2.5,
        ),
        ("Fig. 4", "2000-byte packets, reverse 0.1 Mbit/s: $k_f = 20$", results.valid("FA-4"), 5),
    )
    if not all(runs for *_, runs, _ in wanted):
        return None
    figure = Figure(figsize=(7.5, 7.5))
    for ax, (where, what, runs, expected) in zip(figure.subplots(3), wanted):
        t, rate = goodput_series(runs[0], 0)
        ax.plot(t, rate, color=colour("fast"), linewidth=0.9, label="measured")
        ax.axhline(expected, **EXPECTED, label=f"Theorem 1: {expected:g} Mbit/s")
        ax.set(
            title=f"{where}: {what}",
            ylabel="throughput, Mbit/s",
            xlim=(0, runs[0].job.duration_s),
            ylim=(0, max(1.3 * expected, 1.05 * rate.max())),
        )
        ax.legend(loc="lower right", ncols=2)
    ax.set_xlabel("time, s")
    return drawing.Figure(
        "fast-series",
        "The letter's Figures 2, 3 and 4: throughput in 0.1-s intervals",
        "From the flow's start, whole IP packets, the first seed. Time axes differ.",
        figure,
    )


def goodput_series(run, flow: int) -> tuple[np.ndarray, np.ndarray]:
    """(time, Mbit/s of IP packets) of a flow in the lab's 0.1-s bins."""
    bin_s = run.job.bin_ms / 1e3
    bins = metrics.goodput_bins(run.goodput, flow, run.job.duration_s, bin_s)
    return np.arange(len(bins)) * bin_s, bins / run.job.payload_share / 1e6


def standing_queue(results):
    fast = results.valid("FA-T1", path__reverse__rate="1mbit")
    if not fast:
        return None
    others = {c: runs[4.0][0] for c in BASELINES if 4.0 in (runs := sweep(results, c))}
    figure = Figure(figsize=(7.5, 8.5 if others else 4.5))
    axes = figure.subplots(4 if others else 2, sharex=True)
    duration = fast[0].job.duration_s

    def draw(window, rtt, run, controller, **options):
        acks = run.acks[(run.acks["flow"] == 0) & (run.acks["t"] < duration)]
        look = controllers.of(controller).look | {"marker": ""} | options
        window.plot(*drawing.thin(acks["t"], acks["cwnd"]), **look)
        sampled = acks[acks["rtt_us"] > 0]
        rtt.plot(*drawing.thin(sampled["t"], sampled["rtt_us"] / 1e3), **look)

    draw(axes[0], axes[1], fast[0], "fast")
    axes[0].axhline(WINDOW, **EXPECTED, label=f"at rest: {WINDOW} packets")
    axes[1].axhline(RTT * 1e3, **EXPECTED, label=f"at rest: {RTT * 1e3:g} ms")
    axes[0].set(title="FAST: congestion window", ylabel="packets", ylim=(0, None))
    axes[1].set(title="FAST: round-trip time", ylabel="ms", ylim=(0, None))
    for controller, run in ({"fast": fast[0]} | others).items() if others else ():
        draw(axes[2], axes[3], run, controller, label=label(controller))
    for ax, what, unit in zip(axes[2:], ("congestion window", "round-trip time"), ("packets", "ms")):
        ax.set(title=f"All controllers: {what}", ylabel=f"{unit}, log scale", yscale="log")
        ax.yaxis.set_major_formatter(ScalarFormatter())
    for ax in axes:
        ax.legend(loc="lower right", ncols=4)
    axes[-1].set(xlabel="time, s", xlim=(0, duration))
    return drawing.Figure(
        "fast-queue",
        "Window and round-trip time at k_f = 4: what the standing queue costs",
        "One flow, reverse link 1 Mbit/s, base RTT 40 ms, the first seed. FAST keeps alpha = 1000 ACKs in the "
        "reverse queue: 0.32 s. Loss-based controllers go on filling the queue.",
        figure,
    )


def ack_path(results):
    fast = sweep(results, "fast")
    if len(fast) < FEW:
        return None
    figure = Figure(figsize=(7.5, 8))
    axes = figure.subplots(3, sharex=True)
    rows = (
        ("Reverse link: utilisation", "share", lambda r: r.metrics["reverse_utilisation"]),
        (
            "Reverse link: mean queueing delay, log scale above 1 ms",
            "ms",
            lambda r: 1e3 * r.metrics["reverse"]["queue_delay_mean_s"],
        ),
        ("ACKs per data packet", "ratio", lambda r: r.metrics["acks_per_data_packet"]),
    )
    delayed = results.valid("FA-X2")
    for ax, (title, unit, measure) in zip(axes, rows):
        for controller in ("fast", *BASELINES):
            if runs := sweep(results, controller):
                fill = {} if controller == "fast" else {"markerfacecolor": "none"}
                points(ax, runs, measure, **marked(controller) | fill)
        if delayed:
            points(
                ax,
                {4: delayed},
                measure,
                color=BLACK,
                marker="*",
                markersize=10,
                linestyle="",
                label="FAST, delayed ACKs",
            )
        ax.set(title=title, ylabel=unit)
    axes[0].set_ylim(0, 1.08)
    axes[1].set_yscale("symlog", linthresh=1)
    axes[1].yaxis.set_major_formatter(ScalarFormatter())
    axes[1].set(
        ylim=(-0.3, 2 * axes[1].dataLim.ymax),
        yticks=[0, *(10**e for e in range(6) if 10**e < 2 * axes[1].dataLim.ymax)],
    )
    axes[2].set_ylim(0, 1.15)
    over_k_f(axes[2])
    axes[0].legend(loc="lower right")
    return drawing.Figure(
        "fast-ack-path",
        "The ACK path over the asymmetry factor",
        "From k_f = 1 on the reverse link is full of ACKs. They are counted as they leave it: fewer than one a data "
        "packet where the receiver delays ACKs, which halves k_f, or where the queue is still growing.",
        figure,
    )


def shares(results):
    runs = results.valid("FA-T2")
    if not runs:
        return None
    rounds, zoom = 26, 30  # bins: five round trips of 0.52 s; the last three seconds
    t, first = goodput_series(runs[0], 0)
    _, second = goodput_series(runs[0], 1)
    mean = [np.convolve(rate, np.ones(rounds) / rounds, "valid") for rate in (first, second)]
    middle = t[: len(mean[0])] + rounds / 2 * (t[1] - t[0])
    figure = Figure(figsize=(7.5, 6.5))
    axes = figure.subplots(2)
    stack(axes[0], middle, *mean)
    end = runs[0].job.duration_s
    stack(
        axes[1],
        np.append(t[-zoom:], end),
        *(np.append(rate[-zoom:], rate[-1]) for rate in (first, second)),
        step="post",
    )
    axes[0].set(title="Running mean over five round trips (2.6 s)", xlim=(0, end))
    axes[1].set(
        title="The last three seconds in 0.1-s intervals: the flows take turns", xlim=(t[-zoom], end), xlabel="time, s"
    )
    for ax in axes:
        ax.axhline(25 * 2 / 3, **EXPECTED, label="Theorem 1: 16.67 + 8.33 Mbit/s")
        ax.axhline(25, **EXPECTED)
        ax.set(ylabel="throughput, Mbit/s, stacked", ylim=(0, max(32, 1.15 * ax.dataLim.ymax)))
    axes[0].legend(loc="upper right", ncols=3)
    return drawing.Figure(
        "fast-shares",
        "Two flows share by alpha",
        "alpha 1000 and 500 on one path at k_f = 4, the first seed. Each flow's window crosses the queue in one piece, "
        "so that the shares show over whole round trips only.",
        figure,
    )


def stack(ax, t, first, second, **options) -> None:
    areas = ax.stackplot(
        t, first, second, colors=[BLUE, SKY], labels=["alpha 1000", "alpha 500"], linewidth=0, **options
    )
    areas[1].set(hatch="////", edgecolor="white")


FIGURES = (throughput, series, standing_queue, ack_path, shares)
