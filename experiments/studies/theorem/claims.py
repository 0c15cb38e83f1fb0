# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Theorem 1 of the FAST letter with m packets an ACK, and with a finite queue of ACKs. No paper has it: all is a check.

The letter: where ACKs are the bottleneck, x = c_f / k_f. Here: x = c_f min(1, m / k_f), with m the packets for each ACK
that comes to the bottleneck of the ACKs. In a finite queue of B ACKs FAST finds its delay alpha / x when it is full:
then m = alpha / B, if that is more than 1. The letter keeps all queues infinite.
"""

from asymlab.report.claim import Check
from asymlab.report.measures import Runs, each, throughput, together

TITLE = "Theorem 1 with m packets an ACK"
SUBJECT = "c_f min(1, m / k_f): what ACK thinning, delayed ACKs, lost ACKs and a finite queue of ACKs leave of a link."

C_F = 20  # Mbit/s
ALPHA = 200  # packets
K_F = {"2mbit": 0.4, "0.6mbit": 4 / 3, "0.2mbit": 4, "40kbit": 20, "20kbit": 40}  # by the reverse rate
SLOW = ("0.2mbit", "20kbit")
M = (1, 2, 4, 16, 64)
QUEUES = (400, 100, 50, 25, 10, 5)  # ACKs
DELAY = {"fast": 0.05, "vegas": 0.05}  # senders that keep a queue, and how far they may be from the law
MODEL = {"bbr": 0.1, "fusion": 0.1}  # by a model of the path
NAMES = {"fast": "FAST", "vegas": "Vegas", "bbr": "BBR", "cubic": "CUBIC", "fusion": "Fusion"}
FINITE = 0.1  # the queue's limit is some packets at the least


def law(k: float, m: float) -> float:
    """Throughput, Mbit/s."""
    return C_F * min(1, m / k)


def finite_m(queue: int) -> float:
    """Packets that an ACK covers where FAST keeps alpha packets and the ACKs' queue has room for `queue`."""
    return max(1, ALPHA / queue)


def at(controller: str, m: int, rate: str) -> Runs:
    if m == 1:
        return Runs("TM-1", path__reverse__rate=rate, flows__controller=controller)
    return Runs("TM-M", path__reverse__rate=rate, thin__max_packets=m, flows__controller=controller)


def delayed(controller: str, rate: str) -> Runs:
    return Runs("TM-DELAYED", path__reverse__rate=rate, flows__controller=controller)


def before(controller: str, rate: str) -> Runs:
    return Runs("TM-BEFORE", path__hops__0__reverse__rate=rate, flows__controller=controller)


def behind(controller: str, rate: str) -> Runs:
    return Runs("TM-BEHIND", path__reverse__rate=rate, flows__controller=controller)


def finite(queue: int, rate: str) -> Runs:
    return Runs("TM-FINITE", path__reverse__rate=rate, path__reverse__queue=queue, flows__controller="fast")


def others(controller: str, rate: str) -> Runs:
    return Runs("TM-OTHERS", path__reverse__rate=rate, flows__controller=controller)


def over_law(runs, expected) -> list[float]:
    return [throughput(run) / x for run, x in zip(runs, expected, strict=True)]


def judged(id: str, says: str, controller: str, lists, expected, limit: float = 0):
    """The largest distance from the law; of CUBIC, whose window grows until ACKs are dropped, the smallest ratio."""

    def farthest(runs) -> float:
        return max(abs(x - 1) for x in over_law(runs, expected))

    def least(runs) -> float:
        return min(over_law(runs, expected))

    if controller == "cubic":
        return Check(id, "the law", f"{says}: the least over the law {{bound}}", together(lists, least), at_least=0.95)
    limit = limit or (DELAY | MODEL)[controller]
    return Check(id, "the law", f"{says}: farthest from the law {{bound}}", together(lists, farthest), at_most=limit)


def claims():
    for c, name in NAMES.items():
        for m in M:
            lists, expected = [at(c, m, rate) for rate in K_F], [law(k, m) for k in K_F.values()]
            yield judged(f"TM {c} {m}", f"{name}, m = {m}, k_f = 0.4 to 40", c, lists, expected)
    for rate, m in (("0.2mbit", 2), ("40kbit", 16), ("20kbit", 16)):
        k = K_F[rate]
        says = f"FAST, k_f = {k}, m = {m}: throughput {{bound}} Mbit/s"
        x = law(k, m)
        yield Check(
            f"TM fast {rate} {m}", "the law", says, each(at("fast", m, rate), throughput), paper=x, near=(x, 0.05)
        )
    for kind, runs, m, what in (
        ("delayed", delayed, 2, "delayed ACKs, m = 2"),
        ("before", before, 2, "half of the ACKs lost before their bottleneck, m = 2"),
        ("behind", behind, 1, "half of the ACKs lost behind it, m = 1"),
    ):
        for c, name in NAMES.items():
            lists, expected = [runs(c, rate) for rate in SLOW], [law(K_F[rate], m) for rate in SLOW]
            yield judged(f"TM {c} {kind}", f"{name}, {what}, k_f = 4 and 40", c, lists, expected)
    rates = ("0.2mbit", "40kbit", "20kbit")
    for queue in QUEUES:
        lists, expected = [finite(queue, rate) for rate in rates], [law(K_F[rate], finite_m(queue)) for rate in rates]
        says = f"FAST, room for {queue} ACKs, m = {finite_m(queue):g}, k_f = 4, 20, 40"
        yield judged(f"TM finite {queue}", says, "fast", lists, expected, FINITE)
    for c in ("vegas", "bbr", "cubic", "fusion"):
        least = together([others(c, rate) for rate in rates], lambda runs: min(map(throughput, runs)) / C_F)
        says = f"{NAMES[c]}, room for 50 ACKs, k_f = 4, 20, 40: the least of the link is {{bound}}"
        yield Check(f"TM others {c}", "a finite queue", says, least, at_least=0.9)
