# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Plans: what they cost, how they are split, what is left of them; published runs made again; verdicts that more seeds
might change."""

from __future__ import annotations

import io
import json
import lzma
import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.table import Table
from rich.text import Text

from asymlab import LabError, cli, options
from asymlab.commands import published
from asymlab.console import PlainConsole
from asymlab.machine import arch, image
from asymlab.plan import scenario
from asymlab.report import html, part, publish, records, repeat, report, sentences, suite, terminal
from asymlab.report import papers as papers_of
from asymlab.report.absent import Absent
from asymlab.report.judged import NOT_MADE, RATIO_MAX, Judged, Ratio, Results, Sample
from asymlab.report.papers import names
from asymlab.results import record, store
from asymlab.run import cost, execute, local, registered, summary
from asymlab.run.tasks import Task, plan_runs
from tests.report.madeup import make
from tests.report.small import repack
from tests.scenarios import build, toml
from tests.shared import BUILD

GUEST = image.Image(Path("nowhere"), arch.AMD64, "6.12.0-test", "qemu", "ab" * 32, {}, 10)
SWEEP = """
[sweep]
"path.forward.rate" = {rates}
[sets.quick]
seeds = {quick}
[sets.full]
seeds = {full}
"""
CLAIMS = """
title = "A test"
subject = ""
[[claims]]
id = "T-1"
source = "Fig. 1"
says = "it is above 1"
runs = "TEST"
measure = "seed"
paper = 2
at_least = 1
"""
CODE = {"measures.py": "def seed(run):\n    return run.record['seed']\n", "figures.py": "FIGURES = ()\n"}


@pytest.fixture
def said(monkeypatch):
    """The words that go to the terminal."""
    out = io.StringIO()
    for where in (execute, options, repeat, suite, terminal):
        monkeypatch.setattr(where, "console", PlainConsole(file=out, width=300))
    return out


@pytest.fixture
def papers(tmp_path, monkeypatch):
    """Two suites in place of the papers: one with runs in both sets, one in the full set only."""
    for name, quick in (("one", 1), ("two", 0)):
        folder = tmp_path / "papers" / name
        folder.mkdir(parents=True)
        (folder / "test.toml").write_text(
            toml(build(run={"duration": "3s" if name == "one" else "4s"}))
            + SWEEP.format(rates=["1mbit", "2mbit", "10mbit"], quick=quick, full=2)
        )
        for file, text in {"claims.toml": CLAIMS, **CODE}.items():
            (folder / file).write_text(text)
    (tmp_path / "papers" / "no-suite").mkdir()
    monkeypatch.setattr("asymlab.report.papers.PAPERS", tmp_path / "papers")
    monkeypatch.setattr(store, "STORE", tmp_path / "store")
    for where in (options, published):
        monkeypatch.setattr(where, "current_image", lambda label: GUEST)
    return tmp_path


LINK = dict.fromkeys(record.Link.model_fields, 0)
METRICS = dict.fromkeys(record.Metrics.model_fields, 0) | {
    "jain_over_time": [],
    "background_bps": [],
    "busiest": "",
    "forward": LINK,
    "reverse": LINK,
    "hops": [],
    "flows": [],
}


def saved(task: Task, wall_s: float, executed: float = 1e9, **more) -> store.Run:
    """A run in the store, without tables."""
    record = (
        task.about("lab")
        | {
            "executed": executed,
            "wall_s": wall_s,
            "boot_s": 4.0,
            "key": task.key,
            "invalid": [],
            "identity": task.identity,
            "metrics_hash": store.METRICS_HASH,
            "metrics": METRICS,
            "result_sha256": "00" * 32,
            "agent": {
                "kernel": "",
                "cpu_busy": 0,
                "zero_ns": 0,
                "zero_unix_ns": 0,
                "self_check": [],
                "controllers": {},
                "marks": {},
            },
        }
        | more
    )
    (store.STORE / task.key).mkdir(parents=True)
    (store.STORE / task.key / "run.json").write_text(json.dumps(record))
    return store.held(task.key)


@pytest.fixture
def lab(monkeypatch):
    """A lab that runs nothing but stores what it was asked for."""

    def runs(left, guest, jobs, started):
        for task in left:
            started(task)
            asked.append(task.name)
            yield task, saved(task, 5.0)

    asked = []
    monkeypatch.setattr(local, "runs", runs)
    return asked


def main(monkeypatch, *argv) -> None:
    monkeypatch.setattr(sys, "argv", ["asymlab", *map(str, argv)])
    cli.main()


# --- suites -------------------------------------------------------------------------------


def test_each_folder_with_claims_is_a_suite(papers):
    assert names() == ["one", "two"]
    assert [len(suite.plan(names, GUEST).all) for names in ([], ["two"], ["all"])] == [3 + 1, 6 + 1, 12 + 1]
    with pytest.raises(LabError, match="suite three: there are one, two, all"):
        suite.plan(["three"], GUEST)


def test_a_run_that_two_scenarios_have_is_of_both(papers):
    text = (papers / "papers" / "one" / "test.toml").read_text()
    (papers / "papers" / "one" / "again.toml").write_text(text.replace('id = "TEST"', 'id = "AGAIN"'))
    made = suite.plan(["one"], GUEST)
    assert {t.case.scenario.id for t in made.tasks["one"]} == {"TEST", "AGAIN"}
    assert (len(made.tasks["one"]), len(made.all)) == (12, 6 + 1)


def test_a_run_that_two_files_of_a_scenario_have_is_judged_once(papers):
    """One file has more seeds of another's cases."""
    text = (papers / "papers" / "one" / "test.toml").read_text()
    (papers / "papers" / "one" / "more.toml").write_text(text.replace("seeds = 2", "seeds = 3"))
    made = suite.plan(["one"], GUEST)
    rows = papers_of.judged("one", Results("one", [(t, Absent.of(t)) for t in made.tasks["one"]]))
    assert sorted(s.seed for s in rows[0].samples) == 3 * [1] + 3 * [2] + 3 * [3]


