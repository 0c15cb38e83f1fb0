# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A pair: the same scenario live and in the lab."""

from __future__ import annotations

import os

import pytest

from asymlab.reality.rows import read
from tests.shared import LAB, asymlab

# Some machines' CPUs are busy with more than this.
BUSY = "does not count: "


@pytest.mark.root
@pytest.mark.lab
def test_a_live_run_is_near_the_labs(scenario_file, tmp_path):
    if os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
        pytest.skip("needs root and /dev/net/tun")
    sets = {"quick": {"seeds": 1}, "full": {"seeds": 1}}
    file = scenario_file(run={"duration": "5s", "measure_from": "2s"}, sets=sets)
    args = ("reality", file, "--passes", "1", "--to", tmp_path / "out")
    p = asymlab(*args)
    assert p.returncode == 0, p.stderr
    rows = read(tmp_path / "out" / "reality.jsonl")
    live = [one for one in rows if one.on == "live"]
    lab = [one for one in rows if one.on != "live"]
    assert live[-1].kernel == os.uname().release and {one.on for one in lab} >= {"uml" if "uml" in LAB else "qemu"}
    if BUSY in p.stderr and live[-1].wrong:
        pytest.skip(p.stderr)
    assert all(abs(live[-1].goodput / one.goodput - 1) < 0.05 for one in lab)
    assert all(abs(live[-1].rtt / one.rtt - 1) < 0.15 for one in lab)
    text = (tmp_path / "out" / "reality.md").read_text()
    assert "\n| TEST | " in text and f"- live: Linux {os.uname().release}, 1 runs" in text
    again = asymlab(*args)
    assert again.returncode == 0 and ": live, " not in again.stderr, "it is not made again"
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
