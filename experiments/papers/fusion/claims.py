# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of "TCP-Fusion" (Kaneko, Fujikawa, Su, Katto 2007), and ours beside them; measures.py tells how they are
measured."""

from statistics import fmean

from asymlab.report.verdicts import Ratio
from asymlab.results.metrics import jain

from .measures import (
    ABOVE_1,
    CUT,
    FRIENDLY,
    GREEDY,
    LOSSES,
    NAMES,
    OFTEN,
    PHASES,
    RARE,
    RTTS,
    SPEEDS,
    TABLE_1,
    VARIANTS,
    above_reno,
    alone,
    beside,
    both,
    by_hops,
    by_thirds,
    carried,
    complete,
    cut_error,
    cut_range,
    extreme,
    falls,
    goodput,
    last_link,
    over_renos,
    phase_share,
    reno_beside,
    reno_group,
    rtt_ratio,
    same_seed,
    share,
    smallest_cut,
    spread,
    table_1,
    three_jain,
)

TITLE = "TCP-Fusion"
SUBJECT = "Takes what Reno leaves of a long path with random loss, and not more than its share beside Reno."


def at_20(loss: str, speed: str = "") -> str:
    """What ran, and the paper's point it stands for: a loss rate at 100 Mbit/s, or a speed of Fig. 11."""
    return f"20 Mbit/s, p = {loss} (for the paper's {f'{speed} Mbit/s' if speed else LOSSES[loss]})"


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
            lonely = same_seed(results.all("FU-4", path__hops__forward__loss=loss))
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
                complete(at(loss), lonely),
                Ratio(lambda r: beside(r, c)[1] / alone(lonely[r.record["seed"]], "reno")),
                at_least=0.8,
            )
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


def fig_6(results):
    for c in GREEDY:
        for loss in RARE:
            yield results.judge(
                f"FU-6 {c} {loss}",
                "Fig. 6",
                f"{at_20(loss)}: a Reno flow beside {NAMES[c]} has <= 0.6 of the fair share",
                None,
                results.all("FU-5", path__hops__forward__loss=loss),
                lambda r: 2 * beside(r, c)[1] / sum(beside(r, c)),
                at_most=0.6,
            )
        yield results.judge(
            f"FU-6 {c} 100",
            "Fig. 6",
            f"100 Mbit/s, p = 1e-5: a Reno flow beside {NAMES[c]} has <= 0.6 of the fair share",
            None,
            results.all("FU-11-100", flows__0__controller=c),
            lambda r: 2 * share(r, 1, 0),
            at_most=0.6,
        )


def table(results):
    measured = table_1(results)
    both = {
        run.record["seed"]: fmean((goodput(run, a), goodput(run, b)))
        for run, a, b in measured.get(("reno", "reno"), ())
    }
    for c in (*FRIENDLY, *GREEDY):
        flows = {run.record["key"]: a for run, a, _ in measured.get(("reno", c), ())}
        runs = [run for run, *_ in measured.get(("reno", c), ()) if run.record["seed"] in both]
        papers = TABLE_1["reno"][VARIANTS.index(c)] / TABLE_1["reno"][0]
        bound = {"at_least": 0.8} if c in FRIENDLY else {"at_most": 0.5}
        yield results.judge(
            f"FU-T1a {c}",
            "Table 1",
            f"20 Mbit/s: Reno beside {NAMES[c]} over Reno beside Reno {'>= 0.8' if c in FRIENDLY else '<= 0.5'}",
            round(papers, 3),
            runs,
            Ratio(lambda r: goodput(r, flows[r.record["key"]]) / both[r.record["seed"]]),
            **bound,
        )

    group = ("reno", *FRIENDLY)
    names, runs, measure = extreme(measured, [(a, b) for i, a in enumerate(group) for b in group[i:]], min)
    yield results.judge(
        "FU-T1b",
        "Table 1",
        f"20 Mbit/s: Jain index of each pair of Reno, Fusion, ARENO, CTCP >= 0.95; the smallest{names}",
        0.973,
        runs,
        measure,
        at_least=0.95,
    )
    for c in GREEDY:
        papers = max(jain([TABLE_1[a][VARIANTS.index(c)], TABLE_1[c][VARIANTS.index(a)]]) for a in group)
        names, runs, measure = extreme(measured, [(a, c) for a in group], max)
        yield results.judge(
            f"FU-T1c {c}",
            "Table 1",
            f"20 Mbit/s: Jain index of {NAMES[c]} with each of them <= 0.85; the largest{names}",
            round(papers, 3),
            runs,
            measure,
            at_most=0.85,
        )