def test_seeds_are_those_of_the_cases_in_the_set(papers):
    assert [len(suite.plan(names, GUEST, seeds=4).all) for names in ([], ["all"])] == [12 + 1, 24 + 1]
    assert {t.seed for t in suite.plan([], GUEST, seeds=4).tasks["one"]} == {1, 2, 3, 4}


def test_some_cases_only(papers, monkeypatch, said):
    """The papers that have such cases are run; one that fits none is named."""
    some = suite.plan(["all"], GUEST, only=["TEST 1mbit", "TEST 10*"])
    assert {t.case.name for ts in some.tasks.values() for t in ts} == {"TEST 1mbit", "TEST 10mbit"}
    assert list(suite.plan([], GUEST, only=["TEST 1mbit"]).tasks) == ["one"]  # the other has none in the quick set
    with pytest.raises(LabError, match="--only TEST 3mbit: fits no case; they are called as 'TEST 1mbit'"):
        suite.plan(["one"], GUEST, only=["TEST 1mbit", "TEST 3mbit"])
    for task in suite.plan(["one"], GUEST, only=["TEST 2mbit"]).all:
        saved(task, 5.0)
    written = []
    monkeypatch.setattr(suite.report, "write", lambda *a, **kw: written.append(a))
    monkeypatch.setattr(suite, "speed", lambda *a: {})
    main(monkeypatch, "suite", "one", "--only", "TEST 2mbit", "--report", str(papers / "report"))
    verdicts, _, runs, which, only, _ = written[0]
    assert (len(runs), which, only) == (2 + 1, "full", ["TEST 2mbit"])
    assert (verdicts[0]["verdict"], verdicts[0]["reason"]) == ("not measured", NOT_MADE)  # T-1 is of all rates
    (papers / "papers" / "one" / "claims.toml").write_text(
        CLAIMS.replace('"TEST"', '{ id = "TEST", path.forward.rate = "2mbit" }')
    )
    main(monkeypatch, "suite", "one", "--only", "TEST 2mbit", "--report", str(papers / "report"))
    assert (written[1][0][0]["verdict"], written[1][0][0]["n"]) == ("inconclusive", 2)


def test_a_case_that_the_engine_cannot_run_is_left_out_with_a_line(papers, said):
    file = papers / "papers" / "two" / "test.toml"
    file.write_text(file.read_text().replace('"TEST"', '"OTHER"').replace('"ns2"', '"impatient"'))
    made = suite.plan(["all"], GUEST)
    assert (made.only, [len(made.tasks.get(paper, [])) for paper in ("one", "two")]) == (["*"], [6, 0])
    assert {t.case.name for t in made.every["two"]} == {"OTHER 1mbit", "OTHER 2mbit", "OTHER 10mbit"}
    line = said.getvalue()
    assert line.startswith("left out: 3 cases") and "'impatient': packaged kernels have it not; take --engine" in line
    assert suite.plan(["all"], replace(GUEST, engine="uml")).only == []


