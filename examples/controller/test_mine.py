# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Our promises about `mine`: each test is a run of some seconds on a real kernel, and repeats to the byte."""

import pytest


def link(*controllers, **path):
    """Flows on one link of 10 Mbit/s and 40 ms; the queue holds a bandwidth-delay product and a half."""
    way = {"rate": "10mbit", "delay": "20ms", "queue": 50}
    return {
        "title": "mine",
        "id": "MINE",
        "path": {"forward": way | path, "reverse": way},
        "flows": [{"controller": name} for name in controllers],
        "run": {"duration": "12s", "measure_from": "4s"},
    }


def test_it_fills_the_link(lab):
    run = lab.run(link("./mine.bpf.c"))
    assert run.goodput_mbps > 9
    assert run.timeouts == 0


def test_it_shares_with_its_own(lab):
    assert lab.run(link("./mine.bpf.c", "./mine.bpf.c")).jain > 0.9


def test_it_leaves_a_share_to_cubic(lab):
    run = lab.run(link("./mine.bpf.c", "cubic"))
    (mine,), (cubic,) = run.of("mine"), run.of("cubic")
    assert cubic.goodput_mbps > 0.2 * mine.goodput_mbps


@pytest.mark.parametrize("seed", [1, 2])
def test_a_lossy_link_does_not_stop_it(lab, seed):
    assert lab.run(link("./mine.bpf.c", loss="0.1%"), seed=seed).goodput_mbps > 5
