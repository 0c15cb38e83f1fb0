# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of "TCP-Fusion" (Kaneko, Fujikawa, Su, Katto 2007), and ours beside them; measures.py tells how they are
measured, and rtts.py has Fig. 9's."""

from itertools import combinations_with_replacement
from statistics import fmean

from asymlab.report.claim import Cause, Check, Claim, Off
from asymlab.report.measures import Runs, each, goodput_of, joined, ratio, ratio_by_seed, share, together
from asymlab.report.verdicts import Ratio
from asymlab.results.metrics import jain

from . import rtts
from .measures import (
    CUT,
    FRIENDLY,
    GREEDY,
    GROUP,
    LOSSES,
    NAMES,
    OFTEN,
    PHASES,
    RARE,
    TABLE_1,
    VARIANTS,
    above_reno,
    alone,
    beside,
    both,
    by_hops,
    carried,
    cut_error,
    cut_range,
    falls,
    last_link,
    over_renos,
    pairs,
    phase_share,
    reno_beside,
    reno_group,
    smallest_cut,
    spread,
)

TITLE = "TCP-Fusion"
SUBJECT = "Takes what Reno leaves of a long path with random loss, and not more than its share beside Reno."
PUBLISHED = "2a1bfccc996dd91893039a38658f5a2192ea955b97e6f816a987586420b40bfa"

PATH = "{rate}, p = {loss}"
CHANCE = Cause("a flow loses few packets in the time measured, in one run: chance decides")
COUNTS_ACKS = "Linux's HSTCP counts ACKs, not packets: delayed ACKs halve its growth, and not Reno's"
COARSE = (
    "ARENO's coarse clock does not see a short queue, so a random loss costs it less than half; Fusion's Winc is below "
    "Reno's one packet on this path"
)


def claims():
    yield from fig_1()
    yield from fig_2()
    yield from fig_4()
    yield from fig_5()
    yield from fig_6()
    yield table()
    yield from rtts.claims()
    yield from fig_10()
    yield from fig_11()
    yield from fig_13()


def at_20(loss: str) -> str:
    """What ran, and the paper's loss rate at 100 Mbit/s that it stands for."""
    return f"{PATH} (for the paper's {LOSSES[loss]})"


def fig_1():
    says = "a loss leaves floor(cwnd max(RTTmin/RTT, 1/2)): largest error {bound} packet"
    yield Check("FU-1a", "Fig. 1, eq. 1", says, each(Runs("FU-1"), cut_error), at_most=1, worst=True)
    says = "losses at RTTs of 1 to 4 RTTmin: the largest ratio over the smallest {bound}"
    yield Check("FU-1b", "Fig. 1", says, each(Runs("FU-1"), cut_range), at_least=3)


def fig_2():
    runs = Runs("FU-2")
    says = f"{{rate}}, buffer 0.5 BDP: no loss cuts Fusion's window below RTTmin/RTT = {CUT}"
    yield Check("FU-2a", "Fig. 2, eq. 1", says, each(runs, smallest_cut), at_least=CUT, worst=True)
    says = "cwnd >= its own reno_cwnd at every ACK: share of ACKs is 1"
    yield Check("FU-2b", "Fig. 2", says, each(runs, above_reno), at_least=1, worst=True)
    for phase in PHASES:
        says = f"the {phase} phase is visited: share of ACKs {{bound}}"
        value = each(runs, lambda r, phase=phase: phase_share(r, phase))
        yield Check(f"FU-2c {phase}", "section II.B", says, value, above=0)
    says = "where reno_cwnd does not hold it, each ACK of the decrease phase lowers the window: share {bound}"
    yield Check("FU-2d", "section II.B", says, each(runs, falls), at_least=0.95)


def fig_4():
    def at(loss):
        return Runs("FU-4", path__hops__forward__loss=loss)

    for c in VARIANTS:
        says = f"{PATH}: {NAMES[c]} alone uses {{bound}} of the link"
        value = each(at(RARE[0]), lambda r, c=c: carried(r, VARIANTS.index(c), 20))
        yield Check(f"FU-4a {c}", "Fig. 4", says, value, at_least=0.9)
    best = Ratio(lambda r: alone(r, "fusion") / max(alone(r, c) for c in VARIANTS if c != "fusion"))
    tick = Off(
        "FU-C tick",
        f"{PATH}: Fusion's goodput {{bound}} of that of ARENO with a clock of microseconds",
        ratio_by_seed(at("2.5%"), Runs("FU-C-TICK"), lambda r: alone(r, "fusion"), goodput_of),
        at_least=0.97,
    )
    coarse = Cause(
        f"{COARSE}, and well above it on the paper's",
        tick,
        published="ARENO has 7.4 Mbit/s, with a clock of microseconds 2.2; Fusion has 3.1",
    )
    for loss in LOSSES:
        says = f"{at_20(loss)}: Fusion's goodput {{bound}} of the best of the others"
        cause = coarse if loss == "2.5%" else None
        yield Claim(f"FU-4b {loss}", "Fig. 4", says, each(at(loss), best), at_least=0.97, cause=cause)