@pytest.mark.parametrize(
    "measure",
    [
        'r.metrics["goodput_bps"] / 1e6 + 2',
        'max(3, r.metrics["jain"])',
        'float(r.acks["cwnd"][-1])',
        '__import__("numpy").mean(r.goodput["bytes"])',
        '[x for x in r.metrics["flows"]]',
        'r.state(1)["w_q20"].max() > 3',
    ],
)
def test_a_claim_that_reads_an_absent_run_is_not_measured(papers, monkeypatch, said, measure):
    tasks = suite.plan(["one"], GUEST, only=["TEST 2mbit"])
    absent = [(t, Absent.of(t)) for t in tasks.every["one"] if t not in tasks.tasks["one"]]
    runs = [(t, store.Run(Path(), {"key": t.key, "invalid": [], "seed": t.seed})) for t in tasks.tasks["one"]]
    results = Results("one", runs)
    v = results.judge("T-1", "", "", None, results.all("TEST"), lambda r: eval(measure, {"r": absent[0][1]}), 0)
    assert (v.verdict, v.missing) == ("not measured", NOT_MADE) and len(absent) == 4


@pytest.mark.parametrize("paper", names())
def test_no_claim_is_judged_by_runs_that_were_not_made(paper):
    """In the real papers, with all runs absent nothing is measured, and nothing breaks."""
    if paper == "page" and not (BUILD / "quinn" / "quinn-file").exists():
        pytest.skip("make quinn")
    planned = suite.plan([paper], replace(GUEST, engine="uml", kernel="7.3.0"))  # some cases need both
    absent = [(t, Absent.of(t)) for t in planned.tasks[paper]]
    claims = papers_of.judged(paper, Results(paper, absent))
    assert claims and {(c.verdict, c.missing) for c in claims} == {("not measured", NOT_MADE)}
    assert len({c.id for c in claims}) == len(claims)


@pytest.mark.parametrize("argv", [["suite", "all", "--dry-run"], ["suite", "all", "--dry-run", "--shard", "2/2"]])
def test_a_dry_run_tells_the_cost_and_runs_nothing(papers, monkeypatch, said, argv):
    monkeypatch.setattr(local, "runs", lambda *a: pytest.fail("ran"))
    monkeypatch.setattr(local, "cores", lambda: [0, 1])
    tasks = suite.plan(["all"], GUEST).all
    saved(tasks[0], 4.5)
    main(monkeypatch, *argv, "--report", str(papers / "report"))
    if "--shard" not in argv:
        assert "13 runs, 1 in the store, 12 left" in said.getvalue()
        assert f"{30 + 5 * 3 + 6 * 4} virtual seconds" in said.getvalue() and "on 2" in said.getvalue()
        row = next(line.split() for line in said.getvalue().splitlines() if line.strip().startswith("one TEST"))
        assert row[2:6] == ["6", "1", "5", "15"]
    assert not (papers / "report").exists() and len(list(store.STORE.iterdir())) == 1


@pytest.mark.parametrize("title", ["[/x]", "[bold]a[/bold] :smile:", "\\[a](b)"])
def test_a_title_is_shown_as_it_is(papers, lab, said, scenario_file, monkeypatch, title):
    monkeypatch.setattr(report, "write", lambda *a, **k: None)
    made = plan_runs(scenario.load(scenario_file(sweep={"title": [title]})), GUEST)
    execute.execute(made, GUEST)
    assert f" TEST {title} seed 1 " in said.getvalue()


def test_a_paper_s_row_comes_while_the_runs_of_others_go_on(papers, lab, monkeypatch, said):
    monkeypatch.setattr(suite, "speed", lambda *a: {})
    monkeypatch.setattr(report, "write", lambda *a, **kw: None)
    main(monkeypatch, "suite", "all", "--report", papers / "elsewhere")
    before = re.split(r"^A test: 1 .+$", said.getvalue(), flags=re.M)
    assert [part.count("TEST") for part in before] == [6, 6, 0] and len(lab) == 13


def test_nobody_moves_the_terminals_cursor(said):
    table = Table("a\x1b[2Jb\x9b\x07")
    table.add_row(Text("c\x1b]0;d\x08\r"))
    execute.console.print(table)
    execute.console.print("\x1b[31mred", Text("\x1b[0m"))
    assert (
        not set(said.getvalue()) & set(map(chr, (*range(10), *range(11, 32), *range(127, 160))))
        and "?[31mred" in said.getvalue()
    )


