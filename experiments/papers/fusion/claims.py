# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of "TCP-Fusion" (Kaneko, Fujikawa, Su, Katto 2007), and ours beside them; measures.py tells how they are
measured."""

from itertools import combinations_with_replacement
from statistics import fmean

import numpy as np

from asymlab.report.measures import ABOVE_1, BELOW_1, by_seed, goodput_of, paired, ratio_by_seed, share
from asymlab.report.verdicts import Ratio
from asymlab.results.metrics import jain

from . import causes
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
    RTTS,
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
    rtt_ratio,
    smallest_cut,
    spread,
)

TITLE = "TCP-Fusion"
SUBJECT = "Takes what Reno leaves of a long path with random loss, and not more than its share beside Reno."


def at_20(loss: str) -> str:
    """What ran, and the paper's loss rate at 100 Mbit/s that it stands for."""
    return f"20 Mbit/s, p = {loss} (for the paper's {LOSSES[loss]})"


def fig_1(results):
    runs = results.all("FU-1")
    yield results.check(
        "FU-1a",
        "Fig. 1, eq. 1",
        "a loss leaves floor(cwnd max(RTTmin/RTT, 1/2)): largest error <= 1 packet",
        None,
        runs,
        cut_error,
        at_most=1,
        worst=True,
    )
    yield results.check(
        "FU-1b",
        "Fig. 1",
        "losses at RTTs of 1 to 4 RTTmin: the largest ratio over the smallest >= 3",
        None,
        runs,
        cut_range,
        at_least=3,
    )


def fig_2(results):
    runs = results.all("FU-2")
    yield results.check(
        "FU-2a",
        "Fig. 2, eq. 1",
        f"50 Mbit/s, buffer 0.5 BDP: no loss cuts Fusion's window below RTTmin/RTT = {CUT}",
        None,
        runs,
        smallest_cut,
        at_least=CUT,
        worst=True,
    )
    yield results.check(
        "FU-2b",
        "Fig. 2",
        "cwnd >= its own reno_cwnd at every ACK: share of ACKs is 1",
        None,
        runs,
        above_reno,
        at_least=1,
        worst=True,
    )
    for phase in PHASES:
        yield results.check(
            f"FU-2c {phase}",
            "section II.B",
            f"the {phase} phase is visited: share of ACKs > 0",
            None,
            runs,
            lambda r: phase_share(r, phase),
            at_least=1e-9,
        )
    yield results.check(
        "FU-2d",
        "section II.B",
        "where reno_cwnd does not hold it, each ACK of the decrease phase lowers the window: share >= 0.95",
        None,
        runs,
        falls,
        at_least=0.95,
    )


def fig_4(results):
    def at(loss):
        return results.all("FU-4", path__hops__forward__loss=loss)

    for c in VARIANTS:
        yield results.check(
            f"FU-4a {c}",
            "Fig. 4",
            f"20 Mbit/s, p = {RARE[0]}: {NAMES[c]} alone uses >= 0.9 of the link",
            None,
            at(RARE[0]),
            lambda r: carried(r, VARIANTS.index(c), 20),
            at_least=0.9,
        )
    for loss in LOSSES:
        yield results.judge(
            f"FU-4b {loss}",
            "Fig. 4",
            f"{at_20(loss)}: Fusion's goodput >= 0.97 of the best of the others",
            None,
            at(loss),
            Ratio(lambda r: alone(r, "fusion") / max(alone(r, c) for c in VARIANTS if c != "fusion")),
            at_least=0.97,
        )
    yield results.check(
        "FU-C tick",
        "cause",
        "20 Mbit/s, p = 2.5%: Fusion's goodput >= 0.97 of that of ARENO with a clock of microseconds",
        None,
        *ratio_by_seed(at("2.5%"), [results.all("FU-C-TICK")], lambda r: alone(r, "fusion"), goodput_of),
        at_least=0.97,
    )


