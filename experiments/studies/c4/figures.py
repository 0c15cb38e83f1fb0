# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The time of a file on each of C4's paths, of each controller and of C4."""

from __future__ import annotations

from functools import partial
from statistics import fmean

from matplotlib.figure import Figure

from asymlab import controllers
from asymlab.report import drawing

from .measures import C4_S, took_s

CONTROLLERS = ("cubic", "bbr", "bbr3", "fast", "formosa", "fusion", "pseudorate", "taichung")
GROUPS = {"alone": "C4-ALONE", "itself": "C4-ITSELF", "cubic": "C4-CUBIC", "bbr": "C4-BBR"}
BESIDE = {"alone": "alone", "itself": "beside its own kind", "cubic": "beside CUBIC", "bbr": "beside BBR"}


def times(results, group: str) -> drawing.Figure | None:
    """Paths by their numbers, from 1 on."""
    figure = Figure(figsize=(7, 4))
    ax = figure.subplots()
    id, key = GROUPS[group], "flows__0__controller" if group in ("cubic", "bbr") else "flows__controller"
    paths = list(C4_S[id])
    for name in CONTROLLERS:
        runs = [results.valid(id, title=path, **{key: name}) for path in paths]
        if not all(runs):
            return None
        of = controllers.of(name)
        took = [fmean(map(took_s, of_path)) for of_path in runs]
        ax.plot(range(1, len(paths) + 1), took, **of.look | {"linestyle": "none"}, label=of.label)
    ax.set(xlabel="path", ylabel="s", ylim=0, xticks=range(1, len(paths) + 1))
    ax.set_xticklabels(paths, rotation=20)
    ax.legend(fontsize=7)
    return drawing.Figure(
        f"c4-{group}",
        f"A file on C4's paths, {BESIDE[group]}",
        "Paths of draft-huitema-ccwg-c4-test; a run ends at some twice the time that C4 has.",
        figure,
    )


FIGURES = tuple(partial(times, group=group) for group in GROUPS)
