# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figures for TCP-Taichung (Chang, Lin, Liang): how its first slow start ends, what that is worth, and random loss.

Each function draws one figure from valid runs, or returns None when a run that it needs is missing.
Times count from the connection's first ACK.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from asymlab import controllers
from asymlab.palette import BLACK, BLUE, GREEN, ORANGE
from asymlab.report import drawing
from asymlab.report.measures import goodput_each, jain_index
from asymlab.report.plot import EXPECTED, colour, label, look, marked, points, steps

from . import measures as paper

BUFFER = 204  # packets
CONTROLLERS = ("taichung", *paper.OTHERS)
RAMP_S, MECHANISM_S = 3, 1.5
LIMIT = EXPECTED | {"linestyle": ":"}
PROFILES = {
    paper.PAPER: "impatient, as in the paper",
    paper.TODAY: "Linux's own recovery, with SACK",
    "newreno": "without SACK, slow but steady",
}
BOTH = (paper.PAPER, paper.TODAY)
SIMULATED = {"taichung": 8.780, "reno": 8.178}  # Mbit/s over Fig. 3
# The paper's tables. Goodput of a connection, Mbit/s, by the number of senders.
TABLE1 = {
    "taichung": (9.043681, 4.527145, 0.901849),
    "reno": (8.885084, 4.454523, 0.896581),
    "westwood": (8.575426, 4.371722, 0.893390),
}
TABLE3 = {
    "taichung": (4.286341, 2.174054, 0.451027),
    "reno": (3.978199, 2.120765, 0.450265),
    "westwood": (4.164608, 2.171043, 0.447422),
}
# Jain indices, by the number of senders (2, 10), and by loss.
TABLE2 = {"taichung": (0.999965, 0.999403), "reno": (0.99993674, 0.99953054), "westwood": (0.99992643, 0.99726527)}
TABLE4_LOSS = (0, 0.001, 0.005, 0.01, 0.05, 0.1)
TABLE4 = {
    "taichung": (0.988328, 0.993481, 0.992687, 0.996392, 0.994997, 0.988709),
    "reno": (0.999261, 0.996917, 0.996184, 0.99666, 0.99684, 0.984752),
    "westwood": (0.923017, 0.973306, 0.991795, 0.995311, 0.996087, 0.996548),
}
ASIDE = dict(zip(CONTROLLERS, (-1, 0, 1)))
PAPERS_OWN = {"linestyle": "", "marker": "_", "markersize": 12, "color": BLACK, "label": "the paper's"}  # its numbers


def first(results, profile: str, controller: str):
    """The run of the lowest seed, or None."""
    runs = results.valid("TC-F3", profile=profile, flows__controller=controller)
    return runs[0] if runs else None


def stack(results) -> str:
    """The profile of the paper's figures: the quick set has it not, because the engine qemu has it not."""
    return paper.PAPER if first(results, paper.PAPER, "taichung") else "newreno"


def since_start(run):
    """(seconds since the first ACK, the ACKs)."""
    acks = paper.flow_acks(run)
    return acks["t"] - acks["t"][0], acks


