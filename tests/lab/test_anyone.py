# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Anyone's controllers, by the paths of their objects and sources: those of tests/anyone, which have a trait each."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from asymlab import LabError, cli
from asymlab.commands import costs
from asymlab.console import PlainConsole
from asymlab.link.path import Link, names, points, tree
from asymlab.machine.image import DEFAULT_KERNEL, open_image
from asymlab.machine.kernel import decompress
from asymlab.paths import BUILD, EXPERIMENTS
from asymlab.plan import compiler, objects, scenario
from asymlab.plan.toml import plain
from asymlab.plan.topology import plan_job
from asymlab.profile import bench
from tests.ktap import built, parse
from tests.shared import LAB, REPO, asymlab, one_line, run, runs

SOURCES = REPO / "tests" / "anyone"
# Packets of the window that each one keeps: so a run tells which it was.
WINDOWS = {
    "link.bpf.c": 10,
    "several.bpf.c:few": 5,
    "several.bpf.c:many": 20,
    "several.bpf.c:nameless": 5,
    "kconfig.bpf.c": 10,
    "parameters.bpf.c": 10,
    "map.bpf.c": 10,
    "beside.bpf.c": 10,
}


@pytest.fixture
def folder(tmp_path) -> Path:
    shutil.copytree(SOURCES, tmp_path, dirs_exist_ok=True)
    return tmp_path


def flow(controller: str, **given) -> dict:
    """The one flow's controller; and what a table of its name gives."""
    named = {"controllers": {controller: given}} if given else {}
    return {"flow": {"controller": controller}, **named}


def planned(file: Path):
    (case,) = scenario.load(file)
    return case, plan_job(case, 1)


# --- what a path stands for ----------------------------------------------------------------


def test_a_path_begins_at_the_file_that_has_it(scenario_file, folder):
    """Not at the scenario that is run, if that begins with another, nor where the command is run."""
    (folder / "sub").mkdir()
    scenario_file(flow("./link.bpf.c"), name="base.toml")
    over = folder / "sub" / "over.toml"
    over.write_text('base = "../base.toml"\ntitle = "t"\nid = "T"\n')
    case, job = planned(over)
    assert case.files == {"link": objects.File(folder / "link.bpf.c")}
    assert [(c.name, c.object, c.loader) for c in job.controllers] == [("link", "link", "asymcc")]
    assert {f.controller for f in job.flows} == {"link"}
    over.write_text(over.read_text() + 'flows.controller = "./link.bpf.c"\n')
    with pytest.raises(LabError, match=r"over.toml: flows.0.controller: './link.bpf.c': no such file: .*/sub/link"):
        planned(over)


def test_names_of_paths_are_free_ones(scenario_file, folder):
    """Two files of one name, one that is called as a controller of ours, one with a name that is given."""
    (folder / "other").mkdir()
    for name in ("other/link.bpf.c", "Fast-and-loud-and-long.bpf.c", "fast.bpf.c", "use.bpf.c"):
        shutil.copy(folder / "link.bpf.c", folder / name)
    names = ("./other/link.bpf.c", "Fast-and-loud-and-long.bpf.c", "fast.bpf.c", "use.bpf.c", "link_2")
    more = {"controllers": {"link_2": {"object": "./parameters.bpf.c", "window": 3}}}
    case, job = planned(scenario_file(flow("./link.bpf.c"), more, flows=[{"controller": name} for name in names]))
    called = {file.path.relative_to(folder).as_posix(): name for name, file in case.files.items()}
    assert called == {
        "link.bpf.c": "link",
        "other/link.bpf.c": "link_3",
        "Fast-and-loud-and-long.bpf.c": "fast_and_loud_a",
        "fast.bpf.c": "fast_2",
        "use.bpf.c": "use_2",
        "parameters.bpf.c": "link_2",
    }
    (second,) = (c for c in job.controllers if c.name == "link_2")
    assert (second.object, second.set) == ("link_2", {"window": 3})


