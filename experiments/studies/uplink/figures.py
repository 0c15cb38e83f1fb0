# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A satellite's uplink over time, by what the router does, from valid runs."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from asymlab.palette import BLACK, ORANGE
from asymlab.report import drawing
from asymlab.results import metrics

from . import measures

ROWS = {
    "nothing": ("UL-LEO", {"title": "nothing"}),
    "cake-autorate's law": ("UL-LEO-AUTORATE", {}),
    "asymcc uplink": ("UL-LEO", {"title": "uplink"}),
}
TRACE = 1
MOST = 40  # Mbit/s: a rate that is not found yet is none
MBIT = 1e6


def passed(run) -> tuple[np.ndarray, np.ndarray]:
    """The time of each bin, and what left the modem in it, Mbit/s."""
    job, modem = run.job, run.job.watch[0].reverse
    rows = metrics.link_window(run.links, modem.dev, 0, job.duration_s)
    ip_bytes = rows["bytes"] - metrics.ETHERNET * rows["packets"].astype(float)
    return rows["t"], ip_bytes * 8 / (job.bin_ms / 1e3) / MBIT


def capacity(run) -> tuple[np.ndarray, np.ndarray]:
    """The time of each second, and what the modem has room for in it, Mbit/s."""
    trace = metrics.trace_of(run.job, run.job.watch[0].reverse.dev)
    assert trace
    seconds = np.arange(run.job.duration_s)
    room = [trace.until(1000 * (s + 1) - 1) - trace.until(1000 * s - 1) for s in map(int, seconds)]
    return seconds, np.array(room) * metrics.BYTES * 8 / MBIT


def shaped(run) -> tuple[np.ndarray, np.ndarray]:
    """The time of each tick, and the rate that is found by then, Mbit/s."""
    found = run.uplink[run.uplink["rate"] < MOST * MBIT]
    return found["t"], found["rate"] / MBIT


def over_time(results):
    """A row for each: what passes the modem, and how long its queue is."""
    figure = Figure(figsize=(9, 7))
    axes = figure.subplots(len(ROWS), 2, sharex=True, sharey="col")
    for (left, right), (title, (case, keys)) in zip(axes, ROWS.items()):
        runs = results.valid(case, profile="tuned", path__hops__0__reverse__trace__seed=TRACE, **keys)
        if not runs:
            return None
        left.step(*capacity(runs[0]), where="post", color=BLACK, linewidth=1, linestyle=":", label="capacity")
        left.plot(*passed(runs[0]), linewidth=0.8, label="passed")
        if runs[0].job.uplink:
            left.plot(*shaped(runs[0]), color=ORANGE, linewidth=0.8, label="rate of the shaper")
        t, waits = measures.queues(runs[0])
        right.plot(t, 1e3 * waits, linewidth=0.8)
        left.set_title(title)
        left.set_ylabel("Mbit/s")
        left.set_ylim(0, MOST)
        right.set_ylabel("modem's queue, ms")
        right.set_ylim(0, 400)
    axes[-1][0].legend(loc="upper left")
    for ax in axes[-1]:
        ax.set_xlabel("s")
    return drawing.Figure(
        "uplink-leo",
        "Uploads over a satellite's beams",
        "Four of CUBIC up and four down. A beam lasts 15 s, and has half to one and a half of 20 Mbit/s. "
        "Bins of 100 ms.",
        figure,
    )


FIGURES = (over_time,)
