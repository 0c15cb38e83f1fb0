# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The figure of the stacks: each headline's ratio, stack by stack."""

from __future__ import annotations

from math import exp, log

from matplotlib.figure import Figure

from asymlab.palette import BLACK, BLUE, BROWN, GREEN, GREY, ORANGE, PURPLE, SKY, TEAL, VERMILLION
from asymlab.report import drawing, papers
from asymlab.report.judged import interval
from asymlab.report.plot import ticks_at

NAMES = {
    "classic": "no SACK,\nReno's own",
    "newreno": "no SACK,\nslow but steady",
    "impatient": "no SACK,\nimpatient",
    "ns2": "SACK",
    "tuned": "SACK,\nRACK, TLP",
    "acks": "and the rival\ncounts ACKs",
}
LOOKS = {
    "taichung 1": {"color": ORANGE, "marker": "s"},
    "link 1": {"color": VERMILLION, "marker": "v", "linestyle": "--"},
    "taichung 10": {"color": BROWN, "marker": "D"},
    "link 10": {"color": GREY, "marker": "v", "linestyle": "--"},
    "loss": {"color": PURPLE, "marker": "P"},
    "formosa": {"color": BLUE, "marker": "o"},
    "accsa": {"color": SKY, "marker": "x"},
    "fusion": {"color": GREEN, "marker": "^"},
    "lot": {"color": TEAL, "marker": "*", "linestyle": ":"},
    "jain": {"color": BLACK, "marker": "+", "linestyle": ":"},
}


def of_stack(results, claim):
    """(geometric mean, low, high) of a headline's ratio on a stack."""
    runs, measure = claim.value.of(results)
    return [exp(x) for x in interval([log(measure(run)) for run in runs if run.valid])] if runs else None


def ratios(results):
    claims = {claim.id: claim for claim in papers.claims("stacks")}
    headlines = {name: {s: c for s in NAMES if (c := claims.get(f"ST {name} {s}"))} for name in LOOKS}
    found = {name: {s: of_stack(results, c) for s, c in of.items()} for name, of in headlines.items()}
    if not all(value for values in found.values() for value in values.values()):
        return None
    figure = Figure(figsize=(7.5, 7.5))
    upper, lower = figure.subplots(2, sharex=True, height_ratios=(1, 2.4))
    for k, (name, values) in enumerate(found.items()):
        aside = (k - (len(found) - 1) / 2) * 0.03
        x = [list(NAMES).index(stack) + aside for stack in values]
        mean, low, high = zip(*values.values(), strict=True)
        bars = [[m - a for m, a in zip(mean, low)], [b - m for m, b in zip(mean, high)]]
        for ax in (upper, lower):
            label = headlines[name]["tuned"].says.split(";")[0] if ax is lower else None
            ax.errorbar(x, mean, yerr=bars, capsize=2, elinewidth=0.8, markersize=5, label=label, **LOOKS[name])
    for ax in (upper, lower):
        ax.axhline(1, color=BLACK, linewidth=0.8)
    upper.set(yscale="log", ylim=(3, 60), ylabel="ratio")
    ticks_at(upper.yaxis, (3, 10, 30))
    lower.set(ylabel="ratio to the rival", ylim=(0.6, 3), xticks=range(len(NAMES)), xticklabels=NAMES.values())
    figure.legend(*lower.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return drawing.Figure(
        "stacks-ratios",
        "Each paper's headline under six stacks",
        "The ratio of a controller's goodput to its rival's on the same stack, with its 95 % interval.",
        figure,
    )


FIGURES = (ratios,)