def fig_5(results):
    def at(loss):
        return results.all("FU-5", path__hops__forward__loss=loss)

    for c in FRIENDLY:
        for loss in RARE:
            yield results.judge(
                f"FU-5a {c} {loss}",
                "Fig. 5",
                f"{at_20(loss)}: {NAMES[c]}'s and Reno's goodputs differ by <= 0.25 of their sum",
                None,
                at(loss),
                lambda r: abs(2 * beside(r, c)[0] / sum(beside(r, c)) - 1),
                at_most=0.25,
            )
        for loss in OFTEN:
            lonely = results.all("FU-5-ALONE", path__forward__loss=loss)
            yield results.judge(
                f"FU-5b {c} {loss}",
                "Fig. 5",
                f"{at_20(loss)}: {NAMES[c]} has more than its Reno flow: ratio > 1",
                None,
                at(loss),
                Ratio(lambda r: beside(r, c)[0] / beside(r, c)[1]),
                at_least=ABOVE_1,
                note=lambda rs: spread("{} of the mean of the run's Reno flows", rs, lambda r: over_renos(r, c)),
            )
            yield results.judge(
                f"FU-5c {c} {loss}",
                "Fig. 5",
                f"{at_20(loss)}: Reno beside {NAMES[c]} has >= 0.8 of what it has alone",
                None,
                *ratio_by_seed(at(loss), [lonely], lambda r: beside(r, c)[1], goodput_of),
                at_least=0.8,
            )
    yield from causes.fig_5(results)
    for loss in OFTEN:
        yield results.judge(
            f"FU-5d {loss}",
            "Fig. 5",
            f"{at_20(loss)}: Fusion beside Reno has no less than ARENO and CTCP there: ratio >= 1",
            None,
            at(loss),
            Ratio(lambda r: beside(r, "fusion")[0] / max(beside(r, "areno")[0], beside(r, "ctcp")[0])),
            at_least=1,
        )
    yield results.check(
        "FU-C tick Reno",
        "cause",
        "20 Mbit/s, p = 2.5%: Fusion beside Reno has no less than ARENO with a clock of microseconds there: ratio >= 1",
        None,
        *ratio_by_seed(
            at("2.5%"), [results.all("FU-C-TICK")], lambda r: beside(r, "fusion")[0], lambda r: goodput_of(r, 1)
        ),
        at_least=1,
    )


def fig_6(results):
    causes = {
        "highspeed": "an ACK for each packet: a Reno flow beside HSTCP",
        "cubic": "without its Reno-friendly region: a Reno flow beside CUBIC",
    }

    def fair(run) -> float:
        return 2 * share(run, 1, 0)

    for c in GREEDY:
        yield results.judge(
            f"FU-6 {c}",
            "Fig. 6",
            f"100 Mbit/s, 44 ms, p = 1e-5: a Reno flow beside {NAMES[c]} has <= 0.6 of the fair share",
            None,
            results.all("FU-11-100", flows__0__controller=c),
            fair,
            at_most=0.6,
        )
    for c, what in causes.items():
        yield results.check(
            f"FU-C 100 {c}",
            "cause",
            f"100 Mbit/s, 44 ms, p = 1e-5, {what} has <= 0.6 of the fair share",
            None,
            results.all("FU-C-100", flows__0__controller=c),
            fair,
            at_most=0.6,
        )


def table(results):
    rest = by_seed(results.all("FU-T1", title="pairs without Reno"))

    def equal(run) -> float:
        found = pairs(run) | pairs(rest[run.record["seed"]])
        return fmean(jain(goodputs) for goodputs in found.values())

    yield results.judge(
        "FU-T1",
        "Table 1",
        "20 Mbit/s, 40 ms: Jain index of the pairs of Reno, Fusion, ARENO and CTCP, the mean of all ten >= 0.95",
        round(
            fmean(
                jain([TABLE_1[a][VARIANTS.index(b)], TABLE_1[b][VARIANTS.index(a)]])
                for a, b in combinations_with_replacement(GROUP, 2)
            ),
            3,
        ),
        paired(results.all("FU-T1", title="pairs with Reno"), rest),
        equal,
        at_least=0.95,
    )


def fig_9(results):
    runs = {c: results.all("FU-9", flows__controller=c) for c in VARIANTS}
    for c in VARIANTS:
        yield results.judge(
            f"FU-9b {c} 60",
            "Fig. 9",
            f"20 Mbit/s, {NAMES[c]}: the flow of 20 ms has more than that of 60 ms: ratio > 1",
            None,
            runs[c],
            Ratio(lambda r: rtt_ratio(r, 60)),
            at_least=ABOVE_1,
        )
        yield results.judge(
            f"FU-9b {c} 120",
            "Fig. 9",
            f"20 Mbit/s, {NAMES[c]}: the ratio grows with the RTT: beside 120 ms over beside 60 ms > 1",
            None,
            runs[c],
            Ratio(lambda r: rtt_ratio(r, 120) / rtt_ratio(r, 60)),
            at_least=ABOVE_1,
        )
    for c in FRIENDLY:
        for ms in RTTS:
            yield results.judge(
                f"FU-9c {c} {ms}",
                "Fig. 9",
                f"20 Mbit/s, 20 and {ms} ms: {NAMES[c]}'s ratio over Reno's in [0.7, 1.3]",
                None,
                *ratio_by_seed(runs[c], [runs["reno"]], lambda r: rtt_ratio(r, ms)),
                at_least=0.7,
                at_most=1.3,
            )
    for c, word, pick, bound in (
        ("highspeed", "largest", max, {"at_least": 1}),
        ("cubic", "smallest", min, {"at_most": 1}),
    ):
        others = [runs[o] for o in VARIANTS if o != c]
        yield results.judge(
            f"FU-9d {c}",
            "Fig. 9",
            f"20 Mbit/s, 20 and 120 ms: {NAMES[c]}'s ratio is the {word}: over the next "
            f"{'>=' if pick is max else '<='} 1",
            None,
            *ratio_by_seed(runs[c], others, lambda r: rtt_ratio(r, 120), best=pick),
            **bound,
        )
    yield from causes.fig_9(results, runs["reno"], [runs[o] for o in VARIANTS if o != "cubic"])
    yield from causes.marks(results)


