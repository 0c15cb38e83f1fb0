# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The page of one run: its flows and its bottleneck on one time axis, the ACK path, how it was made.

A page depends on its run and the code here only. It is kept in build/report-cache until either changes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .. import LabError
from ..console import console
from ..guest.job import Bottleneck
from ..needs import lack
from ..palette import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, YELLOW
from ..paths import BUILD, TEMPLATES
from ..plan.opportunities import BYTES, Opportunities, kept
from ..results import breakdown, connections
from ..results.breakdown import FORWARD, REVERSE, completion, directions, directions_by_flow, times
from ..results.connections import largest, name_of
from ..results.metrics import ETHERNET, goodput_bins
from ..results.store import Run
from ..run import local
from . import drawing, html
from .drawing import thin

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CACHE = BUILD / "report-cache"
POINTS = 1100  # of a panel, all flows together: more than its pixels
BINS = 200  # of a step series
MARKS = 150  # that can be told apart on a time axis
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, SKY, ORANGE, GREY, YELLOW)
DASHES = ("-", (0, (5, 2)), (0, (1, 1)), (0, (5, 1, 1, 1)))
RECOVERY, LOSS = 3, 4  # the stack's ca_state
NO_SSTHRESH = 2**31 - 1
ABOVE = {
    "loc": "lower right",
    "bbox_to_anchor": (1, 0.99),
    "ncols": 3,
    "borderaxespad": 0.2,
}  # a legend beside the title
AT_ONCE = 4  # pages that are not worth another process


# --- its figures --------------------------------------------------------------------------


