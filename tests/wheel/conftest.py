# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The wheel, and an installation of it without extras: it borrows these libraries from the tests' Python, no other."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.shared import BUILD, REPO


def build(folder: Path, tree: Path = REPO, umask: int = 0o022) -> dict[str, Path]:
    """The wheel and the package of sources, by their kinds."""
    folder.mkdir()
    command = ["packaging/dist.sh", sys.executable, str(folder)]
    with open(tree / "build" / ".wheel", "w") as lock:  # setuptools has one folder for all that build there
        fcntl.flock(lock, fcntl.LOCK_EX)
        p = subprocess.run(command, cwd=tree, capture_output=True, text=True, umask=umask, timeout=300)
    assert p.returncode == 0, p.stderr
    files = {file.name.rpartition(".")[2]: file for file in folder.iterdir()}
    assert set(files) == {"whl", "gz"}, p.stdout
    return files


@pytest.fixture(scope="session")
def dist(tmp_path_factory) -> dict[str, Path]:
    if not (BUILD / "asymcc").exists():
        pytest.skip("build/asymcc is not built: run make")
    return build(tmp_path_factory.mktemp("dist") / "a")


@pytest.fixture(scope="session")
def site(dist, tmp_path_factory) -> Path:
    """A folder of Python's with the wheel's files."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(dist["whl"]) as wheel:
        for member in wheel.infolist():
            Path(wheel.extract(member, folder)).chmod(member.external_attr >> 16 & 0o777)
    return folder


def needed() -> set[str]:
    """The packages that pip installs with the wheel."""
    names: set[str] = set()
    left = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["dependencies"]
    while left:
        wanted = Requirement(left.pop())
        if wanted.name not in names and (not wanted.marker or wanted.marker.evaluate({"extra": ""})):
            names.add(wanted.name)
            left += metadata.requires(wanted.name) or ()
    return names


@pytest.fixture(scope="session")
def core(tmp_path_factory) -> Path:
    """A folder of Python's with what the package needs."""
    folder = tmp_path_factory.mktemp("core")
    for name in needed():
        for file in metadata.files(name):
            if file.parts[0] not in ("..", "__pycache__") and not (folder / file.parts[0]).exists():
                (folder / file.parts[0]).symlink_to(Path(file.locate()).parents[len(file.parts) - 1] / file.parts[0])
    return folder


@pytest.fixture
def installed(site, core, tmp_path):
    """Runs the installed package in an empty folder: python's words, or those of the command `asymlab`."""
    folder = tmp_path / "empty"
    folder.mkdir()

    def run(*words, env: dict[str, str] | None = None, under: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("ASYMLAB_", "XDG_"))}
        plain |= {"PYTHONPATH": f"{site}:{core}", "ASYMLAB_HOME": str(tmp_path / "home"), **(env or {})}
        python = [*under, sys.executable, "-S", "-P", *(() if words[0] == "-c" else ("-m", "asymlab"))]
        return subprocess.run(
            [*python, *map(str, words)], cwd=folder, env=plain, capture_output=True, text=True, timeout=300
        )

    run.folder = folder
    return run