def slow_start(results):
    main = stack(results)
    runs = {p: {c: r for c in CONTROLLERS if (r := first(results, p, c))} for p in (main, paper.TODAY)}
    shown = {p: of for p, of in runs.items() if {"taichung", "reno"} <= of.keys()}
    if main not in shown:
        return None
    figure = Figure(figsize=(7.5, 3.5 + 2.8 * len(shown)))
    axes = figure.subplots(1 + len(shown), height_ratios=[1.2] + [1] * len(shown))
    for controller, run in shown[main].items():
        t, acks = since_start(run)
        steps(axes[0], t, acks["cwnd"], (0, RAMP_S), **look(controller, label=name(controller)))
    for packets, what in ((paper.BDP, "BDP"), (paper.BDP + BUFFER, "BDP + buffer")):
        axes[0].axhline(packets, **LIMIT)
        axes[0].annotate(f"{what}: {packets:.0f}", (0, packets), xytext=(4, 3), textcoords="offset points", fontsize=9)
    axes[0].set(
        title=f"Congestion window, {PROFILES[main]}",
        ylabel="packets",
        xlim=(0, RAMP_S),
        ylim=(0, 1.08 * axes[0].dataLim.ymax),
    )
    axes[0].legend(loc="upper right", ncols=3)
    for ax, (profile, drawn) in zip(axes[1:], shown.items()):
        for i, (controller, run) in enumerate(reversed(drawn.items())):
            t, acks = since_start(run)
            inside = t < paper.SPAN_S
            sent = np.cumsum(acks["acked"][inside].astype("u8")) / 1e6
            # Markers in different places tell apart the lines that lie on each other.
            thinned = drawing.thin(t[inside], sent, 700)
            every = ((0.3 + i) / len(drawn) / 5, 0.2)
            text = f"{name(controller)}: {paper.goodput_at_first(run):.2f} Mbit/s"
            ax.plot(*thinned, **marked(controller, label=text, markevery=every, linewidth=1.1, markersize=5))
        ax.set(title=f"Acknowledged data, {PROFILES[profile]}", ylabel="MB", xlim=(0, paper.SPAN_S), ylim=(0, 12.5))
        handles, labels = ax.get_legend_handles_labels()
        ax.legend(handles[::-1], labels[::-1], loc="upper left", ncols=2)
    axes[-1].set_xlabel("time since the first ACK, s")
    sack = " With SACK the queue outlasts the repair, and nothing is left to win." if paper.TODAY in shown else ""
    return drawing.Figure(
        "taichung-slow-start",
        "Fig. 3: the first slow start, and the ten seconds after",
        "One flow, 10 Mbit/s, 90 ms, a buffer of one BDP, the first seed; the rates are those of eq. 1. Taichung "
        "leaves slow start before the path is full and loses nothing; Reno hears of the overflow a round trip late, "
        f"at four BDPs. The paper has {SIMULATED['taichung']:.2f} and {SIMULATED['reno']:.2f} Mbit/s for Taichung and "
        f"NewReno.{sack}",
        figure,
    )


def thresholds(results):
    run = first(results, stack(results), "taichung")
    if not run:
        return None
    state = run.state(0)
    start, acks = paper.flow_acks(run)["t"][0], paper.flow_acks(run)
    end = float(acks["t"][paper.slow_start(run)][-1] - start)
    t, known = state["t"] - start, state["inter_ack_ns"] > 0
    span = (0, MECHANISM_S)
    figure = Figure(figsize=(7.5, 8))
    axes = figure.subplots(3, sharex=True, height_ratios=[1, 1.7, 0.9])
    steps(axes[0], t[known], state["inter_ack_ns"][known] / 1e3, span, color=colour("taichung"), label="InterACK")
    steps(
        axes[0],
        t[known],
        state["inter_min_ns"][known] / 1e3,
        span,
        color=ORANGE,
        linestyle=(0, (3, 1)),
        label="InterACK_min",
    )
    axes[0].axhline(paper.PACKET_US, **EXPECTED, label=f"a packet's time on the link: {paper.PACKET_US:.1f} µs")
    axes[0].set(title="Averaged time between ACKs", ylabel="µs", ylim=(0, 700))
    for column, name, style in (
        ("ideal_q4", "ssthresh_ideal", {"color": BLUE, "linestyle": (0, (6, 2))}),
        ("net_q4", "ssthresh_net", {"color": GREEN, "linestyle": "-."}),
    ):
        steps(axes[1], t[known], state[column][known] / 16, span, **style, label=name)
    steps(axes[1], acks["t"] - start, acks["cwnd"], span, **look("taichung", label="cwnd", linewidth=2))
    axes[1].axhline(paper.BDP, **LIMIT)
    axes[1].set(title="Thresholds and congestion window", ylabel="packets", ylim=(0, 1.05 * axes[1].dataLim.ymax))
    measured = state["rtt_last"] > 0
    steps(axes[2], t[measured], state["rtt_last"][measured] / 1e3, span, color=BLACK, linewidth=1, label="RTT")
    axes[2].axhline(state["rtt_min"][-1] / 1e3, color=ORANGE, linestyle=(0, (3, 1)), label="RTT_min")
    axes[2].set(title="Round-trip time", ylabel="ms", xlim=span, xlabel="time since the first ACK, s", ylim=(0, None))
    for ax in axes:
        ax.axvline(end, color=BLACK, linewidth=0.8, linestyle=":")
        ax.legend(loc="lower right", ncols=3)
    cwnd = acks["cwnd"][paper.slow_start(run)][-1]
    axes[1].annotate(
        f"slow start ends:\n{end:.2f} s, {cwnd} packets",
        (end, cwnd),
        xytext=(end + 0.1, 0.5 * cwnd),
        arrowprops={"arrowstyle": "->"},
    )
    return drawing.Figure(
        "taichung-thresholds",
        "How Taichung's slow start ends",
        "From the controller's own variables, the first seed. InterACK finds the packet's time within "
        "a few round trips, and with it ssthresh_ideal the BDP (dotted) and one packet; ssthresh_net sinks while a "
        "burst waits in the queue. Slow start ends when cwnd meets it; a later burst that finds no queue may lift "
        "net above cwnd once more. Then cwnd grows by one packet a round trip.",
        figure,
    )