def look(flow: int) -> dict:
    return {"color": COLOURS[flow % len(COLOURS)], "linestyle": DASHES[(flow + flow // len(COLOURS)) % len(DASHES)]}


def binned(rows: np.ndarray, column: str, run: Run, per: int, reduce=np.add) -> np.ndarray:
    """A column of `links` in coarser bins from time zero on; zero where nothing passed."""
    n = bins_of(run)
    values = np.zeros(n)
    index = np.round(rows["t"] / (run.job.bin_ms / 1e3)).astype(int)
    inside = (index >= 0) & (index < n)
    reduce.at(values, index[inside], rows[column][inside].astype(float))
    return reduce.reduceat(values, np.arange(0, n, per))


def bins_of(run: Run) -> int:
    return round(run.job.duration_s * 1e3 / run.job.bin_ms)


def trace_of(run: Run, dev: str) -> Opportunities | None:
    """The trace that a link plays; None: it has a rate, or the trace is not on this machine."""
    shape = next(end.shape for end in run.job.ends if end.dev == dev)
    return kept(shape.trace.file.rpartition("/")[2]) if isinstance(shape, Bottleneck) and shape.trace else None


class Link:
    """One direction of the busiest hop over the whole run, in bins of about a 200th of it."""

    def __init__(self, run: Run, side: str):
        hop = next(hop for hop in run.job.watch if hop.name == run.metrics["busiest"])
        watched = hop.forward if side == "forward" else hop.reverse
        rows = run.links[run.links["dev"] == watched.dev]
        self.rate = watched.rate_bps
        self.trace = trace_of(run, watched.dev)
        self.per = -(-bins_of(run) // BINS)
        self.span = self.per * run.job.bin_ms / 1e3  # s
        packets, self.acks = (binned(rows, c, run, self.per) for c in ("packets", "pure_acks"))
        ip_bytes = binned(rows, "bytes", run, self.per) - ETHERNET * packets
        self.edges = np.append(np.arange(len(packets)) * self.span, run.job.duration_s)
        width = np.diff(self.edges)
        self.bps, self.acks_per_s = ip_bytes * 8 / width, self.acks / width
        seen = np.maximum(packets, 1)
        self.queue = binned(rows, "qlen_sum", run, self.per) / seen
        self.longest = binned(rows, "qlen_max", run, self.per, np.maximum)
        only_acks = (packets == self.acks) & (packets > 0)
        self.ack_bytes = np.where(only_acks, ip_bytes / seen, np.nan)
        total = packets.sum()
        self.packet_s = ip_bytes.sum() / total * 8 / self.rate if total else 0.0  # a packet's time on the link
        drops = binned(rows, "drops", run, self.per, np.maximum)  # a counter
        self.dropped = np.diff(np.maximum.accumulate(drops), prepend=0) > 0

    def draw_rate(self, ax) -> None:
        """The rate that it has, over the time; of a trace, what it may carry."""
        style = {"color": BLACK, "linestyle": (0, (5, 3)), "linewidth": 0.8, "label": "the link's rate"}
        if self.trace:
            allowed = np.array([self.trace.until(1e3 * t) for t in self.edges]) * BYTES * 8
            self.steps(ax, np.diff(allowed) / np.diff(self.edges) / 1e6, **style)
        else:
            ax.axhline(self.rate / 1e6, **style)

    def steps(self, ax, values, **style) -> None:
        ax.plot(self.edges, np.append(values, values[-1:]), drawstyle="steps-post", **style)

    def delay_axis(self, ax) -> None:
        """The queue's time at the link's rate, on the right."""
        if self.packet_s:
            ax.secondary_yaxis(
                "right", functions=(lambda y: y * self.packet_s * 1e3, lambda y: y / self.packet_s / 1e3)
            ).set_ylabel("delay, ms")


def marks(found: list[np.ndarray], span: float) -> np.ndarray:
    """Those of the times that can be told apart in a figure."""
    t = np.concatenate([[], *found])
    return t[np.unique(np.round(t / span * MARKS), return_index=True)[1]]


def sampled(run: Run) -> bool:
    """They are RACK's: without it the stack keeps the smoothed RTT only."""
    return bool((run.acks["rtt_us"] > 0).any())


def rtt_name(run: Run) -> str:
    return "RTT samples" if sampled(run) else "Smoothed RTT"


def rtts(run: Run, acks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(t, ms) of some ACKs."""
    us = acks["rtt_us" if sampled(run) else "srtt_us"]
    return acks["t"][us > 0], us[us > 0] / 1e3


class Drawn(NamedTuple):
    """A flow of the figures, or a direction of a program's connection."""

    id: int
    label: str
    way: str  # FORWARD or REVERSE


def drawn(run: Run) -> list[Drawn]:
    """The flows, and of the connections those with the most bytes."""
    way = directions_by_flow(run)
    two_way = len({way[f.id] for f in run.job.flows}) > 1
    flows = [Drawn(f.id, f"{f.id} {f.controller}" + f" {way[f.id]}" * two_way, way[f.id]) for f in run.job.flows]
    return flows + [Drawn(of["flow"], name_of(of), way[of["flow"]]) for of in largest(run.connections, len(COLOURS))]


def time_axes(run: Run) -> Figure:
    """Windows with their losses, goodput by direction, the queue and RTTs over the same time."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    duration, flows = run.job.duration_s, drawn(run)
    sides = [way for way in (FORWARD, REVERSE) if any(f.way == way for f in flows)]
    figure = Figure(figsize=(9.5, 8 + 2.5 * len(sides)), layout="none")  # type: ignore[arg-type]
    legend_rows = -(-min(len(flows), 20) // 5)
    axes = figure.subplots(
        3 + len(sides),
        sharex=True,
        gridspec_kw={"left": 0.08, "right": 0.92, "bottom": 0.045, "top": 0.96 - 0.016 * legend_rows, "hspace": 0.24},
    )
    draw_windows(axes[0], axes[-1], run)
    for ax, way in zip(axes[1:], sides):
        draw_goodput(ax, run, way, [f for f in flows if f.way == way])
    draw_queue(axes[-2], run, Link(run, FORWARD))
    axes[-1].set(
        ylim=(0, None), ylabel="ms", title=f"{rtt_name(run)} at the senders", xlabel="time, s", xlim=(0, duration)
    )
    for ax in axes:
        ax.axvspan(0, run.job.measure_from_s, color="#eeeeee", linewidth=0, zorder=0)
    figure.legend(
        [Line2D([], [], **look(f.id)) for f in flows[:20]],
        [f.label for f in flows[:20]],
        loc="upper left",
        ncols=5,
        bbox_to_anchor=(0.06, 0.999),
    )
    return figure


def draw_windows(window, rtt, run: Run) -> None:
    """cwnd and ssthresh of each flow with what was lost; in another part its RTTs."""
    few = len(flows := drawn(run)) <= len(COLOURS)  # many hide each other's ssthresh
    points = max(POINTS // len(flows), 100)
    tops, losses, timeouts, resent = [], [], [], []
    for f in flows:
        acks, style = run.acks[run.acks["flow"] == f.id], look(f.id)
        if not len(acks):
            continue
        t = acks["t"]
        window.plot(*thin(t, acks["cwnd"], points), **style, linewidth=1)
        if few:
            ssthresh = np.where(acks["ssthresh"] < NO_SSTHRESH, acks["ssthresh"], np.nan)
            changes = np.append(True, np.diff(acks["ssthresh"].astype(int)) != 0)
            changes[-1] = True
            window.plot(
                t[changes][-points:],
                ssthresh[changes][-points:],
                drawstyle="steps-post",
                color=style["color"],
                linestyle=":",
                linewidth=0.9,
            )
        tops.append(acks["cwnd"].max())
        state, before = acks["ca_state"].astype(int), np.append(0, acks["ca_state"][:-1].astype(int))
        losses.append(t[(state == RECOVERY) & (before != RECOVERY)])
        timeouts.append(t[(state == LOSS) & (before != LOSS)])
        resent.append(t[np.diff(acks["retrans"].astype(int), prepend=0) > 0])
        rtt.plot(*thin(*rtts(run, acks), points), **style, linewidth=0.8)
    top = max(tops, default=1) * 1.25 + 1
    mark_losses(window, top, run.job.duration_s, losses, timeouts, resent)
    window.set(ylim=(0, top), ylabel="packets", title="Congestion window" + ("; dotted: ssthresh" if few else ""))
    window.legend(**ABOVE)


def mark_losses(window, top: float, duration: float, losses: list, timeouts: list, resent: list) -> None:
    """Above the windows: when packets were sent again, recoveries began and timers fired."""
    t = marks(resent, duration)
    window.plot(
        np.repeat(t, 3),
        np.tile([0.81 * top, 0.85 * top, np.nan], len(t)),
        color=GREY,
        linewidth=0.8,
        label="retransmission",
    )
    for found, at, marker, colour, label in (
        (losses, 0.89, "v", ORANGE, "recovery from a loss"),
        (timeouts, 0.96, "X", VERMILLION, "timeout"),
    ):
        t = marks(found, duration)
        window.plot(
            t,
            np.full(len(t), at * top),
            linestyle="none",
            marker=marker,
            color=colour,
            markersize=6,
            markeredgecolor=BLACK,
            markeredgewidth=0.4,
            label=label,
        )


def draw_goodput(rate, run: Run, way: str, flows: list[Drawn]) -> None:
    """Draw that of each flow of a direction, stacked, and all that its link carries."""
    link, duration = Link(run, way), run.job.duration_s
    bin_s = run.job.bin_ms / 1e3
    series = np.array([goodput_bins(run.goodput, f.id, duration, bin_s) for f in flows])
    starts = np.arange(0, series.shape[1], max(link.per, -(-series.size // POINTS)))
    edges = np.append(starts * bin_s, duration)
    parts = np.add.reduceat(series, starts, axis=1) / np.diff(np.append(starts, series.shape[1])) / 1e6
    base = np.zeros(parts.shape[1])
    for f, part in zip(flows, parts):
        rate.fill_between(
            edges,
            np.append(base, base[-1:]),
            np.append(base + part, (base + part)[-1:]),
            step="post",
            facecolor=look(f.id)["color"],
            alpha=0.8,
            linewidth=0.3,
            edgecolor="white",
        )
        base = base + part
    link.steps(rate, link.bps / 1e6, color=BLACK, linewidth=1, label="the link's packets")
    link.draw_rate(rate)
    rate.set(
        ylim=(0, 1.15 * max(link.rate / 1e6, np.percentile(base, 95))),
        ylabel="Mbit/s",
        title=f"Goodput by flow, {way}, stacked from the first at the bottom",
    )
    rate.secondary_yaxis("right", functions=(lambda y: y * 1e8 / link.rate, lambda y: y * link.rate / 1e8)).set_ylabel(
        "utilisation, %"
    )
    rate.legend(**ABOVE)


def draw_queue(queue, run: Run, forward: Link) -> None:
    forward.steps(queue, forward.longest, color=SKY, linewidth=1, label="longest")
    forward.steps(queue, forward.queue, color=BLUE, linewidth=1.2, linestyle=(0, (5, 1)), label="mean seen")
    t = forward.edges[:-1][forward.dropped]
    queue.plot(
        t,
        np.full(len(t), 1.08 * max(forward.longest.max(), 1)),
        linestyle="none",
        marker="x",
        markersize=4,
        color=VERMILLION,
        label="drop",
    )
    queue.set(
        ylim=(0, 1.15 * max(forward.longest.max(), 1)),
        ylabel="packets",
        title="Queue at the bottleneck" + (f", {run.metrics['busiest']}" if len(run.job.watch) > 1 else ""),
    )
    queue.legend(**ABOVE)
    forward.delay_axis(queue)


def ack_path(run: Run) -> Figure:
    """RTT by flow, and what the ACKs do to the reverse link."""
    from matplotlib.figure import Figure

    duration, start = run.job.duration_s, run.job.measure_from_s
    reverse = Link(run, "reverse")
    figure = Figure(figsize=(9.5, 6), layout="none")  # type: ignore[arg-type]
    (cdf, acks), (use, queue) = figure.subplots(
        2, 2, gridspec_kw={"left": 0.08, "right": 0.92, "bottom": 0.08, "top": 0.95, "hspace": 0.38, "wspace": 0.42}
    )
    for f in drawn(run):
        _, ms = rtts(run, run.acks[(run.acks["flow"] == f.id) & (run.acks["t"] >= start)])
        if len(ms):
            shares = np.linspace(0, 100, 51)
            cdf.plot(np.percentile(ms, shares), shares, **look(f.id), linewidth=1.2)
    cdf.set(title=f"{rtt_name(run)}, measured part: share below", xlabel="ms", ylabel="%", ylim=(0, 100))
    reverse.steps(acks, reverse.acks_per_s, color=BLUE, linewidth=1)
    acks.set(title="ACKs without data, a second", ylabel="1/s", ylim=(0, None))
    if np.isfinite(reverse.ack_bytes).any():
        size = acks.twinx()
        reverse.steps(size, reverse.ack_bytes, color=VERMILLION, linewidth=1, linestyle=(0, (5, 2)))
        size.set(ylabel="bytes of an ACK (dashed)", ylim=(0, 1.6 * np.nanmax(reverse.ack_bytes)))
        size.grid(False)
        size.spines["right"].set_visible(True)
    reverse.steps(use, reverse.bps / reverse.rate * 100, color=BLUE, linewidth=1)
    use.set(title="Utilisation of the reverse link", ylabel="%", ylim=(0, max(105, *reverse.bps / reverse.rate * 105)))
    reverse.steps(queue, reverse.longest, color=SKY, linewidth=1, label="longest")
    reverse.steps(queue, reverse.queue, color=BLUE, linewidth=1.2, linestyle=(0, (5, 1)), label="mean seen")
    queue.set(title="Reverse queue", ylabel="packets", ylim=(0, 1.1 * max(reverse.longest.max(), 1)))
    queue.legend(**ABOVE)
    reverse.delay_axis(queue)
    for ax in (acks, use, queue):
        ax.set(xlim=(0, duration), xlabel="time, s")
        ax.axvspan(0, start, color="#eeeeee", linewidth=0, zorder=0)
    return figure


def svg(figure: Figure) -> str:
    """For one page: text stays text, which is smaller and faster than glyphs."""
    out = io.StringIO()
    figure.savefig(out, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})

    def shorter(shape: re.Match) -> str:  # to 1/100 pt; after M every pair is a line's end, with L or without
        text = re.sub(r"(\.\d\d)\d+", r"\1", shape[0]).replace("\n", "")
        return text if "C" in text or "Q" in text else text.replace("L ", "")

    text = re.sub(r'\bd="[^"]*"|<use [^>]*>', shorter, out.getvalue())
    text = re.sub(r'="([^"]*)"', lambda value: "='" + value[1].replace("'", "") + "'", re.sub(r"\n *", " ", text))
    return "data:image/svg+xml," + quote(text, safe=" '()/:;,=!?@+$*")  # no &, <, > or " is left


# --- the page -----------------------------------------------------------------------------


def render(run: Run, in_report: bool = False) -> str:
    """The page; of an invalid run, and of one without traffic, without figures. One in a report leads back to it."""
    import matplotlib

    figures = []
    if run.valid and drawn(run):
        with drawing.style():
            matplotlib.rcParams.update(
                {
                    "svg.fonttype": "none",
                    "figure.constrained_layout.use": False,
                    "font.size": 9,
                    "axes.titlesize": 9.5,
                    "axes.titley": 1.0,  # else each title looks for its place among the tick labels
                    "legend.fontsize": 8,
                    "font.family": ["DejaVu Sans"],
                }
            )
            figures = [
                (
                    "Over time",
                    "Window and ssthresh of each flow with its losses, retransmissions and timeouts; goodput of the "
                    "flows of a direction, stacked, and its link's utilisation; the bottleneck's queue with its drops; "
                    "RTT samples, or the smoothed RTT where the stack runs without RACK, which keeps them. "
                    "After a loss goodput may exceed the link's rate for a moment: data that waited behind a gap "
                    "count when the gap closes. "
                    "Grey: the start-up, which is not measured.",
                    svg(time_axes(run)),
                ),
                (
                    "RTT and the ACK path",
                    "Distribution of RTT by flow; pure ACKs a second and their size; utilisation and queue of the "
                    "reverse link.",
                    svg(ack_path(run)),
                ),
            ]
    return (
        html.environment()
        .get_template("run.html.j2")
        .render(
            run=run,
            r=run.record,
            m=run.metrics,
            ways=directions(run),
            way_of=directions_by_flow(run),
            times=times(run),
            done={f.id: done for f in run.job.flows if (done := completion(run, f.id))},
            figures=figures,
            in_report=in_report,
        )
    )


def version() -> bytes:
    """The hash of all that draws a page but the run."""
    import matplotlib

    code = hashlib.sha256(matplotlib.__version__.encode())
    modules = (html, drawing, breakdown, connections)
    for file in (Path(__file__), *(Path(str(module.__file__)) for module in modules), *sorted((TEMPLATES).iterdir())):
        if file.is_file():
            code.update(file.read_bytes())
    return code.digest()


def up_to_date(
    runs: list[Run], cores: int | None = None, in_report: bool = False, meanwhile: Callable[[], None] = lambda: None
) -> dict[str, Path]:
    """A page for each run, by key; those that are missing or out of date are drawn.
    `meanwhile` is called once, while other processes draw, if there are many to draw."""
    if runs and (reason := lack("report")):
        console.print(f"no page: {reason}")
        return {}
    code, cache = version(), CACHE / "in-report" if in_report else CACHE
    wanted = {
        r.key: cache
        / f"{r.key}-{hashlib.sha256(code + json.dumps(r.record, sort_keys=True).encode()).hexdigest()[:16]}.html"
        for r in runs
    }
    missing = [(r, wanted[r.key], in_report) for r in runs if not wanted[r.key].exists()]
    if not missing:
        meanwhile()
    else:
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=console,
                disable=not console.is_terminal,
            ) as bar:
                for _ in bar.track(
                    draw(missing, cores or local.places(None), meanwhile), total=len(missing), description="run pages"
                ):
                    pass
            fresh = {file.name for file in wanted.values()}
            for run, *_ in missing:
                for old in cache.glob(f"{run.key}-*.html"):
                    if old.name not in fresh:
                        old.unlink()
        except OSError as e:
            raise LabError(
                f"{e.filename or cache}: {e.strerror}; the runs are kept, the same command goes on from there"
            ) from None
    return wanted


def draw(
    missing: list[tuple[Run, Path, bool]], cores: int, meanwhile: Callable[[], None] = lambda: None
) -> Iterator[str]:
    """Write the pages, a process for each core; yields as each is there."""
    if len(missing) <= AT_ONCE or cores == 1:
        meanwhile()
        for one in missing:
            yield save(*one)
        return
    workers = []
    done, done_in = os.pipe()
    try:
        for i in range(min(cores, len(missing))):
            with tempfile.TemporaryFile() as share:
                pickle.dump(missing[i::cores], share)
                share.seek(0)
                workers.append(subprocess.Popen([sys.executable, "-m", __name__], stdin=share, stdout=done_in))
        os.close(done_in)
        meanwhile()
        with open(done, encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("!"):
                    raise LabError(line[1:].rstrip())
                yield line
        if any(worker.wait() for worker in workers):
            raise LabError(
                "a process that draws run pages ended early; the runs are kept, the same command goes on from there"
            )
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def save(run: Run, file: Path, in_report: bool) -> str:
    try:
        text = render(run, in_report)
    except (OSError, ValueError, KeyError) as e:
        raise LabError(
            f"{run.folder}: cannot be drawn ({type(e).__name__}: {e}); remove it, the run will be repeated"
        ) from None
    part = file.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)
    return file.name


def main() -> None:
    try:
        for one in pickle.load(sys.stdin.buffer):
            print(save(*one), flush=True)
    except (LabError, OSError) as e:
        print("!" + str(e).replace("\n", " "), flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
