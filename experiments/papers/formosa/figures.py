# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figures for "TCP Formosa".

Each function draws one figure from valid runs, or returns None when a run that it needs is missing.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from asymlab.palette import BLACK, BLUE, ORANGE, SKY
from asymlab.report import drawing
from asymlab.report.judged import interval
from asymlab.report.measures import goodput_of, jain_index
from asymlab.report.plot import EXPECTED, label, look, marked, plain, points, steps

from . import measures as paper

ORDER = ("formosa", *paper.RIVALS)
BUFFER, BDP = 10, 25  # packets
TICKS = (20, 40, 60, 100, 200, 400, 600)  # kbit/s
MARKED = 10  # rounds of slow start whose sizes stand on the steps
START_S = 0.9  # slow start and what follows
CYCLES_S = 3


def sweep(results, id: str) -> dict[str, dict[float, list]]:
    """controller -> reverse rate, kbit/s -> its valid runs, a run a seed; those that have any."""
    found = {}
    for controller in ORDER:
        runs = {
            paper.kbit(rate): results.valid(id, path__reverse__rate=rate, flows__controller=controller)
            for rate in paper.RATES
        }
        found[controller] = {rate: rs for rate, rs in runs.items() if rs}
    return {controller: runs for controller, runs in found.items() if runs}


def curves(ax, found, measure) -> None:
    """A curve a controller; points a little apart sideways, Formosa's where they belong and on top."""
    for i, (controller, runs) in reversed(list(enumerate(found.items()))):
        style = marked(controller, linewidth=1.1, markersize=5)
        if controller == "formosa":
            style |= {"linewidth": 2, "markersize": 9, "zorder": 3}
        points(ax, runs, measure, 1.012**i, **style)


def over_rates(axes) -> None:
    """The reverse rate below, r above."""
    axes[-1].set(xscale="log", xlabel="reverse rate, kbit/s, log scale", xticks=TICKS)
    plain(axes[-1].xaxis)
    top = axes[0].secondary_xaxis("top", functions=(lambda x: x, lambda x: x))
    top.xaxis.set_major_locator(FixedLocator(TICKS))
    top.xaxis.set_minor_locator(NullLocator())
    top.xaxis.set_major_formatter(lambda rate, _: f"{400 / rate:.3g}" if rate > 0 else "")
    top.set_xlabel("asymmetry ratio r", fontsize=9)


def legend(ax, **where) -> None:
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], **where)


def throughput(results):
    one, both = sweep(results, "FO-2"), sweep(results, "FO-4")
    if not {"formosa", "reno", "vegas"} <= one.keys():
        return None
    figure = Figure(figsize=(7.5, 8 if both else 5))
    axes = figure.subplots(2 if both else 1, sharex=True, squeeze=False)[:, 0]
    for ax, found, what in zip(axes, (one, both), ("One flow", "A flow each way: the forward one")):
        curves(ax, found, goodput_of)
        ax.set(title=what, ylabel="goodput, Mbit/s", ylim=(0, 10.5))
    over_rates(axes)
    legend(axes[0], loc="lower right")
    return drawing.Figure(
        "formosa-throughput",
        "Fig. 2: goodput over the reverse rate",
        "10 Mbit/s forward, 20 ms, ten packets of queue each way; points a little apart sideways. The paper shows r "
        "= 0.67 to 4, and Formosa above all others. The base RTT is lost; 20 ms are one at which this order comes out.",
        figure,
    )


def ten_flows(results):
    found = sweep(results, "FO-3")
    if not {"formosa", "reno", "vegas"} <= found.keys():
        return None
    figure = Figure(figsize=(7.5, 8))
    axes = figure.subplots(2, sharex=True)
    curves(axes[0], found, jain_index)
    curves(axes[1], found, paper.part_of_link)
    axes[0].set(title="(a) Jain index of the ten goodputs", ylabel="index", ylim=(0, 1.05))
    axes[1].set(
        title="(b) Utilisation: their sum over the most that the link can carry", ylabel="share", ylim=(0, 1.05)
    )
    over_rates(axes)
    legend(axes[0], loc="lower right", ncols=2)
    return drawing.Figure(
        "formosa-ten-flows",
        "Fig. 3: ten flows",
        "The path of Fig. 2, ten flows of one kind that start one after the other. Points a little apart sideways.",
        figure,
    )


