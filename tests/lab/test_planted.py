# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Faults that are planted in our laws, and in the kernel's TCP."""

from __future__ import annotations

import pytest

from asymlab import LabError
from asymlab.conformance.explore import explore
from asymlab.machine import image
from tests.lab import planted
from tests.shared import LAB


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


@pytest.mark.lab
def test_a_law_that_cuts_to_no_packet_is_found(folder):
    """A mark finds a window of one packet."""
    guest = image.open_image(LAB)
    name = f"{planted.SEED}-6"
    tree = explore.Paths(planted.SEED, [str(planted.planted("least", folder))], guest).drawn(7)[name]
    tally = explore.Tally()
    broken = explore.search({name: tree}, 1, guest, tally)
    assert {one.invariant for _, one in broken} == {"log"} and "WARNING" in broken[0][1].words, broken
