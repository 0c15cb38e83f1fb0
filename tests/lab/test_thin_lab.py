# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ACK thinning toward a stock sender, on each kernel: as many ACKs as it is told, and the link stays full."""

from __future__ import annotations

import pytest

from tests.shared import LAB_KERNELS, check_physics, run

pytestmark = pytest.mark.lab

CUBIC = ('controller = "reno"', 'controller = "cubic"\nack = "delayed"')
PLAIN = ('duration = "3s"\nmeasure_from = "1s"', 'duration = "8s"\nmeasure_from = "4s"\ntraffic = "plain"')
WIDE = ("mtu = 1000", "mtu = 1500")
LINUX = ('profile = "ns2"', 'profile = "linux"')


@pytest.mark.parametrize("kernel", LAB_KERNELS)
def test_a_sender_gets_as_many_acks_as_are_asked_for(scenario_file, kernel):
    """33 to 133 packets an RTT, by the queue: an ACK for each or for two of them, or four to an RTT."""
    every = run(scenario_file(CUBIC, WIDE, LINUX, PLAIN))  # stock, so on any kernel
    few = run(
        scenario_file(
            CUBIC, WIDE, LINUX, PLAIN, append="\n[thin]\nacks_per_rtt = 4\nmax_packets = 64\nwaits_only = 0\n"
        ),
        kernel,
    )
    for r in (every, few):
        check_physics(r)
    acks = [r.metrics["acks_per_data_packet"] for r in (every, few)]
    assert acks[0] > 0.45 and 4 / 133 < acks[1] < 4 / 33
    goodput = [r.metrics["flows"][0]["goodput_bps"] for r in (every, few)]
    assert goodput[1] > 0.98 * goodput[0]


FAR = """
[path]
mtu = 1500
forward = { rate = "20mbit", delay = "200ms", queue = 670 }
reverse = { rate = "2mbit", delay = "200ms", queue = 100 }
"""
FAST_START = """
title = "A slow start"
id = "START"
[[flows]]
controller = "cubic"
ack = "delayed"
[run]
duration = "8s"
measure_from = "1s"
traffic = "plain"
"""
TWO_WAY = """
[[flows]]
controller = "cubic"
direction = "reverse"
ack = "delayed"
hosts_of = 0
"""


def both(tmp_path, text, waits_only=1):
    """With all ACKs, and thinned."""
    file = tmp_path / "thinned.toml"
    runs = []
    for thins in (0, 1):
        file.write_text(f"{text}\n[thin]\nthins = {thins}\nwaits_only = {waits_only}\n")
        runs.append(run(file))
        check_physics(runs[-1])
    return runs


def test_slow_start_ends_in_time(tmp_path):
    """CUBIC's HyStart hears by the train of ACKs that the path is full. Without one it loses a window."""
    every, thinned = both(tmp_path, FAST_START.replace("[[flows]]", FAR + "\n[[flows]]"), waits_only=0)
    assert thinned.metrics["flows"][0]["retransmits"] <= every.metrics["flows"][0]["retransmits"]
    assert thinned.metrics["goodput_bps"] > 0.98 * every.metrics["goodput_bps"]
    assert thinned.metrics["acks_per_data_packet"] < 0.6 * every.metrics["acks_per_data_packet"]


def test_nothing_is_dropped_beside_an_upload_of_this_machine(tmp_path):
    path = FAR.replace("200ms", "20ms").replace("20mbit", "10mbit").replace("2mbit", "1mbit").replace("670", "34")
    every, thinned = both(tmp_path, FAST_START.replace("[[flows]]", path + "\n[[flows]]", 1) + TWO_WAY, waits_only=0)
    assert [f["goodput_bps"] for f in thinned.metrics["flows"]] == [f["goodput_bps"] for f in every.metrics["flows"]]
    counted = {c["name"]: c["value"] for c in thinned.record["agent"]["thin"]["counters"]}
    assert counted["acks_beside"] > 100 and counted["acks_suppressed"] == 0


NEAR = """
[path]
mtu = 1500
forward = { rate = "10mbit", delay = "5ms", queue = 25 }
reverse = { rate = "100kbit", delay = "5ms", queue = 25 }
"""


@pytest.mark.parametrize("controller", ["cubic", "bbr"])
def test_a_full_queue_of_acks_is_no_worse_thinned(tmp_path, controller):
    """The queue drops two ACKs of five itself. 16 ACKs in each RTT filled and emptied it, which cost CUBIC a third."""
    text = FAST_START.replace("[[flows]]", NEAR + "\n[[flows]]").replace("cubic", controller)
    every, thinned = both(tmp_path, text.replace('"8s"', '"12s"').replace('"1s"', '"3s"'))
    assert thinned.metrics["goodput_bps"] > 0.98 * every.metrics["goodput_bps"]


def test_no_ack_is_dropped_that_does_not_wait(tmp_path):
    """2 Mbit/s have room for each."""
    every, thinned = both(tmp_path, FAST_START.replace("[[flows]]", FAR + "\n[[flows]]"))
    assert thinned.metrics["acks_per_data_packet"] == every.metrics["acks_per_data_packet"]


def test_a_router_thins_as_the_host_does(tmp_path):
    """The ACKs need 160 kbit/s, and have 40. Both leave the download whole, with as many of them."""
    text = FAST_START.replace("[[flows]]", NEAR.replace("100kbit", "40kbit").replace("5ms", "20ms") + "\n[[flows]]")
    file, runs = tmp_path / "at.toml", []
    for thin in ("thins = 0", "reverse_kbit = 40", 'reverse_kbit = 40\nat = "router"'):
        file.write_text(f"{text}\n[thin]\n{thin}\n")
        runs.append(run(file))
        check_physics(runs[-1])
    none, host, router = (r.metrics["goodput_bps"] for r in runs)
    assert router > 0.9 * host and router > 0.98 * none
    counted = {c["name"]: c["value"] for c in runs[2].record["agent"]["thin"]["counters"]}
    assert counted["acks_suppressed"] > 1000


OVERFLOWS = """
title = "A start that overflows the queue"
id = "HOLES"
profile = "linux"
[path]
forward = { rate = "50mbit", delay = "20ms", queue = 165 }
reverse = { rate = "200kbit", delay = "20ms", queue = 250 }
[[flows]]
controller = "bbr"
ack = "delayed"
[run]
duration = "3s"
measure_from = "0s"
traffic = "plain"
[thin]
reverse_kbit = 200
"""


@pytest.mark.parametrize("at", ["host", "router"])
def test_nothing_is_sent_again_that_has_come(tmp_path, at):
    """BBR's start sends faster than the link for some RTTs, so the receiver has hundreds of holes. An ACK shows three
    blocks, and each packet between two holes is one: the sender hears of each."""
    file = tmp_path / "holes.toml"
    file.write_text(f'{OVERFLOWS}at = "{at}"\n')
    r = run(file)
    check_physics(r)
    assert r.metrics["flows"][0]["retransmits"] == r.metrics["forward"]["drops"] > 200