def ack_path(results):
    found = sweep(results, "FO-2")
    if "formosa" not in found:
        return None
    figure = Figure(figsize=(7.5, 7))
    axes = figure.subplots(2, sharex=True)
    curves(axes[0], found, lambda run: run.metrics["acks_per_data_packet"])
    curves(axes[1], found, lambda run: run.metrics["reverse_utilisation"])
    axes[0].axhline(1 / BDP, **EXPECTED, label="one for each BDP of 25 packets")
    axes[0].set(
        title="ACKs per data packet, as they leave the reverse queue",
        ylabel="ratio, log scale",
        yscale="log",
        yticks=[0.02, 0.05, 0.1, 0.2, 0.5, 1],
        ylim=(0.014, 1.4),
    )
    plain(axes[0].yaxis)
    axes[1].set(title="Use of the reverse link", ylabel="share", ylim=(0, 1.08))
    over_rates(axes)
    legend(axes[1], loc="lower left")
    axes[0].legend(
        handles=[line for line in axes[0].get_lines() if line.get_label().startswith("one for")], loc="center right"
    )
    return drawing.Figure(
        "formosa-ack-path",
        "The ACK path: one ACK a window",
        "One flow, as in Fig. 2. From r = 1 on the others' ACKs fill the reverse link, are queued and dropped; "
        "Formosa's, of 48 bytes, take half of it at 20 kbit/s.",
        figure,
    )


def queues(results):
    found = sweep(results, "FO-2")
    if "formosa" not in found:
        return None
    figure = Figure(figsize=(7.5, 7))
    axes = figure.subplots(2, sharex=True)
    for ax, side, what in zip(axes, ("forward", "reverse"), ("Forward: data", "Reverse: ACKs")):
        curves(ax, found, lambda run, side=side: run.metrics[side]["queue_mean"])
        ax.axhline(BUFFER, **EXPECTED, label="the buffer")
        ax.set(title=f"{what}. Mean queue that a packet leaves behind", ylabel="packets", ylim=(0, 11.5))
    over_rates(axes)
    legend(axes[0], loc="center right", ncols=2)
    return drawing.Figure(
        "formosa-queues",
        "The queues at both bottlenecks",
        "One flow, as in Fig. 2; buffers of ten packets. Formosa's ACKs never wait for each other. Its data waits "
        "little.",
        figure,
    )


def rounds(results):
    runs = results.valid("FO-5")
    if not runs:
        return None
    run = runs[0]
    t, option, number = paper.data_packets(run)
    starts = t[np.append(True, np.diff(number) > 0)]
    sizes = np.bincount(number)
    state, end = run.state(0), run.job.duration_s
    figure = Figure(figsize=(7.5, 8))
    axes = figure.subplots(3, height_ratios=[1.3, 1, 1])
    first = (starts[0] - 0.02, starts[0] + START_S)
    for ax, span in zip(axes, (first, (end - CYCLES_S, end))):
        steps(
            ax, state["t"][:-1], state["w"][1:], span, color=SKY, linewidth=3.5, label="W of the sender"
        )  # the state is that before the ACK
        steps(ax, starts, sizes, span, color=BLACK, label="packets of the round, on the wire")
        ax.set(ylabel="packets", xlim=span)
    for at, size in list(zip(starts, sizes))[:MARKED]:
        axes[0].annotate(f"{size}", (at, size), xytext=(2, 3), textcoords="offset points", fontsize=9)
    axes[0].set(
        title="Slow start: each round as large as the two before it together", ylim=(0, 1.12 * axes[0].dataLim.ymax)
    )
    axes[0].legend(loc="lower right")
    axes[1].axhline(BDP, **EXPECTED, label="BDP")
    axes[1].legend(loc="upper right", ncols=3)
    axes[1].set(
        title="At rest: a packet more each round, an eighth less at a signal",
        ylim=(0.7 * BDP, 1.25 * BDP),
        xlabel="time, s",
    )
    gaps = np.diff(option["stamp"][t >= run.job.measure_from_s].astype("i8")) % 2**32 / 1e3
    axes[2].hist(np.minimum(gaps, 2), bins=np.arange(0, 2.05, 0.05), color=BLUE, edgecolor="white", linewidth=0.5)
    axes[2].set_axisbelow(True)
    axes[2].axvline(paper.PACKET_S * 1e3, **EXPECTED, label="a packet's time on the link")
    axes[2].set(
        title=f"Time between data packets as they are sent: std/mean {gaps.std() / gaps.mean():.2f}",
        xlabel="ms, the last bin holds all longer ones",
        ylabel="packets",
        yscale="log",
        xlim=(0, 2.05),
    )
    axes[2].legend(loc="upper right")
    return drawing.Figure(
        "formosa-rounds",
        "Rounds, and how their packets are spread",
        "One flow at r = 4, a queue that never overflows, the first seed. Rounds and times are read from the options "
        "of captured packets: a round begins with a flagged packet.",
        figure,
    )


