# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Scenarios that begin with another file's: what comes of the two, and the one line for each thing wrong."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from asymlab import LabError
from asymlab.conformance.explore import explore
from asymlab.plan import base, scenario
from asymlab.report import papers
from asymlab.run import api, registered
from asymlab.run.tasks import plan_on_host
from tests.scenarios import CHAIN
from tests.shared import asymlab, compile_job

HEAD = 'title = "another"\nid = "OTHER"\n'
SWEEP = {
    "flows": [{"controller": "cubic"}],
    "controllers": {"cubic": {"beta": 700}},
    "sweep": {"path.reverse.rate": ["1mbit", "2mbit"], "flows.0.controller": ["reno", "bbr"]},
    "sets": {"full": {"seeds": 3, "run.duration": "5s", "sweep": {"path.reverse.rate": ["4mbit"]}}},
}


@pytest.fixture
def over(scenario_file, tmp_path):
    """Writes the base, test.toml, and beside it a file that begins with it."""

    def write(text: str, base: dict = SWEEP) -> Path:
        scenario_file(base)
        file = tmp_path / "over.toml"
        file.write_text('base = "test.toml"\n' + text)
        return file

    return write


def jobs(file: Path, which: str = "quick") -> list[dict]:
    return [compile_job(case, 1) for case in scenario.load(file, which)]


def wrong(file: Path) -> str:
    with pytest.raises(LabError) as e:
        for case in scenario.load(file):
            compile_job(case, 1)
    assert "\n" not in str(e.value) and len(str(e.value)) < 900
    return str(e.value)


# --- what comes of it ----------------------------------------------------------------------


@pytest.mark.parametrize("which", scenario.SETS)
def test_a_name_of_its_own_is_all_that_differs(over, which):
    cases, theirs = scenario.load(over(HEAD), which), scenario.load(over(HEAD).with_name("test.toml"), which)
    assert [case.name for case in cases] == [case.name.replace("TEST", "OTHER") for case in theirs]
    assert [case.seeds for case in cases] == [case.seeds for case in theirs]
    assert jobs(over(HEAD), which) == jobs(over(HEAD).with_name("test.toml"), which)


def test_it_says_only_what_differs(over, scenario_file):
    """The same as the file that says all."""
    file = over(
        f"""{HEAD}
without = ["controllers", "sweep.path.reverse.rate", "sets.full.sweep"]
profile = "tuned"
path.forward.loss = "1%"
path.reverse.rate = "3mbit"
sysctls."net.ipv4.tcp_frto" = 0
flows.ack = "delayed"
flows.1.start = "1s"
run.traffic = "plain"
sets.quick.seeds = 2

[sweep]
"flows.0.controller" = ["reno", "vegas"]
"path.mtu" = [1000, 1500]
"""
    )
    whole = scenario_file(
        title="another",
        id="OTHER",
        profile="tuned",
        forward={"loss": "1%"},
        reverse={"rate": "3mbit"},
        flow={"ack": "delayed"},
        run={"traffic": "plain"},
        flows=[{"controller": "cubic", "ack": "delayed", "start": "1s"}],
        sysctls={"net.ipv4.tcp_frto": 0},
        sweep={"flows.0.controller": ["reno", "vegas"], "path.mtu": [1000, 1500]},
        sets={"quick": {"seeds": 2}, "full": {"seeds": 3, "run.duration": "5s"}},
        name="whole.toml",
    )
    for which in scenario.SETS:
        assert jobs(file, which) == jobs(whole, which) and len(jobs(file, which)) == 4
        assert [(c.name, c.seeds) for c in scenario.load(file, which)] == [
            (c.name, c.seeds) for c in scenario.load(whole, which)
        ]


def test_a_list_takes_the_place_of_the_bases(over):
    [case] = scenario.load(over(HEAD + 'without = ["sweep", "controllers"]\n[[flows]]\ncontroller = "bbr"\n'))
    assert [flow.controller for flow in case.scenario.flows] == ["bbr"]


def test_entries_go_and_hops_change(over):
    file = over(f'{HEAD}without = ["path.hops.0"]\npath.hops.forward.queue = 7\npath.hops.1.count = 2\n', CHAIN)
    [case] = scenario.load(file)
    assert [hop.forward.queue for hop in case.scenario.path.hops] == [7, 7, 7]


