# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Table 1 and Figs. 8 to 10 of TCP-Fusion: variants beside each other, and several flows of a kind."""

from itertools import combinations, combinations_with_replacement
from statistics import fmean

from asymlab.report.claim import Cause, Check, Claim, Off
from asymlab.report.judged import Ratio
from asymlab.report.measures import Runs, each, extreme, jain_index, jain_of, ratio, ratio_by_seed, share, together
from asymlab.results.metrics import jain

from .measures import (
    FRIENDLY,
    GREEDY,
    GROUP,
    JAIN_FUSION,
    JAIN_HSTCP,
    NAMES,
    TABLE_1,
    VARIANTS,
    beside,
    carried,
    kind_of,
    of_rtt,
    pair,
)

LESS = 0.4  # of what both have: clearly less than the half
COUNTS_ACKS = "Linux's HSTCP counts ACKs, and its rivals count packets: delayed ACKs halve its growth alone"
YEARS = "Linux of the paper's years: its CUBIC kept more of its window at a loss, and its Reno counted ACKs"
TWICE = "Linux's BIC grows twice as fast with delayed ACKs"


def claims():
    yield from reno_row()
    yield from pairs()
    yield from cubic_checks()
    yield from fig_8()
    yield from fig_9()
    yield from fig_10()


# --- Table 1 ------------------------------------------------------------------------------


def cell(row: str, column: str) -> float:
    return TABLE_1[row][VARIANTS.index(column)]


def of_both(run, controller: str, other: str) -> float:
    """A controller's share of what both have."""
    mine = kind_of(run, controller)
    return mine / (mine + kind_of(run, other))


def reno_row():
    """What Reno has beside each, over what it has beside Reno."""
    for c in (*FRIENDLY, *GREEDY):
        says = f"{{rate}}, {{rtt[0]}} ms: Reno beside {NAMES[c]} has {{bound}} of what it has beside Reno"
        value = ratio_by_seed(pair("reno", c), pair("reno", "reno"), lambda r: kind_of(r, "reno"))
        paper = round(cell("reno", c) / cell("reno", "reno"), 3)
        bound = {"at_least": 0.8} if c in FRIENDLY else {"at_most": 0.5}
        yield Claim(f"FU-T1 {c}", "Table 1", says, value, paper=paper, cause=row_causes(c), **bound)


def row_causes(controller: str) -> Cause | None:
    if controller == "highspeed":
        says = "an ACK for each packet: Reno beside HSTCP has {bound} of what it has beside Reno"
        runs = Runs("FU-C-ACKS", flows__0__controller="reno")
        value = ratio_by_seed(runs, Runs("FU-C-ACKS-RENO"), lambda r: kind_of(r, "reno"))
        return Cause(COUNTS_ACKS, Off("FU-C ACKs reno", says, value, at_most=0.5))
    if controller == "cubic":
        says = f"{COUNTING} {OLD}: it has {{bound}} of what it has beside such a Reno"
        return Cause(YEARS, Off("FU-C 2006 counts", says, over_counting(of_2006("nreno")), at_most=0.5))
    return None


# --- Linux of the paper's years -------------------------------------------------------------

GROWS = "p = {loss}"
OLD = "the CUBIC of 2006"
COUNTING = "a Reno that counts ACKs beside"


def of_2006(controller: str) -> Runs:
    return Runs("FU-C-2006", flows__0__controller=controller)


def counting(controller: str) -> Runs:
    return Runs("FU-C-COUNTS", flows__1__controller=controller)


def over_counting(runs: Runs):
    """What a Reno that counts ACKs has there, over what it has beside another such."""
    return ratio_by_seed(runs, counting("nreno"), lambda r: kind_of(r, "nreno"))


def cubic_checks():
    """CUBIC and Reno as they were, one without the other."""
    value = ratio_by_seed(of_2006("reno"), pair("reno", "reno"), lambda r: kind_of(r, "reno"))
    yield Off("FU-C 2006 reno", f"Reno beside {OLD} has {{bound}} of what it has beside Reno", value, at_most=0.5)
    for c in GREEDY:
        says = f"{COUNTING} {NAMES[c]} has {{bound}} of what it has beside such a Reno"
        yield Off(f"FU-C counts {c}", says, over_counting(counting(c)), at_most=0.5)
    for c in (*FRIENDLY, "highspeed"):
        says = f"{NAMES[c]} beside {OLD} has {{bound}} of what both have"
        value = each(of_2006(c), lambda r, c=c: of_both(r, c, "cubic"))
        yield Off(f"FU-C 2006 {c}", says, value, at_most=LESS)
    says = f"{GROWS}: Reno beside {OLD} has {{bound}} of the fair share"
    yield Off("FU-C 2006 loss reno", says, fair_share("reno"), at_most=0.6)


def fair_share(reno: str):
    """What a Reno has of a half beside the CUBIC of 2006 under rare loss."""
    return each(Runs("FU-C-2006-LOSS", flows__0__controller=reno), lambda r: 2 * of_both(r, reno, "cubic"))