def test_a_chosen_controller_gives_its_name(scenario_file, folder):
    second = {"flows": [{"controller": "./several.bpf.c:many"}]}
    case, job = planned(scenario_file(flow("./several.bpf.c:few"), second))
    assert [(c.name, c.object) for c in job.controllers] == [("few", "few:few"), ("many", "many:many")]


@pytest.mark.parametrize(
    "controller, why",
    [
        ("./lost.bpf.o", "flows.0.controller: './lost.bpf.o': no such file: "),
        ("./folder", "flows.0.controller: './folder' is neither an object (.bpf.o) nor a source (.bpf.c)"),
        ("./text.bpf.o", "text.bpf.o: not a BPF object: it is no ELF file: build it with `clang -target bpf"),
        ("./true.o", "true.o: not a BPF object: it is an ELF file, but not of BPF"),
        ("./tool.bpf.o", "tool.bpf.o is not a controller: it has no tcp_congestion_ops in section"),
        ("./several.bpf.c", "several.bpf.c has 3 controllers, choose one by FILE:NAME; it has: few, many, nameless"),
        ("./several.bpf.c:nix", "several.bpf.c has no controller nix; it has: few, many, nameless"),
    ],
)
@built
def test_what_is_none_is_told(scenario_file, folder, controller, why):
    (folder / "text.bpf.o").write_text("no object")
    shutil.copy("/bin/true", folder / "true.o")
    shutil.copy(BUILD / "thin.bpf.o", folder / "tool.bpf.o")
    one_line(asymlab("run", scenario_file(flow(controller)), "--image", LAB), why)


@built
def test_the_compilers_words_come_before_the_line(scenario_file, folder):
    """And a crash of the compiler leaves nothing behind: clang 14 has no signed division."""
    (folder / "wrong.bpf.c").write_text('#include "fixed.h"\nFIXED(wrong, ".struct_ops", window)\n')
    r = asymlab("run", scenario_file(flow("./wrong.bpf.c")), "--image", LAB)
    *words, line = r.stderr.splitlines()
    assert r.returncode == 1 and any("undeclared identifier 'window'" in word for word in words)
    assert line.startswith(f"asymlab: {folder}/wrong.bpf.c: clang does not compile it: ") and "'window'" in line


def test_a_signed_division_is_told_without_the_compilers_stack(capsys):
    crash = (
        "fatal error: error in backend: Cannot select: 0x1: i32 = sdiv 0x2, 0x3\nPLEASE submit a bug report\nStack dump"
    )
    with pytest.raises(
        LabError, match="mine.bpf.c: clang does not .*; BPF has no signed division: make both sides unsigned"
    ):
        compiler.check_compiled(Path("mine.bpf.c"), "clang", 1, crash)
    assert "Cannot select" in (told := capsys.readouterr().err) and "dump" not in told


@pytest.mark.parametrize("name", ["@opts.bpf.c", "-olink.bpf.c"])
def test_a_sources_name_is_no_option_of_the_compiler(scenario_file, folder, name):
    """clang reads options from @FILE, and one of them loads a library into it; so does each part that it starts."""
    (folder / "opts.bpf.c").write_text("-fplugin=./library.so link.bpf.c")
    shutil.copy(folder / "link.bpf.c", folder / name)
    (folder / "innocent.bpf.c").symlink_to(name)
    for controller in (name, f"./{name}", "./innocent.bpf.c"):
        with pytest.raises(LabError, match=r"a name that begins with '-' or '@' is an option of compilers: rename"):
            planned(scenario_file(flow(controller)))


def test_names_of_others_are_not_taken(scenario_file, folder):
    for name in ("fast", "cubic"):
        file = scenario_file(flow(name, object="./link.bpf.c"))
        with pytest.raises(LabError, match=f"controllers.{name}.object: '{name}' is the name of another controller"):
            planned(file)


def test_link_takes_paths(folder, monkeypatch):
    monkeypatch.chdir(folder)
    link = Link("5mbit", "40ms", duration="4s", alone=True)
    scenario_tree = tree(link, points(link, names(["./link.bpf.c", "./several.bpf.c:many+thin", "cubic"], link)))
    flows = {point["title"]: point["flows"][0]["controller"] for point in scenario_tree["sweep"]["points"]}
    several = f"{folder}/several.bpf.c:many"
    assert flows == {
        "./link.bpf.c": f"{folder}/link.bpf.c",
        "./several.bpf.c:many": several,
        "cubic": "cubic",
        "./several.bpf.c:many+thin": several,
    }
    with pytest.raises(LabError, match="no such file"):
        names(["./lost.bpf.o"], link)


