# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of "TCP-Taichung: A RTT-based Predictive Bandwidth Based with Optimal Shrink Factor ...".

The paper's recovery is RFC 6582's impatient variant: what runs with it is a claim. The same with Linux's own recovery
(SACK), and Tables 1 and 2 with Linux's recovery without SACK (slow but steady), are checks.
"""

from itertools import pairwise

import numpy as np

from asymlab.report.claim import Cause, Check, Claim, Off
from asymlab.report.measures import Runs, each, extreme, jain_index, ratio_by_seed, timeouts

from .measures import (
    EVERYBODY,
    LOSSES,
    PAPER,
    ROOM,
    SENDERS,
    TABLE1,
    TABLE3,
    TODAY,
    WITH,
    WORST,
    acks_lost,
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
    variation,
)

TITLE = "TCP-Taichung"
SUBJECT = "The time between ACKs tells the rate: slow start ends in time, and random loss costs little."
ERROR = 0.15  # of ssthresh_ideal
SAME = 0.995  # of a rival's goodput: no less, to half a percent
MOST = 1.3  # times a rival's goodput where the paper sees a few per cent: more has another cause than the window's law
BEYOND = 1.5  # BDP
BETTER = "the better of NewReno's and Westwood+'s"
LABEL = {"taichung": "Taichung", "reno": "NewReno", "westwood": "Westwood+"}


def long(profile: str, controller: str, loss: str = "10%") -> Runs:
    return fig7(profile, loss, controller, "TC-C-LONG")


def link(profile: str) -> Runs:
    return Runs("TC-C-LINK", profile=profile)


OWN_PACE = (
    "InterACK is the flow's own time for a packet, as the paper's tables have it: in slow start that tells "
    "the window and not the link, and slow start ends early"
)
ENDS_EARLY = Cause(OWN_PACE, "TC-C exit", "TC-C ideal")
LESS = Cause(OWN_PACE, "TC-C goodput")
SLOWLY = (
    "Linux's NewReno restarts its timer with each partial ACK: slow start's losses cost it and Westwood+ the whole run"
)
APART = (
    "the first overflow and its timeouts set the windows apart, they move by a packet a round trip, and a run is short"
)
AGAIN = (
    "windows lose several packets at a time; without SACK one is repaired a round trip until the timer fires, and then "
    "the whole window is sent again"
)
SHORT = "a run is short, and shares even out in minutes"
KEEPS = "a loss takes only what is queued, and under heavy random loss the queue is empty: windows do not even out"
AT_THE_END = (
    "Linux's Westwood+ sets its window where a recovery ends, and without SACK a timeout ends most; then it is Reno. "
    "As published it sets it when a loss is found, by an average that slow start has outrun"
)
FILLED = "NewReno fills the link at this loss rate, and nobody can have more"
NO_ROOM = Cause("SACK repairs what Reno's slow start lost while the queue keeps the link busy: there is nothing to win")


def halving(loss: str) -> Runs:
    """Taichung that halves at a loss, for 300 s."""
    return Runs("TC-C-HALF", path__forward__loss=loss)


def published(n: int) -> Runs:
    """Westwood+ that sets its window when a loss is found."""
    return Runs("TC-C-ONCE", flows__count=n)


def cause_checks():
    says = "by the link's pace, impatient: slow start ends at {bound} BDP"
    yield Off("TC-C exit", says, each(link(PAPER), peak_over_bdp), within=(0.7, 1.2))
    says = "by the link's pace, impatient: median error of ssthresh_ideal in slow start {bound}"
    yield Off("TC-C ideal", says, each(link(PAPER), lambda r: float(np.median(ideal_error(r)))), at_most=ERROR)
    for n, least in ((2, 0.99), (10, 0.98)):
        says = f"impatient, {n} senders, six times as long: the least of the three Jain indices {{bound}}"
        of = [Runs("TC-C-EVEN", flows__count=n, flows__controller=c) for c in EVERYBODY]
        yield Off(f"TC-C even {n}", says, extreme([each(runs, jain_index) for runs in of], min), at_least=least)
    for c, least in (("reno", 0.98), ("taichung", 0.97)):
        says = f"impatient, 300 s: {LABEL[c]}'s Jain index {{bound}} at every loss rate: the least"
        value = extreme([each(long(PAPER, c, p), jain_index) for p in LOSSES], min)
        yield Off(f"TC-C long {c}", says, value, at_least=least)
    near = [ratio_by_seed(long(PAPER, "taichung", p), long(PAPER, "reno", p), jain_index) for p in LOSSES]
    says = "impatient, 300 s: Taichung's Jain index {bound} of NewReno's at every loss rate: the least"
    yield Off("TC-C long competitive", says, extreme(near, min), at_least=0.98)
    says = "impatient, 300 s, a loss halves: Taichung's Jain index {bound} at every loss rate: the least"
    yield Off("TC-C half", says, extreme([each(halving(p), jain_index) for p in LOSSES], min), at_least=0.97)
    near = [ratio_by_seed(halving(p), long(PAPER, "reno", p), jain_index) for p in LOSSES]
    says = "impatient, 300 s, a loss halves: Taichung's Jain index {bound} of NewReno's at every loss rate: the least"
    yield Off("TC-C half competitive", says, extreme(near, min), at_least=0.98)
    says = "impatient, 300 s, {loss} of data lost: Taichung's goodput {bound} of NewReno's"
    value = over(long(PAPER, "taichung"), long(PAPER, "reno"))
    yield Check("TC-F7c long", "not in the paper", says, value, at_least=1)
    for n in (1, 2):
        says = f"impatient, {senders(n)}: the goodput of Westwood+ as published {{bound}} of NewReno's"
        yield Off(f"TC-C once {n}", says, over(published(n), table1(PAPER, n, "reno")), below=1)
    says = "impatient, ten senders beside {load} of UDP: the goodput of Westwood+ as published {bound} of NewReno's"
    yield Off("TC-C once UDP", says, over(Runs("TC-C-ONCE-UDP"), table3(PAPER, 10, "reno")), below=1)
    for p in ROOM:
        says = "impatient, {rate}, {loss} of data lost: Westwood+'s goodput {bound} of NewReno's"
        by = [Runs("TC-C-ROOM", path__forward__loss=p, flows__controller=c) for c in ("westwood", "reno")]
        yield Off(f"TC-C room {p}", says, over(*by), above=1)
    says = "with SACK, {loss} lost, 300 s: Taichung's Jain index {bound}"
    yield Off("TC-C long SACK", says, each(long(TODAY, "taichung"), jain_index), at_least=0.97)
    value = ratio_by_seed(long(TODAY, "taichung"), long(TODAY, "reno"), jain_index)
    yield Off("TC-C long SACK competitive", f"{says} of NewReno's", value, at_least=0.98)
    says = "by the link's pace, with SACK: goodput {bound} of NewReno's"
    yield Off("TC-C goodput", says, over(link(TODAY), table1(TODAY, 1, "reno")), at_least=SAME)


def claims():
    for profile in (PAPER, TODAY):
        yield from fig3_claims(profile)
        yield from ideal_claims(profile)
    for profile in WITH:
        yield from table1_claims(profile)
        yield from table2_claims(profile)
    yield from udp_claims(PAPER)
    yield from loss_claims(PAPER)
    yield from fairness_claims(PAPER)
    for profile in (PAPER, TODAY):
        yield from heavy_loss(profile)
    yield Check(
        "TC-X ten",
        "eq. 6, beyond the paper",
        "with SACK, ten senders: ssthresh_ideal {bound} times a tenth of BDP + 1, its median over all",
        each(Runs("TC-TEN"), ideal_share),
        at_most=1.5,
    )
    yield from cause_checks()


def row(profile: str, id: str, source: str, says: str, value, **bound):
    """A claim in the paper's stack, a check in another."""
    kind = Claim if profile == PAPER else Check
    return kind(f"{id} {profile}", source, f"{WITH[profile]}: {says}", value, **bound)


