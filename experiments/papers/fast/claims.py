# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of "Throughput of FAST TCP in Asymmetric Networks" (Ge, Tan, Zukerman 2008), and ours beside them."""

from asymlab.report.claim import Check, Claim
from asymlab.report.judged import Ratio
from asymlab.report.measures import Runs, each, goodput_of, ratio, ratio_by_seed, throughput

TITLE = "FAST TCP in asymmetric networks"
SUBJECT = "A flow's throughput falls as 1/k_f where its ACKs are the bottleneck."

C_F = 100e6  # forward rate, bit/s
P_B = 40  # ACK, bytes
ALPHA = 1000  # packets
TREND = 0.05  # of the mean, that a stable throughput may change by
RATES = ("10mbit", "5mbit", "4mbit", "3mbit", "2mbit", "1mbit", "0.5mbit", "0.2mbit", "0.1mbit")


def k_f(reverse_bps: float, packet_bytes: int = 1000) -> float:
    """Asymmetry factor, eq. 1: ACK time on the reverse link over data time on the forward link."""
    return C_F * P_B / (reverse_bps * packet_bytes)


def theorem1(k: float) -> float:
    """Throughput of a single flow, bit/s (Theorem 1). Eq. 14's 2 c_f / (1 + k_f) holds at k_f = 1 only."""
    return C_F * min(1, 1 / k)


def mbit(text: str) -> float:
    return float(text.removesuffix("mbit")) * 1e6


def t1(rate: str) -> Runs:
    return Runs("FA-T1", path__reverse__rate=rate)


def trend(run) -> float:
    """Of the throughput, over the second half."""
    return run.metrics["flows"][0]["goodput_trend"]


def queueing_delay(run) -> float:
    """Mean of the first flow, s."""
    return run.metrics["flows"][0]["rtt_s"]["mean"] - run.job.probes[0].base_rtt_us / 1e6


def claims():
    yield from figures_2_to_4(t1("1mbit"), t1("0.1mbit"), Runs("FA-4"))
    yield from theorem_1()
    yield from shares()
    yield from more_shares()
    yield from simulators_constants()
    for rate, k in (("1mbit", 4), ("0.1mbit", 40)):
        says = f"k_f = {k}: Formosa's throughput on the same link {{bound}} times FAST's"
        value = ratio_by_seed(Runs("FA-X3", path__reverse__rate=rate), t1(rate), throughput)
        yield Check(f"FA-X3 {rate}", "not in the letter", says, value, at_least=3)


def figures_2_to_4(fig2, fig3, fig4):
    yield Claim(
        "FA-2a",
        "Fig. 2",
        "c_b = {reverse} (k_f = 4): throughput {bound} Mbit/s",
        each(fig2, throughput),
        paper=25,
        near=(25, 0.05),
    )
    yield Claim(
        "FA-2b",
        "Fig. 2",
        "k_f = 4: the 0.1-s throughput is steady, CV {bound}",
        each(fig2, lambda r: r.metrics["flows"][0]["goodput_cv"]),
        at_most=0.15,
    )
    yield Claim(
        "FA-3a",
        "Fig. 3",
        "c_b = {reverse} (k_f = 40): throughput {bound} Mbit/s",
        each(fig3, throughput),
        paper=2.5,
        near=(2.5, 0.05),
    )
    yield Claim(
        "FA-3b",
        "Fig. 3",
        f"k_f = 40: stable, the trend over the second half is within {100 * TREND:g} %",
        each(fig3, trend),
        paper=0,
        within=(-TREND, TREND),
    )
    yield Claim(
        "FA-4a",
        "Fig. 4",
        "P_f = 2000 B, c_b = {reverse} (k_f = 20): throughput {bound} Mbit/s",
        each(fig4, throughput),
        paper=5,
        near=(5, 0.05),
    )
    yield Claim(
        "FA-4b",
        "section IV",
        "2000-byte packets double the throughput: ratio to Fig. 3 in {bound}",
        ratio_by_seed(fig4, fig3, throughput),
        paper=2,
        within=(1.9, 2.1),
    )


