# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymlab compare`: pairs, intervals, verdicts, exit codes; on results as a report leaves them."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import subprocess
from pathlib import Path

import pytest

from asymlab import LabError
from asymlab.machine.image import DEFAULT_KERNEL
from asymlab.report import compare, parting, report
from asymlab.report.judged import interval
from asymlab.results import store, tables
from tests import shared
from tests.report import small
from tests.report.madeup import keep, make

pytestmark = pytest.mark.slow

METRICS = {
    "goodput_bps": 25e6,
    "utilisation": 0.9,
    "jain": 1.0,
    "rtt_p50_s": 0.1,
    "rtt_p95_s": 0.2,
    "acks_per_data_packet": 0.5,
    "retransmits": 4,
    "timeouts": 0,
}


def run(case: str, seed: int = 1, invalid=(), **metrics) -> dict:
    """Its bytes are others as soon as a metric is."""
    digest = hashlib.sha256(repr(metrics).encode()).hexdigest()
    about = {"kernel": "6.12", "image": "c0ffee" * 10, "qemu": "QEMU test", "objects": {}, "result_sha256": digest}
    return small.run(case, seed, invalid=list(invalid), metrics=METRICS | metrics, provenance=about)


def leave(folder: Path, runs: list[dict], verdicts: dict[str, str] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "results.json").write_text(json.dumps({"format": 1, "set": "quick", "runs": runs}))
    (folder / "verdicts.json").write_text(json.dumps([{"id": id, "verdict": v} for id, v in (verdicts or {}).items()]))
    return folder


def compared(tmp_path, a: list[dict], b: list[dict], va=None, vb=None, tolerance=0.05) -> dict:
    return compare.compare(
        compare.load(leave(tmp_path / "a", a, va)), compare.load(leave(tmp_path / "b", b, vb)), tolerance
    )


def row(result: dict, case: str = "X", metric: str = "goodput_bps") -> dict:
    return next(r for r in result["rows"] if (r["case"], r["metric"]) == (case, metric))


def test_times_are_compared_by_the_words_of_their_measure(tmp_path):
    a, b = (run("X") | {"times": {"program page.took": took, "reply 0 p95": 0.5}} for took in (1.0, 2.0))
    result = compared(tmp_path, [a], [b])
    assert row(result, metric="program page.took")["differs"] and not row(result, metric="reply 0 p95")["differs"]
    assert compare.name_of("program page.took") == "program page.took"
    assert row(compared(tmp_path, [a], [run("X")]), metric="reply 0 p95")["differs"], "one side has none"


def test_the_same_is_the_same(tmp_path):
    runs = [run("X", 1), run("X", 2), run("Y", rtt_p50_s=None, rtt_p95_s=None), run("Z", invalid=["it is"])]
    result = compared(tmp_path, runs, copy.deepcopy(runs), {"C": "reproduced"}, {"C": "reproduced"})
    assert result["same"] and not any(r["differs"] for r in result["rows"])
    assert result["pairs"] == 3 and result["identical"] == 4 and result["verdicts"]["both"] == 1
    assert compare.code(result) == 0 and len(result["runs"]["identical"]) == 4 and not result["runs"]["unlike"]


def test_other_bytes_and_no_other_metric_have_a_code_of_their_own(tmp_path):
    """A small change of a kernel gives such a shift: 0 would say that nothing has changed."""
    result = compared(tmp_path, [run("X"), run("Y")], [run("X", goodput_bps=25e6 + 1), run("Y")])
    assert result["same"] and compare.code(result) == 3
    assert [r["name"] for r in result["runs"]["unlike"]] == ["X seed 1"]
    lines = compare.sentences(result)
    assert "identical to the byte: 1 of 2 runs" in lines and "other bytes: X seed 1" in lines


@pytest.mark.parametrize(
    "theirs, tolerance, differs",
    [
        (25e6 * 1.04, 0.05, False),
        (25e6 * 1.06, 0.05, True),
        (25e6 / 1.06, 0.05, True),
        (25e6 * 1.06, 0.1, False),
        (25e6 + 1, 0, True),
        (0, 0.05, True),
    ],
)
def test_one_seed_by_tolerance(tmp_path, theirs, tolerance, differs):
    result = compared(tmp_path, [run("X")], [run("X", goodput_bps=theirs)], tolerance=tolerance)
    assert row(result)["differs"] is differs and result["same"] is not differs
    assert [r["metric"] for r in result["rows"] if r["differs"]] == ["goodput_bps"] * differs


