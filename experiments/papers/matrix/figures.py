# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figures of the competition matrix, from valid runs: heat maps of the square, in which a pair without a run stays
empty, and of each other path the goodput alone and the shares beside those that a user meets."""

from __future__ import annotations

from statistics import fmean

import numpy as np
from matplotlib.figure import Figure

from asymlab.palette import BLACK, BLUE, SKY
from asymlab.report import drawing
from asymlab.report.plot import EXPECTED, label, marked

from . import claims as matrix

DOT = {"linestyle": "none", "marker": "o", "markersize": 3, "color": BLACK, "markeredgewidth": 0}


def figures(results) -> list[drawing.Figure]:
    with drawing.style():
        drawn = [draw(results, rate) for rate in matrix.RATES for draw in (share, jain, harm)]
        drawn += [draw(results, path) for path in matrix.PATHS for draw in (alone, beside)]
    return [f for f in drawn if f]


def rate_of(bps: float) -> str:
    return f"{bps / 1e6:g} Mbit/s" if bps >= 1e6 else f"{bps / 1e3:g} kbit/s"


def where(runs) -> str:
    """The path that runs of one scenario ran on, and how long; each sentence as the run's job has it."""
    job = runs[0].job
    there, back = (job["watch"][0][side] for side in ("forward", "reverse"))
    ends = (end for link in job["links"] for end in (link["a"], link["b"]))
    queue = next(end["shape"]["queue_packets"] for end in ends if end["dev"] == there["dev"])
    seeds = len({run.record["seed"] for run in runs})
    return (
        f"{rate_of(there['rate_bps'])}, ACKs {rate_of(back['rate_bps'])}, {1e3 * matrix.base_s(runs[0]):g} ms, "
        f"a queue of {queue} packets; {job['duration_s'] - job['measure_from_s']:g} s measured, "
        f"{seeds} seed{'s' if seeds > 1 else ''}."
    )


# --- the square -----------------------------------------------------------------------------


def heat_map(values: dict[tuple[str, str], float], title: str, colours: str, row: str, column: str) -> Figure | None:
    """values: (row, column) -> number in [0, 1]; None if there are none."""
    if not values:
        return None
    order = list(dict.fromkeys(c for pair in values for c in pair))  # the scenario's
    table = np.array([[values.get((a, b), np.nan) for b in order] for a in order])
    figure = Figure(figsize=(9, 8.4))
    ax = figure.subplots()
    image = ax.imshow(table, cmap=colours, vmin=0, vmax=1)
    for (i, j), value in np.ndenumerate(table):
        if not np.isnan(value):
            r, g, b, _ = image.cmap(image.norm(value))
            ax.text(
                j,
                i,
                f"{value:.2f}",
                ha="center",
                va="center",
                fontsize=7.5,
                color="black" if 0.3 * r + 0.59 * g + 0.11 * b > 0.5 else "white",
            )
    names = [label(c) for c in order]
    ax.set(
        title=title, xticks=range(len(order)), yticks=range(len(order)), yticklabels=names, ylabel=row, xlabel=column
    )
    ax.set_xticklabels(names, rotation=45, ha="right", rotation_mode="anchor")
    ax.grid(False)
    figure.colorbar(image, ax=ax, shrink=0.7)
    return figure


def square(results, kind: str, rate: str, title: str, caption: str, drawn: Figure | None) -> drawing.Figure | None:
    return drawn and drawing.Figure(
        f"matrix-{kind}-{rate}",
        f"{title}: {matrix.RATES[rate]}",
        f"{where(results.valid('MX-PAIR', path__reverse__rate=rate))} {caption}",
        drawn,
    )


def share(results, rate):
    drawn = heat_map(
        matrix.shares(results, rate),
        "Share of the pair's goodput that the row has beside the column",
        "PuOr",
        "has",
        "beside",
    )
    return square(
        results,
        "share",
        rate,
        "Shares",
        "0.5 is an equal share; on the diagonal the larger of two equals' shares.",
        drawn,
    )


def jain(results, rate):
    drawn = heat_map(matrix.jains(results, rate), "Jain index of the two goodputs", "cividis", "", "")
    return square(results, "jain", rate, "Jain index", "1 is equal, 0.5 is one flow alone.", drawn)


