# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figures for TCP-Fusion (Kaneko, Fujikawa, Su, Katto 2007).

Each function draws one figure from valid runs, or returns None when a run that it needs is missing.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from asymlab.palette import BLACK, BLUE, GREEN, GREY, VERMILLION
from asymlab.report import drawing
from asymlab.report.measures import goodput_of, share
from asymlab.report.plot import EXPECTED, colour, label, look, marked, points, steps
from asymlab.report.verdicts import interval
from asymlab.results.metrics import jain

from . import measures as paper

RTT, PACKET = 0.04, 1500  # s, bytes of Figs. 2 and 4
FIG_2_RATE, FIG_4_RATE = 50, 20  # Mbit/s
PAYLOAD = 1448 / PACKET
FLOOR, CEILING = EXPECTED, EXPECTED | {"linestyle": ":"}
PHASES = {
    "increase": {"facecolor": "#cfe8f8"},
    "steady": {"facecolor": "#e8e8e8"},
    "decrease": {"facecolor": "#fbe3c0", "hatch": "..."},
}
FRAME = {"frameon": True, "edgecolor": "none", "framealpha": 1}  # of a legend on shades
PHASE_S = 0.05  # the phase of most ACKs in so long is the one that shows
CYCLES = 2  # from loss to loss, in a zoom
SCALED = "A fifth of the paper's rate and window, and 25 times its loss, which leaves Reno the same share of the path."


def figures(results) -> list[drawing.Figure]:
    with drawing.style():
        drawn = [
            draw(results)
            for draw in (reduction, windows, queue, loss, friendliness, table, rtts, shares, speeds, parking_lot)
        ]
    return [f for f in drawn if f]


def bars(ax, x, samples: list[list[float]], base=0.0, **style) -> np.ndarray:
    """Means over the seeds as bars, with 95 % intervals if there are several; the means."""
    mean, low, high = np.array([interval(s) for s in samples]).T
    several = any(len(s) > 1 for s in samples)
    ax.set_axisbelow(True)
    ax.bar(
        x,
        mean,
        bottom=base,
        yerr=[mean - low, high - mean] if several else None,
        capsize=3,
        error_kw={"elinewidth": 0.8},
        **style,
    )
    return mean


def losses(acks) -> np.ndarray:
    """Index of the last ACK before each recovery, as in claims.cuts()."""
    return np.flatnonzero((acks["ca_state"][1:] >= 2) & (acks["ca_state"][:-1] < 2))


def flow_acks(run, flow: int):
    return run.acks[run.acks["flow"] == flow]


def cycles(run) -> tuple[float, float]:
    """The last whole cycles of Fusion's window, with a little on both sides; half the run if there are none."""
    acks, end = flow_acks(run, 0), run.job.duration_s
    t = acks["t"][losses(acks)]
    return (max(t[-CYCLES - 1] - 0.3, 0), min(t[-1] + 0.6, end)) if len(t) > CYCLES else (end / 2, end)


def shade(ax, state, span: tuple[float, float]) -> list[Patch]:
    """Fusion's phases as the background, but for slow start. Their legend."""
    names = dict(zip(paper.PHASES.values(), paper.PHASES))
    edges = np.arange(span[0], span[1] + PHASE_S, PHASE_S)
    per_bin = [np.histogram(state["t"][state["phase"] == number], edges)[0] for number in range(len(names) + 1)]
    phase = np.argmax(per_bin, axis=0)
    change = [0, *(np.flatnonzero(np.diff(phase)) + 1), len(phase)]
    for a, b in zip(change, change[1:]):
        if phase[a]:
            ax.axvspan(edges[a], edges[b], zorder=0, edgecolor="white", linewidth=0, **PHASES[names[phase[a]]])
    return [Patch(edgecolor="white", linewidth=0, **style, label=name) for name, style in PHASES.items()]


