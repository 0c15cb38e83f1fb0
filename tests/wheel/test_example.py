# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""examples/: their tests pass, and fail with something worse. `make check-wheel` runs the workflow of a controller."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from asymlab import needs
from tests.shared import LAB, REPO

EXAMPLES = REPO / "examples"
EXAMPLE = EXAMPLES / "controller"
SOURCES = {"controller": "mine.bpf.c", "server": "server.py"}
WORKFLOW = EXAMPLE / ".github/workflows/test.yml"
WHEEL = f"asymlab-{(REPO / 'VERSION').read_text().strip()}-py3-none-linux_x86_64.whl"


@pytest.fixture
def tested(tmp_path):
    """Runs an example's tests in a copy whose source has other words; pytest's last line."""

    def run(*replace: tuple[str, str], example: str = "controller") -> str:
        shutil.copytree(EXAMPLES / example, tmp_path / "toy", dirs_exist_ok=True)
        source = tmp_path / "toy" / SOURCES[example]
        for old, new in replace:
            assert old in source.read_text()
            source.write_text(source.read_text().replace(old, new))
        engine = "uml" if LAB.endswith("uml") else "qemu"
        options = ["-p", "asymlab.testing", "-p", "no:cacheprovider", "--lab-required", "--lab-engine", engine]
        p = subprocess.run(
            [sys.executable, "-P", "-m", "pytest", "-q", *options],
            cwd=tmp_path / "toy",
            env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            timeout=600,
        )
        return p.stdout + p.stderr

    return run


@pytest.mark.lab
def test_it_passes(tested):
    assert "5 passed" in (output := tested()), output


@pytest.mark.lab
def test_a_server_passes_and_one_that_closes_each_connection_does_not(tested):
    assert "2 passed" in (output := tested(example="server")), output
    output = tested(("HTTP/1.1", "HTTP/1.0"), example="server")
    assert "FAILED test_server.py::test_all_requests_take_one_connection" in output, output


@pytest.mark.lab
def test_a_controller_that_cuts_too_much_fails(tested):
    output = tested(("beta_percent = 70", "beta_percent = 5"))
    assert "FAILED test_mine.py::test_it_fills_the_link" in output, output


@pytest.mark.lab
def test_a_controller_that_never_cuts_fails(tested):
    output = tested(("beta_percent = 70", "beta_percent = 100"))
    assert "FAILED test_mine.py::test_it_leaves_a_share_to_cubic" in output, output


def installed_by(text: str) -> set[str]:
    """The packages of a line of apt, which may go over several."""
    match = re.search(r"apt-get install ((?:[^\n&]*(?:\\\n|\n {10}))*[^\n&]*)", text)
    return {word for word in match[1].replace("\\", " ").split() if not word.startswith("-")}


def test_workflow_container_and_page_install_what_the_lab_needs():
    wanted = {needs.OF[n] for n in (*needs.OBJECTS, *needs.COMPILING)}
    python = {"python3", "python3-venv", "ca-certificates"}
    for file in (WORKFLOW, REPO / "packaging/container/Containerfile"):
        assert wanted | python <= installed_by(file.read_text()) <= needs.PACKAGES.keys() | python, file
    page = (REPO / "docs/install.md").read_text()
    lines = [installed_by(line) for line in re.findall(r"^    sudo apt-get install .*", page, re.M)]
    images = {needs.OF[n] for n in (*needs.IMAGE, "qemu-system-x86_64", "qemu-img")}
    assert wanted | {"bubblewrap"} == lines[0] and images - {"python3"} <= lines[1]
    assert lines[2] == {needs.OF[n] for n in needs.UML_KERNEL} - {"binutils"}


def test_all_name_the_wheel_of_this_version():
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert workflow["env"]["WHEEL"] == WHEEL
    for page in ("README.md", "docs/install.md", "docs/testing.md", "examples/controller/README.md"):
        named = set(re.findall(r"asymlab-[\w.]*-py3-none-linux_x86_64\.whl", (REPO / page).read_text()))
        assert named == {WHEEL}, page