# --- what runs -----------------------------------------------------------------------------


def window(r) -> int:
    """At the end of the run."""
    return int(r.acks["cwnd"][-1])


@pytest.mark.lab
@built
def test_each_trait_runs(scenario_file, folder):
    sweep = {"flows.controller": [f"./{name}" for name in (*WINDOWS, "kfunc.bpf.c", "constant.bpf.c")]}
    by_name = {r.record["point"]["flows.controller"].removeprefix("./"): r for r in runs(scenario_file(sweep=sweep))}
    assert {name: window(by_name[name]) for name in WINDOWS} == WINDOWS
    assert window(by_name["constant.bpf.c"]) in (9, 10, 11)
    assert by_name["kfunc.bpf.c"].metrics["goodput_bps"] > 0.9 * 10e6 * by_name["kfunc.bpf.c"].job.payload_share


@pytest.mark.lab
@built
def test_parameters_are_set_and_the_objects_hash_is_the_runs(scenario_file, folder):
    def mine(**given):
        return run(scenario_file(flow("mine", object="./parameters.bpf.c", **given)))

    first, second = mine(), mine(window=12, less=-3)
    assert (window(first), window(second)) == (10, 15)
    assert first.record["identity"]["objects"] == second.record["identity"]["objects"]
    source = folder / "parameters.bpf.c"
    source.write_text(source.read_text().replace("window = 10", "window = 11"))
    changed = mine()
    assert changed.key != first.key and window(changed) == 11
    elsewhere = folder / "elsewhere"
    shutil.copytree(SOURCES, elsewhere)
    moved = objects.data(objects.File(elsewhere / "link.bpf.c"), BUILD / "image" / LAB)
    assert moved == objects.data(objects.File(folder / "link.bpf.c"), BUILD / "image" / LAB)


# --- modules -------------------------------------------------------------------------------


def packaged(name: str) -> bytes:
    """A module of the kernel that the packaged image was made of."""
    release = open_image(DEFAULT_KERNEL).kernel
    (file,) = (BUILD / "apt" / "unpacked").glob(f"*/**/modules/{release}/**/tcp_{name}.ko*")
    data = file.read_bytes()
    return data if file.suffix == ".ko" else decompress(data, file)


def called(module: bytes, old: str, new: str) -> bytes:
    """A module that registers by another name of at most as many letters. Its signature is wrong then."""
    renamed = module.replace(f"{old}\0\0\0".encode(), f"{new:\0<{len(old)}}\0\0\0".encode())
    assert renamed != module
    return renamed


@pytest.mark.lab
@built
def test_a_module_runs_as_the_kernels_own(scenario_file, tmp_path):
    """A packaged one by another name, which the kernel has not; and Linux's, by its own."""
    (tmp_path / "tcp_own.ko").write_bytes(called(packaged("bic"), "bic", "own"))
    (tmp_path / "tcp_wrong.ko").write_bytes((tmp_path / "tcp_own.ko").read_bytes())
    own = run(scenario_file(flow("./tcp_own.ko")), DEFAULT_KERNEL)
    slow = run(scenario_file(flow("own", object="./tcp_own.ko", initial_ssthresh=20)), DEFAULT_KERNEL)
    linux = run(scenario_file(flow("bic")), DEFAULT_KERNEL)
    assert list(own.acks["cwnd"]) == list(linux.acks["cwnd"])
    assert own.key != slow.key and list(slow.acks["cwnd"]) != list(own.acks["cwnd"])
    one_line(
        asymlab("run", scenario_file(flow("./tcp_wrong.ko")), "--engine", "qemu"), "the kernel has ", ", and no wrong"
    )


