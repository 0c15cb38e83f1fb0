# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The law of Theorem 1 with m packets an ACK, how far runs are from it, and which runs have which m."""

from asymlab.report.measures import Runs, throughput

C_F = 20  # Mbit/s
PACKET, ACK = 1000, 40  # bytes
ALPHA = 200  # packets
K_F = {"2mbit": 0.4, "0.6mbit": 4 / 3, "0.2mbit": 4, "40kbit": 20, "20kbit": 40}  # by the reverse rate
M = (1, 2, 4, 16, 64)
QUEUES = (400, 100, 50, 25, 10, 5)  # ACKs
NAMES = {"fast": "FAST", "vegas": "Vegas", "bbr": "BBR", "cubic": "CUBIC", "fusion": "Fusion"}


def law(k: float, m: float) -> float:
    """Throughput, Mbit/s."""
    return C_F * min(1, m / k)


def k_f(run) -> float:
    """The asymmetry factor of the slowest reverse link."""
    slowest = min(hop.reverse.rate_bps for hop in run.job.watch)
    return C_F * 1e6 * ACK / (slowest * PACKET)


def over_law(runs, m: float) -> list[float]:
    """Each run's throughput over the law's with m packets an ACK."""
    return [throughput(run) / law(k_f(run), m) for run in runs]


def farthest(runs, m: float) -> float:
    return max(abs(x - 1) for x in over_law(runs, m))


def least(runs, m: float) -> float:
    return min(over_law(runs, m))


def least_of_link(runs) -> float:
    return min(map(throughput, runs)) / C_F


def finite_m(queue: int) -> float:
    """Packets that an ACK covers where FAST keeps alpha packets and the ACKs' queue has room for `queue`."""
    return max(1, ALPHA / queue)


def at(controller: str, m: int, rate: str) -> Runs:
    if m == 1:
        return Runs("TM-1", path__reverse__rate=rate, flows__controller=controller)
    return Runs("TM-M", path__reverse__rate=rate, thin__max_packets=m, flows__controller=controller)


def finite(queue: int, rate: str) -> Runs:
    return Runs("TM-FINITE", path__reverse__rate=rate, path__reverse__queue=queue, flows__controller="fast")
