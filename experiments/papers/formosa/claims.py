# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of "TCP Formosa", and ours beside them.

Controllers are compared by goodput: Formosa's data packets carry 12 bytes of option, hence 948 bytes of payload in a
packet of 1000, those of the others 960. The paper's packets have no option, and throughput is all the same there.
"""

from itertools import pairwise

from asymlab.report.measures import ABOVE_1, goodput_of, jain_index, ratio_by_seed
from asymlab.report.verdicts import Ratio

from . import causes
from .measures import (
    FASTEST,
    FOUR,
    PAPERS,
    RATES,
    RIVAL_NAMES,
    RIVALS,
    SLOWEST,
    TWO,
    all_by_seed,
    drops,
    drops_in_all,
    over_each,
    r,
    used,
)
from .packets import acks_per_packet_times_w, acks_per_round, fibonacci, round_sizes, spacing_cv

TITLE = "TCP Formosa"
SUBJECT = "With one ACK a round trip a flow has the full rate, whatever the rate of its ACK path."


def one_flow(results, id: str):
    """Of Fig. 2, or of the same with a flow each way: a controller's runs at some rates, Formosa over the best of some
    rivals, the rates that are there, those of them with r > 1."""

    def at(controller, *rates):
        return [
            run
            for rate in rates or RATES
            for run in results.all(id, path__reverse__rate=rate, flows__controller=controller)
        ]

    def best_of(rate, rivals):
        present = [c for c in rivals if at(c, rate)]
        return ratio_by_seed(at("formosa", rate), [at(c, rate) for c in present], goodput_of)

    rates = [rate for rate in RATES if at("formosa", rate)]
    slow = [rate for rate in rates if r(rate) > 1]
    return at, best_of, rates, slow


def fig2(results):
    return fig2_formosa(results) + fig2_rivals(results)


def fig2_formosa(results):
    at, best_of, rates, slow = one_flow(results, "FO-2")
    judge, check = results.judge, results.check
    verdicts = [
        judge(
            "FO-2a r = 4",
            "Fig. 2",
            "one flow: goodput at r = 4 is >= 0.95 of that at r = 0.67",
            None,
            *ratio_by_seed(at("formosa", FOUR), [at("formosa", FASTEST)], goodput_of),
            at_least=0.95,
        ),
        judge(
            "FO-2a r = 20",
            "section 3.1",
            "and at r = 20 >= 0.90",
            None,
            *ratio_by_seed(at("formosa", SLOWEST), [at("formosa", FASTEST)], goodput_of),
            at_least=0.90,
        ),
    ]
    for rate in rates:
        rivals = ", ".join(name for c, name in RIVAL_NAMES.items() if at(c, rate))
        verdicts.append(
            judge(
                f"FO-2b {rate}",
                "Fig. 2",
                f"r = {r(rate):.3g}: goodput >= 0.98 of the best of {rivals}",
                None,
                *best_of(rate, PAPERS),
                at_least=0.98,
            )
        )
    for rate in slow:
        verdicts.append(
            check(
                f"FO-2b+ {rate}",
                "not in the paper",
                f"r = {r(rate):.3g}: the highest of all that ran, Linux's own too: goodput >= that of the best",
                None,
                *best_of(rate, RIVALS),
                at_least=1,
            )
        )
    return verdicts


def fig2_rivals(results):
    """The order of the curves where ACKs have room, and what each loses where they have not."""
    at, _, rates, _ = one_flow(results, "FO-2")
    judge, fast, verdicts = results.judge, [rate for rate in rates if r(rate) <= 1], []
    order = [c for c in ("formosa", "vegas", "accsa", "reno") if at(c, *fast)]
    for first, second in pairwise(order):
        verdicts.append(
            judge(
                f"FO-2c {first}",
                "Fig. 2",
                f"r <= 1: {first}'s goodput >= 0.98 of {second}'s at each rate",
                None,
                *over_each([(at(first, rate), at(second, rate)) for rate in fast], goodput_of),
                at_least=0.98,
                worst=True,
            )
        )
    for rival in ("reno", "vegas"):
        verdicts.append(
            judge(
                f"FO-2d {rival}",
                "Fig. 2",
                f"{rival} falls: goodput at r = 4 is < 0.95 of that at r = 0.67",
                None,
                *ratio_by_seed(at(rival, FOUR), [at(rival, FASTEST)], goodput_of),
                at_most=0.95 - 1e-9,
            )
        )
        verdicts.append(
            judge(
                f"FO-2d over {rival}",
                "Fig. 2",
                f"r = 4: Formosa's goodput >= 1.1 of {rival}'s",
                None,
                *ratio_by_seed(at("formosa", FOUR), [at(rival, FOUR)], goodput_of),
                at_least=1.1,
            )
        )
    for rate in (TWO, FOUR):
        verdicts.append(
            judge(
                f"FO-2e {rate}",
                "Fig. 2",
                f"r = {r(rate):.3g}: ACC+SA's goodput over Reno's > 1",
                None,
                *ratio_by_seed(at("accsa", rate), [at("reno", rate)], goodput_of),
                at_least=ABOVE_1,
            )
        )
    return verdicts


def fig3(results):
    def at(controller, *rates):
        return [
            run
            for rate in rates or RATES
            for run in results.all("FO-3", path__reverse__rate=rate, flows__controller=controller)
        ]

    return fig3a(results.judge, at) + fig3b(results.judge, at)


def difference(values) -> float:
    return max(values) - min(values)


def fig3a(judge, at):
    rates = sum(1 for rate in RATES if at("formosa", rate))
    over_rates = {seed: all for seed, all in all_by_seed(at("formosa")).items() if len(all) == rates}
    reno_vegas = all_by_seed(at("reno", SLOWEST) + at("vegas", SLOWEST))
    verdicts = [
        judge(
            "FO-3a",
            "Fig. 3a",
            "ten flows: Jain index >= 0.95 at each reverse rate",
            None,
            at("formosa"),
            jain_index,
            at_least=0.95,
            worst=True,
        ),
        judge(
            "FO-3a flat",
            "Fig. 3a",
            "and varies by <= 0.05 over the rates",
            None,
            [run for run in at("formosa", SLOWEST) if run.record["seed"] in over_rates],
            lambda run: difference([jain_index(r) for r in over_rates[run.record["seed"]]]),
            at_most=0.05,
        ),
    ]
    for rival in filter(at, RIVALS):  # Linux's own in the full set only
        verdicts.append(
            judge(
                f"FO-3b {rival}",
                "Fig. 3a",
                f"r = 20: Jain index over {rival}'s: ratio > 1",
                None,
                *ratio_by_seed(at("formosa", SLOWEST), [at(rival, SLOWEST)], jain_index),
                at_least=ABOVE_1,
            )
        )
    verdicts += [
        judge(
            "FO-3b unfair",
            "Fig. 3a",
            "r = 20: the lower of Reno's and Vegas' Jain index is <= 0.9",
            None,
            [run for run in at("reno", SLOWEST) if len(reno_vegas.get(run.record["seed"], ())) == 2],
            lambda run: min(map(jain_index, reno_vegas[run.record["seed"]])),
            at_most=0.9,
        )
    ]
    return verdicts


def fig3b(judge, at):
    verdicts = [
        judge(
            "FO-3c",
            "Fig. 3b",
            "ten flows: utilisation at r = 20 is >= 0.90 of that at r = 0.67",
            None,
            *ratio_by_seed(at("formosa", SLOWEST), [at("formosa", FASTEST)], used),
            at_least=0.90,
        )
    ]
    for rival in ("reno", "vegas"):
        verdicts.append(
            judge(
                f"FO-3d {rival}",
                "Fig. 3b",
                f"{rival}'s utilisation at r = 20 is <= 0.6 of that at r = 0.67",
                None,
                *ratio_by_seed(at(rival, SLOWEST), [at(rival, FASTEST)], used),
                at_most=0.6,
            )
        )
    kept = {c: ratio_by_seed(at(c, SLOWEST), [at(c, FASTEST)], used) for c in PAPERS}
    slow = {c: all_by_seed(runs) for c, (runs, _) in kept.items()}
    for rival in ("reno", "vegas"):
        verdicts.append(
            judge(
                f"FO-3e {rival}",
                "Fig. 3b",
                f"ACC+SA keeps more of its utilisation from r = 0.67 to 20 than {rival}: ratio of ratios > 1",
                None,
                [
                    run
                    for run in at("accsa", SLOWEST)
                    if run.record["seed"] in slow["accsa"].keys() & slow[rival].keys()
                ],
                Ratio(lambda run: kept["accsa"][1](run) / kept[rival][1](slow[rival][run.record["seed"]][0])),
                at_least=ABOVE_1,
            )
        )
    return verdicts


def two_way(results):
    at, best_of, rates, _ = one_flow(results, "FO-4")
    verdicts = [
        results.judge(
            "FO-4",
            "section 3.2",
            "a flow each way: goodput forward at r = 4 is >= 0.8 of that at r = 0.67",
            None,
            *ratio_by_seed(at("formosa", FOUR), [at("formosa", FASTEST)], goodput_of),
            at_least=0.8,
        )
    ]
    for rate in rates:
        verdicts.append(
            results.judge(
                f"FO-4 {rate}",
                "section 3.2",
                f"and at r = {r(rate):.3g} the highest: goodput over the best of the others >= 1",
                None,
                *best_of(rate, RIVALS),
                at_least=1,
            )
        )
    return verdicts


def ns2(results):
    """Figs. 2 and 3 on the path of ns-2's scripts for asymmetric networks, with the paper's cut and a smaller one."""

    def at(id, rate, *controllers):
        return [results.all(id, path__reverse__rate=rate, flows__controller=c) for c in controllers]

    verdicts = []
    for controller, name in (("formosa", ""), ("smallcut", " cut_mode 1")):
        for rate in RATES:
            (one,), (ten,) = (at(id, rate, controller) for id in ("FO-2-NS2", "FO-3-NS2"))
            rivals = [runs for runs in at("FO-2-NS2", rate, *RIVALS) if runs]
            best = ratio_by_seed(one, rivals, goodput_of)
            path = f"ns-2's path, r = {r(rate):.3g}{name}"
            if one:
                verdicts.append(
                    results.judge(
                        f"FO-2 ns-2{name} {rate}",
                        "Fig. 2",
                        f"{path}: goodput >= 0.98 of the best of all that ran",
                        None,
                        *best,
                        at_least=0.98,
                    )
                )
            if ten:
                verdicts.append(
                    results.judge(
                        f"FO-3 ns-2{name} {rate}",
                        "Fig. 3a",
                        f"{path}, ten flows: Jain index >= 0.95",
                        None,
                        ten,
                        jain_index,
                        at_least=0.95,
                        worst=True,
                    )
                )
    return verdicts


def mechanism(results):
    runs, judge, check = results.all("FO-5"), results.judge, results.check
    rises, literal = (results.all("FO-6", flows__controller=c) for c in ("formosa", "netsum"))
    return [
        check(
            "FO-5 loss",
            "ours",
            "with 1000 packets of queue: none is dropped",
            None,
            runs,
            drops_in_all,
            at_most=0,
            worst=True,
        ),
        check(
            "FO-5a",
            "section 2",
            "ACKs on the wire for each round: in [0.9, 1.3]",
            1,
            runs,
            acks_per_round,
            at_least=0.9,
            at_most=1.3,
        ),
        check(
            "FO-5b",
            "section 2",
            "ACKs per data packet <= 1.5 / W: their product <= 1.5",
            1,
            runs,
            acks_per_packet_times_w,
            at_most=1.5,
        ),
        check(
            "FO-5c",
            "section 2.1",
            "slow start: the first six rounds are 1, 2, 3, 5, 8, 13 packets; so many are >= 6",
            None,
            runs,
            lambda run: fibonacci(round_sizes(run)),
            at_least=6,
        ),
        check(
            "FO-5d",
            "section 2.1",
            "data packets are spread: std/mean of the time between them < 0.3",
            None,
            runs,
            spacing_cv,
            at_most=0.3 - 1e-9,
        ),
        judge(
            "FO-6",
            "section 2.2",
            "10 packets of queue: none is dropped after slow start",
            None,
            rises,
            drops,
            at_most=0,
            worst=True,
        ),
        check(
            "FO-6 literal",
            "section 2.2",
            "the sum as printed (q_mode 0) does overflow it: >= 1 dropped",
            None,
            literal,
            drops,
            at_least=1,
        ),
    ]


def sensitivity(results):
    """Not in the paper: Fig. 2's r = 4 with one thing changed."""

    def at(title, controller):
        return results.all("FO-S", title=title, flows__controller=controller)

    return [
        results.check(
            f"FO-S {title}",
            "not in the paper",
            f"r = 4, {title}: goodput over Reno's >= 1",
            None,
            *ratio_by_seed(at(title, "formosa"), [at(title, "reno")], goodput_of),
            at_least=1,
        )
        for title in results.points("FO-S", "title", flows__controller="formosa")
    ]


def claims(results):
    return (
        fig2(results)
        + fig3(results)
        + ns2(results)
        + two_way(results)
        + mechanism(results)
        + sensitivity(results)
        + causes.claims(results)
    )
