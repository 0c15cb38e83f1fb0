# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figures for TCP-Taichung (Chang, Lin, Liang): how its first slow start ends, and what that is worth.

Each function draws one figure from valid runs, or returns None when a run that it needs is missing.
Times count from the connection's first ACK.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from asymlab import report, suite
from asymlab.plot import EXPECTED, look, steps
from asymlab.report import BLACK, BLUE, GREEN, LOOKS, NAMES, ORANGE

paper = suite.module("taichung", "claims")

BUFFER = 204  # packets
OTHERS = ("reno", "westwood", "vegas", "highspeed", "bic", "cubic")
RAMP_S, MECHANISM_S = 3, 1.5
LIMIT = EXPECTED | {"linestyle": ":"}
PROFILES = {"newreno": "without SACK, as in the paper", "linux": "Linux's defaults, with SACK"}
SIMULATED = {"taichung": 8.780, "reno": 8.178}  # Mbit/s over Fig. 3


def figures(results) -> list[report.Figure]:
    with report.style():
        drawn = [draw(results) for draw in (slow_start, thresholds)]
    return [f for f in drawn if f]


def first(results, profile: str, controller: str):
    """The run of the lowest seed, or None."""
    runs = results.valid("TC-F3", profile=profile, flows__controller=controller)
    return runs[0] if runs else None


def since_start(run):
    """(seconds since the first ACK, the ACKs)."""
    acks = paper.flow_acks(run)
    return acks["t"] - acks["t"][0], acks


def slow_start(results):
    runs = {p: {c: r for c in ("taichung", *OTHERS) if (r := first(results, p, c))} for p in PROFILES}
    if not all({"taichung", "reno"} <= runs[p].keys() for p in PROFILES):
        return None
    figure = Figure(figsize=(7.5, 9))
    axes = figure.subplots(3, height_ratios=[1.2, 1, 1])
    for controller in ("taichung", "reno", "cubic"):
        if run := runs["newreno"].get(controller):
            t, acks = since_start(run)
            name = {"reno": "NewReno"}.get(controller, NAMES[controller])
            steps(axes[0], t, acks["cwnd"], (0, RAMP_S), **look(controller, label=name))
    for packets, what in ((paper.BDP, "BDP"), (paper.BDP + BUFFER, "BDP + buffer")):
        axes[0].axhline(packets, **LIMIT)
        axes[0].annotate(f"{what}: {packets:.0f}", (0, packets), xytext=(4, 3), textcoords="offset points", fontsize=9)
    axes[0].set(title=f"Congestion window, {PROFILES['newreno']}", ylabel="packets", xlim=(0, RAMP_S), ylim=(0, 1.08 * axes[0].dataLim.ymax))
    axes[0].legend(loc="upper right", ncols=3)
    for ax, (profile, what) in zip(axes[1:], PROFILES.items()):
        for i, (controller, run) in enumerate(reversed(runs[profile].items())):
            t, acks = since_start(run)
            inside = t < paper.SPAN_S
            sent = np.cumsum(acks["acked"][inside].astype("u8")) / 1e6
            # Markers in different places tell apart the lines that lie on each other.
            thinned = report.thin(t[inside], sent, 700)
            every = ((0.3 + i) / len(runs[profile]) / 5, 0.2)
            label = f"{NAMES[controller]}: {paper.goodput(run):.2f} Mbit/s"
            ax.plot(*thinned, **LOOKS[controller] | {"label": label, "markevery": every, "linewidth": 1.1, "markersize": 5})
        ax.set(title=f"Acknowledged data, {what}", ylabel="MB", xlim=(0, paper.SPAN_S), ylim=(0, 12.5))
        handles, labels = ax.get_legend_handles_labels()
        ax.legend(handles[::-1], labels[::-1], loc="upper left", ncols=2)
    axes[2].set_xlabel("time since the first ACK, s")
    return report.Figure(
        "taichung-slow-start", "Fig. 3: the first slow start, and the ten seconds after",
        "One flow, 10 Mbit/s, 90 ms, a buffer of one BDP, the first seed; the rates are those of eq. 1. Taichung leaves slow start before "
        "the path is full and loses nothing; Reno hears of the overflow a round trip late, at four BDPs. "
        f"The paper has {SIMULATED['taichung']:.2f} and {SIMULATED['reno']:.2f} Mbit/s for Taichung and NewReno. Linux's NewReno is far "
        "lower: it repairs one of its hundreds of losses a round trip. With SACK the queue outlasts the repair, and nothing is left to win.", figure)


def thresholds(results):
    run = first(results, "newreno", "taichung")
    if not run:
        return None
    state = run.state(0)
    start, acks = paper.flow_acks(run)["t"][0], paper.flow_acks(run)
    end = float(acks["t"][paper.slow_start(run)][-1] - start)
    t, known = state["t"] - start, state["inter_ack_ns"] > 0
    span = (0, MECHANISM_S)
    figure = Figure(figsize=(7.5, 8))
    axes = figure.subplots(3, sharex=True, height_ratios=[1, 1.7, 0.9])
    steps(axes[0], t[known], state["inter_ack_ns"][known] / 1e3, span, color=LOOKS["taichung"]["color"], label="InterACK")
    steps(axes[0], t[known], state["inter_min_ns"][known] / 1e3, span, color=ORANGE, linestyle=(0, (3, 1)), label="InterACK_min")
    axes[0].axhline(paper.PACKET_US, **EXPECTED, label=f"a packet's time on the link: {paper.PACKET_US:.1f} µs")
    axes[0].set(title="Averaged time between ACKs", ylabel="µs", ylim=(0, 700))
    for column, name, style in (("ideal_q4", "ssthresh_ideal", {"color": BLUE, "linestyle": (0, (6, 2))}),
                                ("net_q4", "ssthresh_net", {"color": GREEN, "linestyle": "-."})):
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
    axes[1].annotate(f"slow start ends:\n{end:.2f} s, {cwnd} packets", (end, cwnd), xytext=(end + 0.1, 0.5 * cwnd), arrowprops={"arrowstyle": "->"})
    return report.Figure(
        "taichung-thresholds", "How Taichung's slow start ends",
        "From the controller's own variables, without SACK, the first seed. InterACK finds the packet's time within a few round trips, and "
        "with it ssthresh_ideal the BDP (dotted) and one packet; ssthresh_net sinks while a burst waits in the queue. Where cwnd meets it, "
        "slow start ends; a later burst that finds no queue may lift net above cwnd once more. Then cwnd grows by one packet a round trip.", figure)