def at_5(loss: str) -> Runs:
    return Runs("FU-5", path__hops__forward__loss=loss)


def fig_5():
    for c in FRIENDLY:
        for loss in RARE:
            says = f"{at_20(loss)}: {NAMES[c]}'s and Reno's goodputs differ by {{bound}} of their sum"
            value = each(at_5(loss), lambda r, c=c: abs(2 * beside(r, c)[0] / sum(beside(r, c)) - 1))
            yield Claim(f"FU-5a {c} {loss}", "Fig. 5", says, value, at_most=0.25)
        for loss in OFTEN:
            yield from beside_often(c, loss)
    yield from steps()
    best = Ratio(lambda r: beside(r, "fusion")[0] / max(beside(r, "areno")[0], beside(r, "ctcp")[0]))
    tick = Off(
        "FU-C tick Reno",
        f"{PATH}: Fusion beside Reno has no less than ARENO with a clock of microseconds there: ratio {{bound}}",
        ratio_by_seed(at_5("2.5%"), Runs("FU-C-TICK"), lambda r: beside(r, "fusion")[0], lambda r: goodput_of(r, 1)),
        at_least=1,
    )
    for loss in OFTEN:
        says = f"{at_20(loss)}: Fusion beside Reno has no less than ARENO and CTCP there: ratio {{bound}}"
        cause = Cause(COARSE, tick) if loss == "2.5%" else None
        yield Claim(f"FU-5d {loss}", "Fig. 5", says, each(at_5(loss), best), at_least=1, cause=cause)


def beside_often(c: str, loss: str):
    small = Cause(
        "at windows this small CTCP is Reno, but adds a part of a packet for each acknowledged one: the window grows "
        "meanwhile, and the next packet takes longer; Linux's Reno counts a window of packets, and then adds one"
    )
    yield Claim(
        f"FU-5b {c} {loss}",
        "Fig. 5",
        f"{at_20(loss)}: {NAMES[c]} has more than its Reno flow: ratio {{bound}}",
        each(at_5(loss), Ratio(lambda r: beside(r, c)[0] / beside(r, c)[1])),
        above=1,
        note=lambda rs: spread("{} of the mean of the run's Reno flows", rs, lambda r: over_renos(r, c)),
        cause=small if (c, loss) == ("ctcp", "2.5%") else None,
    )
    lonely = Runs("FU-5-ALONE", path__forward__loss=loss)
    says = f"{at_20(loss)}: Reno beside {NAMES[c]} has {{bound}} of what it has alone"
    value = ratio_by_seed(at_5(loss), lonely, lambda r: beside(r, c)[1], goodput_of)
    yield Claim(f"FU-5c {c} {loss}", "Fig. 5", says, value, at_least=0.8)


def steps():
    """What makes CTCP less than Reno at small windows."""
    says = f"{PATH}: CTCP without its low window has more than its Reno flow: ratio {{bound}}"
    yield Off("FU-C CTCP", says, each(Runs("FU-C-CTCP"), Ratio(ratio)), above=1)
    runs, where = Runs("FU-C-STEPS"), f"{PATH}, an ACK for each packet"
    says = f"{where}: CTCP has more than NReno, whose steps take as many packets: ratio {{bound}}"
    yield Off("FU-C steps", says, each(runs, Ratio(ratio)), above=1)
    for flow, name in ((2, "CTCP"), (4, "NReno")):
        says = f"{where}: {name} has less than Linux's Reno, whose steps take fewer packets: ratio {{bound}}"
        value = each(runs, Ratio(lambda r, flow=flow: ratio(r, flow, flow + 1)))
        yield Off(f"FU-C steps {name}", says, value, below=1)