def pairs():
    def mean_jain(runs) -> float:
        return fmean(jain_index(run) for run in runs)

    friends = list(combinations_with_replacement(GROUP, 2))
    paper = fmean(jain([cell(a, b), cell(b, a)]) for a, b in friends)
    says = "Jain index of the pairs of Reno, Fusion, ARENO and CTCP, the mean of all ten {bound}"
    value = together([pair(a, b) for a, b in friends], mean_jain)
    yield Claim("FU-T1 ten", "Table 1", says, value, paper=round(paper, 3), at_least=0.95)
    for a, b in combinations(FRIENDLY, 2):
        says = f"{NAMES[a]} beside {NAMES[b]}: Jain index {{bound}}"
        found = round(jain([cell(a, b), cell(b, a)]), 3)
        yield Claim(f"FU-T1 {a} {b}", "Table 1", says, each(pair(a, b), jain_index), paper=found, at_least=0.95)
    for greedy in GREEDY:
        others = FRIENDLY if greedy == "highspeed" else (*FRIENDLY, "highspeed")
        for c in others:
            says = f"{NAMES[c]} beside {NAMES[greedy]} has {{bound}} of what both have"
            value = each(pair(c, greedy), lambda r, c=c, greedy=greedy: of_both(r, c, greedy))
            paper = round(cell(c, greedy) / (cell(c, greedy) + cell(greedy, c)), 3)
            cause = pair_cause(c, greedy)
            yield Claim(f"FU-T1 {c} {greedy}", "Table 1", says, value, paper=paper, at_most=LESS, cause=cause)
    value = together([pair(c, c) for c in VARIANTS], mean_jain)
    yield Check(
        "FU-T1 kind", "Table 1", "two of a kind: the mean Jain index of the seven {bound}", value, at_least=0.95
    )
    says = "BIC beside CUBIC: Jain index {bound}"
    value, paper = each(pair("bic", "cubic"), jain_index), round(jain([cell("bic", "cubic"), cell("cubic", "bic")]), 3)
    yield Check("FU-T1 bic cubic", "Table 1", says, value, paper=paper, at_least=0.95, cause=both_search())


def both_search() -> Cause:
    says = "an ACK for each packet: BIC beside CUBIC: Jain index {bound}"
    return Cause(TWICE, Off("FU-C ACKs BIC", says, each(Runs("FU-C-ACKS-BIC"), jain_index), at_least=0.95))


def pair_cause(controller: str, greedy: str) -> Cause | None:
    """Why it may have more beside this one than in the paper."""
    if greedy != "highspeed":
        return None
    says = f"an ACK for each packet: {NAMES[controller]} beside HSTCP has {{bound}} of what both have"
    runs = Runs("FU-C-ACKS", flows__0__controller=controller)
    value = each(runs, lambda r: of_both(r, controller, "highspeed"))
    return Cause(COUNTS_ACKS, Off(f"FU-C ACKs {controller}", says, value, at_most=LESS))


# --- Fig. 8 -------------------------------------------------------------------------------


def three_jain(run) -> float:
    return jain_of(run, range(3))


def three(controller: str) -> Runs:
    return Runs("FU-8", flows__controller=controller)


def fig_8():
    every = {c: Runs("FU-C-ACKS-3", flows__controller=c) for c in ("fusion", "highspeed")}
    says = "an ACK for each packet: three Fusion flows behave almost fairly: Jain index {bound}"
    slow = Cause(
        "delayed ACKs: the flows take longer to even out",
        Off("FU-C ACKs three", says, each(every["fusion"], three_jain), at_least=0.95),
    )
    for c in VARIANTS:
        if c != "highspeed":
            says = f"{{rate}}, {{rtt[0]}} ms: three {NAMES[c]} flows behave almost fairly: Jain index {{bound}}"
            own = {"paper": JAIN_FUSION, "at_least": 0.95, "cause": slow} if c == "fusion" else {"at_least": 0.9}
            yield Claim(f"FU-8 {c}", "Fig. 8", says, each(three(c), three_jain), **own)
    says = "three HSTCP flows are less equal: their Jain index over that of Fusion's {bound}"
    value, paper = ratio_by_seed(three("highspeed"), three("fusion"), three_jain), round(JAIN_HSTCP / JAIN_FUSION, 3)
    off = ratio_by_seed(every["highspeed"], every["fusion"], three_jain)
    cause = Cause(COUNTS_ACKS, Off("FU-C ACKs less equal", f"an ACK for each packet: {says}", off, below=1))
    yield Claim("FU-8 highspeed", "Fig. 8", says, value, paper=paper, below=1, cause=cause)
    says = "Fusion flows share about as evenly as Reno flows: their Jain index over that of Reno's {bound}"
    yield Claim(
        "FU-8 as Reno", "section IV", says, ratio_by_seed(three("fusion"), three("reno"), three_jain), at_least=0.95
    )