def fig_10(results):
    def claim(of, id, source, name, runs):
        return of(
            id,
            source,
            f"30 Mbit/s, 20 ms, a buffer of 50 packets: {name} takes [0.4, 0.6] of what it and a Reno flow get",
            None,
            runs,
            share,
            at_least=0.4,
            at_most=0.6,
        )

    for c in VARIANTS:
        runs = results.all("FU-10", flows__0__controller=c, path__forward__queue=50)
        yield claim(results.judge, f"FU-10 {c}", "Fig. 10", NAMES[c], runs)
    yield claim(results.check, "FU-C BIC", "cause", "BIC below its low window", results.all("FU-C-BIC"))
    name = "with an ACK for each packet HSTCP"
    yield claim(results.check, "FU-C ACKs highspeed", "cause", name, results.all("FU-C-ACKS"))
    name = "with an ACK for each packet, and a buffer of 25 instead, HSTCP"
    yield claim(results.check, "FU-C low highspeed", "cause", name, results.all("FU-C-LOW"))


def fig_11(results):
    def at_100(c):
        return results.all("FU-11-100", flows__0__controller=c)

    yield from fig_11_at(results.judge, "100", "100 Mbit/s as it stands", at_100)
    yield results.judge(
        "FU-11d",
        "Fig. 11",
        "100 Mbit/s as it stands: FAST's share beside Reno < 0.4",
        None,
        at_100("fast"),
        share,
        at_most=0.4 - 1e-9,
    )
    runs = results.all("FU-5", path__hops__forward__loss="0.25%")
    for c in FRIENDLY:
        yield results.judge(
            f"FU-11a {c} 300",
            "Fig. 11",
            f"20 Mbit/s, p = 0.25% (for the paper's 300 Mbit/s): Reno beside {NAMES[c]} has >= 0.85 of what it has "
            "beside Reno",
            None,
            runs,
            Ratio(lambda r: reno_beside(r, c) / reno_beside(r, "reno")),
            at_least=0.85,
        )
    yield results.judge(
        "FU-11b 300",
        "Fig. 11",
        "20 Mbit/s, p = 0.25% (for the paper's 300 Mbit/s): Fusion and Reno together have the most of these three: "
        "over the next >= 0.99",
        None,
        runs,
        Ratio(lambda r: sum(beside(r, "fusion")) / max(sum(beside(r, c)) for c in FRIENDLY[1:])),
        at_least=0.99,
    )
    for speed in ("600", "1000"):
        rate = {"path__forward__rate": f"{speed}mbit"}
        yield from fig_11_at(
            results.check,
            speed,
            f"{speed} Mbit/s as it stands",
            lambda c, rate=rate: results.all("FU-11-GBIT", flows__0__controller=c, **rate),
        )


def fig_11_at(of, speed, path, at):
    """On the paper's own path. of: judge, or check where one short run stands beside the smaller path."""
    for c in FRIENDLY:
        yield of(
            f"FU-11a {c} {speed}",
            "Fig. 11",
            f"{path}: Reno beside {NAMES[c]} has >= 0.85 of what it has beside Reno",
            None,
            *ratio_by_seed(at(c), [at("reno")], lambda r: 2 * goodput_of(r, 1), both),
            at_least=0.85,
        )
    yield of(
        f"FU-11b {speed}",
        "Fig. 11",
        f"{path}: Fusion and Reno together have the most of these three: over the next >= 0.99",
        None,
        *ratio_by_seed(at("fusion"), [at(c) for c in FRIENDLY[1:]], both),
        at_least=0.99,
    )
    for c in ("highspeed", "bic"):
        yield of(
            f"FU-11c {c} {speed}",
            "Fig. 11",
            f"{path}: Reno has less beside {NAMES[c]} than beside Fusion: ratio < 1",
            None,
            *ratio_by_seed(at(c), [at("fusion")], lambda r: goodput_of(r, 1)),
            at_most=BELOW_1,
        )


