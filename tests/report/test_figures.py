# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The figures of the papers: which runs they need, and how they look."""

from __future__ import annotations

import numpy as np
import pytest

from asymlab.plan import scenario
from asymlab.report import drawing, figuredata, papers, report
from asymlab.results import store
from tests.report.madeup import index, make, results_of

pytestmark = pytest.mark.slow

NAMES = {
    "taichung": "slow-start thresholds",
    "pseudorate": "windows mechanism throughput rise",
    "fusion": "windows queue loss shares reduction friendliness",
    "formosa": "throughput ten-flows ack-path queues rounds delay queue-control",
}
FIGURES = {paper: {f"{paper}-{name}" for name in names.split()} for paper, names in NAMES.items()}


@pytest.mark.parametrize(
    "id, point, lost",
    [("FA-4", {}, {"fast-series"}), ("FA-T1", {"path.reverse.rate": "5mbit"}, set()), ("FA-X2", {}, set())],
)
def test_figure_without_its_runs_is_left_out(runs, id, point, lost):
    kept = [r for r in runs if not (r.record["id"] == id and r.record["point"] == point)]
    everything = {"fast-throughput", "fast-series", "fast-queue", "fast-ack-path", "fast-shares"}
    assert {f.id for f in papers.module("fast", "figures").figures(results_of(kept))} == everything - lost


def test_three_points_are_no_curve(runs):
    kept = [
        r
        for r in runs
        if r.record["id"] != "FA-T1" or r.record["point"]["path.reverse.rate"] in ("1mbit", "0.5mbit", "0.1mbit")
    ]
    assert not {"fast-throughput", "fast-ack-path"} & {
        f.id for f in papers.module("fast", "figures").figures(results_of(kept))
    }


@pytest.fixture(scope="module", params=FIGURES)
def quick(request, tmp_path_factory):
    """(paper, a run for each case of its quick set)."""
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, [
        make(folder, case.scenario.id, case.point, controllers=[f.controller for f in case.scenario.flows])
        for file in papers.scenarios(request.param)
        for case in scenario.load(file)
        if case.seeds
    ]


def drawn(paper: str, runs: list[store.Run]) -> dict[str, drawing.Figure]:
    return {f.id: f for f in papers.module(paper, "figures").figures(results_of(runs, paper))}


def test_the_quick_set_draws_all_figures(quick):
    paper, runs = quick
    figures = drawn(paper, runs)
    assert figures.keys() == FIGURES[paper]
    for figure in figures.values():
        assert len(report.drawn(figure)["png"]) > 10_000 and len(figure.caption) > 40 and "  " not in figure.caption


def test_figures_need_no_more_than_they_show(quick):
    paper, runs = quick
    needed = {  # controllers or scenarios: what is left without them
        "taichung": [("taichung", set()), ("reno", {"taichung-thresholds"}), ("westwood", FIGURES["taichung"])],
        "pseudorate": [
            ("vegas", {"pseudorate-mechanism", "pseudorate-rise"}),
            ("PR-LOT", {"pseudorate-rise"}),
            ("PR-RISE", FIGURES["pseudorate"] - {"pseudorate-rise"}),
        ],
        "formosa": [
            ("FO-2", FIGURES["formosa"] - {"formosa-throughput", "formosa-ack-path", "formosa-queues"}),
            ("FO-3", FIGURES["formosa"] - {"formosa-ten-flows"}),
            ("FO-5", FIGURES["formosa"] - {"formosa-rounds", "formosa-delay"}),
            ("netsum", FIGURES["formosa"] - {"formosa-queue-control"}),
            ("cubic", FIGURES["formosa"]),
        ],
        "fusion": [
            ("FU-1", FIGURES["fusion"] - {"fusion-reduction"}),
            ("FU-2", FIGURES["fusion"] - {"fusion-windows", "fusion-queue"}),
            ("FU-4", FIGURES["fusion"] - {"fusion-loss"}),
            ("FU-5", FIGURES["fusion"] - {"fusion-friendliness"}),
            ("FU-10", FIGURES["fusion"] - {"fusion-shares"}),
            ("cubic", FIGURES["fusion"]),
        ],
    }
    for gone, left in needed[paper]:
        kept = [r for r in runs if gone not in (r.record["id"], *r.record["point"].values())]
        assert len(kept) < len(runs) and drawn(paper, kept).keys() == left, gone


