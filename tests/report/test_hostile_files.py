# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Results that somebody else gave, damaged: who reads them says so in one line, or takes them."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from small import write_report

from asymlab import LabError
from asymlab.report import compare, part, publish, published, tables

from shared import REPO

COUNT = 120
VALUES = (None, True, -1, 10**400, 1e300, float("nan"), "", "\ud800", "\0", "9" * 5000, [], {}, [[]], {"x": {}})
BYTES = (b"", b"\xff\xfe", b"\0" * 100, b"[" * 100_000, b"{}", b"3", b'"\\ud800"', b"[[]]", b"NaN", b"9" * 5000)


def places(tree, path=()) -> Iterator[tuple]:
    """Of each value of a tree."""
    for key in tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        yield (*path, key)
        yield from places(tree[key], (*path, key))


def changed(data: bytes, rng: random.Random, tree: bool) -> bytes:
    """Other bytes, or another value somewhere in the tree."""
    if rng.random() < 0.2:
        return rng.choice(BYTES)
    if not tree or rng.random() < 0.2:
        at = rng.randrange(len(data))
        return data[:at] + rng.choice((b"", b"\0", b"\xff", b'"', b",", b"\n", b"x" * 200_000)) + data[at + 1 :]
    found = json.loads(data)
    *path, last = rng.choice(list(places(found)))
    where = found
    for key in path:
        where = where[key]
    if rng.random() < 0.2:
        del where[last]
    else:
        where[last] = rng.choice(VALUES)
    return json.dumps(found).encode()


def one_line_or_none(what) -> None:
    try:
        what()
    except LabError as e:
        assert "\n" not in str(e)
        str(e).encode()
    except OSError:
        pass  # the command tells it in one line


@pytest.mark.parametrize("name", ["results.json", "claims.json", "samples.csv", "verdicts.json"])
def test_a_damaged_report(tmp_path, name):
    report = write_report(tmp_path / "report")
    whole, rng = (report / name).read_bytes(), random.Random(name)
    for _ in range(COUNT):
        (report / name).write_bytes(changed(whole, rng, name.endswith("json")))
        one_line_or_none(lambda: publish.publish(report, tmp_path / "kept"))
        one_line_or_none(
            lambda: compare.run(report, report, 0.05, True, tmp_path / "page.html", tmp_path / "page.json")
        )
        shutil.rmtree(tmp_path / "kept", ignore_errors=True)


@pytest.mark.parametrize("name", ["part.json", "runs.csv", "claims.json", "samples.csv"])
def test_damaged_published_results(tmp_path, name):
    results = tmp_path / "results"
    folder = results / "fusion100"
    shutil.copytree(REPO / "docs" / "results" / "fusion100", folder)
    whole, rng = (folder / name).read_bytes(), random.Random(name)
    page = (REPO / "docs" / "fusion100.md").read_text()
    for _ in range(COUNT // 4):
        (folder / name).write_bytes(changed(whole, rng, name.endswith("json")))
        one_line_or_none(lambda: published.page([part.read(folder)]))
        one_line_or_none(lambda: publish.write_front(results))
        one_line_or_none(lambda: part.quoted("fusion100", [], {}, results))
        (tmp_path / "fusion100.md").write_text(page)
        one_line_or_none(lambda: tables.write(results))


def test_the_file_and_the_place_are_named(tmp_path):
    report = write_report(tmp_path / "report")
    (report / "verdicts.json").write_text('[{"id": {}}]')
    with pytest.raises(LabError, match=r"verdicts.json: not a report's results: 0.id: Input should be a valid string"):
        compare.load(Path(report))
