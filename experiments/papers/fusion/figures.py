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
from asymlab.report.judged import interval
from asymlab.report.measures import goodput_of, ratio, share
from asymlab.report.plot import EXPECTED, colour, heat_map, label, look, marked, points, steps
from asymlab.results.metrics import jain

from . import measures as paper

RTT, PACKET, RATE = 0.04, 1500, 100  # s, bytes, Mbit/s of the paper's path
PAYLOAD = 1448 / PACKET
FLOOR, CEILING = EXPECTED, EXPECTED | {"linestyle": ":"}
PHASES = {
    "increase": {"facecolor": "#cfe8f8"},
    "steady": {"facecolor": "#e8e8e8"},
    "decrease": {"facecolor": "#fbe3c0", "hatch": "..."},
}
FRAME = {"frameon": True, "edgecolor": "none", "framealpha": 1}  # of a legend on shades
PHASE_S = 0.05  # the phase of most ACKs in so long is the one that shows
SEEN_S = 0.25  # one window of so long shows in 200 s
CYCLES = 2  # from loss to loss, in a zoom
LOSSES = (*paper.RARE, *paper.OFTEN)
BUFFER = "path.forward.queue"


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
        "100 Mbit/s, 40 ms, the first seed. A loss takes a third of Fusion's window and half of Reno's; Fusion fills "
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
    axes[2].axhline(RATE, **CEILING, label="the link")
    axes[2].axhline(RATE / 2, **FLOOR, label="its half")
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
        ylim=(0, 1.2 * max(rate.max(), RATE)),
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
    return np.minimum(np.sqrt(1.5 / p) * PACKET * 8 / RTT / 1e6, RATE) * PAYLOAD


def over_loss(ax, runs_at, measure, losses, aside: int, controller: str, **changes) -> None:
    """One controller's line, a little apart sideways. runs_at: the runs at a loss rate."""
    found = {float(p.removesuffix("%")) / 100: runs for p in losses if (runs := runs_at(p))}
    if found:
        points(ax, found, measure, 1.03**aside, **marked(controller, linewidth=1.1) | changes)


def loss(results):
    figure = Figure(figsize=(7.5, 5))
    ax = figure.subplots()
    for i, c in enumerate(paper.VARIANTS):
        over_loss(ax, lambda p: paper.alone(c, p).valid(results), goodput_of, LOSSES, i - 3, c)
    if not ax.lines:
        return None
    p = np.geomspace(7e-7, 1.5e-2, 200)
    ax.plot(
        p, reno_law(p), color=GREY, linewidth=1, linestyle=":", label=r"Reno's law, $\sqrt{3/2p}$ packets a round trip"
    )
    ax.set(xscale="log", xlabel="random loss rate", ylabel="goodput, Mbit/s", xlim=(p[0], p[-1]), ylim=(0, 1.04 * RATE))
    ax.legend(loc="lower left")
    return drawing.Figure(
        "fusion-loss",
        "Fig. 4: one flow under random loss",
        "The paper's path: 100 Mbit/s, 40 ms, a buffer of one BDP, 333 packets; points a little apart sideways. "
        "Fusion's cut spares what is in flight and not queued, and so it holds out longest.",
        figure,
    )


def friendliness(results):
    """Figs. 5 and 6, side by side."""
    kinds = [[c for c in group if paper.beside("FU-5", c).valid(results)] for group in (paper.FRIENDLY, paper.GREEDY)]
    kinds = [group for group in kinds if group]
    if not kinds:
        return None
    figure = Figure(figsize=(2.5 + 5 * len(kinds), 5))
    axes = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for ax, group in zip(axes, kinds):
        for i, c in enumerate(group):
            beside(ax, results, c, 0, i - 1)
            beside(ax, results, c, 1, i - 1, linestyle=":", markerfacecolor="none", label=f"Reno beside {label(c)}")
        beside(ax, results, "reno", 1, 2, label="Reno beside Reno")
        ax.axhline(RATE * PAYLOAD / 2, **EXPECTED)
        ax.set(xscale="log", xlabel="random loss rate", xlim=(5e-6, 2e-2), ylim=(0, RATE))
        ax.legend(loc="upper right", fontsize=8)
    axes[0].set_ylabel("goodput, Mbit/s; dashed: the fair share")
    return drawing.Figure(
        "fusion-friendliness",
        "Figs. 5 and 6: beside a Reno flow under random loss",
        "The paper's path: 100 Mbit/s, 40 ms, a buffer of one BDP, 333 packets. A friendly variant leaves Reno its "
        "share, and takes what Reno cannot use.",
        figure,
    )


