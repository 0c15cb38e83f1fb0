# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Columns of the kernel check, by hand, and what KTAP tells of them."""

from __future__ import annotations

import re

import pytest

from asymlab.conformance.kernels.ktap import ktap
from asymlab.conformance.kernels.outcome import Column, Result
from tests.shared import BUILD

built = pytest.mark.skipif(not (BUILD / "asymcc").exists(), reason="build/asymcc is not built: run make")


def parse(lines: list[str], depth: int = 0) -> dict[str, tuple]:
    """KTAP version 1, strictly: {test: (ok, directive, subtests)}."""
    pad = "  " * depth
    assert lines.pop(0) == f"{pad}KTAP version 1"
    while lines[0].startswith(f"{pad}#"):
        lines.pop(0)
    plan, tests, inner = int(re.fullmatch(rf"{pad}1\.\.(\d+)", lines.pop(0))[1]), {}, {}
    while len(tests) < plan:
        line = lines[0]
        if line == f"{pad}  KTAP version 1":
            inner = parse(lines, depth + 1)
        elif line.startswith(f"{pad}#"):
            lines.pop(0)
        else:
            match = re.fullmatch(rf"{pad}(ok|not ok) {len(tests) + 1} ([^#]+?)(?: # (SKIP) \S.*)?", lines.pop(0))
            assert match, line
            assert match[2] not in tests
            tests[match[2]], inner = (match[1] == "ok", match[3], inner), {}
    return tests


def told(columns, recorded=None):
    lines: list[str] = []
    fine = ktap(columns, recorded or {}, lines.append)
    tests = parse(rest := list(lines))
    assert not rest
    return fine, tests, lines


def recorded(insns=1000, release="6.1.0-1-amd64"):
    return {"objects": {"fast": {"6.1": {"verified_insns": insns, "release": release}}}}


def column(insns=1000, release="6.1.0-2-amd64", **outcomes):
    return Column(
        "6.1",
        release,
        "6.1.1-1",
        results={"fast": Result({"loads": None, **outcomes}, {"fast_init": 400, "fast_cong_avoid": insns - 400})},
    )


def bad(result: Result) -> dict[str, str]:
    return {what: outcome for what, outcome in result.outcomes.items() if isinstance(outcome, str)}