def test_several_seeds_by_the_interval_of_their_differences(tmp_path):
    """Seeds scatter by far more than the two sets differ, pair by pair: only the pairs can tell."""
    levels, steps = (10e6, 20e6, 30e6, 40e6), (1.0e5, 1.1e5, 0.9e5, 1.0e5)
    a = [run("X", s, goodput_bps=v) for s, v in enumerate(levels)]
    better = [run("X", s, goodput_bps=v + d) for s, (v, d) in enumerate(zip(levels, steps))]
    found = row(compared(tmp_path, a, better[::-1]))
    assert found["differs"] and found["difference"] == pytest.approx(interval(list(steps))) and found["seeds"] == 4
    assert found["a"] == pytest.approx(interval(list(levels)))
    assert row(compared(tmp_path, better, a))["differs"]
    mixed = [run("X", s, goodput_bps=v + d) for s, (v, d) in enumerate(zip(levels, (9e6, -8e6, 7e6, -9e6)))]
    assert not row(compared(tmp_path, a, mixed, tolerance=0))["differs"]  # the tolerance is of single seeds


def test_a_number_on_one_side_only_is_a_difference(tmp_path):
    assert row(compared(tmp_path, [run("X", rtt_p50_s=None)], [run("X")]), metric="rtt_p50_s")["differs"]


def test_invalid_runs_are_compared_with_nothing(tmp_path):
    a, b = [run("X", 1), run("X", 2)], [run("X", 1), run("X", 2, invalid=["CPU 90 % busy"], goodput_bps=1)]
    result = compared(tmp_path, a, b)
    assert result["pairs"] == 1 and not any(r["differs"] for r in result["rows"]) and not result["same"]
    assert compared(tmp_path, b, a)["pairs"] == 1
    assert "X seed 2: invalid, compared with nothing (B: CPU 90 % busy)" in compare.sentences(result)


def test_what_is_in_one_set_only_is_named(tmp_path):
    result = compared(
        tmp_path,
        [run("X"), run("Y")],
        [run("X"), run("X", 2)],
        {"C": "reproduced", "D": "reproduced"},
        {"C": "not reproduced"},
    )
    assert (result["runs"]["only_a"], result["runs"]["only_b"]) == (["Y seed 1"], ["X seed 2"]) and not result["same"]
    assert result["verdicts"]["changed"] == [{"id": "C", "a": "reproduced", "b": "not reproduced"}] and result[
        "verdicts"
    ]["only_a"] == ["D"]
    lines = " | ".join(compare.sentences(result))
    assert (
        f"runs only in {tmp_path}/a: Y seed 1" in lines
        and f"runs only in {tmp_path}/b: X seed 2" in lines
        and "1 of 1 verdicts changed" in lines
    )


def asymlab(*arguments) -> subprocess.CompletedProcess:
    return shared.asymlab("compare", *arguments)


def test_the_command(tmp_path, snapshot):
    a = leave(tmp_path / "a", [run("X"), run("<b>")], {"C": "reproduced"})
    b = leave(tmp_path / "b", [run("X", goodput_bps=30e6), run("<b>")], {"C": "not reproduced"})
    assert asymlab(a, a).returncode == 0
    done = asymlab(a, b, "--html", tmp_path / "c.html", "--json", tmp_path / "c.json")
    assert done.returncode == 1
    snapshot(f"{done.stderr}\n{asymlab(a, b, '--all').stderr}".replace(str(tmp_path), "DIR"))
    written = json.loads((tmp_path / "c.json").read_text())
    assert written["same"] is False and written["b"]["kernel"] == ["6.12"] and row(written)["differs"]
    page = (tmp_path / "c.html").read_text()
    assert "≠ differs" in page and "&lt;b&gt;" in page and "<b>" not in page and "✗ not reproduced" in page
    assert asymlab(a, b, "--tolerance", "20").returncode == 1  # the verdict
    leave(b, [run("X", goodput_bps=30e6), run("<b>")], {"C": "reproduced"})
    assert asymlab(a, b, "--tolerance", "20").returncode == 3


def broken(tmp_path, text: str) -> Path:
    folder = leave(tmp_path / "broken", [run("X")])
    (folder / "results.json").write_text(text)
    return folder