# --- Fig. 9 -------------------------------------------------------------------------------

HALF = (0.7, 1.3)  # as Reno's
WHERE = "{rate}, {rtt[0]} and {rtt[1]} ms"


def fig_9():
    for c in VARIANTS:
        says = f"{WHERE}: two {NAMES[c]} flows share evenly: ratio {{bound}}"
        yield Check(f"FU-9a {c}", "Fig. 9", says, each(of_rtt(c, 20), Ratio(ratio)), within=(0.8, 1.25))
        checks = list(by_rtt(Off, c, "FU-C-SHORT", "FU-C short", "with a queue of {queue} packets, "))
        full = "a full queue adds so much to both RTTs that they differ little"
        yield from by_rtt(Claim, c, "FU-9", "FU-9b", "", [Cause(full, check) for check in checks])
    for c in FRIENDLY:
        for ms in (60, 120):
            says = f"{WHERE}: {NAMES[c]}'s ratio over Reno's in {{bound}}"
            value = ratio_by_seed(of_rtt(c, ms), of_rtt("reno", ms), ratio)
            short = ratio_by_seed(of_rtt(c, ms, "FU-C-SHORT"), of_rtt("reno", ms, "FU-C-SHORT"), ratio)
            off = Off(f"FU-C short {c} as Reno {ms}", f"with a queue of {{queue}} packets, {says}", short, within=HALF)
            cause = Cause("the long queue", off)
            yield Claim(f"FU-9c {c} {ms}", "Fig. 9", says, value, within=HALF, cause=cause)
    yield from extremes()


def by_rtt(kind, c: str, id: str, name: str, where: str, causes=(None, None)):
    """The flow of the short RTT has more, and the more, the longer the other's is."""
    source = () if kind is Off else ("Fig. 9",)
    says = f"{where}{NAMES[c]}: the flow of {{rtt[0]}} ms has more than that of {{rtt[1]}} ms: ratio {{bound}}"
    yield kind(f"{name} {c} 60", *source, says, each(of_rtt(c, 60, id), Ratio(ratio)), above=1, **given(causes[0]))
    says = f"{where}{NAMES[c]}: the ratio grows with the RTT: beside {{rtt[1]}} ms over beside 60 ms {{bound}}"
    value = ratio_by_seed(of_rtt(c, 120, id), of_rtt(c, 60, id), ratio)
    yield kind(f"{name} {c} 120", *source, says, value, above=1, **given(causes[1]))


def given(cause: Cause | None) -> dict:
    return {"cause": cause} if cause else {}


def extremes():
    """Whose ratio is the largest, and whose the smallest; where the queue is long, and where it is short."""
    ends = (("highspeed", "largest", min, {"at_least": 1}), ("cubic", "smallest", max, {"at_most": 1}))
    for c, what, most, bound in ends:

        def over(id, c=c, most=most):
            others = [ratio_by_seed(of_rtt(c, 120, id), of_rtt(o, 120, id), ratio) for o in VARIANTS if o != c]
            return extreme(others, most)

        says = f"{NAMES[c]}'s ratio is the {what}: over the next {{bound}}"
        off = Off(f"FU-C short {c}", f"with a queue of {{queue}} packets, {WHERE}: {says}", over("FU-C-SHORT"), **bound)
        cause = Cause("the long queue", off)
        yield Claim(f"FU-9d {c}", "Fig. 9", f"{WHERE}: {says}", over("FU-9"), cause=cause, **bound)


# --- Fig. 10 ------------------------------------------------------------------------------


def fig_10():
    half = (0.4, 0.6)
    says = "{rate}, {rtt[0]} ms, a buffer of {queue} packets: with an ACK for each packet BIC takes {bound} of both"
    yield Off("FU-C BIC", says, each(Runs("FU-C-BIC"), share), within=half)
    short = [
        Off(f"FU-C BIC {n}", says, each(Runs("FU-C-BIC-SHORT", path__forward__queue=n), share), within=half)
        for n in (15, 25)
    ]
    search = Cause(f"{TWICE}, and the buffer, which the paper does not give", short[0])
    yield short[1]
    for c in VARIANTS:
        where = "{rate}, {rtt[0]} ms, a buffer of {queue} packets"
        says = f"{where}: {NAMES[c]} takes {{bound}} of what it and a Reno flow get"
        cause = search if c == "bic" else None
        yield Claim(f"FU-10 {c}", "Fig. 10", says, each(beside("FU-10", c), share), within=half, cause=cause)
        for packets in (25, 100):
            value = each(beside("FU-10-BUFFERS", c, path__forward__queue=packets), share)
            yield Check(f"FU-10 {c} {packets}", "Fig. 10", says, value, within=half)
        says = f"{where}: {NAMES[c]} alone uses {{bound}} of the link"
        value = each(Runs("FU-10-ALONE", flows__controller=c), lambda r: carried(r, 30))
        yield Check(f"FU-10 {c} alone", "section III.B.3", says, value, at_least=0.9)
