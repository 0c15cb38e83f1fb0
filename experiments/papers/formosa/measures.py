# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The measures of Formosa's claims and figures, and the rates at which they are taken."""

from asymlab.report.measures import goodput_of, jain_index

RATES = ("20kbit", "60kbit", "100kbit", "200kbit", "400kbit", "600kbit")
SLOWEST, FOUR, TWO, FASTEST = "20kbit", "100kbit", "200kbit", "600kbit"  # r = 20, 4, 2, 0.67
TEN_RATES = (SLOWEST, FOUR, "400kbit", FASTEST)
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
    """Of the first flow, Mbit/s: whole packets, with the options in them."""
    share = PAYLOAD - OPTION if run.metrics["flows"][0]["controller"] in WITH_OPTION else PAYLOAD
    return goodput_of(run) / share


def part_of_link(run) -> float:
    """Throughput of all flows, whole packets with the options in them, over the link's rate."""
    share = PAYLOAD - OPTION if run.metrics["flows"][0]["controller"] in WITH_OPTION else PAYLOAD
    return run.metrics["goodput_bps"] / (FORWARD * share)


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
