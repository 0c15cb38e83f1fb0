# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The rate that theory leaves, and that of runs: over the loss, and over the jitter."""

from __future__ import annotations

from statistics import fmean

import numpy as np
from matplotlib.figure import Figure

from asymlab.palette import BLACK, GREY
from asymlab.report import drawing
from asymlab.report.measures import Runs
from asymlab.report.plot import marked

from . import measures as theory

LOSSES = {"0.1%": 1e-3, "0.3%": 3e-3, "1%": 1e-2, "3%": 3e-2}
JITTERS = {"0ms": 0, "2ms": 2, "5ms": 5, "10ms": 10, "20ms": 20}
ALPHA = {"fast": 20, "vegas": 2}
RTT_S, LINK = 0.04, 20e6 / 8 / 1500  # packets/s


def mean(results, case: str, **point) -> float:
    """Packets a second; NaN if there is no run."""
    runs = Runs(case, **point).valid(results)
    return fmean(map(theory.packets_a_second, runs)) if runs else float("nan")


def laws(results):
    lost = {
        c: [mean(results, "CT-LOSS", path__forward__loss=loss, flows__controller=c) for loss in LOSSES]
        for c in ("reno", "cubic")
    }
    late = {
        c: [mean(results, "CT-JITTER", path__forward__jitter=jitter, flows__controller=c) for jitter in JITTERS]
        for c in ALPHA
    }
    if np.isnan([*lost.values()]).any() or np.isnan([*late.values()]).any():
        return None
    figure = Figure(figsize=(7.5, 3.6))
    left, right = figure.subplots(1, 2)
    p = np.geomspace(8e-4, 4e-2, 50)
    left.plot(100 * p, np.minimum(np.sqrt(1.5 / p) / RTT_S, LINK), color=BLACK, linewidth=1, label="sqrt(3 / 2p)")
    for c, rates in lost.items():
        left.plot([100 * x for x in LOSSES.values()], rates, **marked(c, linestyle="", markerfacecolor="none"))
    left.set(title="Loss", xlabel="packets lost, %", ylabel="packets/s", xscale="log", ylim=(0, None))
    d = np.linspace(0.5, 21, 100)
    for c, alpha in ALPHA.items():
        least = np.minimum(alpha / (2e-3 * d), LINK)
        right.plot(d, least, color=GREY, linewidth=1, label=f"{alpha} in twice the jitter")
        right.plot([*JITTERS.values()], late[c], **marked(c, linestyle="", markerfacecolor="none"))
    right.set(title="Jitter", xlabel="jitter, +- ms", ylim=(0, None))
    for ax in (left, right):
        ax.legend()
    return drawing.Figure(
        "contracts-laws",
        "The rate that theory leaves, and that of runs",
        "20 Mbit/s, 40 ms. Left: packets are lost at random. Right: the delay varies, and no packet overtakes.",
        figure,
    )


FIGURES = (laws,)