def test_shards_fill_the_store_and_then_the_report_comes_from_it(papers, lab, monkeypatch, said):
    monkeypatch.setattr(suite, "speed", lambda *a: {})
    written = []
    monkeypatch.setattr(report, "write", lambda verdicts, *a, folder, **k: written.append((folder, verdicts)))
    main(monkeypatch, "suite", "one", "--shard", "2/2")
    assert 1 < len(lab) < 7 and not written
    assert re_line(said, "shard 2/2").endswith(f"{7 - len(lab)} of them are missing")
    main(monkeypatch, "suite", "one", "--shard", "1/2")
    assert len(lab) == len(set(lab)) == 7 and not written
    assert re_line(said, "shard 1/2").endswith("the same command without --shard goes on from here")
    main(monkeypatch, "suite", "one", "--report", papers / "elsewhere")
    assert len(lab) == 7
    ((folder, (verdict,)),) = written
    assert folder == papers / "elsewhere" and (verdict["id"], verdict["n"], verdict["value"]) == ("T-1", 6, 1.5)


def re_line(out: io.StringIO, start: str) -> str:
    return next(line for line in out.getvalue().splitlines() if line.startswith(start))


@pytest.mark.parametrize("which", ["0/2", "3/2", "1", "1/0", "a/b", "1/2/3"])
def test_shards_that_are_none(which, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        main(monkeypatch, "suite", "--shard", which)
    assert "argument --shard: must be I/N" in capsys.readouterr().err


# --- the plan -----------------------------------------------------------------------------


def tasks_of(packets: list[int]) -> list:
    return [SimpleNamespace(identity={}, packets=n, key=f"{i:03}") for i, n in enumerate(packets)]


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 50])
def test_shards_are_disjoint_complete_balanced_and_the_same_everywhere(shards):
    tasks = tasks_of([10_000 * (i * 37 % 11) for i in range(40)])
    parts = [cost.shard(tasks, i, shards) for i in range(1, shards + 1)]
    assert sorted(t.key for part in parts for t in part) == [t.key for t in tasks]
    assert parts == [cost.shard(tasks[::-1], i, shards) for i in range(1, shards + 1)]

    def spent(part):
        return sum(cost.QEMU.expected(t.packets) for t in part)

    if shards < 40:
        assert max(map(spent, parts)) - min(map(spent, parts)) <= spent([max(tasks, key=lambda t: t.packets)])
        # No part is longer than the ideal by more than what the greedy rule may cost.
        assert max(map(spent, parts)) <= 4 / 3 * max(
            spent(tasks) / shards, spent([max(tasks, key=lambda t: t.packets)])
        )


def test_the_store_tells_what_a_packet_costs(papers, scenario_file):
    """A case that was run costs what it took; others of its scenario the mean; another one the mean of all."""
    one = plan_runs(scenario.load(papers / "papers" / "one" / "test.toml", "full"), GUEST)
    other = plan_runs(scenario.load(scenario_file(id="OTHER", mtu=500)), GUEST)
    slow, fast = one[0], one[4]
    assert (slow.packets, fast.packets) == (375, 3750)
    before = cost.survey([*one, *other])
    assert before.work[slow.key] == cost.QEMU.fixed + 375 * cost.QEMU.packet
    assert before.seconds[slow.key] == cost.QEMU.start_s + (cost.QEMU.fixed + 375 * cost.QEMU.packet) / cost.QEMU.speed
    saved(slow, cost.QEMU.start_s + 2, cost.QEMU.fixed + 375 * 100_000)
    saved(fast, cost.QEMU.start_s + 8, cost.QEMU.fixed + 3750 * 10_000)
    work = cost.survey([*one, *other])
    for task, a_packet in ((one[1], 100_000), (one[5], 10_000), (one[2], 75e6 / 4125), (other[0], 75e6 / 4125)):
        assert work.work[task.key] == pytest.approx(cost.QEMU.fixed + task.packets * a_packet)
    speed = (2 * cost.QEMU.fixed + 75e6) / 10
    assert work.seconds[one[1].key] == pytest.approx(cost.QEMU.start_s + work.work[one[1].key] / speed)
    assert work.left[0] is other[0] and len(work.left) == 5 and set(work.done) == {slow.key, fast.key}
    assert work.cost == pytest.approx(sum(work.seconds[t.key] for t in work.left))
    everything = cost.survey([*one, *other], fresh=True)
    assert len(everything.left) == 7 and everything.seconds == work.seconds


