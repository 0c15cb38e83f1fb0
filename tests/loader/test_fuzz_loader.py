# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A short run of the loader's fuzzers; `make fuzz-loader` is the long one."""

from __future__ import annotations

import pytest

from tests.loader.fuzz import loader_run

WHY_NOT = loader_run.why_not()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


@pytest.mark.parametrize("reader, count, edges", [("object", 20000, 150), ("netlink", 8000, 150), ("text", 20000, 40)])
def test_no_input_is_the_end_of_a_reader(reader, count, edges, tmp_path, monkeypatch):
    monkeypatch.setattr(loader_run, "OUT", tmp_path)
    done, reached = loader_run.run(reader, f"-runs={count}", "-seed=1")
    assert done >= count and reached >= edges, "the seeds reach less than they did"