def forward_queue(run):
    """(time, mean, longest) of the forward queue, packets, in the lab's 0.1-s bins."""
    links = run.links[run.links["dev"] == run.job.watch[0].forward.dev]
    return links["t"], links["qlen_sum"] / np.maximum(links["packets"], 1), links["qlen_max"]


def delay(results):
    runs = results.valid("FO-5")
    if not runs:
        return None
    run = runs[0]
    t, mean, longest = forward_queue(run)
    state, end = run.state(0), run.job.duration_s
    left, option, _ = paper.data_packets(run)
    waited = (left * 1e6 - option["stamp"]).astype("i8") % 2**32
    waited = (waited - waited.min()) / (1e6 * paper.PACKET_S)
    figure = Figure(figsize=(7.5, 6.5))
    axes = figure.subplots(2)
    starts = left[0]
    for ax, span in zip(axes, ((starts - 0.02, starts + 2 * START_S), (end - CYCLES_S, end))):
        ax.fill_between(
            np.append(t, end),
            np.append(longest, longest[-1]),
            step="post",
            color="#dddddd",
            linewidth=0,
            label="longest queue in 0.1 s",
        )
        shown = (left >= span[0]) & (left < span[1])
        ax.plot(left[shown], waited[shown], color=ORANGE, linewidth=1, label="each packet's wait, from the capture")
        steps(
            ax,
            state["t"][:-1],
            state["peer_queue_us"][1:] / (1e6 * paper.PACKET_S),
            span,
            color=BLACK,
            label="the receiver's estimate, as the sender hears it",
        )
        inside = (t >= span[0]) & (t < span[1])
        ax.set(
            ylabel="packets of 0.8 ms", xlim=span, ylim=(0, 1.3 * max(longest[inside].max(), waited[shown].max(), 4))
        )
    axes[0].set_title("Slow start")
    axes[1].set(title="At rest", xlabel="time, s")
    axes[0].legend(loc="upper right")
    return drawing.Figure(
        "formosa-delay",
        "The forward delay as the receiver sees it, and the queue as it is",
        "One flow at r = 4, a queue that never overflows, the first seed. The estimate is the smoothed forward delay "
        "above its minimum: no ACK, no reverse queue is in it. It comes a round trip late.",
        figure,
    )


def overflow(results):
    runs = {c: rs[0] for c in ("formosa", "netsum") if (rs := results.valid("FO-6", flows__controller=c))}
    if len(runs) < 2:
        return None
    figure = Figure(figsize=(7.5, 6.5))
    axes = figure.subplots(2, sharex=True)
    for controller, run in runs.items():
        t, _, longest = forward_queue(run)
        name = f"{label(controller)}: {paper.drops(run):.0f} dropped after slow start"
        axes[0].plot(t, longest, drawstyle="steps-post", **look(controller, label=name))
        state = run.state(0)
        steps(axes[1], state["t"][:-1], state["w"][1:], (0, run.job.duration_s), **look(controller))
    axes[0].axhline(BUFFER, **EXPECTED)
    axes[0].set(title="Longest forward queue in 0.1 s; dashed: the buffer", ylabel="packets", ylim=(0, 15))
    axes[1].axhline(BDP, **EXPECTED)
    axes[1].set(
        title="W; dashed: BDP",
        ylabel="packets",
        xlabel="time, s",
        xlim=(0, run.job.duration_s),
        ylim=(0, 1.3 * axes[1].dataLim.ymax),
    )
    for ax in axes:
        ax.legend(loc="upper right")
    return drawing.Figure(
        "formosa-queue-control",
        "Sum of rises, or of rises and falls",
        "One flow at r = 4, ten packets of queue, the first seed. With falls counted, the queue that drains after a "
        "signal is taken off the sum, and each signal comes at a longer queue than the last, until the queue "
        "overflows.",
        figure,
    )