def beside(ax, results, controller: str, flow: int, aside: int, **changes) -> None:
    """Figs. 5 and 6: one flow of a pair over the loss rate."""
    over_loss(
        ax,
        lambda p: paper.lossy(controller, p).valid(results),
        lambda r: goodput_of(r, flow),
        LOSSES[1:],
        aside,
        controller,
        **changes,
    )


def table(results):
    kinds = paper.VARIANTS
    theirs, ours, half = (np.full((len(kinds), len(kinds)), np.nan) for _ in range(3))
    for i, row in enumerate(kinds):
        for j, column in enumerate(kinds):
            if runs := paper.pair(row, column).valid(results):
                mean, low, _ = interval([paper.kind_of(r, row) for r in runs])
                ours[i, j], half[i, j] = mean, mean - low
                theirs[i, j] = paper.TABLE_1[row][j]
    if np.isnan(ours).all():
        return None
    figure = Figure(figsize=(13, 6))
    axes = figure.subplots(1, 2, sharey=True)
    names = [paper.NAMES[c] for c in kinds]
    for ax, title, values in zip(axes, ("The paper", "Here, with half the 95 % interval"), (theirs, ours)):
        texts = {
            at: f"{value:.1f}" + (f"\n±{half[at]:.1f}" if values is ours and half[at] > 0 else "")
            for at, value in np.ndenumerate(values)
            if not np.isnan(value)
        }
        image = heat_map(ax, values, names, texts, 8, cmap="PuOr", vmin=0, vmax=96)
        ax.set(title=title, xlabel="beside")
    figure.colorbar(image, ax=axes, shrink=0.8, label="Mbit/s")
    return drawing.Figure(
        "fusion-table-1",
        "Table 1: each variant beside each",
        "The row's flow beside the column's, Mbit/s, on the paper's path: 100 Mbit/s, 40 ms, a buffer of one "
        "BDP, 333 packets, no random loss.",
        figure,
    )


