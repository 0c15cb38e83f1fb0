# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The measures of Formosa's claims and figures, and the rates at which they are taken."""

from asymlab.report.measures import goodput_of

RATES = ("20kbit", "60kbit", "100kbit", "200kbit", "400kbit", "600kbit")
SLOWEST, FOUR, TWO, FASTEST = "20kbit", "100kbit", "200kbit", "600kbit"  # r = 20, 4, 2, 0.67
PAPERS = ("reno", "vegas", "accsa")  # the rivals that the paper shows
RIVALS = (*PAPERS, "cubic", "bbr")
PAYLOAD = 0.96  # of a packet without options
OPTION = 0.012  # of a packet: what the data option takes from the payload of those that have one
WITH_OPTION = ("formosa", "accsa")
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
    """Goodput of all flows over the most that packets without options could have."""
    return run.metrics["goodput_bps"] / (FORWARD * PAYLOAD)


def drops(run) -> float:
    """Packets that the forward queue dropped in the measured window."""
    return float(run.metrics["forward"]["drops"])


def drops_in_all(run) -> float:
    links = run.links[run.links["dev"] == run.job.watch[0].forward.dev]
    return float(links["drops"].max())
