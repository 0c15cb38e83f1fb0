# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figures of the readings: Taichung's constant of (5), by filter and first gap."""

from __future__ import annotations

from matplotlib.figure import Figure

from asymlab.palette import BLUE, GREEN, ORANGE
from asymlab.report import drawing
from asymlab.report.measures import goodput, jain_index

WEIGHTS = (224, 240, 248, 252, 254)  # 1/256
SENDERS = (1, 10)
READINGS = {  # filter_mode and skip_first_gap -> label, look
    (1, 1): ("link's pace: average named org, first gap no sample", {"color": BLUE, "marker": "o"}),
    (2, 0): ("own pace: sample named org, every gap a sample", {"color": ORANGE, "marker": "s"}),
    (2, 2): ("the link's until slow start has ended once", {"color": GREEN, "marker": "^"}),
}


def figures(results) -> list[drawing.Figure]:
    with drawing.style():
        drawn = [grid(results)]
    return [f for f in drawn if f]


def found(results, n: int, weight: int, reading: tuple[int, int]):
    return results.valid(
        "RD-TC-GRID",
        flows__count=n,
        controllers__taichung__filter_mode=reading[0],
        controllers__taichung__skip_first_gap=reading[1],
        controllers__taichung__avg_weight_q8=weight,
    )


def grid(results):
    runs = {(n, w, r): found(results, n, w, r) for n in SENDERS for w in WEIGHTS for r in READINGS}
    if not all(runs.values()):
        return None
    figure = Figure(figsize=(7.5, 6.5))
    axes = figure.subplots(2, len(SENDERS), sharex=True, sharey="row")
    for row, (what, measure) in enumerate((("goodput of all, Mbit/s", goodput), ("Jain index", jain_index))):
        for ax, n in zip(axes[row], SENDERS):
            for reading, (text, style) in READINGS.items():
                values = [measure(runs[n, w, reading][0]) for w in WEIGHTS]
                ax.plot(range(len(WEIGHTS)), values, label=text, markersize=5, linewidth=1.1, **style)
            ax.set(ylim=(0, None))
            if not row:
                ax.set_title("one sender" if n == 1 else f"{n} senders")
        axes[row, 0].set_ylabel(what)
    for ax in axes[-1]:
        ax.set(xticks=range(len(WEIGHTS)), xticklabels=["7/8", "15/16", "31/32", "63/64", "127/128"])
        ax.set_xlabel("weight of the average in (5)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="lower center", ncols=1)
    figure.subplots_adjust(bottom=0.24)
    return drawing.Figure(
        "readings-taichung",
        "TCP-Taichung: the constant of (5), the filter of Fig. 2, and the first gap of a round",
        "10 Mbit/s, 90 ms, 20 s, impatient NewReno, one seed.",
        figure,
    )
