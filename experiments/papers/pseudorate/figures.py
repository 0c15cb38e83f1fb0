# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figures for Pseudo-rate TCP (Chen and Chen 1999). Sources count from 1, as in the paper; its second is ten here.

Each function draws one figure from valid runs, or returns None when a run that it needs is missing.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from asymlab.palette import BLACK, BLUE, GREEN, ORANGE, VERMILLION
from asymlab.report import drawing
from asymlab.report.measures import utilisation
from asymlab.report.plot import EXPECTED, label, look, plain, steps
from asymlab.results import metrics

from . import measures as paper

CONTROLLERS = ("pseudorate", "literal", "vegas95", "vegas")
SOURCES = {  # those of one path have one colour; who stops is dotted
    1: {"color": BLUE, "linestyle": (0, (1, 1))},
    2: {"color": BLUE, "linestyle": "-"},
    3: {"color": VERMILLION, "linestyle": (0, (1, 1))},
    4: {"color": VERMILLION, "linestyle": (0, (5, 1))},
    5: {"color": GREEN, "linestyle": "-."},
}
STOP = {"color": BLACK, "linestyle": ":", "linewidth": 1}
START, AFTER = (0, 1), (paper.STOP_S - 0.1, paper.STOP_S + 0.9)  # s: both ramps
NO_BOUND = 2**24  # bound_q4 before the first cycle ends
SHOWN = 2  # whose mechanism
RISE = (paper.RISE_S - 0.2, paper.RISE_S + 0.3)
VEGAS = {
    "vegas95": "Vegas doubles in every other round trip, and leaves slow start with one packet queued.",
    "vegas": "Linux's Vegas is not the paper's: it starts from 10 packets and doubles in each round trip, not in "
    "every other.",
}


def first(results, controller: str):
    """The run of the lowest seed, or None."""
    runs = results.valid("PR-LOT", flows__controller=controller)
    return runs[0] if runs else None


def rise(results):
    runs = {c: found[0] for c in ("pseudorate", "literal") if (found := results.valid("PR-RISE", flows__controller=c))}
    if "pseudorate" not in runs:
        return None
    state = runs["pseudorate"].state(0)
    rest = int(np.median((state["base"] + state["offset"])[state["t"] < paper.RISE_S][-paper.N_QUEUE :]))
    figure = Figure(figsize=(7.5, 4.5))
    ax = figure.subplots()
    for steps_above in paper.FIG1:
        ax.axhline(rest + steps_above, color="#dddddd", linewidth=0.8)
    for controller, run in runs.items():
        t, cwnd, _ = paper.window(run, 1)
        steps(ax, t, cwnd, RISE, **look(controller))
    bound = np.where(state["bound_q4"] < NO_BOUND, state["bound_q4"] / 16, np.nan)
    steps(ax, state["t"], bound, RISE, color=BLUE, linestyle="--", label="its Bound")
    ax.axvline(paper.RISE_S, **STOP)
    ax.set(
        ylabel="packets",
        xlabel="time, s",
        xlim=RISE,
        ylim=(rest - 3, rest + 4 + paper.FIG1[-1]),
        yticks=[rest + above for above in paper.FIG1],
    )
    ax.grid(False)
    ax.legend(loc="upper left")
    return drawing.Figure(
        "pseudorate-rise",
        "Fig. 1: the window after the bound rises",
        "One flow, from its own variables, the first seed: a constant rate that took four fifths of the link ends at "
        "the dotted line. The window goes through the paper's 8, 9, 11, 15 and 23 (lines), a step each round trip, "
        "and on: Bound is twice the window as long as nothing is queued.",
        figure,
    )


def windows(results):
    rival = "vegas95" if first(results, "vegas95") else "vegas"
    runs = {c: first(results, c) for c in (rival, "pseudorate")}
    if not all(runs.values()):
        return None
    figure = Figure(figsize=(7.5, 9))
    grid = figure.add_gridspec(4, 2)
    for row, (controller, where) in enumerate(((rival, "Fig. 3"), ("pseudorate", "Fig. 4"))):
        whole, start, after = (
            figure.add_subplot(grid[2 * row + at[0], at[1]]) for at in ((0, slice(None)), (1, 0), (1, 1))
        )
        for ax, span in ((whole, (0, paper.END_S)), (start, START), (after, AFTER)):
            for source, style in SOURCES.items():
                t, cwnd, _ = paper.window(runs[controller], source)
                sends = slice(None) if source in paper.ACTIVE else t < paper.STOP_S
                steps(ax, t[sends], cwnd[sends], span, **style, label=f"source {source}")
            ax.axvline(paper.STOP_S, **STOP)
            ax.set(xlim=span, ylim=(0, 1.2 * ax.dataLim.ymax))
        for ax in (whole, start):
            ax.set_ylabel("packets")
        whole.set_title(f"{where}: {label(controller)}")
        start.set_title("its start")
        after.set_title("sources 1 and 3 stop at 5 s")
        whole.legend(loc="upper right", ncols=5)
    for ax in (start, after):
        ax.set_xlabel("time, s")
    return drawing.Figure(
        "pseudorate-windows",
        "Figs. 3 and 4: windows of the five sources",
        "The first seed; scales differ. In both ramps Pseudo-rate's windows double, overshoot, and are cut to their "
        f"Bounds; then, as the paper describes, the source of the shortest path yields to the others. {VEGAS[rival]} "
        "After the stop it grows by a packet a round trip.",
        figure,
    )