def three(results):
    """Fig. 8."""
    found = {c: runs for c in paper.VARIANTS if (runs := results.valid("FU-8", flows__controller=c))}
    if not found:
        return None
    rows = (len(found) + 1) // 2
    figure = Figure(figsize=(10, 2.4 * rows))
    axes = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False).ravel()
    for ax, (c, runs) in zip(axes, found.items()):
        for flow, (paint, line) in enumerate(((BLUE, "-"), (VERMILLION, "--"), (GREEN, "-."))):
            acks = flow_acks(runs[0], flow)
            acks = acks[np.flatnonzero(np.diff(acks["t"] // SEEN_S)) + 1]
            steps(ax, acks["t"], acks["cwnd"], color=paint, linestyle=line, label=f"flow {flow + 1}", linewidth=0.8)
        mean = [np.mean([goodput_of(r, flow) for r in runs]) for flow in range(3)]
        index = np.mean([jain([goodput_of(r, flow) for flow in range(3)]) for r in runs])
        ax.set_title(f"{label(c)}: " + ", ".join(f"{m:.1f}" for m in mean) + f" Mbit/s, Jain {index:.3f}", fontsize=9)
    for ax in axes[len(found) :]:
        ax.set_visible(False)
    for ax in axes[::2]:
        ax.set_ylabel("cwnd, packets")
    axes[0].legend(loc="upper right", ncols=3, fontsize=8)
    return drawing.Figure(
        "fusion-three",
        "Fig. 8: three flows of a kind",
        "100 Mbit/s, 82 ms, a buffer of 333 packets, starts at 0, 50, 100 s; windows of the first seed over the time "
        "in s, goodputs and the mean Jain index from 110 s on. The paper: Fusion 36.6, 31.2, 33.5, HSTCP 51.1, 28.7, "
        "16.5 Mbit/s.",
        figure,
    )


def rtts(results):
    found = {c: runs for c in paper.VARIANTS if (runs := results.valid("FU-9", flows__controller=c))}
    if not found:
        return None
    figure = Figure(figsize=(12, 4.5))
    axes = figure.subplots(1, 2, sharey=True)
    for ax, (id, queue) in zip(axes, (("FU-9", 333), ("FU-C-SHORT", 83))):
        for i, ms in enumerate(paper.RTTS):
            for j, c in enumerate(found):
                if runs := paper.of_rtt(c, ms, id).valid(results):
                    samples = [[ratio(r) for r in runs]]
                    bars(ax, [i + (j - 3) / 9], samples, width=0.1, color=colour(c), label=label(c) if i == 1 else "")
        ax.axhline(1, **EXPECTED)
        ticks = [f"20 and {ms} ms" for ms in paper.RTTS]
        ax.set(title=f"a queue of {queue} packets", xticks=range(3), xticklabels=ticks, ylim=(0, None))
    axes[0].set_ylabel("goodput of the flow of 20 ms over the other's")
    axes[0].legend(loc="upper left", ncols=2)
    return drawing.Figure(
        "fusion-rtts",
        "Fig. 9: two flows of a kind with different RTTs",
        "100 Mbit/s; the paper does not give the buffer. 95 % intervals over the seeds.",
        figure,
    )


def shares(results):
    runs_of = {packets: "FU-10" if packets == 50 else "FU-10-BUFFERS" for packets in (25, 50, 100)}
    found = {
        packets: {c: runs for c in paper.VARIANTS if (runs := slow(results, id, c, packets))}
        for packets, id in runs_of.items()
    }
    found = {packets: mine for packets, mine in found.items() if mine}
    if not found:
        return None
    figure = Figure(figsize=(4.5 + 2 * len(found), 4.2))
    axes = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for ax, (packets, mine) in zip(axes, found.items()):
        x = np.arange(len(mine))
        samples = [[100 * share(r) for r in runs] for runs in mine.values()]
        mean = bars(ax, x, samples, width=0.6, color=[colour(c) for c in mine])
        for i, value in enumerate(mean):
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
            ax.text(i, value / 2, f"{value:.0f}", va="center", ha="center", fontsize=8, bbox=box)
        for part in (40, 60):
            ax.axhline(part, **EXPECTED)
        ax.set(title=f"a buffer of {packets} packets", ylim=(0, 100))
        ax.set_xticks(x, [paper.NAMES[c] for c in mine], rotation=45)
    axes[0].set_ylabel("% of both flows' goodput; dashed: 40 and 60 %")
    return drawing.Figure(
        "fusion-shares",
        "Fig. 10: a variant beside Reno on a slow path",
        "30 Mbit/s, 20 ms, BDP 50 packets; the paper does not give the buffer. It finds that all variants share fairly "
        "with Reno here, being in their Reno mode.",
        figure,
    )


def slow(results, id: str, controller: str, packets: int) -> list:
    """Fig. 10's runs with this buffer."""
    return [r for r in paper.beside(id, controller).valid(results) if r.record["point"].get(BUFFER, 50) == packets]


def speeds(results):
    """Fig. 11: shares of the link."""
    kinds = (*paper.VARIANTS[1:], "fast", "reno")  # Reno beside Reno at the right, as in the paper
    panels = {
        rate: {
            c: [[100 / rate * goodput_of(r, flow) for flow in (0, 1)] for r in runs]
            for c in kinds
            if (runs := paper.fast(c, rate).valid(results))
        }
        for rate in paper.SPEEDS
    }
    panels = {rate: found for rate, found in panels.items() if found}
    if not panels:
        return None
    rows = (len(panels) + 1) // 2
    figure = Figure(figsize=(10, 3.4 * rows))
    axes = figure.subplots(rows, min(len(panels), 2), sharey=True, squeeze=False).ravel()
    for ax, (rate, found) in zip(axes, panels.items()):
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
        ax.set(title=f"{rate} Mbit/s" + (", one run" if rate > 300 else ""), ylim=(0, 100))
        ax.set_xticks(x, [paper.NAMES[c] for c in found], rotation=45)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    for ax in axes[::2]:
        ax.set_ylabel("goodput, % of the link")
    return drawing.Figure(
        "fusion-speeds",
        "Fig. 11: beside Reno on fast paths",
        "44 ms, random loss of 1e-5 (the paper's exponent is lost), an ACK for each packet. The faster the link, the "
        "less of it Reno can fill. Hatched: the Reno flow; dashed: what one has beside another.",
        figure,
    )


def parking_lot(results):
    found = {
        what: {c: runs for c in paper.SIMULATED if (runs := results.valid(id, flows__0__controller=c))}
        for what, id in (("without reverse traffic", "FU-13"), ("with reverse traffic", "FU-13-REVERSE"))
    }
    if not all(found.values()):
        return None
    figure = Figure(figsize=(13, 4.5))
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
        "10 Mbit/s and 10 ms a hop, 24, 44, 64 ms, an ACK for each packet; three flows of the variant and three of "
        "Reno (hatched) share the last hop. Above: the Jain index of the flows of one, two and three hops.",
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
    for controller, flow in (("reno", 1), ("fusion", 0)):
        cwnd, ssthresh, rtt, smallest = np.concatenate([paper.cuts(r, flow) for r in runs], axis=1)
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
        "Every loss of Fusion beside Reno, 100 Mbit/s and 40 ms, with buffers of 1/4 (with random loss), 1/2, 1 and 3 "
        "BDP. Fusion gives up what is queued, but never more than Reno.",
        figure,
    )


FIGURES = (reduction, windows, queue, loss, friendliness, table, three, rtts, shares, speeds, parking_lot)
