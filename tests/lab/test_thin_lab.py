# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ACK thinning toward a stock sender, on each kernel: as many ACKs as it is told, and the link stays full."""

from __future__ import annotations

import pytest

from tests.scenarios import LINUX
from tests.shared import LAB_KERNELS, check_physics, run

pytestmark = pytest.mark.lab

CUBIC = {"controller": "cubic", "ack": "delayed"}
DOWNLOAD = {"flow": CUBIC, "mtu": 1500, "run": {"duration": "8s", "measure_from": "4s", "traffic": "plain"}}


@pytest.mark.parametrize("kernel", LAB_KERNELS)
def test_a_sender_gets_as_many_acks_as_are_asked_for(scenario_file, kernel):
    """33 to 133 packets an RTT, by the queue: an ACK for each or for two of them, or four to an RTT."""
    thin = {"acks_per_rtt": 4, "max_packets": 64, "waits_only": 0}
    every = run(scenario_file(DOWNLOAD, LINUX))  # stock, so on any kernel
    few = run(scenario_file(DOWNLOAD, LINUX, thin=thin), kernel)
    for r in (every, few):
        check_physics(r)
    acks = [r.metrics["acks_per_data_packet"] for r in (every, few)]
    assert acks[0] > 0.45 and 4 / 133 < acks[1] < 4 / 33
    goodput = [r.metrics["flows"][0]["goodput_bps"] for r in (every, few)]
    assert goodput[1] > 0.98 * goodput[0]


SLOW_START = {"profile": None, "run": {"measure_from": "1s"}}
FAR = {"forward": {"rate": "20mbit", "delay": "200ms", "queue": 670}, "reverse": {"rate": "2mbit", "delay": "200ms"}}
NEAR = {"forward": {"delay": "5ms", "queue": 25}, "reverse": {"rate": "100kbit", "delay": "5ms", "queue": 25}}


@pytest.fixture
def thinned(scenario_file):
    """Runs a slow start once for each table of `thin`."""

    def runs(*thin: dict, **more) -> list:
        done = [run(scenario_file(DOWNLOAD, SLOW_START, more, thin=table)) for table in thin]
        for r in done:
            check_physics(r)
        return done

    return runs


def both(waits_only: int) -> list[dict]:
    """With all ACKs, and thinned."""
    return [{"thins": 0}, {"waits_only": waits_only}]


def test_slow_start_ends_in_time(thinned):
    """CUBIC's HyStart hears by the train of ACKs that the path is full. Without one it loses a window."""
    every, few = thinned(*both(waits_only=0), **FAR)
    assert few.metrics["flows"][0]["retransmits"] <= every.metrics["flows"][0]["retransmits"]
    assert few.metrics["goodput_bps"] > 0.98 * every.metrics["goodput_bps"]
    assert few.metrics["acks_per_data_packet"] < 0.6 * every.metrics["acks_per_data_packet"]


def test_nothing_is_dropped_beside_an_upload_of_this_machine(thinned):
    upload = CUBIC | {"direction": "reverse", "hosts_of": 0}
    path = {"forward": {"queue": 34}, "reverse": {"rate": "1mbit"}}
    every, few = thinned(*both(waits_only=0), **path, flows=[upload])
    assert [f["goodput_bps"] for f in few.metrics["flows"]] == [f["goodput_bps"] for f in every.metrics["flows"]]
    counted = {c["name"]: c["value"] for c in few.record["agent"]["thin"]["counters"]}
    assert counted["acks_beside"] > 100 and counted["acks_suppressed"] == 0


@pytest.mark.parametrize("controller", ["cubic", "bbr"])
def test_a_full_queue_of_acks_is_no_worse_thinned(thinned, controller):
    """The queue drops two ACKs of five itself. 16 ACKs in each RTT filled and emptied it, which cost CUBIC a third."""
    times = {"duration": "12s", "measure_from": "3s"}
    every, few = thinned(*both(waits_only=1), **NEAR, flow={"controller": controller}, run=times)
    assert few.metrics["goodput_bps"] > 0.98 * every.metrics["goodput_bps"]


def test_no_ack_is_dropped_that_does_not_wait(thinned):
    """2 Mbit/s have room for each."""
    every, few = thinned(*both(waits_only=1), **FAR)
    assert few.metrics["acks_per_data_packet"] == every.metrics["acks_per_data_packet"]


def test_a_router_thins_as_the_host_does(thinned):
    """The ACKs need 160 kbit/s, and have 40. Both leave the download whole, with as many of them."""
    path = {"forward": {"delay": "20ms", "queue": 25}, "reverse": {"rate": "40kbit", "delay": "20ms", "queue": 25}}
    runs = thinned({"thins": 0}, {"reverse_kbit": 40}, {"reverse_kbit": 40, "at": "router"}, **path)
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