@pytest.mark.parametrize(
    "text, says",
    [
        ("{", "not JSON"),
        ('{"format": 9, "runs": []}', "results.json: not a report's results: format: Input should be 1"),
        ("[]", "not a report's results"),
        ('{"format": 1}', "not a report's results"),
        (json.dumps({"format": 1, "set": "quick", "runs": [run("X"), run("X")]}), "two runs are called X seed 1"),
        (json.dumps({"format": 1, "set": "quick", "runs": [run("other")]}), "no run in common"),
        ("[" * 99999, "not JSON"),
        ('{"format": NaN}', "NaN is no number"),
        (json.dumps({"runs": [run("X") | {"metrics": {"jain": float("nan")}}]}), "NaN is no number"),
        *(
            (json.dumps({"format": 1, "set": "quick", "runs": [run("X") | wrong]}), "not a report's results")
            for wrong in (
                {"metrics": METRICS | {"jain": "1"}},
                {"metrics": []},
                {"name": ["X"]},
                {"invalid": 3},
                {"invalid": [3]},
                {"provenance": {}},
                {"provenance": {"kernel": 6, "image": "", "qemu": "", "result_sha256": ""}},
            )
        ),
    ],
)
def test_unusable_input_is_one_line(tmp_path, text, says):
    done = asymlab(leave(tmp_path / "a", [run("X")]), broken(tmp_path, text))
    assert (
        done.returncode == 2
        and says in done.stderr
        and done.stderr.count("\n") == 1
        and done.stderr.startswith("asymlab: ")
    )


def test_a_verdict_that_there_is_not(tmp_path):
    done = asymlab(
        leave(tmp_path / "a", [run("X")], {"C": "reproduced"}), leave(tmp_path / "b", [run("X")], {"C": "\x1b[2J<b>"})
    )
    assert (
        done.returncode == 2
        and "not a report's results" in done.stderr
        and done.stderr.count("\n") == 1
        and "\x1b" not in done.stderr
    )


def test_no_report_and_no_place_to_write(tmp_path):
    a = leave(tmp_path / "a", [run("X")])
    for arguments in (
        (tmp_path / "none", a),
        (a, a, "--html", tmp_path / "no" / "c.html"),
        (a, a, "--tolerance", "-1"),
    ):
        done = asymlab(*arguments)
        assert done.returncode == 2 and "Traceback" not in done.stderr and done.stderr


def test_metrics_are_those_that_a_report_leaves():
    import inspect

    assert compare.METRICS.keys() == METRICS.keys()
    assert all(f'"{metric}"' in inspect.getsource(report.summary) for metric in compare.METRICS)


def test_loading_names_the_file(tmp_path):
    (tmp_path / "scenario.toml").touch()
    with pytest.raises(LabError, match="scenario.toml: is a file; name two folders"):
        compare.load(tmp_path / "scenario.toml")
    with pytest.raises(LabError, match="none/results.json: there is none"):
        compare.load(tmp_path / "none")


# --- two runs -----------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Makes runs that the store has."""
    monkeypatch.setattr(store, "STORE", tmp_path)

    def made(name: str = "fast", mbps: float = 25, seed: int = 1, change=lambda tables: None) -> Path:
        one = make(tmp_path, "FA-4", {"flows.controller": name}, mbps=mbps, seed=seed)
        arrays = {table: tables.read(one.folder, table) for table in ("acks", "goodput", "links")}
        change(arrays)
        tables.write(arrays, one.folder)
        digest = hashlib.sha256(pickle.dumps(arrays)).hexdigest()
        identity = one.record["identity"] | {"made": digest + name}
        return keep(
            store.Run(one.folder, one.record | {"identity": identity, "result_sha256": digest}), tmp_path
        ).folder

    return made


def test_two_runs_are_compared_whatever_they_are_called(kept, tmp_path):
    """Without a report around them: another controller, and the same run."""
    sides = [compare.load(kept(name, mbps)) for name, mbps in (("fast", 25), ("cubic", 20))]
    assert compare.run(*sides, 0.05, as_json=tmp_path / "told.json") == 1
    (row,) = (r for r in json.loads((tmp_path / "told.json").read_text())["rows"] if r["metric"] == "goodput_bps")
    assert row["case"] == "FA-4 fast seed 1 / FA-4 cubic seed 1" and row["differs"]
    assert row["b"][0] / row["a"][0] == pytest.approx(0.8, rel=0.01)
    assert compare.run(sides[0], sides[0], 0.05) == 0