@built
def test_a_module_that_cannot_run_is_told(scenario_file, tmp_path):
    module = packaged("illinois")
    release = open_image(DEFAULT_KERNEL).kernel.encode()
    for name, data in (
        ("tcp_mine.ko", module),
        ("tcp_other.ko", module.replace(release, b"9" + release[1:])),
        ("tcp_text.ko", b"no module"),
        ("tcp_true.ko", Path("/bin/true").read_bytes()),
        ("tcp_bbr.ko", module),
    ):
        (tmp_path / name).write_bytes(data)

    def error_of(controller: str, *options: str, **given) -> str:
        r = asymlab("run", scenario_file(flow(controller, **given)), *(options or ("--engine", "qemu")))
        one_line(r)
        return r.stderr

    assert "the kernel of uml takes no modules; take --engine qemu" in error_of("./tcp_mine.ko", "--image", LAB)
    assert "was built for Linux 9" in error_of("./tcp_other.ko")
    for name in ("text", "true"):
        assert "not a kernel module: it tells no kernel that it was built for" in error_of(f"./tcp_{name}.ko")
    assert "a module called 'bbr', as another is: rename it" in error_of("./tcp_bbr.ko")
    assert "a module has no :NAME" in error_of("./tcp_mine.ko:mine")
    assert "has no such parameter; it has theta, win_thresh" in error_of("mine", object="./tcp_mine.ko", nix=1)
    for command in ("bench", "check-kernels", "link"):
        options = ("--rate", "5mbit", "--rtt", "20ms", "--engine", "qemu") if command == "link" else ()
        one_line(asymlab(command, *options, tmp_path / "tcp_mine.ko"), "tcp_mine.ko: ", " a module ")
    assert "leave the key out" in error_of("mine", object="./tcp_mine.ko", loader="kernel")


@pytest.mark.lab
@built
def test_check_kernels_takes_a_path(folder):
    r = asymlab("check-kernels", "--kernel", "6.12", folder / "kfunc.bpf.c", timeout=600)
    ((ok, _, results),) = parse(r.stdout.splitlines()).values()
    outcomes = results["kfunc"][2]
    assert ok and outcomes["carries a bulk transfer"][0] and "SKIP" in str(outcomes["registers by bpftool alone"]), r
    assert list(results) == ["kfunc"], "what else the verifier refuses is no answer about this object"
    one_line(asymlab("check-kernels", "--record", folder / "kfunc.bpf.c"), "only controllers of bpf/ are recorded")


@pytest.mark.lab
@built
def test_explore_takes_a_path(folder):
    r = asymlab("explore", "--controller", folder / "kfunc.bpf.c", "--count", "2", "--image", LAB)
    assert r.returncode == 0 and "2 paths, 0 invalid" in r.stderr


@pytest.mark.lab
@built
def test_bench_takes_a_path(folder, tmp_path, monkeypatch):
    """The runs are short: that steady states are compared is no subject here."""
    (tmp_path / "bench").mkdir()
    tree = tomllib.loads((EXPERIMENTS / "bench" / "cases.toml").read_text())
    cases = {name: tree["cases"][name] for name in ("ack", "ack-l4s")}
    cases["ack"]["run"] |= {"duration": "2s", "measure_from": "0s"}
    (tmp_path / "bench" / "cases.toml").write_text(plain(tree | {"cases": cases}))
    out = io.StringIO()
    for where, name, value in (
        (costs, "EXPERIMENTS", tmp_path),
        (bench, "FOLDER", tmp_path / "made"),
        (costs, "console", PlainConsole(file=out, width=200)),
        (sys, "argv", ["asymlab", "bench", str(folder / "kfunc.bpf.c")]),
    ):
        monkeypatch.setattr(where, name, value)
    cli.main()
    rows = {line.split()[0]: line.split() for line in out.getvalue().splitlines() if line.strip()}
    assert 0 < int(rows["kfunc"][1]) < 200, rows


def test_sources_are_compiled_as_ours(folder):
    """The flags stand in one file."""
    assert "@bpf/cflags" in (REPO / "Makefile").read_text()
    subprocess.run(["clang", "@bpf/cflags", "-fsyntax-only", "-xc", "/dev/null"], cwd=REPO, check=True, timeout=60)
