# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""SECURITY.md claims nothing that no test shows: each row of its tables of claims names tests that exist."""

from __future__ import annotations

import ast
import re

import pytest

from tests.shared import REPO

TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def claims() -> list[tuple[str, str]]:
    """Claim and tests, of each table whose second column is headed "test"."""
    rows, inside = [], False
    for line in (REPO / "SECURITY.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if cells[1:] == ["test"]:
            inside = True
        elif not cells:
            inside = False
        elif inside and not set(line) <= set("|-: "):
            rows.append((cells[0], cells[-1]))
    return rows


def test_there_are_claims():
    assert len(claims()) > 20


@pytest.mark.parametrize("claim, tests", claims(), ids=[claim[:60] for claim, _ in claims()])
def test_each_claim_names_tests_that_exist(claim, tests):
    named = TEST.findall(tests)
    assert named, f"no test: {claim}"
    for file, name in named:
        tree = ast.parse((REPO / file).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)} and name.startswith(
            "test_"
        ), f"{file} has no {name}"