def test_a_slow_ack_path_is_no_bound_of_the_packets(scenario_file):
    """An ACK may stand for many. Data that come back count as well."""
    slow = {"reverse": {"rate": "20kbit"}}
    back = {"flows": [{"controller": "reno", "direction": "reverse"}]}
    files = scenario_file(slow), scenario_file(slow, back, name="both.toml")
    packets = [plan_runs(scenario.load(file), GUEST)[0].packets for file in files]
    assert packets == [3750, 3758]  # of 1000 bytes in 3 s: 10 Mbit/s; and 20 kbit/s, 7.5


def test_the_longest_run_bounds_the_time(papers):
    tasks = plan_runs(scenario.load(papers / "papers" / "one" / "test.toml", "full"), GUEST)
    work = cost.survey(tasks)
    longest = work.seconds[work.left[0].key]
    assert work.line(2).endswith(f"about {cost.span(work.cost)} of one core, {cost.span(work.cost / 2)} on 2")
    assert work.line(100).endswith(f"{cost.span(longest)} on 100")


def test_the_time_left_goes_by_cost(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(cost.time, "monotonic", lambda: now[0])
    big, small = (SimpleNamespace(key=k) for k in "ab")
    left = cost.Forecast(cost.Survey([big, small], {}, [big, small], {}, {"a": 900, "b": 100}))
    assert str(left) == ""
    left.started(big)
    now[0] += 450  # as fast as the model says
    assert str(left) == "9.2 min left"
    now[0] += 1340  # it should have ended long ago
    assert str(left) == "7.0 min left"
    now[0] += 10  # half as fast: 900 of 1000 took 1800 s
    left.ended(big)
    assert str(left) == "3.3 min left"


def test_times_in_words():
    assert [cost.span(s) for s in (0, 119, 120, 7199, 7200, 90_000)] == [
        "0 s",
        "119 s",
        "2.0 min",
        "120 min",
        "2.0 h",
        "25 h",
    ]


def test_virtual_machines_of_two_labs_take_different_cores(monkeypatch):
    monkeypatch.setattr(local, "cores", lambda: [1001, 1002])
    with local.own_core() as a:
        with local.own_core() as b, local.own_core() as c, local.own_core() as d, local.own_core() as e:
            assert (a, b, c, d, e) == (1001, 1002, 1001, 1002, 1001)
        with local.own_core() as d:
            assert d == 1002
    code = """
from asymlab.run import local
local.cores = lambda: [1001, 1002]
with local.own_core() as core:
    print(core)
"""
    with local.own_core():
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "1002\n"


def test_the_store_may_be_elsewhere(tmp_path):
    code = "from asymlab import paths; print(paths.STORE)"
    p = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "ASYMLAB_STORE": str(tmp_path / "a")},
        capture_output=True,
        text=True,
    )
    assert p.stdout == f"{tmp_path}/a\n"


def test_a_found_run_keeps_the_commit_of_its_claims(papers):
    task = suite.plan(["one"], GUEST).tasks["one"][0]
    saved(task, 1.0, registered="0123456789ab")
    assert cost.survey([task]).done[task.key].record["registered"] == "0123456789ab"
    assert task.made("lab")["registered"] == ""  # the folder is in no checkout


def test_a_folder_at_the_root_is_in_no_checkout():
    assert registered.commit(Path("/tmp")) == registered.commit(Path("/")) == ""


# --- published runs, made again -------------------------------------------------------------


@pytest.fixture
def kept(papers):
    """A published part of six runs and of a row for each rate; all have the hash of the `lab`'s runs."""
    tasks = suite.plan(["one"], GUEST).tasks["one"]
    provenance = {"kernel": "6.12.0-test", "image": GUEST.hash, "qemu": tasks[0].identity["qemu"]["version"]}
    provenance |= {"objects": {}, "result_sha256": "00" * 32}
    runs = [
        {"name": t.name, "key": t.key, "invalid": [], "command": f"asymlab run {t.name}", "provenance": provenance}
        for t in tasks
    ]
    rows = [
        Judged(
            id=f"T {rate}",
            paper="one",
            source="Fig. 1",
            claim="a claim",
            check=True,
            samples=[Sample(t.seed, t.key, 1) for t in tasks if f" {rate} " in t.name],
        )
        for rate in ("1mbit", "2mbit", "10mbit")
    ]
    folder = papers / "results"
    results = {"set": "full", "runs": runs, "papers": {"one": [t.key for t in tasks]}, "image_name": "6.12"}
    nothing = Results("one", []).not_measured("T-1", "Fig. 1", "a claim", "none")
    one = part.of_report("one", [*rows, nothing], results, papers / "none")
    publish.write([one], [publish.data(one)], folder, papers / "none", False)
    return folder


