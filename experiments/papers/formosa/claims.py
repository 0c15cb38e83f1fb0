# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of "TCP Formosa", and ours beside them.

Controllers are compared by goodput: Formosa's data packets carry 12 bytes of option, hence 948 bytes of payload in a
packet of 1000, those of the others 960. The paper's packets have no option, and throughput is all the same there.
"""

from asymlab.report import papers
from asymlab.report.claim import Cause, Check, Claim, Off
from asymlab.report.measures import Runs, each, goodput_of, jain_index, joined, ratio_by_seed, ratio_of_values, together

from .measures import (
    FASTEST,
    FOUR,
    PAPERS,
    RATES,
    RIVALS,
    SLOWEST,
    TWO,
    drops,
    drops_in_all,
    packets_of,
    part_of_link,
    r,
)
from .packets import acks_per_packet_times_w, acks_per_round, fibonacci, round_sizes, spacing_cv

TITLE = "TCP Formosa"
SUBJECT = "With one ACK a round trip a flow has the full rate, whatever the rate of its ACK path."
PUBLISHED = "02f66b63e9e8b1bf63e11d5951c0a60047e5d4dc9c55bfc54297fac5ccd85aaf"
TWO_WAY, NS2, NS2_TEN = (FOUR, FASTEST), (SLOWEST, FOUR, "400kbit", FASTEST), (SLOWEST, FASTEST)
FAST, SLOW = [rate for rate in RATES if r(rate) <= 1], [rate for rate in RATES if r(rate) > 1]
OPTION = "the option is 1.25 % of the payload"


def at(id: str, rate: str, controller: str = "formosa") -> Runs:
    return Runs(id, path__reverse__rate=rate, flows__controller=controller)


def over_rates(id: str, measure, slow: str, fast: str, controller: str = "formosa"):
    """A controller's at a slow reverse rate over its own at a fast one."""
    return ratio_by_seed(at(id, slow, controller), at(id, fast, controller), measure)


def best_of(id: str, rate: str, rivals, mine: Runs | None = None):
    """Formosa's goodput over the best of those rivals that the set has."""
    return ratio_by_seed(mine or at(id, rate), [at(id, rate, c) for c in rivals], goodput_of, some=True)


def on_rates(id: str, a: str, b: str, measure, rates=FAST):
    """A controller's over another's at each of some rates."""
    return joined([ratio_by_seed(at(id, rate, a), at(id, rate, b), measure) for rate in rates])


def claims():
    yield from fig2()
    yield from fig2_rivals()
    yield from fig3a()
    yield from fig3b()
    yield from ns2()
    yield from two_way()
    yield from mechanism()
    yield from sensitivity()


def fig2():
    says = "one flow: goodput at r = 4 is {bound} of that at r = 0.67"
    yield Claim("FO-2a r = 4", "Fig. 2", says, over_rates("FO-2", goodput_of, FOUR, FASTEST), at_least=0.95)
    says = "and at r = 20 {bound}"
    yield Claim("FO-2a r = 20", "section 3.1", says, over_rates("FO-2", goodput_of, SLOWEST, FASTEST), at_least=0.90)
    for rate in RATES:
        says = f"r = {r(rate):.3g}: goodput {{bound}} of the best of {{others}}"
        cause = SWINGS if rate in FAST else None
        yield Claim(f"FO-2b {rate}", "Fig. 2", says, best_of("FO-2", rate, PAPERS), at_least=0.98, cause=cause)
    for rate in FAST:
        says = f"r = {r(rate):.3g}, cut_mode 1: goodput {{bound}} of the best of Reno, Vegas, ACC+SA"
        value = best_of("FO-2", rate, PAPERS, Runs("FO-C-CUT", path__reverse__rate=rate))
        yield Off(f"FO-C cut {rate}", says, value, at_least=0.98)
    count = Cause(
        "Linux's CUBIC and BBR count the packets that an ACK covers: at this r they hardly miss those that are dropped"
    )
    for rate in SLOW:
        says = f"r = {r(rate):.3g}: the highest of all that ran, Linux's own too: goodput >= that of the best"
        value = best_of("FO-2", rate, RIVALS)
        yield Check(f"FO-2b+ {rate}", "not in the paper", says, value, at_least=1, cause=count)