def fig_8(results):
    def of(c):
        return results.all("FU-8", flows__controller=c)

    fusion = same_seed(of("fusion"))
    yield results.judge(
        "FU-8a",
        "Fig. 8",
        "20 Mbit/s, three Fusion flows: Jain index >= 0.95 while all are there",
        0.9956,
        of("fusion"),
        three_jain,
        at_least=0.95,
        note=by_thirds,
    )
    yield results.judge(
        "FU-8b",
        "Fig. 8",
        "20 Mbit/s, three HSTCP flows are less equal: their Jain index over that of Fusion's < 1",
        round(0.834 / 0.9956, 3),
        complete(of("highspeed"), fusion),
        Ratio(lambda r: three_jain(r) / three_jain(fusion[r.record["seed"]])),
        at_most=1 - 1e-9,
    )
    for c in VARIANTS:
        if c not in ("fusion", "highspeed"):
            yield results.judge(
                f"FU-8c {c}",
                "Fig. 8",
                f"20 Mbit/s, three {NAMES[c]} flows: Jain index >= 0.9",
                None,
                of(c),
                three_jain,
                at_least=0.9,
                note=by_thirds,
            )


def fig_9(results):
    runs = {c: results.all("FU-9", flows__controller=c) for c in VARIANTS}
    seeds = {c: same_seed(runs[c]) for c in VARIANTS}
    for c in VARIANTS:
        yield results.judge(
            f"FU-9a {c}",
            "Fig. 9",
            f"20 Mbit/s, two {NAMES[c]} flows of 20 ms: ratio in [0.8, 1.25]",
            None,
            runs[c],
            Ratio(lambda r: rtt_ratio(r, 20)),
            at_least=0.8,
            at_most=1.25,
        )
        yield results.judge(
            f"FU-9b {c}",
            "Fig. 9",
            f"20 Mbit/s, {NAMES[c]}: the ratio grows with the RTT: of 60 over 20 ms and of 120 over 60 ms, both > 1",
            None,
            runs[c],
            Ratio(lambda r: min(rtt_ratio(r, 60) / rtt_ratio(r, 20), rtt_ratio(r, 120) / rtt_ratio(r, 60))),
            at_least=ABOVE_1,
        )
    for c in FRIENDLY:
        for ms in RTTS[1:]:
            yield results.judge(
                f"FU-9c {c} {ms}",
                "Fig. 9",
                f"20 Mbit/s, 20 and {ms} ms: {NAMES[c]}'s ratio over Reno's in [0.7, 1.3]",
                None,
                complete(runs[c], seeds["reno"]),
                Ratio(lambda r: rtt_ratio(r, ms) / rtt_ratio(seeds["reno"][r.record["seed"]], ms)),
                at_least=0.7,
                at_most=1.3,
            )
    for c, word, pick, bound in (
        ("highspeed", "largest", max, {"at_least": 1}),
        ("cubic", "smallest", min, {"at_most": 1}),
    ):
        others = [seeds[o] for o in VARIANTS if o != c]
        yield results.judge(
            f"FU-9d {c}",
            "Fig. 9",
            f"20 Mbit/s, 20 and 120 ms: {NAMES[c]}'s ratio is the {word}: over the next "
            f"{'>=' if pick is max else '<='} 1",
            None,
            complete(runs[c], *others),
            Ratio(lambda r: rtt_ratio(r, 120) / pick(rtt_ratio(o[r.record["seed"]], 120) for o in others)),
            **bound,
        )


