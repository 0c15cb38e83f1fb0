# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figures of the competition matrix, from valid runs: heat maps of the square, in which a pair without a run stays
empty, and of each other path the goodput alone and the shares beside those that a user meets."""

from __future__ import annotations

from functools import partial
from statistics import fmean

import numpy as np
from matplotlib.figure import Figure

from asymlab.palette import BLACK, BLUE, SKY
from asymlab.report import drawing, plot
from asymlab.report.measures import goodput
from asymlab.report.plot import EXPECTED, label, marked

from . import measures as matrix

BAR = {0: {"color": SKY, "label": "all ACKs"}, 1: {"color": BLUE, "label": "ACKs thinned"}}
DOT = {"linestyle": "none", "marker": "o", "markersize": 3, "color": BLACK, "markeredgewidth": 0}
NUMBER = {"textcoords": "offset points", "fontsize": 9, "annotation_clip": False}
ASIDE = NUMBER | {"xytext": (5, 0), "va": "center", "bbox": {"color": "white", "pad": 0.5}}  # over the dashed line
ABOVE = NUMBER | {"xytext": (0, 6), "ha": "center", "fontsize": 8, "bbox": {"color": "white", "pad": 0}}
HEAD = {"x": 0.01, "ha": "left", "fontsize": "medium"}


def rate_of(bps: float) -> str:
    return f"{bps / 1e6:g} Mbit/s" if bps >= 1e6 else f"{bps / 1e3:g} kbit/s"


def where(runs) -> str:
    """The path that runs of one scenario ran on, and how long; each sentence as the run's job has it."""
    job = runs[0].job
    there, back = job.watch[0].forward, job.watch[0].reverse
    queue = next(end.shape.queue_packets for end in job.ends if end.dev == there.dev)
    seeds = len({run.record["seed"] for run in runs})
    return (
        f"{rate_of(there.rate_bps)}, ACKs {rate_of(back.rate_bps)}, {1e3 * matrix.base_s(runs[0]):g} ms, "
        f"a queue of {queue} packets; {job.duration_s - job.measure_from_s:g} s measured, "
        f"{seeds} seed{'s' if seeds > 1 else ''}."
    )


def full(run) -> float:
    """Goodput of a full link, Mbit/s."""
    return run.job.watch[0].forward.rate_bps * run.job.payload_share / 1e6


# --- the square -----------------------------------------------------------------------------


def heat_map(values: dict[tuple[str, str], float], title: str, colours: str, row: str, column: str) -> Figure | None:
    """values: (row, column) -> number in [0, 1]; None if there are none."""
    if not values:
        return None
    order = list(dict.fromkeys(c for pair in values for c in pair))  # the scenario's
    table = np.array([[values.get((a, b), np.nan) for b in order] for a in order])
    figure = Figure(figsize=(9, 8.4))
    ax = figure.subplots()
    texts = {at: f"{value:.2f}" for at, value in np.ndenumerate(table) if not np.isnan(value)}
    image = plot.heat_map(ax, table, [label(c) for c in order], texts, 7.5, cmap=colours, vmin=0, vmax=1)
    ax.set(title=title, ylabel=row, xlabel=column)
    ax.set_xticklabels(ax.get_xticklabels(), rotation=45, ha="right", rotation_mode="anchor")
    figure.colorbar(image, ax=ax, shrink=0.7)
    return figure


