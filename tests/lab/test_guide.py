# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymlab explore` on a kernel that tells which branches a run reaches."""

from __future__ import annotations

import base64
import random
import shutil
import zlib

import numpy as np
import pytest

from asymlab import LabError
from asymlab.conformance.explore import explore, guide
from asymlab.machine import image
from asymlab.machine.uml import coverage
from asymlab.plan import scenario
from tests.lab import planted
from tests.lab.test_explore import tree_of, way
from tests.shared import LAB, REPO


def word(*places: int) -> str:
    there = bytearray(1 << coverage.BITS)
    for place in places:
        there[place] = 1
    return base64.b64encode(zlib.compress(there)).decode()


def test_the_word_of_a_record_tells_what_the_guest_wrote(tmp_path):
    with open(tmp_path / "shared", "wb") as file:
        file.seek(coverage.AT + 77)
        file.write(b"\1")
        file.truncate(512 << 20)
    assert coverage.branches(coverage.told(tmp_path / "shared")) == bytes(77) + b"\1" + bytes((1 << coverage.BITS) - 78)


def test_a_path_is_kept_if_it_reaches_what_none_did():
    of = guide.Guide()
    of.learn({"title": "a"}, word(1, 2))
    of.learn({"title": "b"}, word(2))
    of.learn({"title": "c"}, word(2, 3))
    assert [tree["title"] for tree in of.kept] == ["a", "c"]
    assert np.flatnonzero(of.reached).tolist() == [1, 2, 3]


@pytest.fixture(scope="module")
def paths() -> explore.Paths:
    return explore.Paths(7, [], image.open_image(LAB))


def varied(paths: explore.Paths, count: int) -> list[dict]:
    of, found = guide.Guide(), []
    for number in range(count):
        found.append(of.path(paths.draw(number), random.Random(f"{number}"), paths.known))
        of.kept.append(found[-1])
    return found


def test_varied_paths_are_scenarios_that_repeat(paths):
    """The same draws give the same paths."""
    found = varied(paths, 60)
    assert found == varied(paths, 60)
    drawn = [paths.draw(number) for number in range(60)]
    assert 25 < sum(a != b for a, b in zip(found, drawn)) < 55
    for tree in found:
        scenario.of_tree({key: value for key, value in tree.items() if key != "controllers"})
        assert guide.cheap(tree) and guide.together(tree, paths.known)


@pytest.mark.parametrize("step", [guide.whole, guide.way, guide.flow, guide.number, guide.change])
def test_each_step_varies(paths, step):
    """And leaves what it varies from as it was."""
    changed = 0
    for number in range(40):
        tree, donor = paths.draw(number), paths.draw(number + 1)
        step(tree, donor, random.Random(number))
        assert donor == paths.draw(number + 1)
        changed += tree != paths.draw(number)
    assert changed > 10


@pytest.mark.lab
@pytest.mark.slow
def test_a_kernel_that_tells_makes_the_same_results_and_guides(tmp_path, monkeypatch):
    monkeypatch.setattr(explore, "FOLDER", tmp_path / "explore")
    monkeypatch.setattr(explore, "ROUND", 4)
    try:
        guest = planted.kernel(tmp_path, config=REPO / "experiments" / "kernels" / "coverage.config")
    except LabError as e:
        pytest.skip(str(e))
    path = {"forward": way("1mbit", queue=10, loss="1%"), "reverse": way("100kbit", queue=10)}
    case = explore.written(tree_of("both", path, {"controller": "fusion"}), "both")
    plain, telling = (explore.attempt(of, case) for of in (image.open_image(LAB), guest))
    assert plain.record["tables"] == telling.record["tables"]  # but how long the JIT's code is, the agent tells as well
    assert "coverage" not in plain.record
    assert 2_000 < sum(coverage.branches(telling.record["coverage"])) < 50_000
    tally, rounds = explore.Tally(), []
    for trees in explore.Paths(7, [], guest).rounds(12, tally):
        explore.search(trees, None, guest, tally)
        rounds.append(tally.branches)
    shutil.rmtree(guest.folder)
    assert len(rounds) == 3 and rounds[0] == 0 < rounds[1] < rounds[2] < tally.branches
