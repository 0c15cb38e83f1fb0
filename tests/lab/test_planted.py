# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Faults that are planted in our laws, and in the kernel's TCP."""

from __future__ import annotations

import shutil

import pytest

from asymlab import LabError
from asymlab.conformance.explore import explore, invariants
from tests.lab import planted


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(explore, "FOLDER", tmp_path / "explore")
    return tmp_path


@pytest.mark.parametrize("fault", planted.LAWS)
def test_a_planted_fault_compiles(fault, tmp_path):
    assert planted.planted(fault, tmp_path).stat().st_size > 10_000


@pytest.mark.parametrize("fault", planted.KERNEL)
def test_a_kernels_fault_fits_its_source(fault):
    try:
        tree = planted.source()
    except LabError as e:
        pytest.skip(str(e))
    planted.patched(planted.PATCHES / "kernel" / f"{fault}.patch", tree, "--dry-run")


def test_there_are_six_of_each():
    assert len(planted.KERNEL) == len(planted.LAWS) == len(set(planted.LAWS.values())) == 6
    assert {patch.stem for patch in planted.PATCHES.glob("*.patch")} == planted.LAWS.keys()


def broken(fault: str, number: int, folder) -> list[invariants.Broken]:
    """The rules that path breaks."""
    paths = planted.drawn(fault, folder)
    return [one for _, one in explore.search(paths.drawn(1, number), 1, paths.guest, explore.Tally())]


@pytest.mark.lab
@pytest.mark.parametrize(
    "fault, number, words",
    [
        ("rounding", 2, "window: flow 0: pacing at 0 bytes/s"),
        ("twice", 4, "window: flow 0: cwnd"),
        ("least", 6, "log: WARNING"),
        ("undone", 1, "undo: flow 0: a window of"),
    ],
)
def test_a_laws_fault_is_found(folder, fault, number, words):
    found = [f"{one.invariant}: {one.words}" for one in broken(fault, number, folder)]
    assert found and all(text.startswith(words) for text in found), found


@pytest.mark.lab
def test_a_file_is_judged_as_the_controller_of_its_name(folder):
    """Formosa's window may grow by more than is delivered, and the fault does not show on this path."""
    assert broken("mss", 0, folder) == []


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.parametrize(
    "faults, numbers, rules",
    [
        (("backoff", "delack", "pacing", "prr"), (6, 16, 18), {"acks", "backoff", "pace", "repair"}),
        (("rack", "undo"), (6, 13), {"early", "silence"}),  # a recovery that begins early hides the fault of PRR
    ],
)
def test_the_kernels_faults_are_found(folder, faults, numbers, rules):
    try:
        guest = planted.kernel(folder, *faults)
    except LabError as e:
        pytest.skip(str(e))
    paths = explore.Paths(planted.SEED, [], guest)
    trees = {name: tree for number in numbers for name, tree in paths.drawn(1, number).items()}
    found = {one.invariant for _, one in explore.search(trees, None, guest, explore.Tally())}
    shutil.rmtree(guest.folder)
    assert rules <= found, found
