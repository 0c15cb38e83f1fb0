# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ACC+SA, both halves, on each kernel: a reverse queue with RED marks ACKs, and fewer come."""

from __future__ import annotations

import numpy as np
import pytest

from asymlab.results import capture
from tests.scenarios import CAPTURE
from tests.shared import LAB_KERNELS, check_physics, counters, run

pytestmark = pytest.mark.lab

ACCSA = {"flow": {"controller": "accsa"}}
LINUX = {
    "profile": "linux",
    "sysctls": {"net.ipv4.tcp_timestamps": 0},
    "run": {"duration": "6s", "measure_from": "2s", "traffic": "plain"},
}
SLOW = {"reverse": {"rate": "100kbit", "queue": 10}}
RED = {"reverse": {"rate": "100kbit", "queue": 10, "red": {"min": 4, "max": 8, "probability": "10%", "ecn": True}}}
DATA = np.dtype(
    [
        ("kind", "u1"),
        ("length", "u1"),
        ("exid", ">u2"),
        ("flags", "u1"),
        ("marks", "u1"),
        ("cwnd", ">u2"),
        ("una", ">u4"),
    ]
)


def dk(r) -> float:
    """Mean of the ACKs that were sent."""
    n = counters(r, "accsa")
    return n["dk_sum"] / n["acks_sent"]


@pytest.mark.parametrize("kernel", LAB_KERNELS)
def test_marks_thin_the_acks(scenario_file, kernel):
    """312 ACKs a second fit, 1250 packets come: RED marks, the sender tells, dk rises, and few ACKs are dropped."""
    r = run(scenario_file(ACCSA, LINUX, CAPTURE, RED), kernel)
    check_physics(r)
    n = counters(r, "accsa")
    assert n["fallbacks"] == n["options_bad"] == n["timeouts"] == 0 and n["peers"] == 2
    assert n["marks"] > 10 and n["doublings"] > 5 and n["decrements"] > 5 and dk(r) > 2
    queue = r.record["agent"]["marks"]["end"]["qdisc"]["right-left"]
    assert queue["marks"] >= n["marks"] and n["acks_suppressed"] > n["acks_sent"] / 2
    drops = run(scenario_file(LINUX, SLOW)).metrics["reverse"]["drops"]  # stock, so on any kernel
    assert r.metrics["reverse"]["drops"] < drops / 2 and r.metrics["acks_per_data_packet"] < 0.5

    sent = r.capture("forward")
    sent = sent[sent["payload"] > 0]
    has, option = capture.option(sent["options"], 253, DATA.itemsize, 0xF0A4)
    option = option.view(DATA)
    assert has.all(), "each data segment has the option"
    marks = np.diff(option["marks"].astype(int), prepend=0) % 256
    assert (marks < 128).all() and n["marks"] - 5 <= marks.sum() <= n["marks"], "each mark is told of once"
    assert (np.diff(option["una"].astype("i8")) >= 0).all() and (option["cwnd"] >= 2).all()


def test_a_wide_reverse_path_leaves_an_ack_for_each_packet(scenario_file):
    r = run(scenario_file(ACCSA, LINUX, RED, reverse={"rate": "2mbit"}))
    n = counters(r, "accsa")
    assert n["marks"] == n["doublings"] == n["acks_suppressed"] == 0 and dk(r) == 1
    assert r.metrics["acks_per_data_packet"] == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("syn", [False, True])
def test_middlebox_that_strips(scenario_file, syn):
    """From all segments: the kernel's Reno. From all but the handshake's: Reno, paced. The receiver answers as it
    always does."""
    r = run(scenario_file(ACCSA, LINUX, RED, forward={"strip": {"kinds": [253], "syn": syn}}))
    n = counters(r, "accsa")
    assert r.metrics["utilisation"] > 0.5
    assert n["fallbacks"] == syn and n["options_seen"] == n["acks_suppressed"] == n["doublings"] == n["marks"] == 0
    assert (n["options_sent"] == 0) == syn


@pytest.mark.parametrize("lost", [{"forward": {"loss": "2%"}}, {"reverse": {"loss": "30%"}}])
def test_losses_end_nothing(scenario_file, lost):
    """2 % of the data, or 30 % of the ACKs beside those that RED marks."""
    r = run(scenario_file(ACCSA, LINUX, RED, lost, run={"duration": "12s"}))
    assert r.goodput["bytes"][r.goodput["t"] > 10].sum() > 50_000
