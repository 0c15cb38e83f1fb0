# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figures of the readings: Taichung's constant of (5), by filter and first gap."""

from __future__ import annotations

from matplotlib.figure import Figure

from asymlab.palette import BLACK, BLUE, GREEN, ORANGE, PURPLE
from asymlab.report import drawing
from asymlab.report.measures import goodput, jain_index

WEIGHTS = (224, 240, 248, 252, 254)  # 1/256
SENDERS = (1, 10)
READINGS = {  # title of a point -> look
    "average named org, first gap skipped": {"color": BLUE, "marker": "o"},
    "average named org, every gap": {"color": BLACK, "marker": "x", "linestyle": ":"},
    "sample named org, every gap": {"color": ORANGE, "marker": "s"},
    "sample named org, first gap skipped": {"color": PURPLE, "marker": "v", "linestyle": "--"},
    "sample named org, first gap skipped in slow start": {"color": GREEN, "marker": "^"},
}


def found(results, n: int, weight: int, reading: str):
    return results.valid("RD-TC-GRID", flows__count=n, title=reading, controllers__taichung__avg_weight_q8=weight)


def grid(results):
    runs = {(n, w, r): found(results, n, w, r) for n in SENDERS for w in WEIGHTS for r in READINGS}
    if not all(runs.values()):
        return None
    figure = Figure(figsize=(7.5, 6.5))
    axes = figure.subplots(2, len(SENDERS), sharex=True, sharey="row")
    for row, (what, measure) in enumerate((("goodput of all, Mbit/s", goodput), ("Jain index", jain_index))):
        for ax, n in zip(axes[row], SENDERS):
            for reading, style in READINGS.items():
                values = [measure(runs[n, w, reading][0]) for w in WEIGHTS]
                ax.plot(range(len(WEIGHTS)), values, label=reading, markersize=5, linewidth=1.1, **style)
            ax.set(ylim=(0, None))
            if not row:
                ax.set_title("one sender" if n == 1 else f"{n} senders")
        axes[row, 0].set_ylabel(what)
    for ax in axes[-1]:
        ax.set(xticks=range(len(WEIGHTS)), xticklabels=["7/8", "15/16", "31/32", "63/64", "127/128"])
        ax.set_xlabel("weight of the average in (5)")
    axes[1, 0].legend(loc="lower left", fontsize=7)
    return drawing.Figure(
        "readings-taichung",
        "TCP-Taichung: the constant of (5), the filter of Fig. 2, and the first gap of a round",
        "10 Mbit/s, 90 ms, 20 s, impatient NewReno, one seed.",
        figure,
    )


FIGURES = (grid,)
