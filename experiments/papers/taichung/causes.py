# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Claims of "TCP-Taichung" that fail, with the cause turned off or shown to leave no room: reasons.toml names them."""

from itertools import pairwise

from asymlab.report.measures import BELOW_1, jain_index, ratio_by_seed

from .measures import MOST, OTHERS, SENDERS, WITH, busy, extreme, fig7, goodput_at_first, over, table1, table3

HALVES = "own_q 1, and a loss leaves half"


def claims(results):
    check, source = results.check, "cause"

    def own(title):
        return results.all("TC-C-OWN", title=title)

    def one(controller):
        return table1(results, "linux", 1, controller)

    verdicts = [
        check(
            "TC-C repair",
            source,
            "Linux's defaults, whose SACK repairs slow start's losses: goodput of the first 10 s <= 1.3 of Reno's",
            None,
            *ratio_by_seed(one("taichung"), [one("reno")], goodput_at_first),
            at_most=MOST,
        ),
        check(
            "TC-C busy",
            source,
            "Linux's defaults, one Reno sender: the link is busy >= 0.98 of the time after its first second",
            None,
            one("reno"),
            busy,
            at_least=0.98,
        ),
    ]
    for p in ("0.1%", "1%"):
        verdicts.append(
            check(
                f"TC-C busy {p}",
                source,
                f"{p} of data lost, whoever sends: the link is busy >= 0.98 of the time after a second: the least",
                None,
                *extreme([(fig7(results, p, c), busy) for c in ("taichung", *OTHERS)], min),
                at_least=0.98,
            )
        )
    for profile, how in WITH.items():
        title = f"Table 1, {how}"
        verdicts += [
            check(
                f"TC-C own goodput {profile}",
                source,
                f"{how}, ten senders with own_q: goodput in [0.995, 1.3] of the better of NewReno's and Westwood+'s",
                None,
                *over(own(title), [table1(results, profile, 10, c) for c in OTHERS]),
                at_least=0.995,
                at_most=MOST,
            ),
            check(
                f"TC-C own Jain {profile}",
                source,
                f"{how}, ten senders with own_q: Jain index >= 0.98",
                None,
                own(title),
                jain_index,
                at_least=0.98,
            ),
        ]
    verdicts.append(
        check(
            "TC-C own twenty",
            source,
            "no loss, twenty flows with own_q: Jain index >= 0.97",
            None,
            own("Table 4, no loss"),
            jain_index,
            at_least=0.97,
        )
    )
    return verdicts + own_causes(results, own) + half_causes(results) + falls_causes(results) + long_causes(results)


def own_causes(results, own):
    """With own_q: beside UDP, and where packets are lost at random."""
    verdicts = []
    for id, said, runs, others, bounds in (
        (
            "own udp",
            "without SACK, ten senders with own_q beside 5 Mbit/s of UDP: goodput in [0.995, 1.3] of the better of "
            "NewReno's and Westwood+'s",
            results.all("TC-C-OWN-UDP"),
            [table3(results, "newreno", 10, c) for c in OTHERS],
            {"at_least": 0.995, "at_most": MOST},
        ),
        (
            "own 1%",
            "without SACK, 1% of data lost, twenty flows with own_q: goodput >= Westwood+'s",
            own("Fig. 7, without SACK, 1 % lost"),
            [fig7(results, "1%", "westwood", "TC-F7-NEWRENO")],
            {"at_least": 1},
        ),
    ):
        verdicts.append(results.check(f"TC-C {id}", "cause", said, None, *over(runs, others), **bounds))
    return verdicts


def half_causes(results):
    """With own_q and without the cut of (11) and the slow start after it."""
    check, source = results.check, "cause"

    def half(title):
        return results.all("TC-C-HALF", title=title)

    return [
        check(
            "TC-C half udp",
            source,
            f"without SACK, ten senders ({HALVES}) beside 5 Mbit/s of UDP: goodput in [0.995, 1.3] of the better of "
            "NewReno's and Westwood+'s",
            None,
            *over(results.all("TC-C-HALF-UDP"), [table3(results, "newreno", 10, c) for c in OTHERS]),
            at_least=0.995,
            at_most=MOST,
        ),
        check(
            "TC-C half 1%",
            source,
            f"without SACK, 1% of data lost, twenty flows ({HALVES}): goodput >= Westwood+'s",
            None,
            *over(half("Fig. 7, without SACK, 1 % lost"), [fig7(results, "1%", "westwood", "TC-F7-NEWRENO")]),
            at_least=1,
        ),
        check(
            "TC-C half twenty",
            source,
            f"no loss, twenty flows ({HALVES}), two minutes: Jain index >= 0.97",
            None,
            half("Table 4, two minutes"),
            jain_index,
            at_least=0.97,
        ),
    ]


def falls_causes(results):
    """Table 3's rivals with SACK: a connection's goodput falls with the number of senders."""
    verdicts = []
    for controller, name in zip(OTHERS, ("NewReno", "Westwood+")):
        by_n = [
            table3(results, "linux", 1, controller),
            *(results.all("TC-C-FALLS", flows__count=n, flows__controller=controller) for n in SENDERS[1:]),
        ]
        verdicts.append(
            results.check(
                f"TC-C falls {controller}",
                "cause",
                f"Linux's defaults, beside 5 Mbit/s of UDP: {name}'s goodput of a connection falls with the number of "
                "senders: larger one of the ratios 2 to 1 and 10 to 2 < 1",
                None,
                *extreme([over(more, [fewer]) for fewer, more in pairwise(by_n)], max),
                at_most=BELOW_1,
            )
        )
    return verdicts


def long_causes(results):
    """Shares over two minutes, and a minute after the flows began."""
    long, later = "two minutes", "from 60 to 120 s"
    verdicts = []
    for when, title, index in (
        (long, "ten, without SACK", 0.98),
        (long, "ten, Linux's defaults", 0.98),
        (long, "twenty", 0.97),
        (long, "twenty Reno", 0.98),
        (long, "twenty Reno, without SACK, 1 % lost", 0.98),
        (long, "two Reno, without SACK", 0.99),
        (later, "two Reno", 0.99),
        (later, "two Reno, without SACK", 0.99),
        (later, "ten, Linux's defaults", 0.98),
    ):
        name = "long" if when == long else "later"
        verdicts.append(
            results.check(
                f"TC-C {name} {title}",
                "cause",
                f"{title}{'' if 'Reno' in title else ', with own_q'}, {when}: Jain index >= {index}",
                None,
                results.all(f"TC-C-{name.upper()}", title=title),
                jain_index,
                at_least=index,
            )
        )
    return verdicts