def fig3_claims(profile: str):
    mine, reno = (table1(profile, 1, c) for c in ("taichung", "reno"))
    says = "goodput of the first 10 s in {bound} of NewReno's"
    value = ratio_by_seed(mine, reno, goodput_at_first)
    yield row(profile, "TC-F3a", "Fig. 3", says, value, paper=1.0737, within=(1.03, MOST), cause=NO_ROOM)
    yield row(profile, "TC-F3b", "Fig. 3", "no timeout in 20 s", each(mine, timeouts), paper=0, at_most=0, worst=True)
    says = "no packet of slow start is lost: no retransmission in 20 s"
    yield Check(
        f"TC-F3c {profile}",
        "not in the paper",
        f"{WITH[profile]}: {says}",
        each(mine, retransmits),
        at_most=0,
        worst=True,
    )
    value = each(mine, peak_over_bdp)
    yield row(profile, "TC-F3d", "eq. 9", "slow start ends at {bound} BDP", value, within=(0.7, 1.2), cause=ENDS_EARLY)
    value = each(reno, peak_over_bdp)
    yield row(profile, "TC-F3e", "Fig. 3", f"NewReno's ends beyond {BEYOND} BDP", value, at_least=BEYOND)


def ideal_claims(profile: str):
    mine = table1(profile, 1, "taichung")
    says = f"ssthresh_ideal is within {100 * ERROR:g} % of BDP + 1 in slow start: its median error"
    value = each(mine, lambda r: float(np.median(ideal_error(r))))
    yield row(profile, "TC-X", "eq. 6", says, value, at_most=ERROR, cause=ENDS_EARLY)
    value = each(mine, lambda r: float(ideal_error(r)[-1]))
    yield row(profile, "TC-X exit", "eq. 6", "and when slow start ends", value, at_most=ERROR, cause=ENDS_EARLY)


