# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The faults of tests/verifier on this machine's kernel, which must refuse each."""

from __future__ import annotations

from asymlab.conformance.kernels import refusals
from tests.ktap import bad
from tests.lab.test_verifier import HOOKS
from tests.live.harness import pytestmark  # noqa: F401


def test_on_the_running_kernel():
    result = refusals.refused_here()
    assert not bad(result) and len(result.outcomes) > len(HOOKS)