SWINGS = Cause(
    "Linux's Vegas keeps its few packets queued without a loss, and the link full; Formosa's option takes a part of "
    "the payload, and its window swings around the BDP",
    *(f"FO-C cut {rate}" for rate in FAST),
    published=OPTION,
)


def fig2_rivals():
    """The order of the curves where ACKs have room, and what each loses where they have not."""
    option = Cause(
        "its option takes a part of the payload",
        Off(
            "FO-C option",
            "r <= 1: ACC+SA's throughput, its option counted, {bound} of Reno's at each rate",
            on_rates("FO-2", "accsa", "reno", packets_of),
            at_least=0.98,
            worst=True,
        ),
        published=OPTION,
    )
    causes = {"formosa": SWINGS, "accsa": option}
    for first, second in (("formosa", "vegas"), ("vegas", "accsa"), ("accsa", "reno")):
        says = f"r <= 1: {first}'s goodput {{bound}} of {second}'s at each rate"
        value, cause = on_rates("FO-2", first, second, goodput_of), causes.get(first)
        yield Claim(f"FO-2c {first}", "Fig. 2", says, value, at_least=0.98, worst=True, cause=cause)
    for rival in ("reno", "vegas"):
        says = f"{rival} falls: goodput at r = 4 is {{bound}} of that at r = 0.67"
        value = over_rates("FO-2", goodput_of, FOUR, FASTEST, rival)
        yield Claim(f"FO-2d {rival}", "Fig. 2", says, value, below=0.95)
        says = f"r = 4: Formosa's goodput {{bound}} of {rival}'s"
        value = ratio_by_seed(at("FO-2", FOUR), at("FO-2", FOUR, rival), goodput_of)
        yield Claim(f"FO-2d over {rival}", "Fig. 2", says, value, at_least=1.1)
    repairs = Cause(
        "Linux repairs with SACK, RACK and tail-loss probes within a round trip what a burst loses. So losses cost "
        "Reno less than the wait for fewer ACKs costs ACC+SA",
        *(f"FO-C repair {rate}" for rate in (TWO, FOUR)),
    )
    for rate in (TWO, FOUR):
        at_r = f"r = {r(rate):.3g}"
        accsa = at("FO-2", rate, "accsa")
        says = f"{at_r}: ACC+SA's goodput over Reno's {{bound}}"
        value = ratio_by_seed(accsa, at("FO-2", rate, "reno"), goodput_of)
        yield Claim(f"FO-2e {rate}", "Fig. 2", says, value, above=1, cause=repairs)
        says = f"{at_r}: ACC+SA's goodput over that of a Reno that counts ACKs {{bound}}"
        value = ratio_by_seed(accsa, Runs("FO-C-ACKS", path__reverse__rate=rate), goodput_of)
        yield Off(f"FO-C ACKs {rate}", says, value, above=1)
        says = f"{at_r}, no marks: ACC+SA's throughput, its option counted, over Reno's {{bound}}"
        yield Off(f"FO-C marks {rate}", says, on_rates("FO-C-MARKS", "accsa", "reno", packets_of, [rate]), above=1)
        says = f"{at_r}, without SACK, RACK and probes: ACC+SA's goodput over Reno's {{bound}}"
        yield Off(f"FO-C repair {rate}", says, on_rates("FO-C-REPAIR", "accsa", "reno", goodput_of, [rate]), above=1)


def difference(runs) -> float:
    """Of the largest and the smallest Jain index."""
    found = [jain_index(run) for run in runs]
    return max(found) - min(found)


QUEUES = "queues of a hundred packets"