def fig_10(results):
    for c in VARIANTS:
        runs = results.all("FU-10", flows__0__controller=c)
        yield results.judge(
            f"FU-10a {c}",
            "Fig. 10",
            f"30 Mbit/s, 20 ms: {NAMES[c]} takes [0.4, 0.6] of what it and a Reno flow get",
            None,
            runs,
            lambda r: share(r, 0, 2),
            at_least=0.4,
            at_most=0.6,
        )
        yield results.check(
            f"FU-10b {c}",
            "Fig. 10",
            f"30 Mbit/s, {NAMES[c]} alone uses >= 0.9 of the link",
            None,
            runs,
            lambda r: carried(r, 1, 30),
            at_least=0.9,
        )


def fig_11(results):
    for loss, speed in SPEEDS.items():
        runs = results.all("FU-5", path__hops__forward__loss=loss)
        for c in FRIENDLY:
            yield results.judge(
                f"FU-11a {c} {loss}",
                "Fig. 11",
                f"{at_20(loss, speed)}: Reno beside {NAMES[c]} has >= 0.85 of what it has beside Reno",
                None,
                runs,
                Ratio(lambda r: reno_beside(r, c) / reno_beside(r, "reno")),
                at_least=0.85,
            )
        yield results.judge(
            f"FU-11b {loss}",
            "Fig. 11",
            f"{at_20(loss, speed)}: Fusion and Reno together have the most of these three: over the next >= 0.99",
            None,
            runs,
            Ratio(lambda r: sum(beside(r, "fusion")) / max(sum(beside(r, c)) for c in FRIENDLY[1:])),
            at_least=0.99,
        )
        for c in ("highspeed", "bic"):
            yield results.judge(
                f"FU-11c {c} {loss}",
                "Fig. 11",
                f"{at_20(loss, speed)}: Reno has less beside {NAMES[c]} than beside Fusion: ratio < 1",
                None,
                runs,
                Ratio(lambda r: reno_beside(r, c) / reno_beside(r, "fusion")),
                at_most=1 - 1e-9,
                note=lambda rs: spread("together they have {} of 20 Mbit/s", rs, lambda r: sum(beside(r, c))),
            )
    yield from fig_11_unscaled(results)


def fig_11_unscaled(results):
    """Against FAST; and the runs at the paper's own rates."""
    yield results.judge(
        "FU-11d",
        "Fig. 11",
        f"{at_20('0.025%', '100')}: FAST's share beside Reno < 0.4",
        None,
        results.all("FU-5", path__hops__forward__loss="0.025%"),
        lambda r: beside(r, "fast")[0] / sum(beside(r, "fast")),
        at_most=0.4 - 1e-9,
    )

    def at_100(c):
        return results.all("FU-11-100", flows__0__controller=c)

    fusion = same_seed(at_100("fusion"))
    for c in ("highspeed", "bic"):
        yield results.judge(
            f"FU-11e {c}",
            "Fig. 11",
            f"100 Mbit/s as it stands: Reno has less beside {NAMES[c]} than beside Fusion: ratio < 1",
            None,
            complete(at_100(c), fusion),
            Ratio(lambda r: goodput(r, 1) / goodput(fusion[r.record["seed"]], 1)),
            at_most=1 - 1e-9,
        )
    yield results.judge(
        "FU-11e fast",
        "Fig. 11",
        "100 Mbit/s as it stands: FAST's share beside Reno < 0.4",
        None,
        at_100("fast"),
        share,
        at_most=0.4 - 1e-9,
    )

    yield from fig_11_fast(results, "FU-11f {}", "FU-11g", "100 Mbit/s, p = 1e-3, a tenth of 1000 Mbit/s", "FU-11-1000")
    for speed in (600, 1000):
        ids, path = (f"FU-11h {{}} {speed}", f"FU-11i {speed}"), f"{speed} Mbit/s as it stands"
        yield from fig_11_fast(results, *ids, path, "FU-11-GBIT", path__forward__rate=f"{speed}mbit")


