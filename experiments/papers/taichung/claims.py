# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of "TCP-Taichung: A RTT-based Predictive Bandwidth Based with Optimal Shrink Factor ...", and ours
beside them. causes.py has why some fail."""

from itertools import pairwise

import numpy as np

from asymlab.report.claim import Check, Claim
from asymlab.report.measures import Runs, each, extreme, jain_index, ratio_by_seed, timeouts

from . import causes as why
from .measures import (
    LOSSES,
    MOST,
    OTHERS,
    SENDERS,
    TABLE1,
    TABLE3,
    WITH,
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
PUBLISHED = "5a45e3936b3e09b0c217831aad70cae9fc59a2b000824e603e5b1e894cee26d9"
ERROR = 0.15  # of ssthresh_ideal
BETTER = "the better of NewReno's and Westwood+'s"


def claims():
    yield from fig3_claims()
    yield from ideal_claims()
    yield from sender_claims()
    yield from udp_claims()
    yield from loss_claims()
    yield from heavy_loss()
    yield from fairness_claims()
    yield from why.checks()


def fig3_claims():
    def over_reno(profile):
        return ratio_by_seed(table1(profile, 1, "taichung"), table1(profile, 1, "reno"), goodput_at_first)

    mine = table1("newreno", 1, "taichung")
    says = "first 10 s, without SACK: goodput in {bound} of NewReno's"
    value = over_reno("newreno")
    yield Claim("TC-F3a", "Fig. 3", says, value, paper=1.0737, within=(1.03, MOST), cause=why.SLOW_REPAIR)
    says = "the same on Linux's defaults: goodput {bound} of Reno's with SACK"
    yield Claim("TC-F3b", "Fig. 3", says, over_reno("linux"), at_least=1.03, cause=why.SACK_REPAIRS)
    says = "no timeout, in all of 20 s"
    yield Claim("TC-F3c", "Fig. 3", says, each(mine, timeouts), paper=0, at_most=0, worst=True)
    says = "no packet of slow start is lost: no retransmission in 20 s"
    yield Check("TC-F3d", "not in the paper", says, each(mine, retransmits), at_most=0, worst=True)
    yield Claim("TC-F3e", "eq. 9", "slow start ends at {bound} BDP", each(mine, peak_over_bdp), within=(0.7, 1.2))
    value = each(table1("newreno", 1, "reno"), peak_over_bdp)
    yield Claim("TC-F3f", "Fig. 3", f"NewReno's ends beyond {BEYOND} BDP", value, at_least=BEYOND)


BEYOND = 1.5


def ideal_claims():
    mine = table1("newreno", 1, "taichung")
    says = f"ssthresh_ideal is within {100 * ERROR:g} % of BDP + 1 in slow start: its median error"
    value = each(mine, lambda r: float(np.median(ideal_error(r))))
    yield Claim("TC-X", "eq. 6", says, value, at_most=ERROR)
    value = each(mine, lambda r: float(ideal_error(r)[-1]))
    yield Claim("TC-X exit", "eq. 6", "and when slow start ends", value, at_most=ERROR)
    yield Check(
        "TC-X ten",
        "eq. 6, beyond the paper",
        "ten senders: ssthresh_ideal {bound} times a tenth of BDP + 1, its median over all",
        each(Runs("TC-TEN"), ideal_share),
        at_most=1.5,
        cause=why.IN_ONE_PIECE,
    )


def sender_claims():
    for profile, how in WITH.items():
        for n in SENDERS:
            mine, others = table1(profile, n, "taichung"), [table1(profile, n, c) for c in OTHERS]
            yield Claim(
                f"TC-T1 {n} {profile}",
                "Table 1",
                f"{how}, {senders(n)}: goodput in {{bound}} of {BETTER}",
                over(mine, others),
                paper=TABLE1[n],
                within=(0.995, MOST),
                cause=why.TABLE_1.get((n, profile)),
            )
        yield Claim(
            f"TC-T1 reno {profile}",
            "Table 1",
            f"{how}, one sender: goodput in {{bound}} of NewReno's",
            over(table1(profile, 1, "taichung"), table1(profile, 1, "reno")),
            paper=1.0178,
            within=(1.01, MOST),
            cause=why.SLOW_REPAIR if profile == "newreno" else why.SACK_REPAIRS,
        )
        yield Claim(
            f"TC-T2 2 {profile}",
            "Table 2",
            f"{how}, two senders: Jain index {{bound}}, Taichung's, NewReno's and Westwood+'s: the least",
            extreme([each(table1(profile, 2, c), jain_index) for c in ("taichung", *OTHERS)], min),
            paper=0.99993,
            at_least=0.99,
            note=lambda rs: f"it is {rs[0].metrics['flows'][0]['controller']}'s",
            cause=why.TABLE_2[2, profile],
        )
        yield Claim(
            f"TC-T2 10 {profile}",
            "Table 2",
            f"{how}, ten senders: Taichung's Jain index {{bound}}",
            each(table1(profile, 10, "taichung"), jain_index),
            paper=0.999403,
            at_least=0.98,
            cause=why.TABLE_2[10, profile],
        )


def udp_claims():
    for profile, n in (*(("newreno", n) for n in SENDERS), ("linux", 1)):
        mine, reno, westwood = (table3(profile, n, c) for c in ("taichung", *OTHERS))
        where = f"{WITH[profile]}, {senders(n)} beside {{load}} of UDP"
        yield Claim(
            f"TC-T3 {n} {profile}",
            "Table 3",
            f"{where}: goodput in {{bound}} of {BETTER}",
            over(mine, [reno, westwood]),
            paper=TABLE3[n],
            within=(0.995, MOST),
            cause=why.TABLE_3.get((n, profile)),
        )
        if n == 1:
            yield Claim(
                f"TC-T3 reno {profile}",
                "Table 3",
                f"{where}: goodput in {{bound}} of NewReno's",
                over(mine, reno),
                paper=1.0775,
                within=(1.02, MOST),
                cause=why.SLOW_REPAIR_UDP if profile == "newreno" else why.SACK_REPAIRS,
            )
    for controller, name in (("taichung", "Taichung"), ("reno", "NewReno"), ("westwood", "Westwood+")):
        by_n = [table3("newreno", n, controller) for n in SENDERS]
        says = (
            f"{name}'s goodput of a connection falls with the number of senders: larger one of the ratios 2 to 1 and "
            "10 to 2 {bound}"
        )
        value = extreme([over(more, fewer) for fewer, more in pairwise(by_n)], max)
        cause = why.ONE_REPAIRS if controller in OTHERS else None
        yield Claim(f"TC-T3 falls {controller}", "Table 3", says, value, below=1, cause=cause)


def loss_claims():
    everybody = ("taichung", *OTHERS)
    rising = [over(fig7(after, c), fig7(before, c)) for c in everybody for before, after in pairwise(LOSSES)]
    says = "no one's goodput rises with the loss rate: the largest ratio from point to point {bound}"
    yield Claim("TC-F7a", "Fig. 7", says, extreme(rising, max), at_most=1.03)
    for p in LOSSES:
        taichung, reno, westwood = (fig7(p, c) for c in everybody)
        slack, over_it = (0.95, "{bound} of") if p == "0%" else (1, ">=")
        cause = why.ALL_FILL.get(p)
        says = f"{{loss}} of data lost: Taichung's goodput {over_it} Westwood+'s"
        value = over(taichung, westwood)
        yield Claim(f"TC-F7b {p} over Westwood+", "Fig. 7", says, value, at_least=slack, cause=cause)
        says = f"{{loss}} of data lost: Westwood+'s goodput {over_it} NewReno's"
        value = over(westwood, reno)
        yield Claim(f"TC-F7b {p} over NewReno", "Fig. 7", says, value, at_least=slack, cause=cause)
    says = "without SACK, {loss} of data lost: Taichung's goodput >= Westwood+'s"
    value = over(*(fig7("1%", c, "TC-F7-NEWRENO") for c in ("taichung", "westwood")))
    yield Claim("TC-F7b-NEWRENO 1%", "Fig. 7", says, value, at_least=1, cause=why.HALF_1)


def heavy_loss():
    for id, what, causes in (
        ("TC-F7", "Linux's defaults, {loss} of data lost", (None, None)),
        ("TC-F7-NEWRENO", "without SACK, {loss} of data lost", (why.TIMER_SHARES, why.TIMER)),
        ("TC-F7-ACKS", "Linux's defaults, {loss} of data and of ACKs lost", (why.LOST_ACKS, why.LOST_ACKS)),
    ):
        point = {} if id == "TC-F7-ACKS" else {"path__forward__loss": "10%"}
        taichung, newreno, plus = (Runs(id, flows__controller=c, **point) for c in ("taichung", *OTHERS))
        name = id.replace("TC-F7", "TC-F7c")
        says = f"{what}: goodput in {{bound}} of NewReno's"
        value = over(taichung, newreno)
        yield Claim(f"{name} reno", "Fig. 7", says, value, paper=2.05, within=(1.5, 2.6), cause=causes[0])
        says = f"{what}: goodput in {{bound}} of Westwood+'s"
        value = over(taichung, plus)
        yield Claim(f"{name} westwood", "Fig. 7", says, value, paper=1.75, within=(1.25, 2.25), cause=causes[1])


def fairness_claims():
    for id, losses, how in (("TC-F7", LOSSES, "Linux's defaults"), ("TC-F7-NEWRENO", ("1%", "10%"), "without SACK")):
        name = id.replace("TC-F7", "TC-T4")
        taichung, newreno = (
            extreme([each(fig7(p, c, id), jain_index) for p in losses], min) for c in ("taichung", "reno")
        )
        says = f"{how}: Taichung's Jain index of twenty flows {{bound}} at every loss rate: the least"
        yield Claim(name, "Table 4", says, taichung, paper=0.988328, at_least=0.97, cause=why.TABLE_4[name])
        says = f"{how}: NewReno's {{bound}} at every loss rate: the least"
        cause = why.TABLE_4[f"{name} reno"]
        yield Claim(f"{name} reno", "Table 4", says, newreno, paper=0.984752, at_least=0.98, cause=cause)