def harm(results, rate):
    drawn = heat_map(
        matrix.harms(results, rate),
        "Harm: of what the row has alone, lost beside the column",
        "cividis_r",
        "loses",
        "beside",
    )
    return square(
        results,
        "harm",
        rate,
        "Harm",
        "0.5 is what an equal share costs a controller that fills the link alone; 0 is no harm. "
        "Harm as in Ware et al. 2019, with goodput as the measure.",
        drawn,
    )


# --- the other paths ------------------------------------------------------------------------


def alone(results, path: matrix.Path):
    """Goodput and queue of each, with all ACKs, and with ACKs thinned where there are such runs."""
    runs = results.valid(path.alone)
    if not runs:
        return None
    controllers = results.points(path.alone, "flows.controller")
    looks = {0: (SKY, "all ACKs"), 1: (BLUE, "ACKs thinned")}
    states = results.points(path.alone, "thin.thins") or [None]
    figure = Figure(figsize=(9, 1.2 + 0.3 * len(controllers) * len(states)))
    axes = figure.subplots(1, 2, sharey=True)
    height = 0.8 / len(states)
    for ax, measure, form in ((axes[0], matrix.goodput, "%.1f"), (axes[1], matrix.queue_ms, "%.1f")):
        for n, thins in enumerate(states):
            point = {} if thins is None else {"thin__thins": thins}
            found = [results.valid(path.alone, flows__controller=c, **point) for c in controllers]
            at = [i + (n - (len(states) - 1) / 2) * height for i in range(len(controllers))]
            colour, name = looks[thins or 0]
            means = [fmean(map(measure, of)) if of else 0 for of in found]
            ax.bar_label(ax.barh(at, means, 0.92 * height, color=colour, label=name), fmt=form, fontsize=9, padding=4)
            for y, of in zip(at, found):
                ax.plot([measure(r) for r in of], [y] * len(of), **DOT, label="a run")
        ax.set_xlim(0, 1.15 * ax.dataLim.xmax)
        ax.grid(False, axis="y")
    rate = runs[0].job["watch"][0]["forward"]["rate_bps"]
    axes[0].axvline(rate / 1e6, **EXPECTED)
    axes[0].set(xlabel="goodput, Mbit/s", yticks=range(len(controllers)), yticklabels=[label(c) for c in controllers])
    axes[0].invert_yaxis()
    axes[1].set(xlabel="mean RTT above the empty path's, ms")
    return drawing.Figure(
        f"matrix-alone-{path.name}",
        f"Each alone: {path.title}",
        f"{where(runs)} The dashed line is the link; dots are runs.",
        figure,
    )


def beside(results, path: matrix.Path):
    """Of each pair the share and the sum."""
    runs = results.valid(path.pairs)
    if not runs:
        return None
    found = matrix.each(runs, matrix.share)
    sums = matrix.each(runs, lambda run, *_: matrix.goodput(run))
    rows = [c for c in (*matrix.OURS, *matrix.MET) if any(mine == c for mine, _ in found)]
    figure = Figure(figsize=(9, 6.4))
    axes = figure.subplots(2, len(matrix.MET), sharey=True, sharex="row")
    for column, other in zip(axes.T, matrix.MET):
        for ax, values in zip(column, (found, sums)):
            for y, mine in enumerate(rows):
                if of := values.get((mine, other)):
                    ax.plot(of, [y] * len(of), **DOT, label=f"{label(mine)}, a run")
                    ax.plot([fmean(of)], [y], **marked(mine, linestyle="none", markersize=8, clip_on=False))
        column[0].axvline(0.5, **EXPECTED)
        column[0].set(title=f"beside {label(other)}", xlim=(0, 1), xlabel="share of the pair's goodput")
        column[1].set(xlabel="both together, Mbit/s")
    rate = runs[0].job["watch"][0]["forward"]["rate_bps"] / 1e6
    for ax in axes[1]:
        ax.axvline(rate, **EXPECTED)
        ax.set_xlim(0, 1.05 * rate)
    axes[0][0].set(yticks=range(len(rows)), yticklabels=[label(c) for c in rows])
    axes[0][0].invert_yaxis()
    return drawing.Figure(
        f"matrix-share-{path.name}",
        f"Beside Reno, CUBIC and BBR: {path.title}",
        f"{where(runs)} The mark is the mean, dots are runs. Above, 0.5 (dashed) is an equal share, and of a "
        "controller beside itself the larger share counts. Below, the dashed line is the link.",
        figure,
    )