def fig_11_fast(results, friendly, most, path, scenario, **point):
    def at(c):
        return results.all(scenario, flows__0__controller=c, **point)

    reno = same_seed(at("reno"))
    for c in FRIENDLY:
        yield results.judge(
            friendly.format(c),
            "Fig. 11",
            f"{path}: Reno beside {NAMES[c]} has >= 0.85 of what it has beside Reno",
            None,
            complete(at(c), reno),
            Ratio(lambda r: 2 * goodput(r, 1) / both(reno[r.record["seed"]])),
            at_least=0.85,
        )
    others = [same_seed(at(c)) for c in FRIENDLY[1:]]
    yield results.judge(
        most,
        "Fig. 11",
        f"{path}: Fusion and Reno together have the most of these three: over the next >= 0.99",
        None,
        complete(at("fusion"), *others),
        Ratio(lambda r: both(r) / max(both(o[r.record["seed"]]) for o in others)),
        at_least=0.99,
    )


def fig_13(results):
    group = ("reno", *FRIENDLY)
    without = {c: results.all("FU-13", flows__0__controller=c) for c in group}
    reverse = {c: results.all("FU-13-REVERSE", flows__0__controller=c) for c in group}
    before = {c: same_seed(without[c]) for c in group}
    for c in group:
        yield results.check(
            f"FU-13a {c}",
            "Fig. 13",
            f"10 Mbit/s a hop, {NAMES[c]}, no reverse traffic: R3-R4 is used by >= 0.95",
            None,
            without[c],
            last_link,
            at_least=0.95,
        )
    for c in group:
        runs, seed = complete(reverse[c], before[c]), before[c]
        yield results.judge(
            f"FU-13b {c}",
            "Fig. 13",
            f"10 Mbit/s a hop, {NAMES[c]}: reverse traffic lowers what the flows get of R3-R4: ratio < 1",
            None,
            runs,
            Ratio(lambda r: by_hops(r).sum() / by_hops(seed[r.record["seed"]]).sum()),
            at_most=1 - 1e-9,
        )
    for what, found in (("without", without), ("with", reverse)):
        reno = same_seed(found["reno"])
        for c in FRIENDLY:
            yield results.judge(
                f"FU-13c {c} {what}",
                "Fig. 13",
                f"10 Mbit/s a hop, {what} reverse traffic: the three Reno flows beside {NAMES[c]} have >= 0.8 of "
                "what they have beside Reno",
                None,
                complete(found[c], reno),
                Ratio(lambda r: reno_group(r) / (by_hops(reno[r.record["seed"]]).sum() / 2)),
                at_least=0.8,
            )
    for c in group:
        runs, seed = complete(reverse[c], before[c]), before[c]
        yield results.judge(
            f"FU-13d {c}",
            "Fig. 13",
            f"10 Mbit/s a hop, {NAMES[c]}: reverse traffic makes flows of 1, 2, 3 hops more equal: Jain index with "
            "over without > 1",
            None,
            runs,
            Ratio(lambda r: jain(by_hops(r)) / jain(by_hops(seed[r.record["seed"]]))),
            at_least=ABOVE_1,
        )
        for hops, word, bound in ((1, "less", {"at_most": 1 - 1e-9}), (2, "more", {"at_least": ABOVE_1})):
            yield results.judge(
                f"FU-13e {c} {hops}",
                "Fig. 13",
                f"10 Mbit/s a hop, {NAMES[c]}: with reverse traffic the flows of {hops} hop{'s' * (hops > 1)} have "
                f"{word}: ratio {'>' if hops > 1 else '<'} 1",
                None,
                runs,
                Ratio(lambda r: by_hops(r)[hops - 1] / by_hops(seed[r.record["seed"]])[hops - 1]),
                **bound,
            )


ROWS = {
    "FU-1": (fig_1, "Fig. 1"),
    "FU-2": (fig_2, "Fig. 2"),
    "FU-4": (fig_4, "Fig. 4"),
    "FU-5": (fig_5, "Fig. 5"),
    "FU-6": (fig_6, "Fig. 6"),
    "FU-T1": (table, "Table 1"),
    "FU-8": (fig_8, "Fig. 8"),
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