def changes(results):
    titles = results.points("FO-S", "title", flows__controller="formosa")
    if not titles:
        return None
    figure = Figure(figsize=(7.5, 5))
    ax = figure.subplots()
    for controller, aside in (("reno", 0.12), ("formosa", -0.12)):
        runs = {i: results.valid("FO-S", title=title, flows__controller=controller) for i, title in enumerate(titles)}
        at = [i for i, rs in runs.items() if rs]
        mean, low, high = np.array([interval([goodput_of(r) for r in runs[i]]) for i in at]).T
        style = marked(controller, linestyle="")
        ax.errorbar(mean, np.array(at) + aside, xerr=[mean - low, high - mean], capsize=3, elinewidth=0.8, **style)
    ax.set(title="Goodput at r = 4", xlabel="Mbit/s", xlim=(0, 10.5), yticks=range(len(titles)), yticklabels=titles)
    ax.invert_yaxis()
    ax.legend(loc="lower left")
    return drawing.Figure(
        "formosa-sensitivity",
        "Fig. 2 with one thing changed",
        "10 Mbit/s forward, 100 kbit/s back, ten packets of queue each way and 20 ms unless it says otherwise. A "
        "stripped option takes the cooperation away: what is left is an AIMD by timestamps, which these runs do not "
        "have, so by loss alone.",
        figure,
    )


def base_rtt(results):
    titles = results.points("FO-RTT", "title", flows__controller="formosa")
    if not titles:
        return None
    figure = Figure(figsize=(7.5, 8))
    axes = figure.subplots(2, sharex=True)
    for ax, rate in zip(axes, (paper.FASTEST, paper.FOUR)):
        for i, controller in enumerate(("formosa", *paper.PAPERS)):
            runs = {
                float(title.split()[0]): found
                for title in titles
                if (
                    found := results.valid(
                        "FO-RTT", title=title, path__reverse__rate=rate, flows__controller=controller
                    )
                )
            }
            if runs:
                points(ax, runs, paper.packets_of, 1.008**i, **marked(controller, linewidth=1.1, markersize=6))
        ax.set(title=f"r = {paper.r(rate):.3g}", ylabel="throughput, Mbit/s", ylim=(0, 10.5))
    axes[1].set(xlabel="base RTT, ms")
    legend(axes[1], loc="lower left", ncols=2)
    return drawing.Figure(
        "formosa-rtt",
        "Fig. 2 over the base RTT, which the paper does not tell",
        "One flow, 10 Mbit/s forward, ten packets of queue each way; points a little apart sideways. Throughput counts "
        "whole packets. 59 ms are those of ns-2's scripts, 7 one way and 52 the other.",
        figure,
    )


def readings(results):
    cases = ("FO-R", "FO-R-TEN")
    names = [n for n in paper.VARIANTS if all(results.valid(id, flows__controller=n) for id in cases)]
    if not names:
        return None
    panels = (
        ("FO-R", paper.part_of_link, "One flow: throughput", (paper.FOUR, paper.FASTEST)),
        ("FO-R-TEN", paper.part_of_link, "Ten flows: throughput", (paper.SLOWEST, paper.FOUR, paper.FASTEST)),
        ("FO-R-TEN", jain_index, "Ten flows: Jain index", (paper.SLOWEST, paper.FOUR, paper.FASTEST)),
    )
    figure = Figure(figsize=(7.5, 9))
    axes = figure.subplots(3, sharex=True)
    looks = {paper.SLOWEST: (ORANGE, "v"), paper.FOUR: (BLUE, "o"), paper.FASTEST: (BLACK, "s")}
    for ax, (id, measure, title, rates) in zip(axes, panels):
        for i, rate in enumerate(rates):
            runs = [results.valid(id, path__reverse__rate=rate, flows__controller=name) for name in names]
            at = [k for k, found in enumerate(runs) if found]
            mean, low, high = np.array([interval([measure(run) for run in runs[k]]) for k in at]).T
            color, mark = looks[rate]
            ax.errorbar(
                np.array(at) + 0.08 * (i - 1),
                mean,
                yerr=[mean - low, high - mean],
                capsize=3,
                elinewidth=0.8,
                linestyle="",
                color=color,
                marker=mark,
                label=f"r = {paper.r(rate):.3g}",
            )
        ax.set(title=title, ylim=(0, 1.05), ylabel="index" if measure is jain_index else "share of the link")
        ax.legend(loc="lower left", ncols=3)
    axes[-1].set_xticks(range(len(names)), names, rotation=20)
    return drawing.Figure(
        "formosa-readings",
        "The paper's open choices, each by its alternative",
        "Base RTT 20 ms, ten packets of queue. The first is the default. "
        + "; ".join(f"{name}: {says}" for name, says in list(paper.VARIANTS.items())[1:])
        + ".",
        figure,
    )


FIGURES = (throughput, ten_flows, ack_path, queues, rounds, delay, overflow, changes, base_rtt, readings)