def windows(results):
    runs = results.valid("FU-2")
    if not runs:
        return None
    run, state = runs[0], runs[0].state(0)
    figure = Figure(figsize=(7.5, 7.5))
    axes = figure.subplots(2)
    for ax, span in zip(axes, ((0, run.job.duration_s), cycles(run))):
        for flow, controller in ((1, "reno"), (0, "fusion")):
            acks = flow_acks(run, flow)
            steps(ax, acks["t"], acks["cwnd"], span, **look(controller))
            at = losses(acks)
            at = at[(acks["t"][at] >= span[0]) & (acks["t"][at] < span[1])]
            ax.plot(
                acks["t"][at],
                acks["cwnd"][at],
                color=colour(controller),
                marker="v",
                linestyle="",
                markersize=7,
                label=f"{label(controller)} loses",
            )
        steps(
            ax,
            state["t"],
            state["reno_q20"] / 2**20,
            span,
            color=GREEN,
            linestyle=(0, (3, 1, 1, 1)),
            label="Fusion's reno_cwnd",
        )
        ax.set(xlim=span, ylim=(0, 1.25 * ax.dataLim.ymax), ylabel="packets")
    axes[0].legend(loc="upper right", ncols=3)
    phases = shade(axes[1], state, axes[1].get_xlim())
    axes[1].legend(handles=phases, loc="lower right", ncols=3, title="phase of Fusion", title_fontsize=9, **FRAME)
    axes[0].set_title("Congestion windows")
    axes[1].set_title("The last cycles")
    axes[1].set_xlabel("time, s")
    return drawing.Figure(
        "fusion-windows",
        "Fig. 2: Fusion beside Reno, a buffer of half a BDP",
        "50 Mbit/s, 40 ms, the first seed. A loss takes a third of Fusion's window and half of Reno's; Fusion fills "
        "what Reno left free, holds its window while Reno's queue grows, and falls back to its own reno_cwnd once "
        "diff is beyond 3 alpha: from there both are Reno until the next loss.",
        figure,
    )


def queue(results):
    runs = results.valid("FU-2")
    if not runs:
        return None
    run, state = runs[0], runs[0].state(0)
    span, t = cycles(run), state["t"]
    figure = Figure(figsize=(7.5, 8))
    axes = figure.subplots(3, height_ratios=[1.5, 0.9, 0.9])
    steps(axes[0], t, state["diff_q8"] / 256, span, **look("fusion", label="diff"))
    for times, style in ((1, {"color": BLUE, "linestyle": (0, (6, 2))}), (3, {"color": VERMILLION, "linestyle": "-."})):
        steps(
            axes[0],
            t,
            times * state["alpha_q8"] / 256,
            span,
            **style,
            label="alpha" if times == 1 else f"{times} alpha",
        )
    steps(axes[1], t, state["rtt_q4"] / 16e3, span, color=BLACK, linewidth=1, label="RTT, averaged")
    axes[1].axhline(state["rtt_min"][-1] / 1e3, **CEILING, label="RTT_min")
    known = state["b_q8"] > 0
    rate = state["b_q8"][known] / 256 * PACKET * 8 / 1e6
    axes[2].plot(*drawing.thin(t[known], rate), **look("fusion", label="B"))
    axes[2].axhline(FIG_2_RATE, **CEILING, label="the link")
    axes[2].axhline(FIG_2_RATE / 2, **FLOOR, label="its half")
    axes[0].set(
        title="Fusion's packets in the queue, and how many it may keep there",
        ylabel="packets",
        ylim=(0, 1.25 * axes[0].dataLim.ymax),
    )
    axes[1].set(title="Round-trip time", ylabel="ms", ylim=(0, 1.2 * axes[1].dataLim.ymax))
    axes[2].set(
        title="B, from which the increase: 1 ms of B a round trip. The whole run",
        ylabel="Mbit/s",
        xlabel="time, s",
        xlim=(0, run.job.duration_s),
        ylim=(0, 1.2 * max(rate.max(), FIG_2_RATE)),
    )
    for ax in axes[:2]:
        ax.set_xlim(span)
        phases = shade(ax, state, ax.get_xlim())
    handles, _ = axes[0].get_legend_handles_labels()
    axes[0].legend(handles=handles + phases, loc="upper right", ncols=6, columnspacing=1, **FRAME)
    for ax in axes[1:]:
        ax.legend(loc="lower right", ncols=3, **FRAME)
    return drawing.Figure(
        "fusion-queue",
        "How Fusion sees the queue",
        "From the controller's own variables, the last cycles of the run above. Below alpha it fills the path, "
        "between alpha and 3 alpha it waits, beyond it backs off; while reno_cwnd is the larger, that has no effect.",
        figure,
    )