def test_a_base_may_have_a_base_in_another_folder(over, tmp_path):
    over(HEAD + 'run.duration = "4s"\n', {})
    folder = tmp_path / "below"
    folder.mkdir()
    (folder / "third.toml").write_text(
        'base = "../over.toml"\ntitle = "third"\nid = "THIRD"\nrun.measure_from = "2s"\n'
    )
    [case] = scenario.load(folder / "third.toml")
    run = case.scenario.run
    assert (run.duration, run.measure_from, case.scenario.id) == (4_000_000, 2_000_000, "THIRD")
    (tmp_path / "absolute.toml").write_text(f'base = "{folder}/third.toml"\n{HEAD}')
    assert jobs(tmp_path / "absolute.toml") == jobs(folder / "third.toml")


def test_title_and_id_are_not_the_bases(over):
    assert wrong(over('title = "t"\n', {})).endswith("over.toml: id: is missing")
    assert wrong(over('id = "T"\n', {})).endswith("over.toml: title: is missing")


def test_the_base_keeps_what_it_has(over):
    """The merge works on a copy."""
    file = over(HEAD + 'flows.controller = "bbr"\nwithout = ["controllers"]\n')
    source = scenario.load(file)[0].source
    assert source.layers[1][1]["flows"][1] == {"controller": "cubic"} and "controllers" in source.layers[1][1]
    assert source.bases == [file.parent / "test.toml"]


@pytest.mark.parametrize("dot", [('"run.duration"', '"path.forward.red"'), ("run.duration", "path.forward.red")])
def test_a_set_changes_one_value_of_a_table(scenario_file, dot):
    """With quotes and without."""
    red = {"min": 5, "max": 15, "probability": "10%"}
    full = f"\n[sets.full]\n{dot[0]} = '5s'\n{dot[1]} = {{ max = 20 }}\n"
    file = scenario_file(forward={"red": red}, append=full)
    for which, duration, most in (("quick", 3, 15), ("full", 5, 20)):
        [case] = scenario.load(file, which)
        run, red_ = case.scenario.run, case.scenario.path.forward.red
        assert (run.duration, run.measure_from) == (duration * 1_000_000, 1_000_000)
        assert (red_.min, red_.max) == (5, most)


def test_a_sets_table_changes_entries(scenario_file):
    file = scenario_file(flows=[{"controller": "bbr"}], append='\n[sets.full]\nflows.1.ack = "delayed"\n')
    assert [flow.ack for flow in scenario.load(file, "full")[0].scenario.flows] == [None, "delayed"]
    with pytest.raises(LabError, match=r"flows\.7: no such entry: it has 1, from 0 on"):
        scenario.load(scenario_file(append='\n[sets.full]\nflows.7.ack = "delayed"\n'), "full")


