# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The rate that theory gives a law on these paths, and how near its runs come."""

import math

PAYLOAD = 1448  # bytes of a packet
C, BETA = 0.4, 0.7  # of RFC 9438


def reno_window(p: float) -> float:
    """Packets, for an ACK each (Mathis et al. 1997, eq. 3)."""
    return math.sqrt(1.5 / p)


def cubic_window(p: float, rtt_s: float) -> float:
    """Packets (RFC 9438, 5.1, eq. 6); in the Reno-friendly region as Reno's (4.3)."""
    own = (C * (3 + BETA) / (4 * (1 - BETA))) ** 0.25 * (rtt_s / p) ** 0.75
    return max(own, reno_window(p))


def packets_a_second(run, flow: int = 0) -> float:
    return run.metrics["flows"][flow]["goodput_bps"] / 8 / PAYLOAD


def base_s(run, flow: int = 0) -> float:
    return run.job.probes[flow].base_rtt_us / 1e6


def over_loss_law(run, p: float) -> float:
    """Throughput over the law's; the link is faster than that."""
    rtt = base_s(run)
    window = {"reno": reno_window(p), "cubic": cubic_window(p, rtt)}[run.job.flows[0].controller]
    return packets_a_second(run) * rtt / window


def excess_s(run, flow: int = 0) -> float:
    """The mean round trip less the shortest, as the sender's samples have it in what is measured."""
    acks = run.acks[(run.acks["flow"] == flow) & (run.acks["rtt_us"] > 0)]
    late = acks[acks["t"] >= run.job.measure_from_s]["rtt_us"]
    return (late.mean() - acks["rtt_us"].min()) / 1e6


def kept(run, flow: int = 0) -> float:
    """The packets that it keeps in what it takes for a queue (Little): alpha, says the law."""
    return packets_a_second(run, flow) * excess_s(run, flow)


def over_noise_bound(run, alpha: int, jitter_ms: int) -> float:
    """Throughput over the least that noise of twice the jitter leaves, or over the link's."""
    link = run.job.watch[0].forward.rate_bps / 8 / 1500
    return packets_a_second(run) / min(link, alpha / (2e-3 * jitter_ms) if jitter_ms else link)


def ratio_of_excess(run) -> float:
    """The first flow's throughput over the second's, over what their excesses ask for."""
    return packets_a_second(run, 0) / packets_a_second(run, 1) * excess_s(run, 0) / excess_s(run, 1)


def first_over_second(run) -> float:
    return packets_a_second(run, 0) / packets_a_second(run, 1)
