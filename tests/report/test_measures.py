# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures that random runs say little of (test_claims.py): what agrees with a paper's list, and options of ACKs."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from asymlab.report import papers

formosa, pseudorate = (papers.module(paper, "measures") for paper in ("formosa", "pseudorate"))


def test_an_ack_reports_gaps_if_it_has_sack_blocks():
    has_sack = formosa.has_sack
    block = b"\x01\x01\x05\x0a" + bytes(8)
    assert has_sack(block) and has_sack(block[1:]) and has_sack(bytes.fromhex("fd08f0a200010000") + block)
    for options in (
        b"",
        b"\x00" + block,
        b"\x05",
        bytes.fromhex("fd08f0a205050505"),
        b"\x01\x01\x08\x0a" + b"\x05" * 8,
    ):
        assert not has_sack(options)


@pytest.mark.parametrize("sizes, agree", [((), 0), ((1, 1), 1), ((1, 2, 3, 5, 8, 13, 20), 6), ((2, 3), 0)])
def test_rounds_are_as_large_as_the_papers(sizes, agree):
    assert formosa.fibonacci(sizes) == agree


def cycles(windows: list[int], first_s: float = 0.1, cycle_s: float = 0.04):
    """A run whose cycles end with these windows: two ACKs each, the last of which ends it."""
    n = len(windows)
    t = first_s + cycle_s * np.repeat(np.arange(n), 2) + np.tile([0, 0.01], n)
    rows = np.zeros(2 * n, [("t", "f8"), ("round_stamp", "u8"), ("base", "u4"), ("offset", "u4")])
    rows["t"], rows["round_stamp"] = t, 1000 + np.repeat(np.arange(n), 2)
    rows["offset"], rows["base"] = 1, np.repeat(windows, 2) - 1
    return SimpleNamespace(state=lambda flow: np.append(rows, np.array([(t[-1] + cycle_s, 10**6, 0, 1)], rows.dtype)))


@pytest.mark.parametrize(
    "windows, agree", [([1, 2, 4, 8, 16], 4), ([1, 2, 3, 4], 2), ([10, 20, 40, 80], 0), ([1, 2], 2)]
)
def test_agreement_with_table_1(windows, agree):
    assert pseudorate.as_table1(cycles(windows)) == agree


@pytest.mark.parametrize(
    "windows, agree",
    [
        ([8, 8, 9, 11, 15, 23, 39], 5),
        ([7, 8, 10, 14, 22], 5),
        ([8, 9, 10, 11, 12], 2),
        ([8, 16, 32], 1),
        ([8, 8, 8], 0),
    ],
)
def test_agreement_with_fig_1(windows, agree):
    assert pseudorate.as_fig1(cycles([1, 2, 4, 8, *windows], first_s=pseudorate.RISE_S - 4 * 0.04)) == agree
