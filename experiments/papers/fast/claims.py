# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of "Throughput of FAST TCP in Asymmetric Networks" (Ge, Tan, Zukerman 2008), and ours beside them."""

from asymlab.report.measures import ratio_by_seed, throughput
from asymlab.report.verdicts import Ratio

TITLE = "FAST TCP in asymmetric networks"
SUBJECT = "A flow's throughput falls as 1/k_f where its ACKs are the bottleneck."

C_F = 100e6  # forward rate, bit/s
P_B = 40  # ACK, bytes
ALPHA = 1000  # packets
RATES = ("10mbit", "5mbit", "4mbit", "3mbit", "2mbit", "1mbit", "0.5mbit", "0.2mbit", "0.1mbit")


def k_f(reverse_bps: float, packet_bytes: int = 1000) -> float:
    """Asymmetry factor, eq. 1: ACK time on the reverse link over data time on the forward link."""
    return C_F * P_B / (reverse_bps * packet_bytes)


def theorem1(k: float) -> float:
    """Throughput of a single flow, bit/s (Theorem 1). Eq. 14's 2 c_f / (1 + k_f) holds at k_f = 1 only."""
    return C_F * min(1, 1 / k)


def mbit(text: str) -> float:
    return float(text.removesuffix("mbit")) * 1e6


def within(expected: float, share: float) -> dict:
    return {"at_least": expected * (1 - share), "at_most": expected * (1 + share)}


def claims(results):
    verdicts = [*figures_2_to_4(results), *theorem_1(results), *shares(results), *beyond(results)]
    return [v for v in verdicts if v.runs]  # the quick set leaves some to the full one


def t1(results, rate: str):
    return results.all("FA-T1", path__reverse__rate=rate)


def figures_2_to_4(results):
    fig2, fig3, fig4 = t1(results, "1mbit"), t1(results, "0.1mbit"), results.all("FA-4")
    return [
        results.judge(
            "FA-2a",
            "Fig. 2",
            "c_b = 1 Mbit/s (k_f = 4): throughput within 5 % of 25 Mbit/s",
            25,
            fig2,
            throughput,
            **within(25, 0.05),
        ),
        results.judge(
            "FA-2b",
            "Fig. 2",
            "k_f = 4: the 0.1-s throughput is steady, CV <= 0.15",
            None,
            fig2,
            lambda r: r.metrics["flows"][0]["goodput_cv"],
            at_most=0.15,
        ),
        results.judge(
            "FA-3a",
            "Fig. 3",
            "c_b = 0.1 Mbit/s (k_f = 40): throughput within 5 % of 2.5 Mbit/s",
            2.5,
            fig3,
            throughput,
            **within(2.5, 0.05),
        ),
        results.judge(
            "FA-3b",
            "Fig. 3",
            "k_f = 40: stable, the trend over the second half is within 5 %",
            0,
            fig3,
            lambda r: r.metrics["flows"][0]["goodput_trend"],
            at_least=-0.05,
            at_most=0.05,
        ),
        results.judge(
            "FA-4a",
            "Fig. 4",
            "P_f = 2000 B, c_b = 0.1 Mbit/s (k_f = 20): throughput within 5 % of 5 Mbit/s",
            5,
            fig4,
            throughput,
            **within(5, 0.05),
        ),
        results.judge(
            "FA-4b",
            "section IV",
            "2000-byte packets double the throughput: ratio to Fig. 3 in [1.9, 2.1]",
            2,
            *ratio_by_seed(fig4, [fig3], throughput),
            at_least=1.9,
            at_most=2.1,
        ),
    ]


def theorem_1(results):
    verdicts = []
    for rate in RATES:
        expected = theorem1(k_f(mbit(rate))) / 1e6
        verdicts.append(
            results.judge(
                f"FA-T1 {rate}",
                "Theorem 1",
                f"k_f = {k_f(mbit(rate)):.3g}: throughput within 5 % of {expected:g} Mbit/s",
                expected,
                t1(results, rate),
                throughput,
                **within(expected, 0.05),
            )
        )
    verdicts.append(
        results.judge(
            "FA-T1 trend",
            "Theorem 1",
            "stable for every k_f: no trend beyond 5 % in any second half",
            0,
            [r for rate in RATES for r in t1(results, rate)],
            lambda r: abs(r.metrics["flows"][0]["goodput_trend"]),
            at_most=0.05,
            worst=True,
        )
    )
    return verdicts


def shares(results):
    both = results.all("FA-T2")
    return [
        results.judge(
            "FA-T2a",
            "Theorem 1",
            "alpha 1000 and 500 at k_f = 4: ratio of throughputs in [1.8, 2.2]",
            2,
            both,
            Ratio(lambda r: r.metrics["flows"][0]["throughput_bps"] / max(r.metrics["flows"][1]["throughput_bps"], 1)),
            at_least=1.8,
            at_most=2.2,
        ),
        results.judge(
            "FA-T2b", "Theorem 1", "their sum within 5 % of 25 Mbit/s", 25, both, throughput, **within(25, 0.05)
        ),
        results.judge(
            "FA-X1",
            "section IV (d/q0 = 0.125)",
            "k_f = 4: mean queueing delay within 10 % of alpha/x0 = 0.32 s",
            0.32,
            t1(results, "1mbit"),
            lambda r: r.metrics["flows"][0]["rtt_s"]["mean"] - r.job.probes[0].base_rtt_us / 1e6,
            **within(0.32, 0.10),
        ),
        results.check(
            "FA-X2",
            "not in the letter",
            "delayed ACKs halve k_f to 2: throughput within 10 % of 50 Mbit/s",
            None,
            results.all("FA-X2"),
            throughput,
            **within(50, 0.10),
        ),
    ]


def beyond(results):
    """Formosa on the same links."""
    verdicts = []
    for rate, k in (("1mbit", 4), ("0.1mbit", 40)):
        formosa = results.all("FA-X3", path__reverse__rate=rate)
        verdicts.append(
            results.check(
                f"FA-X3 {rate}",
                "not in the letter",
                f"k_f = {k}: Formosa's throughput on the same link >= 3 times FAST's",
                None,
                *ratio_by_seed(formosa, [t1(results, rate)], throughput),
                at_least=3,
            )
        )
    return verdicts
