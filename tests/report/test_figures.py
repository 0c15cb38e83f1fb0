# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The figures of the papers: what they show of which runs."""

from __future__ import annotations

import numpy as np
import pytest

from asymlab.report import drawing, figuredata, papers, report
from asymlab.report.judged import Results
from tests.report import random_runs

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("paper", papers.names())
def test_figures_of_random_runs(paper, tmp_path, snapshot):
    """A change here is a change of what a figure shows."""
    figures = report.figures_of(papers.module(paper, "figures"), random_runs.results_of(paper, tmp_path, seeds=2))
    for figure in figures:
        assert len(figure.caption) > 40 and "  " not in figure.caption
    snapshot("".join(f"{figure.id}: {figure.title}\n{shown(figure)}" for figure in figures), paper)


def shown(figure: drawing.Figure) -> str:
    """Each series: its panel and axes, how many points it has, and their means."""
    series: dict[tuple, list[tuple]] = {}
    for panel, x_axis, y_axis, name, text, *point in figuredata.rows(figure.figure):
        series.setdefault((panel, x_axis, y_axis, name, bool(text)), []).append(point[:2])
    lines = []
    for (panel, x_axis, y_axis, name, _), points in series.items():
        x, y = (f"{np.nanmean([v for v in axis if v is not None] or [0]):.4g}" for axis in zip(*points, strict=True))
        lines.append(f"    {panel}, {x_axis}, {y_axis}, {name}: {len(points)} at {x}, {y}".replace("\n", " "))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("paper", papers.names())
@pytest.mark.parametrize("left", [0, 1])
def test_a_figure_without_some_of_its_runs_is_left_out_or_drawn(paper, left, tmp_path):
    """One of each two scenarios has no runs."""
    results = random_runs.results_of(paper, tmp_path)
    ids = list(dict.fromkeys(task.case.scenario.id for task, _ in results.found))[left::2]
    some = Results(paper, [(task, run) for task, run in results.found if task.case.scenario.id in ids])
    figures = report.figures_of(papers.module(paper, "figures"), some)
    assert len({figure.id for figure in figures}) == len(figures)


def test_style_leaves_no_trace(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    with drawing.style():
        matplotlib.rcParams["font.size"] = 33
    assert dict(matplotlib.rcParams) == before


def test_thin_keeps_extremes():
    t = np.arange(100_000) / 1e3
    y = np.sin(t)
    y[54_321] = 9
    thin_t, thin_y = drawing.thin(t, y, 2000)
    assert len(thin_t) <= 2000 and (np.diff(thin_t) > 0).all()
    assert thin_y.max() == 9 and thin_y.min() == y.min()
    assert drawing.thin(t[:10], y[:10])[0] is not None and len(drawing.thin(t[:10], y[:10])[0]) == 10
