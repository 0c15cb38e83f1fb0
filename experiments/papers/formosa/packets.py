# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the packets of a Formosa flow say, from a run's captures."""

import numpy as np

from asymlab.guest.protocol import FLOW_PORT
from asymlab.results import capture

OPTION = np.dtype(
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
EXID, ANSWER_EXID = 0xF0A1, 0xF0A2  # of formosa.bpf.c: data, answer
FLAG, ANSWER_F = 0x80, 0x10
SACK = 5  # kind of the option


def own(packets):
    """Those of the first flow."""
    return packets[(packets["sport"] == FLOW_PORT) | (packets["dport"] == FLOW_PORT)]


def data_packets(run):
    """(time, option) of the first flow's data packets as they left the forward queue; its rounds count from 0 on."""
    packets = own(run.capture("forward"))
    has, options = capture.option(packets["options"], 253, OPTION.itemsize, EXID)
    option = options.view(OPTION)
    steps = np.diff(option["round"].astype(int), prepend=option["round"][:1].astype(int)) % 256
    return packets["t"][has], option, np.cumsum(np.where(steps < 128, steps, 0))


def round_sizes(run) -> np.ndarray:
    """Packets of each round, from the first."""
    return np.bincount(data_packets(run)[2])


def fibonacci(sizes) -> float:
    """How many of the first rounds are as large as the paper's: 1, 2, 3, 5, 8, 13, ..."""
    a, b, count = 1, 2, 0
    for size in sizes:
        if size != a:
            break
        a, b, count = b, a + b, count + 1
    return float(count)


def spacing_cv(run) -> float:
    """std/mean of the time between data packets as the sender stamped them, in the measured window."""
    t, option, _ = data_packets(run)
    stamps = option["stamp"][t >= run.job.measure_from_s].astype("i8")
    gaps = np.diff(stamps) % 2**32
    return float(gaps.std() / gaps.mean())


def acks_per_round(run) -> float:
    """Pure ACKs that left the reverse queue for each round, in the measured window."""
    start = run.job.measure_from_s
    t, option, _ = data_packets(run)
    back = own(run.capture("reverse"))
    rounds = ((option["flags"] & FLAG) > 0) & (t >= start)
    return float(((back["payload"] == 0) & (back["t"] >= start)).sum() / max(rounds.sum(), 1))


def acks_per_packet_times_w(run) -> float:
    """ACKs per data packet times the mean W of the rounds: 1 for one ACK a round."""
    state = run.state(0)
    inside = state[state["t"] >= run.job.measure_from_s]
    w = inside["w"][np.append(True, np.diff(inside["rounds"]) > 0)]
    return float(run.metrics["acks_per_data_packet"] * w.mean())


def has_sack(options: bytes) -> bool:
    """Does an ACK report gaps?"""
    at = 0
    while at + 1 < len(options) and options[at]:
        if options[at] == SACK:
            return True
        at += 1 if options[at] == 1 else max(options[at + 1], 2)
    return False


def reports_per_repair(run, asked: bool = True) -> float:
    """ACKs with SACK blocks that left the reverse queue, for each packet that was sent again, in the whole run.
    asked=False: without those that answer a flagged packet."""
    back = own(run.capture("reverse"))
    has, options = capture.option(back["options"], 253, ANSWER.itemsize, ANSWER_EXID)
    answers = np.zeros(len(back), bool)
    answers[has] = (options.view(ANSWER)["signal"] & ANSWER_F) > 0
    reports = sum(has_sack(row.tobytes()) for row in back["options"][asked | ~answers])
    return reports / max(run.metrics["flows"][0]["retransmits_whole_run"], 1)
