# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Claims of "TCP Formosa" that fail, with the cause turned off: reasons.toml names them."""

from asymlab.report.measures import ABOVE_1, goodput_of, jain_index, ratio_by_seed

from .measures import FASTEST, FOUR, PAPERS, RATES, RIVALS, SLOWEST, TWO, over_each, r, throughput, used


def claims(results):
    check, source = results.check, "cause"

    def at(id, rate, **controller):
        return results.all(id, path__reverse__rate=rate, **controller)

    def best_of(id, rate, rivals):
        """The arguments of judge() for the cause's runs over the best of those that ran."""
        cause = {"FO-2": "FO-C-CUT", "FO-4": "FO-C-RTT"}[id]
        there = [runs for c in rivals if (runs := at(id, rate, flows__controller=c))]
        return ratio_by_seed(at(cause, rate), there, goodput_of)

    verdicts = []
    for rate in ("400kbit", FASTEST):
        verdicts.append(
            check(
                f"FO-C cut {rate}",
                source,
                f"r = {r(rate):.3g}, cut_mode 1: goodput >= 0.98 of the best of Reno, Vegas, ACC+SA",
                None,
                *best_of("FO-2", rate, PAPERS),
                at_least=0.98,
            )
        )
    for rate in (TWO, FOUR):
        verdicts.append(
            check(
                f"FO-C ACKs {rate}",
                source,
                f"r = {r(rate):.3g}: ACC+SA's goodput over that of a Reno that counts ACKs > 1",
                None,
                *ratio_by_seed(at("FO-2", rate, flows__controller="accsa"), [at("FO-C-ACKS", rate)], goodput_of),
                at_least=ABOVE_1,
            )
        )
    verdicts += [
        check(
            "FO-C F-RTO",
            source,
            "ten flows without F-RTO, r = 20 and 4: Jain index >= 0.95",
            None,
            results.all("FO-C-FRTO"),
            jain_index,
            at_least=0.95,
            worst=True,
        ),
        check(
            "FO-C RTT",
            source,
            "a flow each way with fit_rtt: goodput forward at r = 4 is >= 0.8 of that at r = 0.67",
            None,
            *ratio_by_seed(at("FO-C-RTT", FOUR), [at("FO-C-RTT", FASTEST)], goodput_of),
            at_least=0.8,
        ),
        check(
            "FO-C RTT 100kbit",
            source,
            "and at r = 4 the highest: goodput over the best of the others >= 1",
            None,
            *best_of("FO-4", FOUR, RIVALS),
            at_least=1,
        ),
    ]
    return verdicts + option_cause(results) + ack_causes(results) + queue_causes(results)


def ack_causes(results):
    """Without marks, without SACK, without other flows' answers, and without data before the ACKs."""
    check, source = results.check, "cause"

    def at(id, rate, **controller):
        return results.all(id, path__reverse__rate=rate, **controller)

    def accsa_over_reno(id, rate, measure):
        return ratio_by_seed(at(id, rate, flows__controller="accsa"), [at(id, rate, flows__controller="reno")], measure)

    def alone(rate):
        return at("FO-2", rate, flows__controller="formosa")

    verdicts = [
        check(
            f"FO-C marks {rate}",
            source,
            f"r = {r(rate):.3g}, no marks: ACC+SA's throughput, its option counted, over Reno's > 1",
            None,
            *accsa_over_reno("FO-C-MARKS", rate, throughput),
            at_least=ABOVE_1,
        )
        for rate in (TWO, FOUR)
    ]
    verdicts += [
        check(
            f"FO-C repair {rate}",
            source,
            f"r = {r(rate):.3g}, without SACK, RACK and probes: ACC+SA's goodput over Reno's > 1",
            None,
            *accsa_over_reno("FO-C-REPAIR", rate, goodput_of),
            at_least=ABOVE_1,
        )
        for rate in (TWO, FOUR)
    ]
    return [
        *verdicts,
        check(
            "FO-C one flow",
            source,
            "one flow: utilisation at r = 20 is >= 0.90 of that at r = 0.67",
            None,
            *ratio_by_seed(alone(SLOWEST), [alone(FASTEST)], used),
            at_least=0.90,
        ),
        check(
            "FO-C own data",
            source,
            "a flow each way, a queue for each flow's packets: goodput forward at r = 4 is >= 0.8 of that at r = 0.67",
            None,
            *ratio_by_seed(at("FO-C-OWN-DATA", FOUR), [at("FO-C-OWN-DATA", FASTEST)], goodput_of),
            at_least=0.8,
        ),
    ]


def option_cause(results):
    """ACC+SA beside Reno without what the option takes of the payload."""
    pairs = [
        [results.all("FO-2", path__reverse__rate=rate, flows__controller=c) for c in ("accsa", "reno")]
        for rate in RATES
        if r(rate) <= 1
    ]
    return [
        results.check(
            "FO-C option",
            "cause",
            "r <= 1: ACC+SA's throughput, its option counted, >= 0.98 of Reno's at each rate",
            None,
            *over_each(pairs, throughput),
            at_least=0.98,
            worst=True,
        )
    ]


def queue_causes(results):
    """Ten flows whose queues have room for all of them, or which have time to even out."""
    check, source, queues = results.check, "cause", "queues of a hundred packets"

    def at(rate):
        return results.all("FO-C-QUEUES", path__reverse__rate=rate)

    verdicts = [
        check(
            "FO-C queues",
            source,
            f"ten flows, {queues}: Jain index >= 0.95 at each reverse rate",
            None,
            results.all("FO-C-QUEUES"),
            jain_index,
            at_least=0.95,
            worst=True,
        ),
        check(
            "FO-C queues used",
            source,
            f"ten flows, {queues}: utilisation at r = 20 is >= 0.90 of that at r = 0.67",
            None,
            *ratio_by_seed(at(SLOWEST), [at(FASTEST)], used),
            at_least=0.90,
        ),
    ]
    for id, name, said in (("FO-C-QUEUES-NS2", "queues", queues), ("FO-C-LONG-NS2", "long", "90 s measured")):
        for controller, cut in (("formosa", ""), ("smallcut", " cut_mode 1")):
            verdicts.append(
                check(
                    f"FO-C {name} ns-2{cut}",
                    source,
                    f"ns-2's path, r = 20{cut}, ten flows, {said}: Jain index >= 0.95",
                    None,
                    results.all(id, flows__controller=controller),
                    jain_index,
                    at_least=0.95,
                    worst=True,
                )
            )
    return verdicts