def test_runs_of_unlike_seeds_are_refused(kept):
    sides = [compare.load(kept(seed=seed)) for seed in (1, 2)]
    with pytest.raises(LabError, match="FA-4 fast seed 1, FA-4 fast seed 2: of unlike seeds"):
        compare.run(*sides, 0.05)


def test_both_sides_name_their_image_and_seed(kept):
    side = compare.load(kept(seed=3))
    (run,) = side["runs"].values()
    run["provenance"]["image_name"] = "mine-uml"
    assert "seed 3, kernel 6.12.0-test, image mine-uml c0ffeec0ffee" in compare.about(compare.side(side))
    assert compare.spans([1, 2, 3, 7, 9, 10]) == "1-3, 7, 9-10"


# --- where two runs part --------------------------------------------------------------------


def state(at: int, **values):
    """Change a table's columns from a row on."""

    def change(tables):
        for column, value in values.items():
            tables["acks"][column][at:] = value

    return change


@pytest.mark.parametrize(
    "change, words",
    [
        (state(57, ssthresh=28), "t = 0.940750 s, flow 0, ACK 58: ssthresh 2147483647, 28"),
        (state(57, ssthresh=28, cwnd=9), "flow 0, ACK 58: cwnd 1001, 9; ssthresh 2147483647, 28"),
        (state(3, t=7.0), "t = 0.144250 s, flow 0, ACK 4: t 0.14425, 7"),  # by the time alone
        (lambda t: t.update(acks=t["acks"][:-1]), "ACK 400: A alone has it"),
        (lambda t: t["goodput"]["bytes"].__setitem__(5, 1), "all ACKs are the same; goodput at t = 0.500000 s: bytes"),
        (lambda t: t["links"]["drops"].__setitem__(2, 1), "all ACKs are the same; links at t = 0.200000 s: drops 0, 1"),
    ],
)
def test_the_first_ack_at_which_two_runs_part(kept, change, words):
    a, b = (store.opened(folder) for folder in (kept(), kept(change=change)))
    assert words in parting.parting(a, b)
    sides = [compare.of_runs(name, "file", [run]) for name, run in (("a", a), ("b", b))]
    result = compare.compare(*sides, 0.05)
    assert words in "".join(compare.sentences(result)) and compare.code(result) != 0


def test_a_state_comes_before_a_time(kept):
    """A kernel that takes longer differs by nanoseconds at once, and in what it does much later."""
    a, b = (
        store.opened(kept(change=change)) for change in (state(0), lambda t: (state(1, t=9.0)(t), state(9, cwnd=2)(t)))
    )
    assert "ACK 10: cwnd" in parting.parting(a, b)


def test_a_table_of_another_version_and_a_strangers_record(kept):
    a, b = store.opened(kept()), store.opened(kept(change=state(57, ssthresh=28)))
    fewer = b.acks[[c for c in b.acks.dtype.names if c != "rtt_us"]]
    b.__dict__["acks"] = fewer
    assert "ACK 58: ssthresh" in parting.parting(a, b) and "ACK 58: ssthresh" in parting.parting(b, a)
    stranger = store.Run(a.folder, a.record | {"image_name": "../x"})
    with pytest.raises(LabError, match="^x: not a run of the lab: "):
        compare.of_runs("x", "file", [stranger])


def test_what_the_tables_do_not_tell(kept):
    a = store.opened(kept())
    other = copy.deepcopy(a.record)
    other["agent"]["marks"]["end"]["tcp"] = {"src0": {"TcpExtTCPTimeouts": 3}}
    words = parting.parting(a, store.Run(a.folder, other))
    assert words.startswith("each table is the same; agent.marks.end.tcp")
    assert parting.parting(a, a) == "each table is the same"


@pytest.mark.lab
def test_a_scenario_on_two_images(scenario_file):
    """The same image twice: each run is the same."""
    p = asymlab("--image", DEFAULT_KERNEL, "--image", DEFAULT_KERNEL, scenario_file(), "--repeat", "1", "--all")
    assert p.returncode == 0 and "identical to the byte: 1 of 1 runs" in p.stderr, p.stderr
    p = asymlab("--image", DEFAULT_KERNEL, scenario_file())
    assert p.returncode == 2 and p.stderr.count("\n") == 1 and "--image twice" in p.stderr


@pytest.mark.parametrize("text", ["{", "[]", '{"metrics": 1}', "1"])
def test_a_folder_that_holds_no_run(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(LabError, match="run.json: cannot be read"):
        compare.load(tmp_path)
