# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The register of controllers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from matplotlib.figure import Figure

from asymlab import controllers
from asymlab.controller import CYCLE
from asymlab.controllers import LINUX, REGISTER, built_in
from asymlab.plan import objects
from tests.ktap import built
from tests.shared import BUILD, REPO

SOURCES = {p.name.removesuffix(".bpf.c") for at in ("controllers", "rivals") for p in REPO.glob(f"bpf/{at}/*.bpf.c")}


def test_each_source_has_a_record():
    assert SOURCES <= set(REGISTER) and not SOURCES & set(LINUX)


@built
def test_a_controller_is_what_asymcc_takes_for_one():
    listed = json.loads(subprocess.check_output([BUILD / "asymcc", "--objects", BUILD, "list", "--json"]))
    assert built_in(BUILD) == sorted({row["object"] for row in listed if row["built"]})
    assert set(built_in(BUILD)) >= SOURCES and not set(built_in(BUILD)) & {"ect1", "move", "thin", "trace", "use"}


@built
def test_which_kernel_a_controller_needs():
    assert objects.needs("prague") == (7, 0) and objects.needs("fast") == ()
    assert {*objects.built_for((7, 0))} - {*objects.built_for((6, 18))} == {"prague"}
    assert objects.built_for((10, 1)) == built_in(BUILD)


@pytest.mark.parametrize(
    "name, whose", [("scalable", "Linux"), ("fast", "controllers/fast.py"), ("mine", "controllers/mine.py")]
)
def test_a_record_of_a_name_that_is_taken_is_refused(tmp_path, name, whose):
    shutil.copytree(REPO / "experiments" / "asymlab", tmp_path / "asymlab")
    (tmp_path / "asymlab" / "controllers" / "mine.py").write_text(
        f'from ..controller import Controller\n\nRECORDS = [Controller("mine", "Mine"), Controller("{name}", "It")]\n'
    )
    p = subprocess.run(
        [sys.executable, "-m", "asymlab", "link", "--like", "list"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert p.returncode == 1 and not p.stdout
    assert p.stderr == f"asymlab: controllers/mine.py: {whose} has a {name!r} already: choose another name\n"


def test_controllers_differ_in_more_than_colour():
    looks = [record.look for record in REGISTER.values()]
    assert len({str(look) for look in looks}) == len(looks)
    own = [look for look in looks if look not in CYCLE]
    assert len(own) >= len(SOURCES) and not {look["marker"] for look in own} & {look["marker"] for look in CYCLE}
    for what in ("color", "marker"):
        assert len({look[what] for look in own}) == len(own)


def test_one_without_a_record_can_be_drawn_and_always_looks_the_same():
    record = controllers.of("nobody")
    assert record.label == "nobody" and record.look == controllers.of("nobody").look != controllers.of("nobody2").look
    ax = Figure().subplots()
    for name in ("nobody", *REGISTER):
        ax.plot([1, 2], [1, 2], label=controllers.of(name).label, **controllers.of(name).look)
    ax.figure.canvas.draw()