def again(monkeypatch, *argv) -> int:
    """The exit code."""
    try:
        main(monkeypatch, "repeat", *argv)
    except SystemExit as e:
        return e.code
    return 0


def damage(folder: Path, *replace: tuple[str, str]) -> None:
    """Replace words of the data of the part."""
    file = folder / "one" / records.DATA
    text = lzma.decompress(file.read_bytes()).decode()
    for old, new in replace:
        assert old in text, old
        text = text.replace(old, new, 1)
    file.write_bytes(lzma.compress(text.encode()))


def test_a_row_is_repeated_by_its_own_runs(kept, lab, monkeypatch, said):
    assert again(monkeypatch, "one", "T 2mbit", "--from", kept) == 0
    assert sorted(lab) == ["TEST 2mbit seed 1", "TEST 2mbit seed 2"]
    assert said.getvalue().splitlines()[-1] == "2 runs, all the same bytes"
    assert again(monkeypatch, "one", "T 1mbit", "T 2mbit", "--from", kept) == 0
    assert len(lab) == len(set(lab)) == 4  # the others come from the store, and it says so
    assert said.getvalue().splitlines()[-1].startswith("4 runs, all the same bytes (2 from the store; ")
    assert again(monkeypatch, "one", "--from", kept) == 0
    assert len(lab) == 6 and "differ" not in said.getvalue()


def test_another_hash_is_told(kept, lab, monkeypatch, said):
    damage(kept, ('"result":"000000000000', '"result":"a1a1a1a1a1a1'))
    changed = part.read(kept / "one").runs[0].name
    assert again(monkeypatch, "one", "--from", kept) == 1
    assert f"{changed}: published a1a1a1a1a1a1, here 000000000000" in said.getvalue().splitlines()
    last = said.getvalue().splitlines()[-1]
    assert last.startswith("1 of 6 differ: published by commit ") and f"image {GUEST.hash[:12]}; here commit " in last
    other = next(rate for rate in ("1mbit", "2mbit") if f" {rate} " not in changed)
    assert again(monkeypatch, "one", f"T {other}", "--from", kept) == 0  # that row does not rest on it


def test_another_image_is_told_first(kept, lab, monkeypatch, said):
    repack(kept / "one", lambda data: data["about"].update(image=["cd" * 32], commits=["0123456789ab", "fedcba9"]))
    assert again(monkeypatch, "one", "--from", kept) == 0
    lines = said.getvalue().splitlines()
    assert lines[0] == "image: published cdcdcdcdcdcd, here abababababab"
    assert "those published are of commit 0123456789ab, fedcba9" in lines[1]
    assert lines[-1] == "6 runs, all the same bytes"


def test_another_kernel_is_told(kept, lab, monkeypatch, said):
    """The distribution's may have moved on: no checkout brings it back."""
    damage(kept, ("6.12.0-test", "6.11.9-test"))
    assert again(monkeypatch, "one", "T 1mbit", "--from", kept) == 0
    assert said.getvalue().splitlines()[0] == "kernel: published 6.11.9-test, here 6.12.0-test"


def test_another_controller_is_told(kept):
    one = part.read(kept / "one")
    one.about.objects["fast.bpf.o"] = ["12" * 32]
    identity = {"qemu": {"version": one.about.qemu[0]}, "objects": {"fast.bpf.o": "12" * 32}}
    same, other = identity, identity | {"objects": {"fast.bpf.o": "34" * 32, "thin.bpf.o": "56" * 32}}

    def differences(identity):
        return repeat.Plan(one, GUEST, [({}, SimpleNamespace(identity=identity))]).differences()

    assert differences(same) == []
    assert differences(other) == [
        "fast.bpf.o: published 121212121212, here 343434343434",
        "thin.bpf.o: published none, here 565656565656",
    ]