def fig_6():
    def fair(run) -> float:
        return 2 * share(run, 1, 0)

    where = "{rate}, {rtt[0]} ms, p = {loss}"
    off = {
        "highspeed": "an ACK for each packet: a Reno flow beside HSTCP",
        "cubic": "without its Reno-friendly region: a Reno flow beside CUBIC",
    }
    checks = {
        c: Off(
            f"FU-C 100 {c}",
            f"{where}, {what} has {{bound}} of the fair share",
            each(Runs("FU-C-100", flows__0__controller=c), fair),
            at_most=0.6,
        )
        for c, what in off.items()
    }
    for c in GREEDY:
        says = f"{where}: a Reno flow beside {NAMES[c]} has {{bound}} of the fair share"
        value = each(Runs("FU-11-100", flows__0__controller=c), fair)
        cause = Cause(COUNTS_ACKS, checks[c]) if c == "highspeed" else None
        yield Claim(f"FU-6 {c}", "Fig. 6", says, value, at_most=0.6, cause=cause)
    yield checks["cubic"]


def table() -> Claim:
    def equal(runs) -> float:
        found = pairs(runs[0]) | pairs(runs[1])
        return fmean(jain(goodputs) for goodputs in found.values())

    of_paper = [
        jain([TABLE_1[a][VARIANTS.index(b)], TABLE_1[b][VARIANTS.index(a)]])
        for a, b in combinations_with_replacement(GROUP, 2)
    ]
    return Claim(
        "FU-T1",
        "Table 1",
        "{rate}, {rtt[0]} ms: Jain index of the pairs of Reno, Fusion, ARENO and CTCP, the mean of all ten {bound}",
        together([Runs("FU-T1", title=f"pairs {which} Reno") for which in ("with", "without")], equal),
        paper=round(fmean(of_paper), 3),
        at_least=0.95,
    )


def fig_10():
    def says(name: str) -> str:
        return f"{{rate}}, {{rtt[0]}} ms, a buffer of 50 packets: {name} takes {{bound}} of what it and a Reno flow get"

    half = (0.4, 0.6)
    causes = {
        "highspeed": Cause(
            "a fair share of this buffer is above HSTCP's low window, up to which it is Reno; and Linux's HSTCP counts "
            "ACKs, so delayed ACKs halve its growth there",
            Off(
                "FU-C low highspeed",
                says("with an ACK for each packet, and a buffer of 25 instead, HSTCP"),
                each(Runs("FU-C-LOW"), share),
                within=half,
            ),
        ),
        "bic": Cause(
            "the path is above BIC's low window of fourteen: it searches by up to sixteen packets a round trip, Reno "
            "by one",
            Off("FU-C BIC", says("BIC below its low window"), each(Runs("FU-C-BIC"), share), within=half),
        ),
    }
    for c in VARIANTS:
        value = each(Runs("FU-10", flows__0__controller=c, path__forward__queue=50), share)
        yield Claim(f"FU-10 {c}", "Fig. 10", says(NAMES[c]), value, within=half, cause=causes.get(c))
    value = each(Runs("FU-C-ACKS"), share)
    yield Off("FU-C ACKs highspeed", says("with an ACK for each packet HSTCP"), value, within=half)


def fig_11():
    def at_100(c):
        return Runs("FU-11-100", flows__0__controller=c)

    yield from fig_11_at(Claim, "100", at_100)
    says = "{rate} as it stands: FAST's share beside Reno {bound}"
    yield Claim("FU-11d", "Fig. 11", says, each(at_100("fast"), share), below=0.4)
    runs, where = at_5("0.25%"), f"{PATH} (for the paper's 300 Mbit/s)"
    for c in FRIENDLY:
        says = f"{where}: Reno beside {NAMES[c]} has {{bound}} of what it has beside Reno"
        value = each(runs, Ratio(lambda r, c=c: reno_beside(r, c) / reno_beside(r, "reno")))
        yield Claim(f"FU-11a {c} 300", "Fig. 11", says, value, at_least=0.85)
    says = f"{where}: Fusion and Reno together have the most of these three: over the next {{bound}}"
    most = Ratio(lambda r: sum(beside(r, "fusion")) / max(sum(beside(r, c)) for c in FRIENDLY[1:]))
    yield Claim("FU-11b 300", "Fig. 11", says, each(runs, most), at_least=0.99)
    for speed in ("600", "1000"):
        yield from fig_11_at(
            Check,
            speed,
            lambda c, speed=speed: Runs("FU-11-GBIT", flows__0__controller=c, path__forward__rate=f"{speed}mbit"),
            CHANCE,
        )