def reno_law(p):
    """Mbit/s of payload by Mathis et al. 1997, at most the link's."""
    return np.minimum(np.sqrt(1.5 / p) * PACKET * 8 / RTT / 1e6, FIG_4_RATE) * PAYLOAD


def rate_of(p: str) -> float:
    return float(p.removesuffix("%")) / 100


def sweep(results, id: str) -> dict[float, list]:
    """Loss rate -> runs of a scenario, one a seed."""
    return {rate_of(p): runs for p in paper.LOSSES if (runs := results.valid(id, path__hops__forward__loss=p))}


def over_loss(ax, found: dict[float, list], measure, aside: int, controller: str, **changes) -> None:
    """One controller's line; a little apart sideways."""
    points(ax, found, measure, 1.06**aside, **marked(controller, linewidth=1.1) | changes)


def papers_loss(ax) -> None:
    """A second axis above, with the paper's loss rates."""
    above = ax.secondary_xaxis("top", functions=(lambda p: p / 25, lambda p: p * 25))
    above.set_xlabel("paper's random loss rate, of the same effect on Reno")
    ax.set(xscale="log", xlabel="random loss rate")


def loss(results):
    found = sweep(results, "FU-4")
    if not found:
        return None
    figure = Figure(figsize=(7.5, 5))
    ax = figure.subplots()
    p = np.geomspace(1.5e-5, 4e-2, 200)
    ax.plot(
        p, reno_law(p), color=GREY, linewidth=1, linestyle=":", label=r"Reno's law, $\sqrt{3/2p}$ packets a round trip"
    )
    for i, c in enumerate(paper.VARIANTS):
        over_loss(ax, found, lambda r: paper.alone(r, c), i - 3, c)
    papers_loss(ax)
    ax.set(ylabel="goodput, Mbit/s", xlim=(p[0], p[-1]), ylim=(0, 1.08 * FIG_4_RATE))
    ax.legend(loc="lower left")
    return drawing.Figure(
        "fusion-loss",
        "Fig. 4: one flow under random loss",
        f"20 Mbit/s, 40 ms, a buffer of one BDP, 67 packets; points a little apart sideways. {SCALED} Fusion's cut "
        "spares what is in flight and not queued, and so it holds out longest.",
        figure,
    )


def friendliness(results):
    found = sweep(results, "FU-5")
    if not found:
        return None
    figure = Figure(figsize=(7.5, 5))
    ax = figure.subplots()
    for i, c in enumerate(paper.FRIENDLY):
        over_loss(ax, found, lambda r: paper.beside(r, c)[0], i - 1, c)
        over_loss(
            ax,
            found,
            lambda r: paper.beside(r, c)[1],
            i - 1,
            c,
            linestyle=":",
            markerfacecolor="none",
            label=f"Reno beside {label(c)}",
        )
    over_loss(ax, found, lambda r: paper.reno_beside(r, "reno"), 2, "reno", label="Reno beside Reno")
    papers_loss(ax)
    ax.axhline(FIG_4_RATE * PAYLOAD / 2, **EXPECTED)
    ax.set(xlim=(1.5e-5, 4e-2), ylim=(0, FIG_4_RATE), ylabel="goodput, Mbit/s; dashed: the fair share")
    ax.legend(loc="lower left", fontsize=8)
    return drawing.Figure(
        "fusion-friendliness",
        "Fig. 5: beside a Reno flow under random loss",
        f"20 Mbit/s, 40 ms, a buffer of one BDP, 67 packets. {SCALED} These should leave Reno its share, and take what "
        "it cannot use.",
        figure,
    )