def square(results, kind: str, rate: str, title: str, caption: str, drawn: Figure | None) -> drawing.Figure | None:
    if not drawn:
        return None
    path = where(results.valid("MX-PAIR", path__reverse__rate=rate))
    drawn.suptitle(path, **HEAD)
    return drawing.Figure(f"matrix-{kind}-{rate}", f"{title}: {matrix.RATES[rate]}", f"{path} {caption}", drawn)


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
    states = results.points(path.alone, "thin.thins") or [None]
    figure = Figure(figsize=(9, 1.5 + 0.32 * len(controllers) * len(states)))
    axes = figure.subplots(1, 2, sharey=True)
    height = 0.8 / len(states)
    for ax, measure in zip(axes, (goodput, matrix.queue_ms)):
        for n, thins in enumerate(states):
            point = {} if thins is None else {"thin__thins": thins}
            found = [results.valid(path.alone, flows__controller=c, **point) for c in controllers]
            at = [i + (n - (len(states) - 1) / 2) * height for i in range(len(controllers))]
            means = [fmean(map(measure, of)) if of else np.nan for of in found]
            ax.barh(at, means, 0.92 * height, **BAR[thins or 0])
            for y, mean, of in zip(at, means, found):
                values = [measure(r) for r in of]
                ax.plot(values, [y] * len(of), **DOT, label="a run")
                if of:
                    ax.annotate(f"{mean:.1f}", (max(values), y), **ASIDE)
        ax.set_axisbelow(True)
        ax.grid(False, axis="y")
        ax.set_xlim(0, 1.15 * ax.dataLim.xmax)
    axes[0].axvline(full(runs[0]), **EXPECTED)
    axes[0].set(xlabel="goodput, Mbit/s", yticks=range(len(controllers)), yticklabels=[label(c) for c in controllers])
    axes[0].set_ylim(len(controllers) - 0.5, -0.5)
    axes[1].set(xlabel="mean RTT above the empty path's, ms")
    if len(states) > 1:
        figure.legend(handles=axes[0].containers, loc="outside upper right", ncols=len(states))
    figure.suptitle(where(runs), **HEAD)
    return drawing.Figure(
        f"matrix-alone-{path.name}",
        f"Each alone: {path.title}",
        f"{where(runs)} The dashed line is what a full link carries; dots are runs.",
        figure,
    )


def beside(results, path: matrix.Path):
    """The share and the sum of each pair."""
    runs = results.valid(path.pairs)
    if not runs:
        return None
    shares, sums = matrix.by_pair(runs, matrix.share_of_pair), matrix.by_pair(runs, lambda run, *_: goodput(run))
    most = full(runs[0])
    parts = (
        (shares, "{:.2f}", 0.5, 1, "share of the pair's goodput"),
        (sums, "{:.1f}", most, most, "both together, Mbit/s"),
    )
    rows = [c for c in (*matrix.OURS, *matrix.MET) if any(mine == c for mine, _ in shares)]
    figure = Figure(figsize=(9, 1.5 + 0.8 * len(rows)))
    for line, (values, form, dashed, end, name) in zip(figure.subplots(2, len(matrix.MET), sharey=True), parts):
        for ax, other in zip(line, matrix.MET):
            for y, mine in enumerate(rows):
                if of := values.get((mine, other)):
                    mean = fmean(of)
                    ax.plot([mean], [y], **marked(mine, linestyle="none", markersize=8, clip_on=False))
                    ax.plot(of, [y] * len(of), **DOT, label=f"{label(mine)}, a run", clip_on=False, zorder=3)
                    ax.annotate(form.format(mean), (mean, y), **ABOVE)
            ax.axvline(dashed, **EXPECTED)
            ax.set(title=f"beside {label(other)}", xlabel=name, xlim=(-0.05 * end, 1.08 * end))
            ax.xaxis.set_major_formatter("{x:g}")
        line[0].set(yticks=range(len(rows)), yticklabels=[label(c) for c in rows], ylim=(len(rows) - 0.5, -0.8))
    figure.suptitle(where(runs), **HEAD)
    return drawing.Figure(
        f"matrix-share-{path.name}",
        f"Beside Reno, CUBIC and both BBRs: {path.title}",
        f"{where(runs)} The mark is the mean, dots are runs. Above, 0.5 (dashed) is an equal share, and of a "
        "controller beside itself the larger share counts. Below, the dashed line is what a full link carries.",
        figure,
    )


FIGURES = [partial(draw, rate=rate) for rate in matrix.RATES for draw in (share, jain, harm)]
FIGURES += [partial(draw, path=path) for path in matrix.PATHS for draw in (alone, beside)]