# --- what is wrong -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, reason",
    [
        ('base = "none.toml"\n', "over.toml: base: {}/none.toml: No such file or directory"),
        ('base = "."\n', "over.toml: base: {}: Is a directory"),
        ('base = "fifo"\n', "over.toml: base: {}/fifo: not a regular file"),
        ('base = "/dev/zero"\n', "over.toml: base: /dev/zero: not a regular file"),
        (
            'base = "large.toml"\n',
            "over.toml: base: {}/large.toml: 1048577 bytes, more than the 1048576 that it may have",
        ),
        ('base = "text"\n', "over.toml: base: {}/text: not TOML: "),
        ('base = "bytes"\n', "over.toml: base: {}/bytes: not TOML: "),
        ('base = "deep.toml"\n', "over.toml: base: {}/deep.toml: tables or lists too deep in each other"),
        (f'base = "{"x" * 300}"\n', "over.toml: base: {}/xxx"),
        ('base = "a\\u001b[2J\\nb"\n', "over.toml: base: must be the name of a file"),
        ('base = "a\\u0000b"\n', "over.toml: base: must be the name of a file"),
        ('base = ""\n', "over.toml: base: must be the name of a file"),
        ("base = 3\n", "over.toml: base: must be the name of a file"),
        ('base = ["test.toml"]\n', "over.toml: base: must be the name of a file"),
        ('base = "over.toml"\n', "over.toml: base: {}/over.toml: a circle: it begins with itself"),
        ('base = "link.toml"\n', "over.toml: base: {}/link.toml: a circle: it begins with itself"),
        (
            'base = "circle.toml"\n',
            "over.toml: base: {0}/circle.toml: base: {0}/over.toml: a circle: it begins with itself",
        ),
        ('base = "1.toml"\n', "base: more than 8 files, each of which begins with the next"),
        ('base = "test.toml"\nwithout = "sweep"\n', "over.toml: without: must be a list of keys"),
        ('base = "test.toml"\nwithout = ["swep"]\n', "over.toml: without: 'swep' is no key of the base"),
        ('base = "test.toml"\nwithout = ["flows.1"]\n', "over.toml: without: 'flows.1' is no key of the base"),
        ('base = "test.toml"\nwithout = ["title"]\n', "over.toml: without: 'title' is no key of the base"),
        ('base = "test.toml"\nflows.1.ack = "every"\n', "over.toml: flows.1: no such entry: it has 1, from 0 on"),
        ('base = "test.toml"\n"flows.0.ack" = "every"\n', "over.toml: flows.0.ack: unknown key"),
        ('without = ["sweep"]\n', "over.toml: without: there is no base"),
    ],
    ids=lambda text: text[:40],
)
def test_wrong_files(scenario_file, tmp_path, text, reason):
    scenario_file()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large.toml").write_bytes(b"#" * (2**20 + 1))
    (tmp_path / "text").write_text("a = [")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "deep.toml").write_text(f"a = {'[' * 3000}{']' * 3000}\n")
    (tmp_path / "circle.toml").write_text('base = "over.toml"\n' + HEAD)
    (tmp_path / "link.toml").symlink_to("over.toml")
    for n in range(1, 9):
        (tmp_path / f"{n}.toml").write_text(f'base = "{n + 1}.toml"\n{HEAD}')
    scenario_file(name="9.toml")
    file = tmp_path / "over.toml"
    file.write_text(text + HEAD)
    error = wrong(file)
    assert error.startswith(str(file)) and reason.format(tmp_path) in error


def test_seven_bases_are_not_too_many(scenario_file, tmp_path):
    scenario_file(name="8.toml")
    for n in range(1, 8):
        (tmp_path / f"{n}.toml").write_text(f'base = "{n + 1}.toml"\n{HEAD}')
    assert len(scenario.load(tmp_path / "1.toml")) == 1


BAD = {"forward": {"queue": 0}}


@pytest.mark.parametrize(
    "wrong_base, text, key, base",
    [
        (BAD, "", "path.forward.queue", True),
        (BAD, 'path.forward.rate = "1mbit"\n', "path.forward.queue", True),
        ({}, "path.forward.queue = 0\n", "path.forward.queue", False),
        ({}, "path.forward.quue = 5\n", "path.forward.quue", False),
        ({"flow": {"ack": "no"}}, "", "flows.0.ack", True),
        ({}, 'flows.ack = "no"\n', "flows.0.ack", False),
        ({}, 'flows.0.controller = "rneo"\n', "flows.0.controller", False),
        ({"flow": {"controller": "rneo"}}, "", "flows.0.controller", True),
        ({"sweep": {"path.mtu": [7]}}, "path.mtu = 1500\n", "path.mtu", True),
        ({}, 'without = ["path.forward.rate"]\n', "path.forward.rate", True),
    ],
)
def test_who_says_what_is_wrong(over, wrong_base, text, key, base):
    """The file that is run, and the base if the key stands there."""
    file = over(HEAD + text, wrong_base)
    error = wrong(file)
    assert error.startswith(f"{file}: {key}: ")
    assert error.endswith(f" (it stands in {file.parent / 'test.toml'})") == ("it stands in" in error) == base, error


@pytest.mark.parametrize("text, base", [("", True), ('[sweep]\n"path.mtu" = [7]\n', False)])
def test_a_value_of_the_sweep_stands_there(over, text, base):
    error = wrong(over(HEAD + "path.mtu = 1500\n" + text, {"sweep": {"path.mtu": [1]}}))
    assert ("it stands in" in error) == base, error


