# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""TCP Formosa, both halves, packet by packet on each kernel: what leaves the queues, and how the sender takes it."""

from __future__ import annotations

import numpy as np
import pytest

from asymlab.results import capture
from tests.scenarios import CAPTURE, FORMOSA, LINUX, PLAIN
from tests.shared import LAB_KERNELS, check_physics, counters, run

pytestmark = pytest.mark.lab

DEEP = {"run": {"trace_state": True}, "forward": {"queue": 1000}}
DATA = np.dtype(
    [
        ("kind", "u1"),
        ("length", "u1"),
        ("exid", ">u2"),
        ("flags", "u1"),
        ("round", "u1"),
        ("srtt", ">u2"),
        ("stamp", ">u4"),
    ]
)
ANSWER = np.dtype(
    [("kind", "u1"), ("length", "u1"), ("exid", ">u2"), ("signal", "u1"), ("round", "u1"), ("queue", ">u2")]
)
DATA_EXID, ANSWER_EXID = 0xF0A1, 0xF0A2
A, F = 0x80, 0x10


def with_option(packets, layout, exid):
    """(packets that carry our option, the options)."""
    has, options = capture.option(packets["options"], 253, layout.itemsize, exid)
    return packets[has], options.view(layout)


@pytest.mark.parametrize("kernel", LAB_KERNELS)
def test_rounds_flags_and_answers(scenario_file, kernel):
    """No loss: the paper's example, on the wire."""
    r = run(scenario_file(FORMOSA, PLAIN, CAPTURE, DEEP, reverse={"rate": "100kbit"}), kernel)
    check_physics(r)
    n = counters(r, "formosa")
    assert n["losses"] == n["timeouts"] == n["fallbacks"] == n["options_bad"] == n["nacks"] == 0
    data, option = with_option(r.capture("forward"), DATA, DATA_EXID)
    acks, answer = with_option(r.capture("reverse"), ANSWER, ANSWER_EXID)
    assert (data["bytes"][data["payload"] == 948] == 1000).all() and (acks["bytes"] == 48).all()
    assert 0.9 <= len(acks) / n["rounds"] <= 1.3

    rounds = np.cumsum(np.diff(option["round"].astype(int), prepend=option["round"][:1].astype(int)) % 256)
    assert list(np.bincount(rounds)[:10]) == [1, 2, 3, 5, 8, 13, 21, 34, 55, 89]
    flagged = option["flags"] & A > 0
    assert (flagged == np.append(True, np.diff(rounds) > 0)).all(), (
        "the first packet of each round is flagged, and no other"
    )

    ends = data["seq"][flagged] + data["payload"][flagged]
    forced = acks[answer["signal"] & F > 0]
    assert set(ends[:-2]) <= set(forced["ack"]), (
        "the ACK that a flag forces covers the flagged packet, and ends with it"
    )
    assert (np.diff(forced["ack"].astype("i8")) > 0).all() and len(forced) >= len(ends) - 2

    state = r.state(0)
    assert (state["cwnd"] <= state["w"] + state["w_last"]).all()
    cut = np.flatnonzero(np.diff(state["peer_signals"]) > 0)
    w = state["w"].astype("i8") * 2**16 + state["w_part"]
    assert len(cut) > 3 and (w[cut + 1] == w[cut] - w[cut] // 8).all()


@pytest.mark.parametrize("kernel", LAB_KERNELS)
def test_queue_estimate_follows_the_queue(scenario_file, kernel):
    """The forward queueing delay that a flagged packet's answer tells, beside what the packet waited: the mean of the
    last few."""
    r = run(scenario_file(FORMOSA, PLAIN, CAPTURE, DEEP), kernel)
    data, option = with_option(r.capture("forward"), DATA, DATA_EXID)
    acks, answer = with_option(r.capture("reverse"), ANSWER, ANSWER_EXID)
    waited = (data["t"] * 1e6 - option["stamp"]) % 2**32  # us, and a constant: one clock's zero
    waited -= waited.min()
    at = {int(seq + size): us for seq, size, us in zip(data["seq"], data["payload"], waited)}
    pairs = np.array([(at[int(a["ack"])], 64 * o["queue"]) for a, o in zip(acks, answer) if int(a["ack"]) in at])
    assert len(pairs) > 50 and pairs[:, 0].max() > 20_000, "slow start fills the queue"
    assert np.corrcoef(pairs.T)[0, 1] > 0.95 and np.abs(pairs[:, 1] - pairs[:, 0]).mean() < 1000


def test_a_third_of_the_acks_lost(scenario_file):
    """
    Each lost answer costs a probe's wait, and the SYN-ACK's a second: slower, but it goes on to the end. Two lost
    answers to timeouts in a row are five seconds of silence, which one flow in some has: the last twenty seconds are
    long enough for three in a row.
    """
    r = run(scenario_file(FORMOSA, PLAIN, LINUX, reverse={"loss": "30%"}, run={"duration": "30s"}))
    assert counters(r, "formosa")["fallbacks"] == 0
    assert r.goodput["bytes"][r.goodput["t"] > 10].sum() > 100_000


def test_a_path_that_reorders(scenario_file):
    """1 % of the packets overtake: each makes a gap that closes by itself."""
    r = run(scenario_file(FORMOSA, PLAIN, LINUX, forward={"reorder": "1%"}))
    n = counters(r, "formosa")
    assert r.metrics["utilisation"] > 0.5 and n["nacks"] > 5 and n["acks_suppressed"] > n["acks_sent"]


@pytest.mark.parametrize("syn", [False, True])
def test_middlebox_that_strips(scenario_file, syn):
    """From all segments, or all but the handshake's: the transfer goes on without options, the delay by timestamps."""
    strip = {"kinds": [253], "syn": syn}
    r = run(scenario_file(FORMOSA, PLAIN, LINUX, forward={"strip": strip}, run={"duration": "6s"}))
    n = counters(r, "formosa")
    assert r.metrics["utilisation"] > 0.8
    assert n["fallbacks"] == (not syn) and n["acks_suppressed"] == n["options_seen"] == 0 and n["signals"] > 0
    assert r.metrics["forward"]["drops"] == 0, "a queue of two BDPs is left to the delay signal"