def fig3a():
    no_hello = Cause(
        "queues of a packet for each flow drop SYNs: the third SYN of a flow has no hello, so its receiver "
        "acknowledges each packet, and these ACKs push out the one ACK a round of the others",
        "FO-C queues",
        published="one flow had no hello",
    )
    ten = Runs("FO-3", flows__controller="formosa")
    says = "ten flows: Jain index {bound} at each reverse rate"
    yield Claim("FO-3a", "Fig. 3a", says, each(ten, jain_index), at_least=0.95, worst=True, cause=no_hello)
    value = together([at("FO-3", rate) for rate in RATES], difference)
    yield Claim("FO-3a flat", "Fig. 3a", "and varies by {bound} over the rates", value, at_most=0.05, cause=no_hello)
    says = f"ten flows, {QUEUES}: Jain index {{bound}} at each reverse rate"
    yield Off("FO-C queues", says, each(Runs("FO-C-QUEUES"), jain_index), at_least=0.95, worst=True)
    says = "ten flows without F-RTO, r = 20 and 4: Jain index {bound}"
    yield Off("FO-C F-RTO", says, each(Runs("FO-C-FRTO"), jain_index), at_least=0.95, worst=True)
    for rival in PAPERS:
        says = f"r = 20: Jain index over {rival}'s: ratio {{bound}}"
        value = ratio_by_seed(at("FO-3", SLOWEST), at("FO-3", SLOWEST, rival), jain_index)
        yield Claim(f"FO-3b {rival}", "Fig. 3a", says, value, above=1)
    value = together(
        [at("FO-3", SLOWEST, c) for c in ("reno", "vegas")], lambda runs: min(jain_index(run) for run in runs)
    )
    says = "r = 20: the lower of Reno's and Vegas' Jain index is {bound}"
    yield Claim("FO-3b unfair", "Fig. 3a", says, value, at_most=0.9)


def fig3b():
    def kept(controller: str, id: str = "FO-3"):
        """Utilisation at r = 20 over that at r = 0.67."""
        return over_rates(id, part_of_link, SLOWEST, FASTEST, controller)

    one = Off(
        "FO-C one flow",
        "one flow: utilisation at r = 20 is {bound} of that at r = 0.67",
        kept("formosa", "FO-2"),
        at_least=0.90,
    )
    yield Claim(
        "FO-3c",
        "Fig. 3b",
        "ten flows: utilisation at r = 20 is {bound} of that at r = 0.67",
        kept("formosa"),
        at_least=0.90,
        cause=Cause(
            "ten flows answer ten times as often as one: at the lowest rate their answers fill the reverse link, and "
            "each answer that its queue drops is waited for",
            one,
        ),
    )
    slow, fast = (Runs("FO-C-QUEUES", path__reverse__rate=rate) for rate in (SLOWEST, FASTEST))
    says = f"ten flows, {QUEUES}: utilisation at r = 20 is {{bound}} of that at r = 0.67"
    yield Off("FO-C queues used", says, ratio_by_seed(slow, fast, part_of_link), at_least=0.90)
    for rival in ("reno", "vegas"):
        says = f"{rival}'s utilisation at r = 20 is {{bound}} of that at r = 0.67"
        yield Claim(f"FO-3d {rival}", "Fig. 3b", says, kept(rival), at_most=0.6)
    for rival in ("reno", "vegas"):
        says = f"ACC+SA keeps more of its utilisation from r = 0.67 to 20 than {rival}: ratio of ratios {{bound}}"
        yield Claim(f"FO-3e {rival}", "Fig. 3b", says, ratio_of_values(kept("accsa"), kept(rival)), above=1)


def two_way():
    says = "a flow each way: goodput forward at r = 4 is {bound} of that at r = 0.67"
    slow, fast = (Runs("FO-C-OWN-DATA", path__reverse__rate=rate) for rate in (FOUR, FASTEST))
    own = Off(
        "FO-C own data",
        "a flow each way, a queue for each flow's packets: goodput forward at r = 4 is {bound} of that at r = 0.67",
        ratio_by_seed(slow, fast, goodput_of),
        at_least=0.8,
    )
    waits = Cause(
        "ACKs wait behind the reverse flow's own data, which makes long round trips; slow start ends with many losses, "
        "and then W grows by one a round",
        own,
    )
    value = over_rates("FO-4", goodput_of, FOUR, FASTEST)
    yield Claim("FO-4", "section 3.2", says, value, at_least=0.8, cause=waits)
    slow, fast = (Runs("FO-C-RTT", path__reverse__rate=rate) for rate in (FOUR, FASTEST))
    says = "a flow each way with fit_rtt: goodput forward at r = 4 is {bound} of that at r = 0.67"
    yield Off("FO-C RTT", says, ratio_by_seed(slow, fast, goodput_of), at_least=0.8)
    fit = Off(
        "FO-C RTT 100kbit",
        "and at r = 4 the highest: goodput over the best of the others {bound}",
        best_of("FO-4", FOUR, RIVALS, slow),
        at_least=1,
    )
    long = Cause("the reverse flow's own data makes long round trips, in which W grows by one packet", fit)
    for rate in TWO_WAY:
        says = f"and at r = {r(rate):.3g} the highest: goodput over the best of the others {{bound}}"
        value, cause = best_of("FO-4", rate, RIVALS), long if rate == FOUR else None
        yield Claim(f"FO-4 {rate}", "section 3.2", says, value, at_least=1, cause=cause)


