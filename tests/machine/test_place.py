# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A tree that is copied, moved, or in a folder of an odd name works with its own files."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.shared import BUILD, REPO, asymlab

ODD = "a tree's, of mine"


def sh(*argv, **kw) -> str:
    p = subprocess.run(list(map(str, argv)), capture_output=True, text=True, **kw)
    assert p.returncode == 0, p.stderr
    return p.stdout


def make_venv(place: Path) -> None:
    """With the setuptools that the lock would bring."""
    venv.create(place, with_pip=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(place)}))
    for part in Path(sysconfig.get_path("purelib")).glob("setuptools*"):
        shutil.copytree(part, site / part.name, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """A tree whose asymlab tells where it is, with its Python and pip. Nothing is fetched."""
    tree = tmp_path_factory.mktemp("place") / ODD
    (tree / "experiments" / "asymlab").mkdir(parents=True)
    (tree / "experiments" / "asymlab" / "__init__.py").touch()
    (tree / "experiments" / "asymlab" / "cli.py").write_text(
        "import sys\n\n\ndef main():\n    print(__file__, *sys.argv[1:])\n"
    )
    (tree / "packaging").mkdir()
    shutil.copy(REPO / "packaging" / "venv.sh", tree / "packaging")
    for file in ("pyproject.toml", "VERSION"):
        shutil.copy(REPO / file, tree)
    (tree / "none.lock").touch()
    make_venv(tree / "build" / "venv")
    sh("packaging/venv.sh", "build/venv", "none.lock", cwd=tree)
    return tree


def is_its_own(tree: Path) -> None:
    """Each way to start the lab is that of the tree."""
    bin, cli = tree / "build" / "venv" / "bin", tree / "experiments" / "asymlab" / "cli.py"
    (tree / "link").unlink(missing_ok=True)
    (tree / "link").symlink_to(bin / "asymlab")
    for command in (bin / "asymlab", tree / "link"):
        assert sh(command, "a b", "*", cwd="/") == f"{cli} a b *\n"
    assert sh("build/venv/bin/asymlab", cwd=tree) == f"{cli}\n"
    assert sh(bin / "python", "-c", "import asymlab; print(asymlab.__file__)", cwd="/") == f"{cli.parent}/__init__.py\n"
    assert f" from {tree}/build/venv/lib/" in sh(bin / "pip", "--version", cwd="/")
    assert not list(bin.glob("activate*"))


def test_a_tree_in_a_folder_of_an_odd_name(small):
    is_its_own(small)


def test_a_copy_runs_its_own_files(small, tmp_path):
    sh("cp", "-a", small, tmp_path / "copy")
    is_its_own(tmp_path / "copy")
    is_its_own(small)


def test_a_moved_tree_goes_on(small, tmp_path):
    sh("cp", "-a", small, tmp_path / "first")
    (tmp_path / "first").rename(tmp_path / "second")
    is_its_own(tmp_path / "second")


def test_set_up_again_mends_it(small, tmp_path):
    """The tree is an older one, whose scripts name the place where it was made."""
    sh("cp", "-a", small, tmp_path / "old")
    tree = tmp_path / "old"
    (tree / "build/venv/bin/pip").write_text(
        f"#!{small}/build/venv/bin/python\nfrom pip._internal.cli.main import main\nmain()\n"
    )
    (tree / "build/venv/bin/asymlab").write_text("#!/gone/build/venv/bin/python\n")
    sh("packaging/venv.sh", "build/venv", "none.lock", cwd=tree)
    is_its_own(tree)


def test_a_venv_elsewhere_finds_its_tree(small, tmp_path):
    make_venv(tmp_path / "venv")
    sh(small / "packaging/venv.sh", tmp_path / "venv", small / "none.lock", cwd=tmp_path)
    assert sh(tmp_path / "venv/bin/asymlab", cwd="/") == f"{small}/experiments/asymlab/cli.py\n"


def test_a_folder_of_an_odd_name_builds_the_same_bytes(tmp_path):
    """The place is in no object: a guest made of them is the same everywhere."""
    tree = tmp_path / ODD
    for part in ("bpf", "loader", "experiments/asymlab/guest", "packaging"):
        shutil.copytree(REPO / part, tree / part)
    for file in ("Makefile", "VERSION"):
        shutil.copy(REPO / file, tree)
    (tree / "build").mkdir()
    (tree / "build" / ".deps").touch()
    objects = ("fast.bpf.o", "trace.bpf.o", "loader/args.o")
    sh("make", "-s", *(f"build/{name}" for name in objects), cwd=tree)
    for name in objects:
        assert (tree / "build" / name).read_bytes() == (BUILD / name).read_bytes()


@pytest.mark.lab
def test_a_run_in_a_folder_of_an_odd_name(scenario_file, tmp_path):
    """QEMU's options are lists with commas."""
    build = tmp_path / ODD / "build"
    build.mkdir(parents=True)
    for part in BUILD.iterdir():
        if part.name not in ("store", "tmp"):
            (build / part.name).symlink_to(part)
    hashes = []
    for place in (build, BUILD):
        env = {"ASYMLAB_BUILD": str(place), "ASYMLAB_STORE": f"{build}/store"}
        p = asymlab("run", scenario_file(), "--fresh", env=env)
        assert p.returncode == 0, p.stderr
        hashes += re.findall(r"result_sha256 (\w{64})", p.stderr)
    assert len(hashes) == 2 and len(set(hashes)) == 1
