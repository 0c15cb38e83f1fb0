# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The measures of FAST's claims and figures, and the letter's theorem."""

from asymlab.report.measures import goodput_of

C_F = 100e6  # forward rate, bit/s
P_B = 40  # ACK, bytes
RATES = ("10mbit", "5mbit", "4mbit", "3mbit", "2mbit", "1mbit", "0.5mbit", "0.2mbit", "0.1mbit")
ALPHAS = (1000, 500, 250, 250)  # of FA-T3


def k_f(reverse_bps: float, packet_bytes: int = 1000) -> float:
    """Asymmetry factor, eq. 1: ACK time on the reverse link over data time on the forward link."""
    return C_F * P_B / (reverse_bps * packet_bytes)


def theorem1(k: float) -> float:
    """Throughput of a single flow, bit/s (Theorem 1). Eq. 14's 2 c_f / (1 + k_f) holds at k_f = 1 only."""
    return C_F * min(1, 1 / k)


def mbit(text: str) -> float:
    return float(text.removesuffix("mbit")) * 1e6


def steadiness(run) -> float:
    """Coefficient of variation of the throughput in steps of 0.1 s."""
    return run.metrics["flows"][0]["goodput_cv"]


def trend(run) -> float:
    """The part of its mean by which the throughput changes over the second half."""
    return run.metrics["flows"][0]["goodput_trend"]


def trend_size(run) -> float:
    return abs(trend(run))


def queueing_delay(run) -> float:
    """Mean of the first flow, s."""
    return run.metrics["flows"][0]["rtt_s"]["mean"] - run.job.probes[0].base_rtt_us / 1e6


def off_share(run) -> float:
    """How far the flow that is furthest from its share of Theorem 1 is, in parts of that share."""
    goodputs = [goodput_of(run, i) for i in range(len(ALPHAS))]
    shares = [alpha / sum(ALPHAS) for alpha in ALPHAS]
    return max(abs(x / sum(goodputs) / share - 1) for x, share in zip(goodputs, shares, strict=True))
