# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Adding an algorithm takes a source, a record, a host test and a scenario. A copy of the tree gets a toy so."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ktap import built, parse
from tests.shared import LAB, REPO

TOY = Path(__file__).with_name("toy")
FILES = {
    "toy.bpf.c": "bpf/controllers/toy.bpf.c",
    "record.py": "experiments/asymlab/controllers/toy.py",
    "host_test.py": "tests/algorithms/test_toy_host.py",
    "scenario.toml": "toy.toml",
}
PARTS = (
    "Makefile",
    "VERSION",
    "pyproject.toml",
    "requirements.lock",
    "bpf",
    "loader",
    "packaging",
    "experiments",
    "tests",
    "docs/kernels.json",
)
BUILT = (".deps", "asymcc", "loader", "verifier", "*.bpf.o", f"image/{LAB}")  # as it is: only the toy is new
pytestmark = [pytest.mark.lab, built]


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A copy of the tree and of what it built, and the toy's files."""
    copy = tmp_path_factory.mktemp("tree")
    files = [REPO / part for part in PARTS] + [file for part in BUILT for file in (REPO / "build").glob(part)]
    for part in files:
        target = copy / part.relative_to(REPO)
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", "--reflink=auto", part, target], check=True, timeout=60)
    for name, target in FILES.items():
        assert not (copy / target).exists()
        shutil.copy(TOY / name, copy / target)
    return copy


def run(tree: Path, *argv: str) -> subprocess.CompletedProcess:
    """A command in the copy, with its own Python."""
    path = {"PYTHONPATH": f"{tree}/experiments:{tree}"}
    p = subprocess.run(argv, cwd=tree, env=os.environ | path, capture_output=True, text=True, timeout=400)
    assert p.returncode == 0, p.stdout[-4000:] + p.stderr[-4000:]
    return p


def test_it_is_built_and_the_loader_shows_its_parameter(tree):
    run(tree, "make", "build")
    assert (tree / "build" / "toy.bpf.o").exists()
    assert re.search(r"step +1 .*packets", run(tree, "build/asymcc", "--objects", "build", "show", "toy").stdout)


def test_it_runs_on_the_host_and_is_covered(tree):
    """Its own test; what any stack and peer may do; and that as few inputs as the suite has cover it."""
    tests = ["tests/algorithms/test_toy_host.py", "tests/algorithms/test_any_host.py"]
    output = run(tree, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "toy", *tests).stdout
    assert re.search(r"\b7 passed", output), output
    percent = run(tree, sys.executable, "-c", COVERAGE).stdout
    assert float(percent) >= 90, percent


COVERAGE = """
from tests.algorithms.host import fuzz
from tests.algorithms.test_any_host import played
print(fuzz.branches(fuzz.parts("toy"), [played("toy")]).percent)
"""


def test_it_runs_in_a_scenario(tree):
    said = run(tree, sys.executable, "-m", "asymlab", "run", "toy.toml", "--image", LAB).stderr
    assert "TOY" in said and ": valid" in said
    (folder,) = (tree / "build" / "store").iterdir()
    label = "from asymlab import controllers; print(controllers.of('toy').label)"
    assert (folder / "run.json").exists() and run(tree, sys.executable, "-c", label).stdout == "toy, an AIMD\n"


def test_it_is_checked_on_a_kernel_by_its_law(tree):
    ((ok, _, results),) = parse(run(tree, sys.executable, "-c", CHECK, LAB).stdout.splitlines()).values()
    assert ok and results["toy"][2]["law: a loss halves"] == (True, None, {})
    assert results["toy"][2]["live parameters change"] == (True, None, {})


# `asymlab check-kernels toy` does so, which takes packaged kernels alone.
CHECK = """
import sys
from asymlab.conformance.kernels import check, setup
from asymlab.conformance.kernels.ktap import ktap
known = {"toy": setup.facts("toy")}
ktap([check.in_guest(sys.argv[1], ["toy"], known, None, False, lambda _: None)], {}, print)
"""