def table1_claims(profile: str):
    for n in SENDERS:
        mine, reno, westwood = (table1(profile, n, c) for c in EVERYBODY)
        says = f"{senders(n)}: goodput in {{bound}} of {BETTER}"
        value = over(mine, [reno, westwood])
        cause = Cause(SLOWLY, f"TC-T1 {n} {PAPER}") if profile == "newreno" else LESS
        yield row(profile, f"TC-T1 {n}", "Table 1", says, value, paper=TABLE1[n], within=(SAME, MOST), cause=cause)
        says = f"{senders(n)}: Westwood+ is worst: its goodput {{bound}} of NewReno's"
        late = Cause(AT_THE_END, f"TC-C once {n}") if profile == PAPER and n < 10 else None
        yield row(
            profile, f"TC-T1 worst {n}", "Table 1", says, over(westwood, reno), paper=WORST[n], below=1, cause=late
        )
    mine, reno = (table1(profile, 1, c) for c in ("taichung", "reno"))
    says = "one sender: goodput in {bound} of NewReno's"
    yield row(
        profile,
        "TC-T1 reno",
        "Table 1",
        says,
        over(mine, reno),
        paper=1.0178,
        within=(1.01, MOST),
        cause=Cause(SLOWLY, f"TC-T1 reno {PAPER}") if profile == "newreno" else NO_ROOM,
    )


def apart(profile: str, n: int) -> Cause:
    return Cause(APART, f"TC-C even {n}") if profile == PAPER else Cause(APART)


TABLE2 = {"taichung": 0.999403, "reno": 0.99953054, "westwood": 0.99726527}


def table2_claims(profile: str):
    says = "two senders: Jain index {bound}, Taichung's, NewReno's and Westwood+'s: the least"
    value = extreme([each(table1(profile, 2, c), jain_index) for c in EVERYBODY], min)

    def whose(runs):
        return f"it is {LABEL[runs[0].metrics['flows'][0]['controller']]}'s"

    yield row(
        profile, "TC-T2 2", "Table 2", says, value, paper=0.99993, at_least=0.99, note=whose, cause=apart(profile, 2)
    )
    for c in EVERYBODY:
        says = f"ten senders: {LABEL[c]}'s Jain index {{bound}}"
        value = each(table1(profile, 10, c), jain_index)
        yield row(
            profile, f"TC-T2 10 {c}", "Table 2", says, value, paper=TABLE2[c], at_least=0.98, cause=apart(profile, 10)
        )


