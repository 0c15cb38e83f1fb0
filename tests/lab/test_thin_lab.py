# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ACK thinning toward a stock sender, on each kernel: as many ACKs as it is told, and the link stays full."""

from __future__ import annotations

import pytest

from shared import KERNELS, check_physics, run

pytestmark = pytest.mark.lab

CUBIC = ('controller = "reno"', 'controller = "cubic"\nack = "delayed"')
PLAIN = ('duration = "3s"\nmeasure_from = "1s"', 'duration = "8s"\nmeasure_from = "4s"\ntraffic = "plain"')
WIDE = ("mtu = 1000", "mtu = 1500")
LINUX = ('profile = "ns2"', 'profile = "linux"')


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_sender_gets_as_many_acks_as_are_asked_for(scenario_file, kernel):
    """33 to 133 packets an RTT, by the queue: an ACK for each or for two of them, or four to an RTT."""
    every = run(scenario_file(CUBIC, WIDE, LINUX, PLAIN), kernel)
    few = run(scenario_file(CUBIC, WIDE, LINUX, PLAIN, append="\n[thin]\nacks_per_rtt = 4\nmax_packets = 64\n"), kernel)
    for r in (every, few):
        check_physics(r)
    acks = [r.metrics["acks_per_data_packet"] for r in (every, few)]
    assert acks[0] > 0.45 and 4 / 133 < acks[1] < 4 / 33
    goodput = [r.metrics["flows"][0]["goodput_bps"] for r in (every, few)]
    assert goodput[1] > 0.98 * goodput[0]
