# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Draws the pictures of docs/findings.md: `build/venv/bin/python experiments/findings/figures.py [NAME ...]`.

It runs what the store does not hold. Two pictures, tx-start and idle-time, need the images 6.1, 6.12 and 7.3; the
others need the default one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asymlab.machine.image import DEFAULT_KERNEL, open_image
from asymlab.palette import BLUE, GREEN, GREY, VERMILLION
from asymlab.paths import REPO
from asymlab.plan import scenario
from asymlab.report import drawing
from asymlab.report.plot import steps
from asymlab.report.report import saved
from asymlab.results.metrics import goodput_bins
from asymlab.results.store import Run
from asymlab.run.execute import execute
from asymlab.run.tasks import plan_runs

HERE, DOCS = Path(__file__).parent, REPO / "docs" / "findings"
BIN_S = 0.5
KERNELS = ("6.1", "6.12", "7.3")
COLOURS = (VERMILLION, BLUE, GREEN)
STYLES = ("-", "--", (0, (1, 1)))


def runs(name: str, image: str = DEFAULT_KERNEL) -> list[Run]:
    """The runs of a scenario of this folder, in its order."""
    guest = open_image(image)
    tasks = plan_runs(scenario.load(HERE / f"cases.toml:{name}"), guest)
    done = execute(tasks, guest, jobs=1)
    return [done[t.key] for t in tasks]


def panels(count: int) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(3.6 * count + 0.4, 2.9))
    return figure, figure.subplots(1, count, sharey=True, squeeze=False)[0]


def drawn(ax: Axes, found: list[Run], what: str, labels: Sequence[str], span: tuple[float, float]) -> None:
    """A column of the first flow's ACKs, a line a run."""
    for run, label, colour, style in zip(found, labels, COLOURS, STYLES):
        mine = run.acks[run.acks["flow"] == 0]
        steps(ax, mine["t"], mine[what], span, label=label, color=colour, linestyle=style)
    ax.set(xlim=span, xlabel="time, s")
    ax.legend()