def table(results):
    measured = paper.table_1(results.valid("FU-T1"))
    if not measured:
        return None
    group = paper.GROUP
    theirs, ours, half = (np.full((len(group), len(group)), np.nan) for _ in range(3))
    for (row, column), goodputs in measured.items():
        mean, low, _ = interval([100 / FIG_4_RATE * g for g in goodputs])
        at = group.index(row), group.index(column)
        theirs[at] = paper.TABLE_1[row][paper.VARIANTS.index(column)]
        ours[at], half[at] = mean, mean - low
    figure = Figure(figsize=(9, 4.6))
    axes = figure.subplots(1, 2, sharey=True)
    names = [paper.NAMES[c] for c in group]
    for ax, title, values in zip(axes, ("The paper", "Here, with half the 95 % interval"), (theirs, ours)):
        image = ax.imshow(values, cmap="PuOr", vmin=0, vmax=96)
        for (i, j), value in np.ndenumerate(values):
            if not np.isnan(value):
                several = values is ours and half[i, j] > 0
                text = f"{value:.1f}" + (f"\n±{half[i, j]:.1f}" if several else "")
                ax.text(j, i, text, ha="center", va="center", fontsize=9)
        ax.set(title=title, xticks=range(4), yticks=range(4), xticklabels=names, yticklabels=names, xlabel="beside")
        ax.grid(visible=False)
    figure.colorbar(image, ax=axes, shrink=0.8, label="% of the link")
    return drawing.Figure(
        "fusion-table-1",
        "Table 1: the Reno-friendly variants beside each other",
        "What the row's flow has beside the column's, in percent of the link (the paper: Mbit/s of 100). Paper: 100 "
        "Mbit/s, 40 ms, 333 packets of path and of buffer; here 20 Mbit/s and 67.",
        figure,
    )


def rtts(results):
    found = {c: runs for c in paper.VARIANTS if (runs := results.valid("FU-9", flows__controller=c))}
    if not found:
        return None
    figure = Figure(figsize=(8, 4.5))
    ax = figure.subplots()
    for i, ms in enumerate(paper.RTTS):
        for j, (c, runs) in enumerate(found.items()):
            bars(
                ax,
                [i + (j - 3) / 9],
                [[paper.rtt_ratio(r, ms) for r in runs]],
                width=0.1,
                color=colour(c),
                label="" if i else label(c),
            )
    ax.axhline(1, **EXPECTED)
    ax.set(
        xticks=range(len(paper.RTTS)),
        xticklabels=[f"20 and {ms} ms" for ms in paper.RTTS],
        ylabel="goodput of the flow of 20 ms over the other's",
        ylim=(0, None),
    )
    ax.legend(loc="upper left", ncols=2)
    return drawing.Figure(
        "fusion-rtts",
        "Fig. 9: two flows of a kind with different RTTs",
        "20 Mbit/s, a buffer of 67 packets; 95 % intervals over the seeds.",
        figure,
    )


