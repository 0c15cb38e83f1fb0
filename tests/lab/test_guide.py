# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Coverage as a guide for random paths, and faults that are planted in our laws."""

from __future__ import annotations

import random

import pytest

from asymlab.conformance.explore import draw, explore, guide
from asymlab.conformance.explore.guide import Guide
from asymlab.controllers import built_in
from asymlab.machine import image
from asymlab.results import store
from tests.lab import planted
from tests.shared import BUILD, LAB


@pytest.fixture(scope="module")
def known():
    return {name: draw.facts(name) for name in built_in(BUILD)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(explore, "FOLDER", tmp_path / "explore")
    return tmp_path


def test_a_variation_is_another_sound_path_whose_commands_keep_their_order(known):
    """It has little of the draw that lends the values. Commands come together or not at all: one that loads what was
    unloaded has no place without the other."""
    alone = {name for name in known if known[name].alone}
    trees = [draw.draw(5, number, list(known), known) for number in range(160)]
    near = 0
    for number, (tree, other) in enumerate(zip(trees, trees[1:])):
        varied, again = (guide.vary(random.Random(number), tree, other, alone) for _ in range(2))
        assert varied == again != tree and draw.valid(varied)
        assert varied["run"] == tree["run"] and len({f["controller"] for f in varied["flows"]} & alone) < 2
        names = {f["controller"] for f in varied["flows"]}
        kept = [
            [
                change
                for change in of.get("changes", [])
                if change.get("controller", varied["flows"][0]["controller"]) in names
            ]
            for of in (tree, other)
        ]
        assert varied.get("changes", []) in kept
        near += sum(varied[key] != tree.get(key) for key in varied if key != "title") <= 2
    assert near > 140


def test_a_variation_has_one_controller_at_most_that_answers_for_its_cgroup(known):
    alone = {name for name in known if known[name].alone}
    a, b = sorted(alone)[:2]
    drawn = [[draw.draw(6, number, [name], known) for number in range(40)] for name in (a, b)]
    names = set()
    for number, (tree, other) in enumerate(zip(*drawn)):
        varied = {f["controller"] for f in guide.vary(random.Random(number), tree, other, alone)["flows"]}
        assert len(varied & alone) < 2
        names |= varied
    assert {a, b} <= names


def test_the_guide_keeps_what_is_new_and_varies_what_is_rare(known):
    one, two, three = (draw.draw(1, number, list(known), known) for number in range(3))
    of = Guide()
    of.learn("1-0", one, frozenset({("a", 1), ("b", 1)}))
    of.learn("1-1", two, frozenset({("a", 1)}))
    of.learn("1-2", three, frozenset({("a", 1), ("a", 2)}))
    assert [tree for tree, _ in of.corpus] == [one, three]
    assert of.new == {True: [], False: [2, 0, 1]}
    of.seen["b", 1] += 1  # nothing of the first is rare any more
    trees = {f"1-{n}": of.next(f"1-{n}", random.Random(n), two, set()) for n in range(3, 60)}
    assert of.varied and of.varied == {name for name, tree in trees.items() if tree != two}
    assert {trees[name]["title"] for name in of.varied} == {"path 1 of seed 1, after path 2 of seed 1"}


def test_what_brings_more_has_more_paths():
    """Draws bring the most at first; then each kind has its part of what both bring, and one path in ten at least."""
    of = Guide()
    assert of.share() == 0.5
    for number in range(50):
        of.learn(f"1-{number}", {}, frozenset((f"{number} {n}", 1) for n in range(20)))
    assert of.share() == guide.LEAST
    of.varied = {f"2-{number}" for number in range(50)}
    for number in range(50):
        of.learn(f"2-{number}", {}, frozenset((f"2 {number} {n}", 1) for n in range(20)))
        of.learn(f"3-{number}", {}, frozenset())
    assert of.share() == 1 - guide.LEAST


@pytest.mark.lab
def test_a_guided_search_is_the_same_with_any_workers(folder, monkeypatch):
    """All of it: which paths are drawn, and what each run shows. With two workers runs end in another order than the
    store gives them."""
    guest, count = image.open_image(LAB), 10
    monkeypatch.setattr(store, "STORE", folder / "runs")
    monkeypatch.setattr(explore, "GENERATION", 4)
    monkeypatch.setattr(guide, "LEAST", 0.5)
    searches = []
    for jobs in (2, 1):
        of, tally, trees = Guide(), explore.Tally(), {}
        paths = explore.Paths(3, ["fast"], guest).guided(count, of)
        for generation, _ in explore.search(paths, jobs, guest, of, tally):
            trees |= generation
        searches.append((trees, tally.signatures, of.seen, of.varied, of.corpus))
    assert searches[0] == searches[1]
    trees, signatures, seen, varied, _ = searches[0]
    assert len(trees) == count == len(signatures) + len(tally.invalid)
    assert varied and all(int(name.partition("-")[2]) >= 4 for name in varied)
    assert {name for name, tree in trees.items() if ", after path" in tree["title"]} == varied
    shown = {name for name, _ in seen}
    # One of the senders, one of the receivers, one of a controller.
    assert {"TcpExtTCPOrigDataSent", "TcpExtDelayedACKs", "fast.flows"} <= shown


@pytest.mark.parametrize("fault", planted.LAWS)
def test_a_planted_fault_compiles(fault, tmp_path):
    assert planted.planted(fault, tmp_path).stat().st_size > 10_000


@pytest.mark.lab
def test_a_law_that_cuts_to_no_packet_is_found(folder):
    """A mark finds a window of one packet."""
    guest = image.open_image(LAB)
    name = f"{planted.SEED}-4"
    tree = explore.Paths(planted.SEED, [str(planted.planted("least", folder))], guest).drawn(5)[name]
    tally = explore.Tally()
    [(_, broken)] = explore.search([{name: tree}], 1, guest, Guide(), tally)
    assert {one.invariant for _, one in broken} == {"log"} and "WARNING" in broken[0][1].words, broken
