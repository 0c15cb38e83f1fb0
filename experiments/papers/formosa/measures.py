# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The measures of Formosa's claims and figures: from metrics, and from captured packets."""

import numpy as np

from asymlab.guest.protocol import FLOW_PORT
from asymlab.report.measures import goodput_of, jain_index
from asymlab.results import capture

RATES = ("20kbit", "60kbit", "100kbit", "200kbit", "400kbit", "600kbit")
SLOWEST, FOUR, TWO, FASTEST = "20kbit", "100kbit", "200kbit", "600kbit"  # r = 20, 4, 2, 0.67
PAPERS = ("reno", "vegas", "accsa")  # the rivals that the paper shows
RIVALS = (*PAPERS, "cubic", "bbr")
PAYLOAD = 0.96  # of a packet without options
OPTION = 0.012  # of a packet: what the data option takes from the payload of those that have one
VARIANTS = {  # of readings
    "formosa": "the default",
    "hold": "a signal in the round after a cut is dropped",
    "slowcut": "a loss takes an eighth",
    "netsum": "Q is the net sum",
    "reflected": "Q is the sum, not below 0",
    "oneanswer": "one answer a round, also where answers are lost",
    "smallcut": "beyond the paper, a signal takes what is queued",
    "leastcut": "beyond the paper, a signal takes four packets at least",
}
BOUNDS = ("dk2", "dk3", "dk5")  # ACC+SA's, of cause-dk
WITH_OPTION = ("formosa", "accsa", "threenacks", "unpaced", *BOUNDS, *VARIANTS)
FORWARD = 10e6  # bit/s
PACKET_S = 8e-4  # a data packet's time on the forward link


def kbit(rate: str) -> float:
    return float(rate.removesuffix("kbit"))


def r(rate: str) -> float:
    """Asymmetry ratio: an ACK's time on the reverse link over a data packet's on the forward link."""
    return 400 / kbit(rate)


def packets_of(run) -> float:
    """The first flow's, Mbit/s: whole packets, with the options in them."""
    share = PAYLOAD - OPTION if run.metrics["flows"][0]["controller"] in WITH_OPTION else PAYLOAD
    return goodput_of(run) / share


def packets_of_link(run) -> float:
    """The first flow's, over the link's rate."""
    return packets_of(run) * 1e6 / FORWARD


def part_of_link(run) -> float:
    """Throughput of all flows, whole packets with the options in them, over the link's rate."""
    share = PAYLOAD - OPTION if run.metrics["flows"][0]["controller"] in WITH_OPTION else PAYLOAD
    return run.metrics["goodput_bps"] / (FORWARD * share)


def forward_of(run) -> float:
    """Goodput of the forward flows together, Mbit/s."""
    flows = run.job.flows
    return sum(goodput_of(run, i) for i, flow in enumerate(flows) if flow.src == flows[0].src)


def jain_range(runs) -> float:
    """The largest Jain index less the smallest."""
    indices = [jain_index(run) for run in runs]
    return max(indices) - min(indices)


def least_jain(runs) -> float:
    return min(jain_index(run) for run in runs)


def arrived_of_r(run) -> float:
    """ACKs sent for each that leaves the reverse queue, over r."""
    reverse = run.metrics["reverse"]
    back = run.job.watch[0].reverse.rate_bps / 1e3
    return (reverse["packets"] + reverse["drops"]) / reverse["packets"] / (400 / back)


def fig2_of(runs) -> float:
    """How many of Fig. 2's statements hold; runs of Formosa, Reno, Vegas, ACC+SA at r = 4, then at 0.67."""
    formosa, reno, vegas, accsa = map(packets_of, runs[:4])
    fast, fast_reno, fast_vegas, fast_accsa = map(packets_of, runs[4:])
    return float(
        sum(
            [
                formosa >= 0.95 * fast,
                formosa >= 0.98 * max(reno, vegas, accsa),
                fast >= 0.98 * fast_vegas,
                fast_vegas >= 0.98 * fast_accsa,
                fast_accsa >= 0.98 * fast_reno,
                reno < 0.95 * fast_reno and vegas < 0.95 * fast_vegas and accsa < 0.95 * fast_accsa,
                accsa > reno,
            ]
        )
    )


def fig3_of(runs) -> float:
    """How many of Fig. 3's statements about Formosa hold; runs at r = 20, 4, 0.67."""
    slowest, four, fast = map(part_of_link, runs)
    return float(sum([min(map(jain_index, runs)) >= 0.95, slowest >= 0.90 * fast, four >= 0.90 * fast]))


def reading_of(runs) -> float:
    """How many statements hold of a reading; runs of one flow at r = 4 and 0.67, of ten at 20, 4 and 0.67."""
    four, fast = map(packets_of, runs[:2])
    return float(sum([four >= 0.95 * fast, fast >= 0.98 * FORWARD / 1e6, part_of_link(runs[4]) >= 0.98])) + fig3_of(
        runs[2:]
    )


def drops(run) -> float:
    """Packets that the forward queue dropped in the measured window."""
    return float(run.metrics["forward"]["drops"])


def drops_in_all(run) -> float:
    links = run.links[run.links["dev"] == run.job.watch[0].forward.dev]
    return float(links["drops"].max())


# --- from captured packets --------------------------------------------------------------------

DATA_OPTION = np.dtype(
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
    has, options = capture.option(packets["options"], 253, DATA_OPTION.itemsize, EXID)
    option = options.view(DATA_OPTION)
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


def as_fibonacci(run) -> float:
    return fibonacci(round_sizes(run))


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


def unasked_reports_per_repair(run) -> float:
    return reports_per_repair(run, asked=False)
