# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The fixtures of the tests on this machine's own kernel."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import pytest

from tests.live.cgroups import HOME, Cgroup, remove_cgroup
from tests.live.harness import ASYMCC, CGROUP2, ROOT, STATE, asymcc, compile_bpf, run, unique
from tests.live.pairs import joined_ends
from tests.live.sources import FOREIGN, HOOK, HOOKS, build_halves


def is_anothers(file: Path) -> bool:
    """Does it name a controller of a test that runs in another process?"""
    with contextlib.suppress(FileNotFoundError):
        pids = re.findall(r"\bt(\d+)_\d+", f"{file.name} {file.read_text()}")
        return bool(pids) and str(os.getpid() % 100000) not in pids
    return True


@pytest.fixture(autouse=True)
def no_state_stays():
    """asymcc keeps in files what `load` and `use` did. Those of a test's own go with it."""
    kinds = "default-*", "route-*", "cgroup-*", "loaded-*", "try-*"
    before = {file for kind in kinds for file in STATE.glob(kind)}
    yield
    for file in {file for kind in kinds for file in STATE.glob(kind)} - before:
        if not is_anothers(file):
            file.unlink(missing_ok=True)


@pytest.fixture
def alias():
    """Makes names of controllers, and takes what was registered by them out at the end."""
    names = []

    def make() -> str:
        names.append(unique("t"))
        return names[-1]

    yield make
    for name in names:
        run(ASYMCC, "unload", "--force", name, check=False)


@pytest.fixture
def loaded(alias):
    """Loads a controller by a name of its own, which it returns."""

    def load(controller: str, *options) -> str:
        name = alias()
        asymcc("load", controller, "--as", name, *options)
        return name

    return load


@pytest.fixture
def pair():
    with joined_ends() as p:
        yield p


@pytest.fixture
def cgroup(alias):
    """Its removal detaches what is in it, whatever became of the test."""
    if not CGROUP2:
        pytest.skip("no cgroup2 is mounted")
    group = Cgroup(Path(CGROUP2[0]) / unique("asymcc-test-"))
    yield group
    remove_cgroup(group.path)


@pytest.fixture
def joined():
    """A cgroup of the test's own; the test and what it starts are in it."""
    if not CGROUP2:
        pytest.skip("no cgroup2 is mounted")
    path = Path(CGROUP2[0]) / unique("asymcc-test-")
    path.mkdir()
    try:
        Path(path, "cgroup.procs").write_text(str(os.getpid()))
        yield path
    finally:
        Path(HOME, "cgroup.procs").write_text(str(os.getpid()))
        # A socket that lives on, such as one whose FIN was lost, keeps a removed cgroup's programs.
        run(ASYMCC, "thin", "--off", "--cgroup", path, check=False)
        path.rmdir()


@pytest.fixture(scope="session")
def objects(tmp_path_factory):
    """Folder with the tests' own BPF objects."""
    out = tmp_path_factory.mktemp("objects")
    for name in ("liar", "storages", "last_word"):
        compile_bpf(ROOT / "tests" / "live" / f"{name}.bpf.c", out / f"{name}.bpf.o")
    return out


@pytest.fixture
def last_word(objects):
    """Attaches a program of somebody else's to a cgroup: of those that are there it runs last."""

    def attach(name: str, path: Path) -> None:
        load = f"bpftool prog loadall {objects}/last_word.bpf.o /mnt/progs"
        run(
            "unshare",
            "-m",
            "sh",
            "-c",
            f"mount -t bpf none /mnt && {load} && bpftool cgroup attach {path} sock_ops pinned /mnt/progs/{name} multi",
        )

    return attach


@pytest.fixture
def halves(tmp_path, alias, monkeypatch):
    """The name of an object with halves, where asymcc finds it."""
    name = alias()
    build_halves(tmp_path, name)
    monkeypatch.setenv("ASYMCC_OBJECTS", str(tmp_path))
    return name


@pytest.fixture
def trip(tmp_path):
    """An environment in which one call that the loader makes fails, or kills it (kill -9)."""
    (tmp_path / "hooks.c").write_text(HOOKS)
    run("cc", "-shared", "-fPIC", "-w", "-o", tmp_path / "hooks.so", tmp_path / "hooks.c")

    def env(function: str, call: int, err: int = 0) -> dict[str, str]:
        return os.environ | {"LD_PRELOAD": str(tmp_path / "hooks.so"), "TRIP": f"{function} {call} {err}"}

    return env


@pytest.fixture
def foreign(tmp_path, alias, cgroup):
    """Programs of somebody else in the cgroup, two of them called as those of `halves` are: asymcc may not touch
    them. Yields what is there."""
    name = alias()
    build_halves(tmp_path, name, FOREIGN)
    attach = " && ".join(
        f"bpftool cgroup attach {cgroup.path} {hook} pinned /mnt/progs/{prog} multi" for prog, hook in HOOK.items()
    )
    run(
        "unshare",
        "-m",
        "sh",
        "-c",
        f"mount -t bpf none /mnt && bpftool prog loadall {tmp_path / name}.bpf.o /mnt/progs && {attach}",
    )
    (tmp_path / f"{name}.bpf.o").unlink()
    there = cgroup.programs()
    assert {p["name"] for p in there} == HOOK.keys()
    yield there
    assert [p for p in cgroup.programs() if p["id"] in {q["id"] for q in there}] == there