def test_what_no_flow_uses_any_more_stands_in_the_base(over):
    file = over(HEAD + 'without = ["sweep"]\nflows.controller = "reno"\n')
    error = f"{file}: controllers.cubic: no flow uses it (it stands in {file.parent / 'test.toml'})"
    assert wrong(file) == error


# --- where scenarios are used --------------------------------------------------------------


def test_the_command_takes_it_from_anywhere(over, tmp_path):
    file = over(HEAD, {})
    p = asymlab("run", file, "--dry-run")
    assert p.returncode == 0 and "1 runs" in p.stdout + p.stderr, p
    (tmp_path / "test.toml").unlink()
    p = asymlab("run", file, "--dry-run")
    assert (p.returncode, p.stderr) == (1, f"asymlab: {file}: base: {tmp_path}/test.toml: No such file or directory\n")


def test_its_runs_are_repeated_by_its_own_name(over):
    file = over(HEAD)
    about = plan_on_host(scenario.load(file))[0].about("host")
    assert about["command"].split()[2] == str(file)
    assert about["name"].startswith("OTHER ") and about["title"] == "another"


def test_a_script_gives_a_text_with_the_bases_path(over, monkeypatch, tmp_path):
    file = over(HEAD, {})
    seen = []
    monkeypatch.setattr(api, "SCENARIOS", tmp_path / "texts")
    monkeypatch.setattr(api, "current_image", lambda name: None)
    monkeypatch.setattr(api, "plan_runs", lambda cases, guest: seen.extend(cases) or [])
    monkeypatch.setattr(api, "execute", lambda *args: {})
    api.run_scenario(f'base = "{file.parent}/test.toml"\n{HEAD}')
    assert [case.name for case in seen] == ["OTHER"]
    with pytest.raises(LabError, match=f"texts/[0-9a-f]+.toml: base: {Path.cwd()}/test.toml: No such file"):
        api.run_scenario(f'base = "test.toml"\n{HEAD}')


def test_explore_judges_the_whole_of_it(over):
    file = over(HEAD + 'run.traffic = "plain"\nrun.verify = true\nrun.audit = true\n', {})
    tree = explore.read([file])["over"]
    assert tree["path"]["mtu"] == 1000 and tree["run"]["verify"] and tree["id"] == "OTHER"


def test_a_commit_of_a_base_from_outside_is_one_of_the_scenario(scenario_file, tmp_path, monkeypatch):
    repo = tmp_path / "repo"
    (repo / "papers" / "one").mkdir(parents=True)
    (repo / "papers" / "base").mkdir()

    def git(*words: str) -> str:
        argv = ["git", "-C", repo, "-c", "user.name=n", "-c", "user.email=e", *words]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()

    def commit(words: str) -> str:
        git("add", ".")
        git("commit", "-qm", words)
        return git("rev-parse", "--short=12", "HEAD")

    git("init", "-q")
    base, folder = scenario_file(name="repo/papers/base/b.toml"), repo / "papers" / "one"
    (folder / "a.toml").write_text(f'base = "../base/b.toml"\n{HEAD}')
    (folder / "reasons.toml").write_text("a = 1\n")
    first = commit("both")
    base.write_text(base.read_text().replace("3s", "4s"))
    monkeypatch.setattr(registered, "REPO", repo)
    for cached in (registered.commit, registered._judged):
        cached.cache_clear()
    assert registered.commit(folder) == first + "+"
    second = commit("the base is longer")
    registered.commit.cache_clear()
    assert registered.commit(folder) == second
    assert [line.split(maxsplit=2)[2] for line in registered.later(first, folder)] == ["the base is longer"]
    for cached in (registered.commit, registered._judged):
        cached.cache_clear()


def test_causes_say_only_what_differs():
    """Each begins with the figure that it explains."""
    files = [f for paper in papers.names() for f in papers.scenarios(paper)]
    causes = [s for f in files for s in base.sources(f) if s.case.startswith("cause-")]
    assert len(causes) > 10 and not [s.name for s in causes if not s.tree["flows"] or "base" not in s.layers[0][1]]