def ns2():
    """Figs. 2 and 3 on the path of ns-2's scripts for asymmetric networks, with the paper's cut and a smaller one."""
    swings = "each signal takes an eighth of W, and its window swings around the BDP"
    short = "round trips are long where the ACKs are the limit: fifteen seconds are too short for shares to even out"
    for controller, cut in (("formosa", ""), ("smallcut", " cut_mode 1")):
        for rate in NS2:
            path = f"ns-2's path, r = {r(rate):.3g}{cut}"
            says = f"{path}: goodput {{bound}} of the best of all that ran"
            value = best_of("FO-2-NS2", rate, RIVALS, at("FO-2-NS2", rate, controller))
            cause = Cause(swings, f"FO-2 ns-2 cut_mode 1 {rate}") if rate in FAST and not cut else None
            yield Claim(f"FO-2 ns-2{cut} {rate}", "Fig. 2", says, value, at_least=0.98, cause=cause)
            if rate not in NS2_TEN:
                continue
            says = f"{path}, ten flows: Jain index {{bound}}"
            value = each(at("FO-3-NS2", rate, controller), jain_index)
            cause = Cause(short, f"FO-C long ns-2{cut}") if rate == SLOWEST else None
            yield Claim(f"FO-3 ns-2{cut} {rate}", "Fig. 3a", says, value, at_least=0.95, worst=True, cause=cause)
    for id, name, said in (("FO-C-QUEUES-NS2", "queues", QUEUES), ("FO-C-LONG-NS2", "long", "90 s measured")):
        for controller, cut in (("formosa", ""), ("smallcut", " cut_mode 1")):
            says = f"ns-2's path, r = 20{cut}, ten flows, {said}: Jain index {{bound}}"
            value = each(Runs(id, flows__controller=controller), jain_index)
            yield Off(f"FO-C {name} ns-2{cut}", says, value, at_least=0.95, worst=True)


def mechanism():
    runs = Runs("FO-5")
    says = "with 1000 packets of queue: none is dropped"
    yield Check("FO-5 loss", "ours", says, each(runs, drops_in_all), at_most=0, worst=True)
    says = "ACKs on the wire for each round: in {bound}"
    yield Check("FO-5a", "section 2", says, each(runs, acks_per_round), paper=1, within=(0.9, 1.3))
    says = "ACKs per data packet {bound} / W: their product {bound}"
    yield Check("FO-5b", "section 2", says, each(runs, acks_per_packet_times_w), paper=1, at_most=1.5)
    says = "slow start: the first six rounds are 1, 2, 3, 5, 8, 13 packets; so many are {bound}"
    yield Check("FO-5c", "section 2.1", says, each(runs, lambda run: fibonacci(round_sizes(run))), at_least=6)
    says = "data packets are spread: std/mean of the time between them {bound}"
    yield Check("FO-5d", "section 2.1", says, each(runs, spacing_cv), below=0.3)
    rises, literal = (each(Runs("FO-6", flows__controller=c), drops) for c in ("formosa", "netsum"))
    says = "10 packets of queue: none is dropped after slow start"
    yield Claim("FO-6", "section 2.2", says, rises, at_most=0, worst=True)
    says = "the sum as printed (q_mode 0) does overflow it: {bound} dropped"
    yield Check("FO-6 literal", "section 2.2", says, literal, at_least=1)


def sensitivity():
    """Not in the paper: Fig. 2's r = 4 with one thing changed."""
    for title in dict.fromkeys(point["title"] for point in papers.points("formosa", "sensitivity.toml")):
        mine, reno = (Runs("FO-S", title=title, flows__controller=c) for c in ("formosa", "reno"))
        says = f"r = 4, {title}: goodput over Reno's {{bound}}"
        yield Check(f"FO-S {title}", "not in the paper", says, ratio_by_seed(mine, reno, goodput_of), at_least=1)
