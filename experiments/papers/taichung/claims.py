# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of "TCP-Taichung: A RTT-based Predictive Bandwidth Based with Optimal Shrink Factor ...", and ours
beside them."""

from itertools import pairwise

import numpy as np

from asymlab.report.measures import BELOW_1, jain_index, ratio_by_seed, timeouts

from . import causes
from .measures import (
    LOSSES,
    MOST,
    OTHERS,
    SENDERS,
    TABLE1,
    TABLE3,
    WITH,
    extreme,
    fig7,
    goodput_at_first,
    ideal_error,
    ideal_share,
    over,
    peak_over_bdp,
    retransmits,
    senders,
    table1,
    table3,
)

TITLE = "TCP-Taichung"
SUBJECT = "The time between ACKs tells the rate: slow start ends in time, and random loss costs little."


def claims(results):
    verdicts = [
        *slow_start_claims(results),
        *sender_claims(results),
        *udp_claims(results),
        *loss_claims(results),
        *fairness_claims(results),
        *causes.claims(results),
    ]
    return [v for v in verdicts if v.runs]  # the quick set leaves most to the full one


def slow_start_claims(results):
    def runs(profile, controller):
        return table1(results, profile, 1, controller)

    mine = runs("newreno", "taichung")
    return fig3_claims(results, runs, mine) + ideal_claims(results, mine)


def fig3_claims(results, runs, mine):
    def over_reno(profile):
        return ratio_by_seed(runs(profile, "taichung"), [runs(profile, "reno")], goodput_at_first)

    return [
        results.judge(
            "TC-F3a",
            "Fig. 3",
            "first 10 s, without SACK: goodput in [1.03, 1.3] of NewReno's",
            1.0737,
            *over_reno("newreno"),
            at_least=1.03,
            at_most=MOST,
        ),
        results.judge(
            "TC-F3b",
            "Fig. 3",
            "the same on Linux's defaults: goodput >= 1.03 of Reno's with SACK",
            None,
            *over_reno("linux"),
            at_least=1.03,
        ),
        results.judge("TC-F3c", "Fig. 3", "no timeout, in all of 20 s", 0, mine, timeouts, at_most=0, worst=True),
        results.check(
            "TC-F3d",
            "not in the paper",
            "no packet of slow start is lost: no retransmission in 20 s",
            None,
            mine,
            retransmits,
            at_most=0,
            worst=True,
        ),
        results.judge(
            "TC-F3e", "eq. 9", "slow start ends at [0.7, 1.2] BDP", None, mine, peak_over_bdp, at_least=0.7, at_most=1.2
        ),
        results.judge(
            "TC-F3f",
            "Fig. 3",
            "NewReno's ends beyond 1.5 BDP",
            None,
            runs("newreno", "reno"),
            peak_over_bdp,
            at_least=1.5,
        ),
    ]


def ideal_claims(results, mine):
    return [
        results.judge(
            "TC-X",
            "eq. 6",
            "ssthresh_ideal is within 15 % of BDP + 1 in slow start: its median error",
            None,
            mine,
            lambda r: float(np.median(ideal_error(r))),
            at_most=0.15,
        ),
        results.judge(
            "TC-X exit",
            "eq. 6",
            "and when slow start ends",
            None,
            mine,
            lambda r: float(ideal_error(r)[-1]),
            at_most=0.15,
        ),
        results.check(
            "TC-X ten",
            "eq. 6, beyond the paper",
            "ten senders: ssthresh_ideal <= 1.5 times a tenth of BDP + 1, its median over all",
            None,
            results.all("TC-TEN"),
            ideal_share,
            at_most=1.5,
        ),
    ]


def sender_claims(results):
    verdicts = []
    for profile, how in WITH.items():
        mine = {n: table1(results, profile, n, "taichung") for n in SENDERS}
        others = {n: [table1(results, profile, n, c) for c in OTHERS] for n in SENDERS}
        for n in SENDERS:
            verdicts.append(
                results.judge(
                    f"TC-T1 {n} {profile}",
                    "Table 1",
                    f"{how}, {senders(n)}: goodput in [0.995, 1.3] of the better of NewReno's and Westwood+'s",
                    TABLE1[n],
                    *over(mine[n], others[n]),
                    at_least=0.995,
                    at_most=MOST,
                )
            )
        verdicts += [
            results.judge(
                f"TC-T1 reno {profile}",
                "Table 1",
                f"{how}, one sender: goodput in [1.01, 1.3] of NewReno's",
                1.0178,
                *over(mine[1], others[1][:1]),
                at_least=1.01,
                at_most=MOST,
            ),
            results.judge(
                f"TC-T2 2 {profile}",
                "Table 2",
                f"{how}, two senders: Jain index >= 0.99, Taichung's, NewReno's and Westwood+'s: the least",
                0.99993,
                *extreme([(rs, jain_index) for rs in (mine[2], *others[2])], min),
                at_least=0.99,
                note=lambda rs: f"it is {rs[0].metrics['flows'][0]['controller']}'s",
            ),
            results.judge(
                f"TC-T2 10 {profile}",
                "Table 2",
                f"{how}, ten senders: Taichung's Jain index >= 0.98",
                0.999403,
                mine[10],
                jain_index,
                at_least=0.98,
            ),
        ]
    return verdicts


def udp_claims(results):
    verdicts = []
    for profile, n in (*(("newreno", n) for n in SENDERS), ("linux", 1)):
        mine, others = table3(results, profile, n, "taichung"), [table3(results, profile, n, c) for c in OTHERS]
        verdicts.append(
            results.judge(
                f"TC-T3 {n} {profile}",
                "Table 3",
                f"{WITH[profile]}, {senders(n)} beside 5 Mbit/s of UDP: goodput in [0.995, 1.3] of the better of "
                "NewReno's and Westwood+'s",
                TABLE3[n],
                *over(mine, others),
                at_least=0.995,
                at_most=MOST,
            )
        )
        if n == 1:
            verdicts.append(
                results.judge(
                    f"TC-T3 reno {profile}",
                    "Table 3",
                    f"{WITH[profile]}, one sender beside 5 Mbit/s of UDP: goodput in [1.02, 1.3] of NewReno's",
                    1.0775,
                    *over(mine, others[:1]),
                    at_least=1.02,
                    at_most=MOST,
                )
            )
    for controller, name in (("taichung", "Taichung"), ("reno", "NewReno"), ("westwood", "Westwood+")):
        by_n = [table3(results, "newreno", n, controller) for n in SENDERS]
        verdicts.append(
            results.judge(
                f"TC-T3 falls {controller}",
                "Table 3",
                f"{name}'s goodput of a connection falls with the number of senders: larger one of the ratios 2 to 1 "
                "and 10 to 2 < 1",
                None,
                *extreme([over(more, [fewer]) for fewer, more in pairwise(by_n)], max),
                at_most=BELOW_1,
            )
        )
    return verdicts


def loss_claims(results):
    mine = {p: fig7(results, p, "taichung") for p in LOSSES}
    reno, westwood = ({p: fig7(results, p, c) for p in LOSSES} for c in OTHERS)
    rising = [
        over(by_p[after], [by_p[before]])
        for by_p in (mine, reno, westwood)
        for before, after in zip(LOSSES, LOSSES[1:])
    ]
    verdicts = [
        results.judge(
            "TC-F7a",
            "Fig. 7",
            "no one's goodput rises with the loss rate: the largest ratio from point to point <= 1.03",
            None,
            *extreme(rising, max),
            at_most=1.03,
        )
    ]
    for p in LOSSES:
        slack, text = (0.95, ">= 0.95 of") if p == "0%" else (1, ">=")
        verdicts += [
            results.judge(
                f"TC-F7b {p} over Westwood+",
                "Fig. 7",
                f"{p} of data lost: Taichung's goodput {text} Westwood+'s",
                None,
                *over(mine[p], [westwood[p]]),
                at_least=slack,
            ),
            results.judge(
                f"TC-F7b {p} over NewReno",
                "Fig. 7",
                f"{p} of data lost: Westwood+'s goodput {text} NewReno's",
                None,
                *over(westwood[p], [reno[p]]),
                at_least=slack,
            ),
        ]
    return verdicts + loss_without_sack(results) + heavy_loss(results)


def loss_without_sack(results):
    one = {c: fig7(results, "1%", c, "TC-F7-NEWRENO") for c in ("taichung", "westwood")}
    return [
        results.judge(
            "TC-F7b-NEWRENO 1%",
            "Fig. 7",
            "without SACK, 1% of data lost: Taichung's goodput >= Westwood+'s",
            None,
            *over(one["taichung"], [one["westwood"]]),
            at_least=1,
        )
    ]


def heavy_loss(results):
    verdicts = []
    for id, what in (
        ("TC-F7", "Linux's defaults, 10 % of data lost"),
        ("TC-F7-NEWRENO", "without SACK, 10 % of data lost"),
        ("TC-F7-ACKS", "Linux's defaults, 10 % of data and of ACKs lost"),
    ):
        point = {} if id == "TC-F7-ACKS" else {"path__forward__loss": "10%"}
        taichung, newreno, plus = (results.all(id, flows__controller=c, **point) for c in ("taichung", *OTHERS))
        name = id.replace("TC-F7", "TC-F7c")
        verdicts += [
            results.judge(
                f"{name} reno",
                "Fig. 7",
                f"{what}: goodput in [1.5, 2.6] of NewReno's",
                2.05,
                *over(taichung, [newreno]),
                at_least=1.5,
                at_most=2.6,
            ),
            results.judge(
                f"{name} westwood",
                "Fig. 7",
                f"{what}: goodput in [1.25, 2.25] of Westwood+'s",
                1.75,
                *over(taichung, [plus]),
                at_least=1.25,
                at_most=2.25,
            ),
        ]
    return verdicts


def fairness_claims(results):
    verdicts = []
    for id, losses, how in (("TC-F7", LOSSES, "Linux's defaults"), ("TC-F7-NEWRENO", ("1%", "10%"), "without SACK")):
        name = id.replace("TC-F7", "TC-T4")
        taichung, newreno = ([(fig7(results, p, c, id), jain_index) for p in losses] for c in ("taichung", "reno"))
        verdicts += [
            results.judge(
                name,
                "Table 4",
                f"{how}: Taichung's Jain index of twenty flows >= 0.97 at every loss rate: the least",
                0.988328,
                *extreme(taichung, min),
                at_least=0.97,
            ),
            results.judge(
                f"{name} reno",
                "Table 4",
                f"{how}: NewReno's >= 0.98 at every loss rate: the least",
                0.984752,
                *extreme(newreno, min),
                at_least=0.98,
            ),
        ]
    return verdicts