def papers_own(controller: str) -> dict:
    return PAPERS_OWN | {"markersize": 18, "markeredgewidth": 2, "color": colour(controller), "label": ""}


def name(controller: str) -> str:
    return {"reno": "NewReno"}.get(controller, label(controller))


def tables(results):
    panels = (
        ("Table 1, impatient", paper.PAPER, paper.table1, TABLE1, paper.SENDERS),
        ("Table 1, with SACK", paper.TODAY, paper.table1, TABLE1, paper.SENDERS),
        ("Table 3, beside 5 Mbit/s of UDP, impatient", paper.PAPER, paper.table3, TABLE3, paper.SENDERS),
    )
    found = [
        {c: {n: runs(profile, n, c).valid(results) for n in senders} for c in CONTROLLERS}
        for _, profile, runs, _, senders in panels
    ]
    if not all(runs for by_controller in found for by_n in by_controller.values() for runs in by_n.values()):
        return None
    figure = Figure(figsize=(7.5, 8.5))
    for ax, (title, _, _, simulated, senders), by_controller in zip(figure.subplots(3), panels, found):
        for controller, by_n in by_controller.items():
            place = {i + 0.18 * ASIDE[controller]: by_n[n] for i, n in enumerate(senders)}
            points(ax, place, total, **marked(controller, linestyle="", label=name(controller)))
            ax.plot(list(place), [n * v for n, v in zip(senders, simulated[controller])], **papers_own(controller))
        ax.plot([], [], **PAPERS_OWN)
        ax.set(
            title=title,
            ylabel="goodput of all, Mbit/s",
            ylim=(0, 1.1 * max(n * v[0] for n, v in zip(senders, simulated.values()))),
            xlim=(-0.5, 2.5),
            xticks=range(len(senders)),
            xticklabels=[paper.senders(n) for n in senders],
        )
        ax.set_ylim(0, 1.25 * ax.dataLim.ymax)
        ax.legend(loc="upper center", ncols=4)
    return drawing.Figure(
        "taichung-tables",
        "Tables 1 and 3: goodput with one, two and ten senders",
        "Over 20 s from the start, all connections added up.",
        figure,
    )


def total(run) -> float:
    return run.metrics["goodput_bps"] / 1e6


def share(loss: str) -> float:
    return float(loss.removesuffix("%")) / 100


def by_loss(results, profile: str, controller: str) -> dict[float, list]:
    """Loss -> the controller's valid runs there."""
    found = {loss: paper.fig7(profile, loss, controller).valid(results) for loss in paper.LOSSES}
    return {share(loss): runs for loss, runs in found.items() if runs}


def over_loss(ax) -> None:
    ax.set_xscale("symlog", linthresh=0.001, linscale=0.5)
    ax.set(xlim=(-0.0003, 0.13), xticks=list(TABLE4_LOSS), xticklabels=["0", "0.1 %", "0.5 %", "1 %", "5 %", "10 %"])
    ax.minorticks_off()