def test_a_dry_run_repeats_nothing(kept, monkeypatch, said):
    monkeypatch.setattr(local, "runs", lambda *a: pytest.fail("ran"))
    assert again(monkeypatch, "one", "T 10mbit", "--from", kept, "--dry-run") == 0
    assert "2 runs, 0 in the store, 2 left" in said.getvalue()


@pytest.mark.parametrize(
    "argv, change, words",
    [
        (["one", "T 3mbit"], None, "no row 'T 3mbit'; there are T 1mbit, T 2mbit"),
        (["one", "T-1"], None, "the runs of T-1 are not published"),
        (["three"], None, "three: no published results"),
        (["one"], [('"image_name":"6.12"', '"image_name":"9.9"')], "image 9.9"),
        (["one"], [("TEST 1mbit seed 1", "TEST 4mbit seed 1")], "TEST 4mbit seed 1: no run of this tree's"),
        (["one"], [("1mbit seed 1", "1mbit seed x")], "the runs of T 1mbit: invalid literal for int()"),
        (["one"], [('"result":"', '"result":"abcdefabcdef')], "6 runs, and hashes of 7"),
        (["one"], [("[1.0,", "[null,")], "T 1mbit: a run has no value"),
        (["one"], [("[1.0,1.0]", "[1e308,-1e308]")], "T 1mbit: no interval"),
        (["one"], [("[1.0,1.0]", '["one",1.0]')], "values.0.values.0: Input should be a valid number"),
        (["one"], [("[1.0,1.0]", "[1.0]")], "the runs of T 1mbit: zip() argument"),
        (["one"], [('"runs":[0', '"runs":[99')], "the runs of T 1mbit: list index out of range"),
        (["one"], [('"check":true', '"check":1')], "claims.0.check: Input should be a valid boolean"),
        (["one"], [('"image":', '"picture":')], "results.json.xz: not a report's results: about.image: Field required"),
    ],
)
def test_what_cannot_be_repeated(kept, lab, monkeypatch, capsys, argv, change, words):
    if change:
        damage(kept, *change)
    monkeypatch.setattr(
        published, "current_image", lambda label: GUEST if label == image.DEFAULT_KERNEL else image.open_image(label)
    )
    assert again(monkeypatch, *argv, "--from", kept) == 2
    told = capsys.readouterr().err
    assert words in told and told.count("\n") == 1 and lab == []


def test_a_run_tells_its_hash(tmp_path, monkeypatch, said):
    monkeypatch.setattr(summary, "console", execute.console)
    run = make(tmp_path, "FA-4")
    summary.print_runs([run], {run.key: tmp_path / "page.html"})
    assert said.getvalue().startswith("ACKs: delayed, as Linux sends them\n")
    assert f"FA-4 seed 1: figures and numbers in {tmp_path}/page.html" in said.getvalue().splitlines()
    assert f"FA-4 seed 1: result_sha256 {'ab' * 32}" in said.getvalue().splitlines()
    assert said.getvalue().splitlines()[-1] == f"FA-4 seed 1: kept in {run.folder}"  # pages refer to the last line


def test_a_run_tells_who_got_what(tmp_path, monkeypatch, said):
    monkeypatch.setattr(summary, "console", execute.console)
    run = make(tmp_path, "FA-4")
    rtt = {"p50": 0.04, "p95": 0.05}
    run.metrics["flows"] = [
        {"flow": 0, "controller": "fast", "goodput_bps": 9e6, "rtt_s": rtt, "retransmits": 3},
        {"flow": 1, "controller": "cubic", "goodput_bps": 1e6, "rtt_s": None, "retransmits": 0},
    ]
    summary.print_runs([run], {})
    lines = [line.split() for line in said.getvalue().splitlines()]
    assert "FA-4 seed 1 0 fast 9.000 90.0% 40.0 50.0 3".split() in lines
    assert "FA-4 seed 1 1 cubic 1.000 10.0% - - 0".split() in lines


# --- verdicts -----------------------------------------------------------------------------


def judged(values: list[float], measure=lambda r: r.record["value"], invalid: int = 0, **bounds) -> Judged:
    runs = [
        store.Run(
            Path(),
            {"key": str(i), "name": f"run {i}", "seed": i, "value": v, "invalid": ["bad"] if i < invalid else []},
        )
        for i, v in enumerate(values)
    ]
    return Results("one", []).judge("T-1", "Fig. 1", "claim", None, runs, measure, **bounds)


def test_a_ratio_of_equal_samples_is_within_their_range():
    v = judged([0.007352941176470588] * 10, Ratio(lambda r: r.record["value"]), at_most=1)
    assert v.low == v.value == v.high


