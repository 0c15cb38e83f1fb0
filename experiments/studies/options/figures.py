# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figure of the options: each effect with its interval."""

from __future__ import annotations

from matplotlib.figure import Figure

from asymlab.palette import BLACK
from asymlab.report import drawing, papers


def effects(results):
    found = [v for v in papers.judged("options", results) if v.n > 1 and ("without" in v.claim or "ratio" in v.claim)]
    if not found:
        return None
    figure = Figure(figsize=(9, 1 + 0.24 * len(found)))
    ax = figure.subplots()
    for y, v in enumerate(found):
        error = [[v.value - v.low], [v.high - v.value]]
        ax.errorbar([v.value], [y], xerr=error, fmt="o", markersize=3, capsize=2, color=BLACK, label=v.id)
    ax.axvline(1, color=BLACK, linewidth=0.8, linestyle="--")
    ax.set(xscale="log", xlabel="with the option over without, 95 % interval", yticks=range(len(found)))
    ax.set_yticklabels([f"{v.id.removeprefix('OP-')}  {what(v)}" for v in found], fontsize=7)
    ax.invert_yaxis()
    return drawing.Figure(
        "options-effects", "Effects of each option", "Ten seeds, compared one by one. A dashed line: no change.", figure
    )


def what(verdict) -> str:
    """Option, place and measure: the claim without its bound."""
    name, _, claim = verdict.claim.partition(": ")
    return f"{name}: {claim.partition(',')[0].partition(' >=')[0]}"


FIGURES = (effects,)