def mechanism(results):
    runs = {c: r for c in ("pseudorate", "literal") if (r := first(results, c))}
    if "pseudorate" not in runs:
        return None
    figure = Figure(figsize=(7.5, 3.2 * len(runs) + 0.8))
    axes = figure.subplots(len(runs), 2, squeeze=False, sharey=True)
    for row, (controller, run) in zip(axes, runs.items()):
        state = run.state(SHOWN - 1)
        values = np.stack([state[c].astype(int) for c in ("base", "offset", "bound_q4")])
        changes = np.append(True, (np.diff(values) != 0).any(axis=0))
        t, (base, offset, bound) = state["t"][changes], values[:, changes]
        bound = np.where(bound < NO_BOUND, bound / 16, np.nan)
        for ax, span in zip(row, (START, AFTER)):
            ax.fill_between(t, base, step="post", color="#dddddd", linewidth=0, label="Base")
            ax.fill_between(
                t,
                base,
                base + offset,
                step="post",
                facecolor="white",
                hatch="////",
                edgecolor=ORANGE,
                linewidth=0,
                label="Offset",
            )
            ax.plot(t, bound, drawstyle="steps-post", color=BLUE, linestyle="--", label="Bound")
            ax.plot(t, base + offset, drawstyle="steps-post", color=BLACK, linewidth=1.2, label="window")
            ax.axvline(paper.STOP_S, **STOP)
            ax.set_axisbelow(True)
            ax.set_xlim(span)
        row[0].set(ylabel="packets", title=f"{label(controller)}: its start")
        row[1].set(title="sources 1 and 3 stop at 5 s")
    axes[0][0].set_ylim(0, 1.3 * max(ax.dataLim.ymax for ax in axes.flat))
    axes[0][1].legend(loc="upper right", ncols=2)
    for ax in axes[-1]:
        ax.set_xlabel("time, s")
    return drawing.Figure(
        "pseudorate-mechanism",
        f"Base, Offset and Bound of source {SHOWN}",
        "From the controller's own variables, the first seed. While nothing is queued, Bound is twice the window "
        "(above) and Offset doubles up to it, in the gap only: after the stop it begins anew from one packet. The "
        "printed Bound (below) is a few packets above the last window, the growth linear.",
        figure,
    )


def throughput(results):
    runs = {c: r for c in CONTROLLERS if (r := first(results, c))}
    if not {"pseudorate", "vegas"} <= runs.keys():
        return None
    figure = Figure(figsize=(7.5, 8))
    axes = figure.subplots(3, sharex=True)
    for controller, run in runs.items():
        bin_s, style = run.job.bin_ms / 1e3, look(controller, zorder=3 if controller == "pseudorate" else 2)
        links = run.links[run.links["dev"] == run.job.watch[-1].forward.dev]
        rate = (links["bytes"] - metrics.ETHERNET * links["packets"].astype("i8")) * 8 / bin_s / 1e6
        axes[0].plot(
            links["t"] + bin_s / 2, rate, **style | {"label": f"{label(controller)}: {100 * utilisation(run):.1f} %"}
        )
        jain = paper.fairness_over_time(run)
        axes[1].plot(
            (np.arange(len(jain)) + 0.5) * paper.STEP_S,
            jain,
            **style | {"label": f"{label(controller)}: {paper.fairness(run):.3f}"},
        )
        axes[2].plot(links["t"] + bin_s / 2, np.maximum(links["qlen_max"], 1), **style)
    resting = [paper.N_QUEUE * n for n in (len(SOURCES), len(SOURCES), len(paper.ACTIVE))]
    axes[2].plot(
        [0, paper.STOP_S, paper.END_S],
        resting,
        drawstyle="steps-pre",
        **EXPECTED,
        label=f"{paper.N_QUEUE} packets a source",
    )
    axes[0].set(title="Fig. 5: throughput of the last hop, which all sources share", ylabel="Mbit/s", ylim=(0, 11))
    axes[1].set(
        title=f"Fig. 6: Jain index of sources 2, 4 and 5, over {paper.STEP_S} s", ylabel="index", ylim=(0, 1.05)
    )
    axes[2].set(
        title="Longest queue of the last hop in 0.1 s",
        ylabel="packets, log scale",
        yscale="log",
        ylim=(0.9, 1000),
        yticks=[1, 3, 10, 30, 100],
        xlabel="time, s",
        xlim=(0, paper.END_S),
    )
    plain(axes[2].yaxis)
    for ax, loc, columns in zip(axes, ("lower right", "lower right", "upper right"), (2, 2, 3)):
        ax.axvline(paper.STOP_S, **STOP)
        ax.legend(loc=loc, ncols=columns, frameon=True, edgecolor="none", framealpha=1)
    return drawing.Figure(
        "pseudorate-throughput",
        "Figs. 5 and 6: throughput and fairness, and the queue that they take",
        "The first seed; the numbers are those of the whole run. The paper has 98 % and 0.993 for Pseudo-rate, 95 % "
        "and 0.889 for Vegas. Here everyone fills the link, and the differences are in the shares and in the queue: "
        "Pseudo-rate keeps N_queue packets of each source in it.",
        figure,
    )


FIGURES = (rise, windows, mechanism, throughput)