@pytest.mark.parametrize(
    "values, bounds, verdict",
    [
        ([1.0, 1.1, 0.9], {"at_least": 0.5}, "reproduced"),
        ([1.0, 1.1, 0.9], {"at_least": 0.95}, "inconclusive"),
        ([1.0, 1.1, 0.9], {"at_least": 1.05}, "inconclusive"),
        ([1.0, 1.1, 0.9], {"at_most": 1.05}, "inconclusive"),
        ([1.0, 1.1, 0.9], {"at_least": 0.5, "at_most": 1.2}, "inconclusive"),
        ([1.0, 1.1, 0.9], {"at_least": 2}, "not reproduced"),
        ([1.0], {"at_least": 1.0}, "reproduced"),
        ([1.0, 1.1, 0.9], {"at_least": 0.89, "worst": True}, "reproduced"),
        ([1.0, 1.1, 0.88], {"at_least": 0.89, "worst": True}, "not reproduced"),
        ([1.0, 1.0], {"at_least": 1.0}, "reproduced"),
        ([1.0, 1.1, 0.9], {"at_least": 0.5, "check": True}, "holds"),
        ([1.0, 1.1, 0.9], {"at_least": 0.95, "check": True}, "undecided"),
        ([1.0, 1.1, 0.9], {"at_least": 2, "check": True}, "fails"),
    ],
)
def test_the_whole_interval_decides(values, bounds, verdict):
    v = judged(values, **bounds)
    assert (v.verdict, v.n, v.check) == (verdict, len(values), "check" in bounds)
    assert v.low <= v.value <= v.high and math.isfinite(v.low)
    bound = next((b for b in (bounds.get("at_least"), bounds.get("at_most")) if b and v.low < b < v.high), None)
    (told,) = sentences.verdicts([v], {})
    said = f"the 95 % interval holds {bound or 0:.4g}; more seeds: `asymlab suite one --seeds 6`" in told["reason"]
    assert said == bool(bound)
    assert ("(one run)" in html.word(told)) == (len(values) == 1)


@pytest.mark.parametrize(
    "values, ends, verdict",
    [
        ([0.98, 0.98, 0.98], (0.98, 0.98), "not reproduced"),
        ([1.0, 1.00001, 1.0, 1.0], (1.0, 1.00001), "reproduced"),  # one value where it is published
        ([0.98, 0.98, 0.98, 0.975], (0.975, 0.98), "not reproduced"),
        ([1.3, 1.3, 1.3, 1.295, 1.295], (1.295, 1.3), "reproduced"),
        ([1.002, 1.002, 1.002, 0.998], (0.998, 1.002), "inconclusive"),
    ],
)
def test_runs_that_hardly_differ_are_no_sample(values, ends, verdict):
    v = judged(values, at_least=1)
    assert (v.low, v.high) == ends and (v.verdict, v.sampled) == (verdict, False)
    assert v.low <= v.value <= v.high
    (told,) = sentences.verdicts([v], {})
    assert "interval" not in told["reason"] and told["distinct"] == v.distinct <= 2
    assert ("both sides of 1" in told["reason"]) == (verdict == "inconclusive")
    assert judged([1.3, 1.2], at_least=1).sampled and judged([1.3, 1.2, 1.1, 1.1], at_least=1).sampled
    assert judged([37 / 41] * 5 + [38 / 41], at_least=0.9).verdict == "inconclusive"  # a count is a sample, too


def test_ratios_are_averaged_on_the_logarithmic_scale():
    """Twice and half of a rival's goodput are equal to it; a rival that has nothing is no infinity."""
    v = judged([2.0, 0.5], lambda r: r.record["value"], at_least=1)
    assert v.value == pytest.approx(1.25)
    v = judged([2.0, 0.5], Ratio(lambda r: r.record["value"]), at_least=1)
    assert v.value == pytest.approx(1) and v.low * v.high == pytest.approx(1)
    assert judged([1e12, 1e12], Ratio(lambda r: r.record["value"]), at_least=1).value == pytest.approx(RATIO_MAX)
    assert judged([0.0, 0.0], Ratio(lambda r: r.record["value"]), at_least=1).value == pytest.approx(1 / RATIO_MAX)


def test_a_verdict_counts_the_runs_it_used():
    assert judged([1, 1, 1], invalid=2, at_least=0).n == 1
    assert judged([1], invalid=1, at_least=0).n == 0