def shares(results):
    buffers = results.points("FU-10", "path.forward.queue")
    if not buffers:
        return None
    figure = Figure(figsize=(4.5 + 2 * len(buffers), 4.2))
    axes = np.atleast_1d(figure.subplots(1, len(buffers), sharey=True))
    for ax, packets in zip(axes, buffers):
        found = {
            c: runs
            for c in paper.VARIANTS
            if (runs := results.valid("FU-10", flows__0__controller=c, path__forward__queue=packets))
        }
        x = np.arange(len(found))
        samples = [[100 * share(r) for r in runs] for runs in found.values()]
        mean = bars(ax, x, samples, width=0.6, color=[colour(c) for c in found])
        for i, value in enumerate(mean):
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
            ax.text(i, value / 2, f"{value:.0f}", va="center", ha="center", fontsize=8, bbox=box)
        for part in (40, 60):
            ax.axhline(part, **EXPECTED)
        ax.set(title=f"a buffer of {packets} packets", ylim=(0, 100))
        ax.set_xticks(x, [paper.NAMES[c] for c in found], rotation=45)
    axes[0].set_ylabel("% of both flows' goodput; dashed: 40 and 60 %")
    return drawing.Figure(
        "fusion-shares",
        "Fig. 10: a variant beside Reno on a slow path",
        "30 Mbit/s, 20 ms, BDP 50 packets; the paper does not give the buffer. It finds that all variants share fairly "
        "with Reno here, being in their Reno mode.",
        figure,
    )


def speeds(results):
    """Shares of the link as (title, {controller: [(its, Reno's), one a seed]}) for each panel."""
    kinds = (*paper.VARIANTS[1:], "fast", "reno")  # Reno beside Reno at the right, as in the paper

    def as_it_stands(id, rate, **point):
        return {
            c: [[100 / rate * goodput_of(r, flow) for flow in (0, 1)] for r in runs]
            for c in kinds
            if (runs := results.valid(id, flows__0__controller=c, **point))
        }

    scaled = results.valid("FU-5", path__hops__forward__loss="0.25%")
    panels = [
        ("100 Mbit/s as it stands", as_it_stands("FU-11-100", 100)),
        (
            "300 Mbit/s: 20 Mbit/s, p = 0.25%",
            {c: [[100 / FIG_4_RATE * g for g in paper.beside(r, c)] for r in scaled] for c in (*paper.FRIENDLY, "reno")}
            if scaled
            else {},
        ),
        *(
            (
                f"{rate} Mbit/s as it stands, one run",
                as_it_stands("FU-11-GBIT", rate, path__forward__rate=f"{rate}mbit"),
            )
            for rate in (600, 1000)
        ),
    ]
    panels = [(title, found) for title, found in panels if found]
    if not panels:
        return None
    rows = (len(panels) + 1) // 2
    figure = Figure(figsize=(10, 3.4 * rows))
    axes = np.atleast_1d(figure.subplots(rows, min(len(panels), 2), sharey=True, squeeze=False)).ravel()
    for ax, (title, found) in zip(axes, panels):
        x = np.arange(len(found))
        mine = bars(
            ax, x, [[a for a, _ in pairs] for pairs in found.values()], width=0.6, color=[colour(c) for c in found]
        )
        bars(
            ax,
            x,
            [[b for _, b in pairs] for pairs in found.values()],
            base=mine,
            width=0.6,
            color="white",
            edgecolor=colour("reno"),
            hatch="////",
        )
        if "reno" in found:
            ax.axhline(np.mean(found["reno"]), **EXPECTED)
        ax.set(title=title, ylim=(0, 100))
        ax.set_xticks(x, [paper.NAMES[c] for c in found], rotation=45)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    for ax in axes[::2]:
        ax.set_ylabel("goodput, % of the link")
    return drawing.Figure(
        "fusion-speeds",
        "Fig. 11: beside Reno on fast paths",
        "44 ms, random loss of 1e-5 (the paper's exponent is lost). The faster the link, the less of it Reno can fill; "
        "the scaled panel keeps that share. Hatched: the Reno flow; dashed: what one has beside another. Alpha of FAST "
        "is 20 packets.",
        figure,
    )


