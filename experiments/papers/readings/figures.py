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
PROFILES = {"impatient": "impatient", "tuned": "with SACK"}


def figures(results) -> list[drawing.Figure]:
    with drawing.style():
        drawn = [grid(results)]
    return [f for f in drawn if f]


def found(results, profile: str, n: int, weight: int, reading: tuple[int, int]):
    return results.valid(
        "RD-TC-GRID",
        profile=profile,
        flows__count=n,
        controllers__taichung__filter_mode=reading[0],
        controllers__taichung__skip_first_gap=reading[1],
        controllers__taichung__avg_weight_q8=weight,
    )


def grid(results):
    keys = [(p, n, w, r) for p in PROFILES for n in SENDERS for w in WEIGHTS for r in READINGS]
    runs = {key: found(results, *key) for key in keys}
    if not all(runs.values()):
        return None
    figure = Figure(figsize=(7.5, 9))
    axes = figure.subplots(4, len(SENDERS), sharex=True, sharey="row")
    for row, (profile, what) in enumerate((p, w) for w in ("goodput", "Jain index") for p in PROFILES):
        for column, n in enumerate(SENDERS):
            ax = axes[row, column]
            for reading, (text, style) in READINGS.items():
                measure = goodput if what == "goodput" else jain_index
                values = [measure(runs[profile, n, w, reading][0]) for w in WEIGHTS]
                ax.plot(range(len(WEIGHTS)), values, label=text, markersize=5, linewidth=1.1, **style)
            ax.set(ylim=(0, None))
            if not column:
                unit = ", Mbit/s" if what == "goodput" else ""
                ax.set_ylabel(f"{what}{unit}\n{PROFILES[profile]}")
            if not row:
                ax.set_title(f"{n} sender{'s' * (n > 1)}")
    for ax in axes[-1]:
        ax.set(xticks=range(len(WEIGHTS)), xticklabels=["7/8", "15/16", "31/32", "63/64", "127/128"])
        ax.tick_params(axis="x", labelsize=7)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="lower center", ncols=1)
    figure.subplots_adjust(bottom=0.17)
    figure.supxlabel("weight of the average in (5)", y=0.115, fontsize=9)
    return drawing.Figure(
        "readings-taichung",
        "TCP-Taichung: the constant of (5), the filter of Fig. 2, and the first gap of a round",
        "10 Mbit/s, 90 ms, 20 s, one seed. Alone the flow needs the link's pace or a slow average; ten need their own.",
        figure,
    )