def test_fusions_full_set_draws_all_figures(tmp_path):
    """And judges every claim: each finds the runs that it names."""
    cases = {  # some files only have more seeds of a case
        (case.scenario.id, str(case.point)): case
        for file in papers.scenarios("fusion")
        for case in scenario.load(file, "full")
        if case.seeds
    }
    runs = [
        make(tmp_path, id, case.point, controllers=[f.controller for f in case.scenario.flows])
        for (id, _), case in cases.items()
    ]
    more = {"fusion-table-1", "fusion-three", "fusion-rtts", "fusion-speeds", "fusion-parking-lot"}
    assert drawn("fusion", runs).keys() == FIGURES["fusion"] | more
    results = results_of(runs, "fusion")
    unmeasured = {
        claim.id: row.unmeasured for claim in papers.claims("fusion") if (row := claim.judged(results)).unmeasured
    }
    assert unmeasured == {}


@pytest.fixture(scope="module")
def matrix_runs(tmp_path_factory):
    """A run for each case of the matrix, two for those of 100 Mbit/s."""
    folder = tmp_path_factory.mktemp("matrix")
    return [
        make(folder, case.scenario.id, case.point, seed, controllers=[f.controller for f in case.scenario.flows])
        for file in papers.scenarios("matrix")
        for case in scenario.load(file, "full")
        if case.scenario.id.endswith(("-100", "-DOCSIS")) or {"fast", "reno"} >= {*case.point.values()} - {"3mbit"}
        for seed in ((1, 2) if case.scenario.id.endswith("-100") else (1,))
    ]


MATRIX = {
    "MX-PAIR": {"matrix-share-3mbit", "matrix-jain-3mbit"},
    "MX-ALONE": {"matrix-harm-3mbit"},
    "MX-ALONE-100": {"matrix-alone-100mbit"},
    "MX-PAIR-100": {"matrix-share-100mbit"},
    "MX-ALONE-DOCSIS": {"matrix-alone-docsis"},
    "MX-PAIR-DOCSIS": {"matrix-share-docsis"},
}


def test_the_matrix_draws_each_path_and_says_which_ran(matrix_runs):
    figures = drawn("matrix", matrix_runs)
    assert figures.keys() == set().union(*MATRIX.values())
    said = "100 Mbit/s, ACKs 1 Mbit/s, 40 ms, a queue of 150 packets; 3 s measured, {}. "  # the made-up runs' path
    for id, figure in figures.items():
        seeds = "2 seeds" if id.endswith("100mbit") else "1 seed"
        assert figure.caption.startswith(said.format(seeds)), id
    for gone, lost in MATRIX.items():
        left = drawn("matrix", [r for r in matrix_runs if r.record["id"] != gone])
        lost = lost | ({"matrix-harm-3mbit"} if gone == "MX-PAIR" else set())
        assert left.keys() == figures.keys() - lost, gone


def test_the_matrix_shows_who_ran_and_with_which_acks(matrix_runs):
    figures = drawn("matrix", matrix_runs)
    rows = {id: figuredata.rows(figure.figure) for id, figure in figures.items()}
    senders = {"FAST", "Formosa", "Fusion", "Taichung", "Pseudo-rate", "Reno", "CUBIC", "BBR", "BBRv3"}

    def names(id):
        return [t.get_text() for t in figures[id].figure.axes[0].get_yticklabels()]

    for path, states in (("100mbit", {"all ACKs"}), ("docsis", {"all ACKs", "ACKs thinned"})):
        assert set(names(f"matrix-alone-{path}")) == set(names(f"matrix-share-{path}")) == senders
        bars = [r for r in rows[f"matrix-alone-{path}"] if r[3] in ("all ACKs", "ACKs thinned")]
        assert {r[3] for r in bars} == states and len(bars) == 2 * len(states) * len(senders)
        shares = [r for r in rows[f"matrix-share-{path}"] if r[1].startswith("share") and r[3] in senders]
        assert all(r[5] == pytest.approx(0.5) for r in shares)
        assert {r[3] for r in shares if r[0] == "beside CUBIC"} == senders
        together = {r[3] for r in shares if r[0] == "beside BBR"}
        assert together == senders - {"Reno", "BBR"}  # these have no run beside BBR, and stay empty


def test_formosas_rounds_are_read_from_the_packets(tmp_path):
    claims = papers.module("formosa", "measures")
    run = make(tmp_path, "FO-5", controllers=["formosa"])
    assert (claims.round_sizes(run) == 5).all() and len(claims.round_sizes(run)) == 1500
    assert claims.spacing_cv(run) == 0
    assert claims.acks_per_round(run) == 0  # this capture holds no pure ACK
    assert [claims.fibonacci(sizes) for sizes in ((), (1, 1), (1, 2, 3, 5, 8, 13, 20), (2, 3))] == [0, 1, 6, 0]


@pytest.mark.parametrize("paper", ["fast", *FIGURES])
def test_no_runs_no_figures(place, paper):
    assert papers.module(paper, "figures").figures(results_of([], paper)) == []
    report.write([], [], [], "quick", folder=place / "report")
    assert "figure" not in index(place / "report").tags


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