def fig_13(results):
    without = {c: results.all("FU-13", flows__0__controller=c) for c in GROUP}
    reverse = {c: results.all("FU-13-REVERSE", flows__0__controller=c) for c in GROUP}
    before = {c: by_seed(without[c]) for c in GROUP}
    for c in GROUP:
        yield results.check(
            f"FU-13a {c}",
            "Fig. 13",
            f"10 Mbit/s a hop, {NAMES[c]}, no reverse traffic: R3-R4 is used by >= 0.95",
            None,
            without[c],
            last_link,
            at_least=0.95,
        )
    for c in GROUP:
        yield results.judge(
            f"FU-13b {c}",
            "Fig. 13",
            f"10 Mbit/s a hop, {NAMES[c]}: reverse traffic lowers what the flows get of R3-R4: ratio < 1",
            None,
            *ratio_by_seed(reverse[c], [without[c]], lambda r: by_hops(r).sum()),
            at_most=BELOW_1,
        )
    for what, found in (("without", without), ("with", reverse)):
        for c in FRIENDLY:
            yield results.judge(
                f"FU-13c {c} {what}",
                "Fig. 13",
                f"10 Mbit/s a hop, {what} reverse traffic: the three Reno flows beside {NAMES[c]} have >= 0.8 of "
                "what they have beside Reno",
                None,
                *ratio_by_seed(found[c], [found["reno"]], reno_group, lambda r: by_hops(r).sum() / 2),
                at_least=0.8,
            )
    yield from fig_13_hops(results.judge, "FU-13{}", "Fig. 13", "reverse traffic", reverse, before)
    last = {c: results.all("FU-C-LOT", flows__0__controller=c) for c in GROUP}
    yield from fig_13_hops(results.check, "FU-C lot {}", "cause", "reverse traffic on the last hop only", last, before)


def fig_13_hops(of, id, source, traffic, found, before):
    """What reverse traffic moves between the flows of 1, 2, 3 hops.

    id: of the claims, {} for which; found: variant -> runs with that traffic; before: by_seed() of those without.
    """
    runs = [run for c in GROUP for run in paired(found[c], before[c])]

    def alike(run) -> np.ndarray:
        """by_hops() of the run with the same variant and seed, without reverse traffic."""
        return by_hops(before[run.job.flows[0].controller][run.record["seed"]])

    yield of(
        id.format("d"),
        source,
        f"10 Mbit/s a hop, the four variants: {traffic} makes flows of 1, 2, 3 hops more equal: Jain index with "
        "over without > 1",
        None,
        runs,
        Ratio(lambda r: jain(by_hops(r)) / jain(alike(r))),
        at_least=ABOVE_1,
    )
    for hops, word, bound in ((1, "less", {"at_most": BELOW_1}), (2, "more", {"at_least": ABOVE_1})):
        yield of(
            id.format(f"e {hops}"),
            source,
            f"10 Mbit/s a hop, the four variants: with {traffic} the flows of {hops} hop{'s' * (hops > 1)} have "
            f"{word}: ratio {'>' if hops > 1 else '<'} 1",
            None,
            runs,
            Ratio(lambda r: by_hops(r)[hops - 1] / alike(r)[hops - 1]),
            **bound,
        )


ROWS = {
    "FU-1": (fig_1, "Fig. 1"),
    "FU-2": (fig_2, "Fig. 2"),
    "FU-4": (fig_4, "Fig. 4"),
    "FU-5": (fig_5, "Fig. 5"),
    "FU-6": (fig_6, "Fig. 6"),
    "FU-T1": (table, "Table 1"),
    "FU-9": (fig_9, "Fig. 9"),
    "FU-10": (fig_10, "Fig. 10"),
    "FU-11": (fig_11, "Fig. 11"),
    "FU-13": (fig_13, "Fig. 13"),
}


def claims(results):
    """All of the full set; of the quick one what it has runs for, and a line for a figure without any."""
    quick = all(task.case.which == "quick" for task, _ in results.found)
    verdicts = []
    for id, (row, source) in ROWS.items():
        found = list(row(results))
        if quick:
            found = [v for v in found if v.runs] or [
                results.not_measured(id, source, f"the claims of {source}", "in the full set")
            ]
        verdicts += found
    return verdicts