def loss(results):
    curves = {c: by_loss(results, paper.PAPER, c) for c in CONTROLLERS}
    if any(len(runs) < 2 for runs in curves.values()):
        return None
    stacks = {
        f"{short}{acks}": {c: at(p, c).valid(results) for c in CONTROLLERS}
        for p, short in ((paper.PAPER, "impatient"), (paper.TODAY, "with SACK"))
        for acks, at in (("", lambda p, c: paper.fig7(p, "10%", c)), (",\nACKs lost too", paper.acks_lost))
    }
    figure = Figure(figsize=(7.5, 7.5))
    axes = figure.subplots(2)
    for controller, runs in curves.items():
        points(axes[0], runs, lambda r: 1e3 * goodput_each(r), **marked(controller, label=name(controller)))
        place = {i + 0.18 * ASIDE[controller]: of[controller] for i, of in enumerate(stacks.values()) if of[controller]}
        points(axes[1], place, lambda r: 1e3 * goodput_each(r), **marked(controller, linestyle=""))
    axes[0].set(title="Without SACK, impatient, as in the paper", xlabel="share of data packets lost at random")
    axes[0].legend(loc="lower left")
    over_loss(axes[0])
    axes[1].set(title="10 % lost, by recovery", xticks=range(len(stacks)), xticklabels=list(stacks))
    for ax in axes:
        ax.set(ylabel="kbit/s of a connection", ylim=(0, None))
    return drawing.Figure(
        "taichung-loss",
        "Fig. 7: goodput of twenty connections over random loss",
        "10 Mbit/s, 72 ms; means over the seeds. The curves of the paper's figure are lost; its text has Taichung at "
        "twice NewReno's goodput and 1.75 times Westwood+'s at 10 %.",
        figure,
    )


def fairness(results):
    table4 = {c: by_loss(results, paper.PAPER, c) for c in CONTROLLERS}
    table2 = {
        p: {c: {i: paper.table1(p, n, c).valid(results) for i, n in enumerate((2, 10))} for c in CONTROLLERS}
        for p in BOTH
    }
    if any(len(runs) < 2 for runs in table4.values()) or not all(
        r for p in table2.values() for c in p.values() for r in c.values()
    ):
        return None
    figure = Figure(figsize=(7.5, 7))
    grid = figure.add_gridspec(2, 2)
    upper = [figure.add_subplot(grid[0, 0])]
    upper.append(figure.add_subplot(grid[0, 1], sharey=upper[0]))
    lower = figure.add_subplot(grid[1, :])
    for ax, (profile, by_controller) in zip(upper, table2.items()):
        for controller, runs in by_controller.items():
            place = {i + 0.18 * ASIDE[controller]: rs for i, rs in runs.items()}
            points(ax, place, jain_index, **controllers.of(controller).look | {"linestyle": ""})
            ax.plot(list(place), TABLE2[controller], **papers_own(controller))
        ax.set(
            title=f"Table 2, {PROFILES[profile].split(',')[0]}",
            xlim=(-0.5, 1.5),
            xticks=(0, 1),
            xticklabels=("2 senders", "10 senders"),
            ylim=(0, 1.05),
        )
    upper[0].set_ylabel("Jain index")
    for controller, runs in table4.items():
        points(lower, runs, jain_index, **marked(controller, label=name(controller)))
        lower.plot(TABLE4_LOSS, TABLE4[controller], **papers_own(controller) | {"markersize": 14})
    lower.plot([], [], **PAPERS_OWN)
    lower.set(
        title="Table 4: twenty connections over random loss, impatient",
        ylabel="Jain index",
        xlabel="share of data packets lost at random",
    )
    lower.set_ylim(top=1.01)
    lower.legend(loc="lower right", ncols=2)
    over_loss(lower)
    return drawing.Figure(
        "taichung-fairness",
        "Tables 2 and 4: fairness",
        "Over whole runs, starts included: 20 s for Table 2, 15 to 30 s for Table 4.",
        figure,
    )


FIGURES = (slow_start, thresholds, tables, loss, fairness)