def theorem_1():
    for rate in RATES:
        expected = theorem1(k_f(mbit(rate))) / 1e6
        says = f"k_f = {k_f(mbit(rate)):.3g}: throughput {{bound}} Mbit/s"
        value = each(t1(rate), throughput)
        yield Claim(f"FA-T1 {rate}", "Theorem 1", says, value, paper=expected, near=(expected, 0.05))
    yield Claim(
        "FA-T1 trend",
        "Theorem 1",
        f"stable for every k_f: no trend beyond {100 * TREND:g} % in any second half",
        each(Runs("FA-T1"), lambda r: abs(trend(r))),
        paper=0,
        at_most=TREND,
        worst=True,
    )


def shares():
    yield Claim(
        "FA-T2a",
        "Theorem 1",
        "alpha 1000 and 500 at k_f = 4: ratio of throughputs in {bound}",
        each(Runs("FA-T2"), Ratio(ratio)),
        paper=2,
        within=(1.8, 2.2),
    )
    yield Claim(
        "FA-T2b", "Theorem 1", "their sum {bound} Mbit/s", each(Runs("FA-T2"), throughput), paper=25, near=(25, 0.05)
    )
    yield Claim(
        "FA-X1",
        "section IV (d/q0 = 0.125)",
        "k_f = 4: mean queueing delay, alpha/x0, {bound} s",
        each(t1("1mbit"), queueing_delay),
        paper=0.32,
        near=(0.32, 0.10),
    )
    yield Check(
        "FA-X2",
        "not in the letter",
        "delayed ACKs halve k_f to 2: throughput {bound} Mbit/s",
        each(Runs("FA-X2"), throughput),
        near=(50, 0.10),
    )


ALPHAS = (1000, 500, 250, 250)  # of FA-T3


def off_share(run, alphas) -> float:
    """How far the flow that is furthest from its share of Theorem 1 is, in parts of that share."""
    found = [goodput_of(run, i) for i in range(len(alphas))]
    return max(abs(x / sum(found) * sum(alphas) / a - 1) for x, a in zip(found, alphas, strict=True))


def more_shares():
    """Where the forward link is the bottleneck, and with four flows."""
    two = Runs("FA-T2-FAST")
    says = "alpha 1000 and 500 at k_f = 0.4: ratio of throughputs in {bound}"
    yield Claim("FA-T2c", "Theorem 1", says, each(two, Ratio(ratio)), paper=2, within=(1.8, 2.2))
    says = "at k_f = 0.4 their sum {bound} Mbit/s"
    yield Claim("FA-T2d", "Theorem 1", says, each(two, throughput), paper=100, near=(100, 0.05))
    for rate, k in (("1mbit", "4"), ("10mbit", "0.4")):
        four, total = Runs("FA-T3", path__reverse__rate=rate), theorem1(float(k)) / 1e6
        says = f"alpha 1000, 500, 250, 250 at k_f = {k}: the largest distance from a flow's share {{bound}} of it"
        value = each(four, lambda r: off_share(r, ALPHAS))
        yield Claim(f"FA-T3a {k}", "Theorem 1", says, value, paper=0, at_most=0.1)
        says = f"the sum of the four at k_f = {k} {{bound}} Mbit/s"
        yield Claim(f"FA-T3b {k}", "Theorem 1", says, each(four, throughput), paper=total, near=(total, 0.05))


def simulators_constants():
    for rate in ("10mbit", "1mbit", "0.1mbit"):
        runs, k = Runs("FA-NS2", path__reverse__rate=rate), k_f(mbit(rate))
        total = theorem1(k) / 1e6
        says = f"eta 1/256 and an update each 10 ms, k_f = {k:.3g}: throughput {{bound}} Mbit/s"
        yield Check(f"FA-NS2 {rate}", "section IV", says, each(runs, throughput), near=(total, 0.05))
        says = f"the same: no trend beyond {100 * TREND:g} % over the second half"
        yield Check(f"FA-NS2 {rate} trend", "section IV", says, each(runs, lambda r: abs(trend(r))), at_most=TREND)