def fig_11_at(of, speed, at, chance=None):
    """On the paper's own path. of: Claim, or Check where one short run stands beside the smaller path."""
    path = "{rate} as it stands"
    for c in FRIENDLY:
        says = f"{path}: Reno beside {NAMES[c]} has {{bound}} of what it has beside Reno"
        value = ratio_by_seed(at(c), at("reno"), lambda r: 2 * goodput_of(r, 1), both)
        yield of(f"FU-11a {c} {speed}", "Fig. 11", says, value, at_least=0.85, cause=chance)
    says = f"{path}: Fusion and Reno together have the most of these three: over the next {{bound}}"
    yield of(
        f"FU-11b {speed}",
        "Fig. 11",
        says,
        ratio_by_seed(at("fusion"), [at(c) for c in FRIENDLY[1:]], both),
        at_least=0.99,
    )
    for c in ("highspeed", "bic"):
        says = f"{path}: Reno has less beside {NAMES[c]} than beside Fusion: ratio {{bound}}"
        value = ratio_by_seed(at(c), at("fusion"), lambda r: goodput_of(r, 1))
        counts = Cause(COUNTS_ACKS, "FU-C 100 highspeed") if c == "highspeed" else None
        yield of(f"FU-11c {c} {speed}", "Fig. 11", says, value, below=1, cause=chance or counts)


def of_13(id: str, controller: str) -> Runs:
    return Runs(id, flows__0__controller=controller)


def all_flows(run) -> float:
    return by_hops(run).sum()


def fig_13():
    plain, reverse = "FU-13", "FU-13-REVERSE"
    for c in GROUP:
        says = f"{{rate}} a hop, {NAMES[c]}, no reverse traffic: R3-R4 is used by {{bound}}"
        yield Check(f"FU-13a {c}", "Fig. 13", says, each(of_13(plain, c), last_link), at_least=0.95)
    for c in GROUP:
        says = f"{{rate}} a hop, {NAMES[c]}: reverse traffic lowers what the flows get of R3-R4: ratio {{bound}}"
        value = ratio_by_seed(of_13(reverse, c), of_13(plain, c), all_flows)
        yield Claim(f"FU-13b {c}", "Fig. 13", says, value, below=1)
    for what, id in (("without", plain), ("with", reverse)):
        for c in FRIENDLY:
            says = (
                f"{{rate}} a hop, {what} reverse traffic: the three Reno flows beside {NAMES[c]} have {{bound}} of "
                "what they have beside Reno"
            )
            value = ratio_by_seed(of_13(id, c), of_13(id, "reno"), reno_group, lambda r: all_flows(r) / 2)
            yield Claim(f"FU-13c {c} {what}", "Fig. 13", says, value, at_least=0.8)
    checks = fig_13_hops(Check, "FU-C lot {}", "cause", "reverse traffic on the last hop only", "FU-C-LOT")
    waits = "ACKs wait in the reverse queue of each hop that their flow crosses, so"
    shortest = f"{waits} the flow of one hop has the shortest RTT by more"
    more = f"{waits} the RTTs of flows of one, two and three hops become more unequal"
    numbers = "73, 95 and 116 ms without reverse traffic, 67, 129 and 195 ms with it"
    causes = [
        Cause(why, check, published=published)
        for why, check, published in zip((more, shortest, shortest), checks, (numbers, "", ""), strict=True)
    ]
    yield from fig_13_hops(Claim, "FU-13{}", "Fig. 13", "reverse traffic", reverse, causes)


def fig_13_hops(of, id, source, traffic, scenario, causes=(None, None, None)) -> list[Claim]:
    """What reverse traffic moves between the flows of 1, 2, 3 hops. id: of the claims, {} for which."""

    def over_none(measure):
        """Over that without reverse traffic, of all four variants."""
        return joined([ratio_by_seed(of_13(scenario, c), of_13("FU-13", c), measure) for c in GROUP])

    where = "{rate} a hop, the four variants"
    says = f"{where}: {traffic} makes flows of 1, 2, 3 hops more equal: Jain index with over without {{bound}}"
    first = of(id.format("d"), source, says, over_none(lambda r: jain(by_hops(r))), above=1, cause=causes[0])
    says = f"{where}: with {traffic} the flows of 1 hop have less: ratio {{bound}}"
    one = of(id.format("e 1"), source, says, over_none(lambda r: by_hops(r)[0]), below=1, cause=causes[1])
    says = f"{where}: with {traffic} the flows of 2 hops have more: ratio {{bound}}"
    two = of(id.format("e 2"), source, says, over_none(lambda r: by_hops(r)[1]), above=1, cause=causes[2])
    return [first, one, two]