def rates(ax: Axes, run: Run, labels: Sequence[str], colours: Sequence[str] = COLOURS) -> None:
    """Goodput of each flow."""
    span = run.job.duration_s
    for flow, (label, colour) in enumerate(zip(labels, colours)):
        bins = goodput_bins(run.goodput, flow, span, run.job.bin_ms / 1e3)
        per = round(BIN_S * 1e3 / run.job.bin_ms)
        values = bins[: len(bins) // per * per].reshape(-1, per).mean(axis=1) / 1e6
        ax.plot([BIN_S * (i + 1) for i in range(len(values))], values, label=label, color=colour)
    ax.set(xlim=(0, span), xlabel="time, s")
    ax.legend()


def gred_shut() -> Figure:
    figure, (ax,) = panels(1)
    for run, label, colour in zip(runs("gred-shut"), ("weight 0.002, RED's own", "weight 0.05"), COLOURS):
        rates(ax, run, [label], [colour])
    ax.set(ylabel="goodput, Mbit/s")
    return figure


def stretch_acks() -> Figure:
    figure, axes = panels(2)
    found = runs("stretch-acks")
    for ax, title, first in zip(axes, ("HighSpeed", "Reno"), (0, 6)):  # Hybla is between: rounds of overshoot
        drawn(ax, found[first : first + 3], "cwnd", ("an ACK a packet", "delayed", "thinned"), (0, 10))
        ax.set(title=title, ylim=(0, 400))
    axes[0].set(ylabel="window, packets")
    return figure


def lp() -> Figure:
    figure, axes = panels(2)
    for ax, run, title in zip(axes, runs("lp"), ("random timestamp offsets (default)", "no offsets")):
        rates(ax, run, ("TCP-LP", "CUBIC"))
        ax.set(title=title)
    axes[0].set(ylabel="goodput, Mbit/s")
    return figure


def prr() -> Figure:
    figure, (ax,) = panels(1)
    drawn(ax, runs("prr"), "in_flight", ("one packet is lost", "none is lost"), (0.4, 0.7))
    ax.set(ylabel="packets in flight", ylim=(0, None))
    return figure


def frto() -> Figure:
    figure, (ax,) = panels(1)
    drawn(ax, runs("frto"), "cwnd", ("tcp_frto = 2 (default)", "tcp_frto = 0"), (1.8, 3))
    ax.set(ylabel="window, packets", ylim=(0, None))
    return figure


def tx_start() -> Figure:
    figure, axes = panels(2)
    for ax, image in zip(axes, ("6.12", "7.3")):
        drawn(ax, runs("tx-start", image), "cwnd", ("the module vegas", "the BPF program"), (2, 8))
        ax.axvline(3, color=GREY, linewidth=0.8)
        ax.set(title=f"Linux {image}", ylim=(0, None))
    axes[0].set(ylabel="window, packets")
    return figure


def hystart_train() -> Figure:
    figure, (ax,) = panels(1)
    drawn(ax, runs("hystart-train"), "cwnd", ("ACKs 1.9 ms apart", "ACKs 2.2 ms apart"), (0, 6))
    ax.set(ylabel="window, packets", ylim=(0, None))
    return figure


def newreno() -> Figure:
    figure, (ax,) = panels(1)
    for run, label, colour in zip(runs("newreno"), ("without SACK", "with SACK"), COLOURS):
        rates(ax, run, [label], [colour])
    ax.set(ylabel="goodput, Mbit/s")
    return figure


def mtu() -> Figure:
    figure, (ax,) = panels(1)
    drawn(ax, runs("mtu"), "cwnd", ("tcp_frto = 2 (default)", "tcp_frto = 0"), (15, 60))
    ax.set(ylabel="window, packets", ylim=(0, None))
    return figure


def sack() -> Figure:
    figure, (ax,) = panels(1)
    for at, run in enumerate(runs("sack")):
        told, segments, below = run.record["agent"]["receivers"]["dst0"], int(run.goodput["segments"].sum()), 0.0
        sent, counted = told["TcpOutSegs"], told["TcpExtTCPAckCompressed"]
        labels = ("sent", "held back, and counted", "neither") if at == 0 else [""] * 3
        for label, part, colour in zip(labels, (sent, counted, segments - sent - counted), (BLUE, GREEN, VERMILLION)):
            ax.bar(at, max(part, 0) / 1e3, bottom=below, color=colour, width=0.6, label=label)
            below += max(part, 0) / 1e3
    ax.set(ylabel="ACKs of segments, thousands", ylim=(0, 65))
    ax.set_xticks(range(2), ["tcp_comp_sack_nr\n44 (default)", "tcp_comp_sack_nr\n0"])
    ax.legend(loc="upper center", ncols=2)
    return figure


def stripped() -> Figure:
    figure, (ax,) = panels(1)
    labels = ("after the handshake", "in it as well", "nowhere")
    for run, label, colour in zip(runs("stripped"), labels, COLOURS):
        rates(ax, run, [label], [colour])
    ax.set(ylabel="goodput, Mbit/s", ylim=(0, 12))
    ax.legend(title="timestamps are lost", loc="center right")
    return figure


def wireguard() -> Figure:
    figure, (ax,) = panels(1)
    for run, label, colour in zip(runs("wireguard"), ("WireGuard passes them", "GRE drops them"), COLOURS):
        rates(ax, run, [label], [colour])
    ax.set(ylabel="goodput, Mbit/s", ylim=(0, 12))
    ax.legend(title="packets with marks")
    return figure


def idle_time() -> Figure:
    figure, (ax,) = panels(1)
    for at, image in enumerate(KERNELS):
        (run,) = runs("idle-time", image)
        before, after = (run.record["agent"]["marks"][mark] for mark in ("measure", "end"))
        passed = (after["t_ns"] - before["t_ns"]) / 1e9
        ax.bar(at, 100 * ((after["cpu_idle_s"] - before["cpu_idle_s"]) / passed - 1), color=COLOURS[at], width=0.6)
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.set(ylabel="idle time counted,\n% above time passed")
    ax.set_xticks(range(len(KERNELS)), [f"Linux {k}" for k in KERNELS])
    return figure


FIRST = (gred_shut, stretch_acks, lp, prr, frto, tx_start, hystart_train, newreno, stripped, idle_time, mtu)
PICTURES: dict[str, Callable[[], Figure]] = {
    draw.__name__.replace("_", "-"): draw for draw in (*FIRST, wireguard, sack)
}


def main(names: Sequence[str]) -> None:
    DOCS.mkdir(exist_ok=True)
    for name in names or PICTURES:
        with drawing.style():
            image = saved(drawing.Figure(name, "", "", PICTURES[name]()), "png", dpi=100)
        (DOCS / f"{name}.png").write_bytes(image)
        print(f"{DOCS / f'{name}.png'}: {len(image) / 1e3:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
