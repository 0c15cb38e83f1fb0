# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ACKs that wait behind an upload are no queue of the data (forward.bpf.h): a download beside CUBIC going up."""

from __future__ import annotations

import pytest

from tests.scenarios import LINUX, merge, write
from tests.shared import LAB_KERNELS, run

pytestmark = pytest.mark.lab

CABLE = {
    "ack": "delayed",
    "path": {
        "mtu": 1500,
        "forward": {"rate": "50mbit", "delay": "15ms", "queue": 125},
        "reverse": {"rate": "1mbit", "delay": "15ms", "queue": 125},
    },
    "flows": [{"controller": "cubic", "direction": "reverse", "start": "2s"}],
    "run": {"duration": "20s", "measure_from": "8s"},
}


def download(tmp_path, kernel, controller, **parts):
    parts = merge(merge({}, LINUX | CABLE), parts)
    return run(write(tmp_path, flow={"controller": controller}, **parts), kernel).metrics["flows"][0]["goodput_bps"]


@pytest.mark.parametrize("controller", ["fast", "pseudorate", "fusion"])
def test_beside_an_upload_it_has_half_of_cubics_goodput_at_least(tmp_path, controller):
    kernel = LAB_KERNELS[-1]
    assert download(tmp_path, kernel, controller) > 0.5 * download(tmp_path, kernel, "cubic")


def test_the_papers_law_takes_the_acks_wait_for_its_queue(tmp_path):
    """FAST does so wherever the peer has no timestamps, too."""
    whole = download(tmp_path, LAB_KERNELS[0], "fast")
    off = download(tmp_path, LAB_KERNELS[0], "fast", controllers={"fast": {"forward_delay": 0}})
    assert off < 0.05 * whole