def udp_claims(profile: str):
    for n in SENDERS:
        mine, reno, westwood = (table3(profile, n, c) for c in EVERYBODY)
        where = f"{senders(n)} beside {{load}} of UDP"
        says = f"{where}: goodput in {{bound}} of {BETTER}"
        yield row(
            profile, f"TC-T3 {n}", "Table 3", says, over(mine, [reno, westwood]), paper=TABLE3[n], within=(SAME, MOST)
        )
        if n == 1:
            says = f"{where}: goodput in {{bound}} of NewReno's"
            yield row(profile, "TC-T3 reno", "Table 3", says, over(mine, reno), paper=1.0775, within=(1.02, MOST))
    says = "ten senders beside {load} of UDP: Westwood+ is worst: its goodput {bound} of NewReno's"
    value = over(table3(profile, 10, "westwood"), table3(profile, 10, "reno"))
    late = Cause(AT_THE_END, "TC-C once UDP")
    yield row(profile, "TC-T3 worst", "Table 3", says, value, paper=0.9937, below=1, cause=late)
    for c in EVERYBODY:
        by_n = [table3(profile, n, c) for n in SENDERS]
        says = (
            f"{LABEL[c]}'s goodput of a connection falls with the number of senders: larger one of the ratios 2 to 1 "
            "and 10 to 2 {bound}"
        )
        value = extreme([over(more, fewer) for fewer, more in pairwise(by_n)], max)
        yield Check(f"TC-T3 falls {c} {profile}", "Table 3", f"{WITH[profile]}: {says}", value, below=1)


def loss_claims(profile: str):
    rising = [
        over(fig7(profile, after, c), fig7(profile, before, c)) for c in EVERYBODY for before, after in pairwise(LOSSES)
    ]
    says = "no one's goodput rises with the loss rate: the largest ratio from point to point {bound}"
    yield row(profile, "TC-F7a", "Fig. 7", says, extreme(rising, max), at_most=1.03)
    for p in LOSSES:
        taichung, reno, westwood = (fig7(profile, p, c) for c in EVERYBODY)
        says = "{loss} of data lost: Taichung's goodput {bound} of Westwood+'s"
        yield row(profile, f"TC-F7b {p} over Westwood+", "Fig. 7", says, over(taichung, westwood), at_least=SAME)
        says = "{loss} of data lost: Westwood+'s goodput {bound} of NewReno's"
        full = Cause(FILLED, f"TC-C room {p}") if p in ROOM else None
        yield row(profile, f"TC-F7b {p} over NewReno", "Fig. 7", says, over(westwood, reno), above=1, cause=full)
    calmer = [
        ratio_by_seed(fig7(profile, p, "taichung"), fig7(profile, p, "reno"), variation) for p in LOSSES if p != "0%"
    ]
    says = "cwnd varies less than NewReno's at every loss rate: the largest ratio {bound}"
    yield row(profile, "TC-F7d", "section 4.2", says, extreme(calmer, max), below=1)


def heavy_loss(profile: str):
    acks = {c: acks_lost(profile, c) for c in EVERYBODY}
    data = {c: fig7(profile, "10%", c) for c in EVERYBODY}
    for id, what, runs in (("TC-F7c", "of data", data), ("TC-F7c-ACKS", "of data and of ACKs", acks)):
        for rival, paper, least in (("reno", 2.05, 1.5), ("westwood", 1.75, 1.25)):
            says = f"{{loss}} {what} lost: goodput {{bound}} of {LABEL[rival]}'s"
            value = over(runs["taichung"], runs[rival])
            yield row(
                profile,
                f"{id} {rival}",
                "Fig. 7",
                says,
                value,
                paper=paper,
                at_least=least,
                cause=Cause(AGAIN, f"{id} {rival} {TODAY}"),
            )


def fairness_claims(profile: str):
    by = {c: [each(fig7(profile, p, c), jain_index) for p in LOSSES] for c in EVERYBODY}
    causes = {"taichung": Cause(f"{SHORT}; and {KEEPS}", "TC-C half"), "reno": Cause(SHORT, "TC-C long reno")}
    for c, paper, least in (("taichung", 0.988328, 0.97), ("reno", 0.984752, 0.98), ("westwood", 0.923017, 0.9)):
        says = f"{LABEL[c]}'s Jain index of twenty flows {{bound}} at every loss rate: the least"
        cause = causes.get(c)
        yield row(profile, f"TC-T4 {c}", "Table 4", says, extreme(by[c], min), paper=paper, at_least=least, cause=cause)
    says = "Taichung's Jain index {bound} of NewReno's at every loss rate: the least"
    near = [ratio_by_seed(fig7(profile, p, "taichung"), fig7(profile, p, "reno"), jain_index) for p in LOSSES]
    cause = Cause(f"{SHORT}; and {KEEPS}", "TC-C half competitive")
    yield row(
        profile, "TC-T4 competitive", "Table 4", says, extreme(near, min), paper=0.98906, at_least=0.98, cause=cause
    )
