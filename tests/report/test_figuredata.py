# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The data of the figures are what was drawn."""

from __future__ import annotations

import csv

import numpy as np
from matplotlib.figure import Figure

from asymlab import controllers
from asymlab.report import drawing, figuredata, report
from asymlab.report.measures import throughput


def data_of(draw) -> list[dict]:
    with drawing.style():
        figure = Figure()
        draw(figure)
        report.drawn(drawing.Figure("f", "t", "c", figure))
        return [dict(zip(figuredata.COLUMNS, row)) for row in figuredata.rows(figure)]


def test_data_of_lines_and_error_bars():
    def draw(figure):
        ax = figure.subplots()
        ax.errorbar([1, 2], [10, 20], yerr=[[1, 2], [3, 4]], label="bars")
        ax.plot([1, 2, 3], [5, np.nan, 7], label="line")
        ax.axhline(6, label="bound")
        ax.axvline(2)
        ax.set(title="T", xlabel="x, s", ylabel="y, m", xlim=(0, 4))

    rows = data_of(draw)
    assert {(r["panel"], r["x_axis"], r["y_axis"]) for r in rows} == {("T", "x, s", "y, m")}
    of = {
        s: [(r["x"], r["y"], r["low"], r["high"]) for r in rows if r["series"] == s]
        for s in dict.fromkeys(r["series"] for r in rows)
    }
    assert of == {
        "bars": [(1, 10, 9, 13), (2, 20, 18, 24)],
        "line": [(1, 5, None, None), (3, 7, None, None)],
        "bound": [(0, 6, None, None), (4, 6, None, None)],
    } | {"vertical line": of["vertical line"]}
    assert of["vertical line"][0][0] == 2


def test_data_of_bars_bands_points_and_images():
    def draw(figure):
        (a, b), (c, d) = figure.subplots(2, 2)
        a.bar(["one", "two"], [3, 4], label="bar")
        a.bar(["one", "two"], [1, 2], bottom=[3, 4], label="on it")
        b.fill_between([0, 1, 2], [1, 1, 2], [3, 4, 5], label="band")
        c.scatter([1, 2], [3, 4], label="points")
        image = d.imshow([[0.1, 0.2], [0.3, np.nan]])
        d.set_xticks([0, 1], ["left", "right"])
        d.set_yticks([0, 1], ["up", "down"])
        figure.colorbar(image)

    rows = data_of(draw)
    assert [(r["at"], r["y"]) for r in rows if r["series"] == "bar"] == [("one", 3), ("two", 4)]
    assert [(r["y"], r["low"], r["high"]) for r in rows if r["series"] == "on it"] == [(1, 3, 4), (2, 4, 6)]
    assert [(r["x"], r["low"], r["high"]) for r in rows if r["series"] == "band"] == [(0, 1, 3), (1, 1, 4), (2, 2, 5)]
    assert [(r["x"], r["y"]) for r in rows if r["series"] == "points"] == [(1, 3), (2, 4)]
    assert [(r["series"], r["at"], r["y"]) for r in rows if r["panel"] == "panel 4"] == [
        ("up", "left", 0.1),
        ("up", "right", 0.2),
        ("down", "left", 0.3),
    ]


def test_a_series_has_the_name_of_another_panels_legend():
    def draw(figure):
        above, below = figure.subplots(2, sharex=True)
        for ax, label in ((above, "FAST"), (below, None)):
            ax.plot([1, 2], [1, 2], label=label, **controllers.of("fast").look)
        below.set(xlabel="time, s")

    assert [(r["series"], r["x_axis"]) for r in data_of(draw)] == [("FAST", "time, s")] * 4


def test_data_are_what_was_measured(full, runs):
    file = full[2] / "figures" / "fast-throughput.csv"
    rows = list(csv.DictReader(file.open()))
    assert list(rows[0]) == list(figuredata.COLUMNS)
    measured = {throughput(r) for r in runs if r.record["id"] == "FA-T1"}
    drawn = {float(r["y"]) for r in rows if r["y"]}
    assert all(any(abs(m - d) < 1e-6 * m for d in drawn) for m in measured)
    for other in (full[2] / "figures").glob("*.csv"):
        assert len(other.read_text().splitlines()) > 2, other