def parking_lot(results):
    group = ("reno", *paper.FRIENDLY)
    found = {
        what: {c: runs for c in group if (runs := results.valid(id, flows__0__controller=c))}
        for what, id in (("without reverse traffic", "FU-13"), ("with reverse traffic", "FU-13-REVERSE"))
    }
    if not all(found.values()):
        return None
    figure = Figure(figsize=(10, 4.5))
    axes = figure.subplots(1, 2, sharey=True)
    shade = ("#d9d9d9", "#969696", "#525252")
    for ax, (what, mine) in zip(axes, found.items()):
        for j, c in enumerate(mine):
            for kind in (0, 1):  # the variant, Reno
                base = 0.0
                for n in range(3):
                    base += bars(
                        ax,
                        [j + (kind - 0.5) * 0.36],
                        [[goodput_of(r, 2 * n + kind) for r in mine[c]]],
                        base=base,
                        width=0.32,
                        color=shade[n],
                        edgecolor=colour("reno" if kind else c),
                        hatch="////" if kind else "",
                        linewidth=1.2,
                    )[0]
            ax.text(j, 7.6, f"{np.mean([jain(paper.by_hops(r)) for r in mine[c]]):.2f}", ha="center", fontsize=9)
        ax.set(title=what, xticks=range(len(mine)), xticklabels=[paper.NAMES[c] for c in mine], ylim=(0, 8))
    axes[0].set_ylabel("goodput over R3-R4, Mbit/s")
    axes[1].legend(
        handles=[Patch(facecolor=s, label=f"{n + 1} hop{'s' * (n > 0)}") for n, s in enumerate(shade)]
        + [Patch(facecolor="white", edgecolor=colour("reno"), hatch="////", label="Reno")],
        loc="upper right",
        bbox_to_anchor=(1, 0.93),
        ncols=4,
        **FRAME,
    )
    return drawing.Figure(
        "fusion-parking-lot",
        "Fig. 13: several bottlenecks",
        "10 Mbit/s and 10 ms a hop, 24, 44, 64 ms; three flows of the variant and three of Reno (hatched) share the "
        "last hop. The number above is the Jain index of the flows of one, two and three hops.",
        figure,
    )


def reduction(results):
    runs = results.valid("FU-1")
    if not runs:
        return None
    figure = Figure(figsize=(7.5, 5))
    ax = figure.subplots()
    x = np.linspace(1, 4.2, 200)
    ax.plot(x, np.maximum(1 / x, 0.5), color=BLACK, linewidth=1.2, label=r"Fusion: $\max(RTT_{min}/RTT,\ 1/2)$")
    ax.plot(x, 1 / x, color=GREY, linewidth=1, linestyle=":", label=r"TCPW: $RTT_{min}/RTT$")
    ax.axhline(0.5, **EXPECTED, label="Reno: 1/2")
    for controller, first in (("reno", 1), ("fusion", 0)):
        cwnd, ssthresh, rtt, smallest = np.concatenate(
            [paper.cuts(r, flow + first) for r in runs for flow in paper.FU_1_FLOWS], axis=1
        )
        ax.plot(
            rtt / smallest,
            ssthresh / cwnd,
            **marked(
                controller,
                label=f"{label(controller)}, measured ({len(cwnd)})",
                linestyle="",
                markersize=5,
                markerfacecolor="none",
                alpha=0.6,
            ),
        )
    ax.set(
        xlabel=r"RTT at the loss over $RTT_{min}$",
        ylabel="window after the loss over that before",
        xlim=(0.97, 4.2),
        ylim=(0, 1.05),
    )
    ax.legend(loc="upper right")
    return drawing.Figure(
        "fusion-reduction",
        "Fig. 1: what a loss leaves of the window",
        "Every loss of Fusion beside Reno on five bottlenecks of 10 Mbit/s and 40 ms whose buffers are 1/4 (with "
        "random loss) to 3 BDP. Windows are whole packets, 13 to 121 of them. Fusion gives up what is queued, but "
        "never more than Reno.",
        figure,
    )
