# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of "TCP Formosa", and ours beside them.

Figs. 2 and 3 are judged by throughput, as in the paper: whole packets of 1000 bytes. Goodput differs: Formosa's and
ACC+SA's data packets carry 12 bytes of option, hence 948 bytes of payload, those of the others 960.
"""

from asymlab.report import papers
from asymlab.report.claim import Cause, Ceiling, Check, Claim, Off
from asymlab.report.measures import Runs, each, goodput_of, jain_index, joined, ratio_by_seed, ratio_of_values, together

from .measures import (
    BOUNDS,
    FASTEST,
    FORWARD,
    FOUR,
    PAPERS,
    RATES,
    RIVALS,
    SLOWEST,
    TEN_RATES,
    TWO,
    VARIANTS,
    arrived_of_r,
    drops,
    drops_in_all,
    fig2_of,
    fig3_of,
    packets_of,
    part_of_link,
    r,
    reading_of,
)
from .packets import acks_per_packet_times_w, acks_per_round, fibonacci, reports_per_repair, round_sizes, spacing_cv

TITLE = "TCP Formosa"
SUBJECT = "With one ACK a round trip a flow has the full rate, whatever the rate of its ACK path."
TWO_WAY = (FOUR, FASTEST)
LOST = TEN_RATES[1:]  # where ten flows have less than the best of the others
FIG_2 = RATES[2:]  # r up to 4
FULL = "Vegas leaves nothing of the link here, so nobody can have more"
FAST, SLOW = [rate for rate in RATES if r(rate) <= 1], [rate for rate in RATES if r(rate) > 1]


def at(id: str, rate: str, controller: str = "formosa") -> Runs:
    return Runs(id, path__reverse__rate=rate, flows__controller=controller)


def over_rates(id: str, measure, slow: str, fast: str, controller: str = "formosa"):
    """A controller's at a slow reverse rate over its own at a fast one."""
    return ratio_by_seed(at(id, slow, controller), at(id, fast, controller), measure)


def best_of(id: str, rate: str, rivals, mine: Runs | None = None, measure=packets_of):
    """Formosa's over the best of those rivals that the set has."""
    return ratio_by_seed(mine or at(id, rate), [at(id, rate, c) for c in rivals], measure, some=True)


def on_rates(id: str, a: str, b: str, measure, rates=FAST):
    """A controller's over another's at each of some rates."""
    return joined([ratio_by_seed(at(id, rate, a), at(id, rate, b), measure) for rate in rates])


def claims():
    yield from fig2()
    yield from fig2_rivals()
    yield from stacks()
    yield from fig3a()
    yield from fig3b()
    yield from base_rtt()
    yield from readings()
    yield from two_way()
    yield from mechanism()
    yield from sensitivity()


def fig2():
    says = "one flow: throughput at r = 4 is {bound} of that at r = 0.67"
    yield Claim("FO-2a r = 4", "Fig. 2", says, over_rates("FO-2", packets_of, FOUR, FASTEST), at_least=0.95)
    says = "and at r = 20 {bound}"
    yield Claim("FO-2a r = 20", "section 3.1", says, over_rates("FO-2", packets_of, SLOWEST, FASTEST), at_least=0.90)
    for rate in RATES:
        says = f"r = {r(rate):.3g}: throughput {{bound}} of the best of {{others}}"
        kind = Claim if rate in FIG_2 else Check
        cause = Ceiling(FULL, full(rate)) if rate in FAST else None
        yield kind(f"FO-2b {rate}", "Fig. 2", says, best_of("FO-2", rate, PAPERS), above=1, cause=cause)
    count = Cause(
        "Linux's CUBIC and BBR count the packets that an ACK covers: at this r they hardly miss those that are dropped"
    )
    for rate in SLOW:
        says = f"r = {r(rate):.3g}: the highest of all that ran, Linux's own too: goodput >= that of the best"
        value = best_of("FO-2", rate, RIVALS, measure=goodput_of)
        yield Check(f"FO-2b+ {rate}", "not in the paper", says, value, at_least=1, cause=count)


def full(rate: str) -> Check:
    """Of the link's packets so many are Vegas'."""
    says = f"r = {r(rate):.3g}: Vegas' throughput over the link's rate {{bound}}"
    return Off(
        f"FO-C full {rate}",
        says,
        each(at("FO-2", rate, "vegas"), lambda r: packets_of(r) * 1e6 / FORWARD),
        at_least=0.999,
    )


def fig2_rivals():
    """The order of the curves where ACKs have room, and what each loses where they have not."""
    says = (
        "with Reno's own recovery, r <= 1: the throughput of an ACC+SA that hardly paces {bound} of Reno's at each rate"
    )
    value = on_rates("FO-C-PACE", "unpaced", "reno", packets_of)
    paces = Cause(
        "where no ACK is held back it is Reno, but for its pace, which costs it; and the first new ACK ended the "
        "recovery of the paper's Reno",
        Off("FO-C pace", says, value, above=1, worst=True),
    )
    causes = {"formosa": Ceiling(FULL, *(f"FO-C full {rate}" for rate in FAST)), "accsa": paces}
    for first, second in (("formosa", "vegas"), ("vegas", "accsa"), ("accsa", "reno")):
        says = f"r <= 1: {first}'s throughput {{bound}} of {second}'s at each rate"
        value = on_rates("FO-2", first, second, packets_of)
        yield Claim(f"FO-2c {first}", "Fig. 2", says, value, above=1, worst=True, cause=causes.get(first))
    says = "r <= 1: formosa's goodput, without the bytes of its option, {bound} of vegas' at each rate"
    value = on_rates("FO-2", "formosa", "vegas", goodput_of)
    yield Check("FO-2c goodput", "not in the paper", says, value, at_least=0.98, worst=True)
    for rival in PAPERS:
        says = f"{rival} falls: throughput at r = 4 is {{bound}} of that at r = 0.67"
        value = over_rates("FO-2", packets_of, FOUR, FASTEST, rival)
        yield Claim(f"FO-2d {rival}", "Fig. 2", says, value, below=0.95)
        says = f"r = 4: Formosa's throughput {{bound}} of {rival}'s"
        value = ratio_by_seed(at("FO-2", FOUR), at("FO-2", FOUR, rival), packets_of)
        yield Claim(f"FO-2d over {rival}", "Fig. 2", says, value, at_least=1.1)
    yield from accsa_over_reno()
    for rate in SLOW:
        says = f"r = {r(rate):.3g}: Reno's ACKs that are sent for each that arrives, over r"
        kind = Claim if rate in FIG_2 else Check
        slow = Cause("ACKs are sent at Reno's own rate, which is a small part of the link's here")
        runs = at("FO-2", rate, "reno")
        yield kind(f"FO-2f {rate}", "section 3.1", says, each(runs, arrived_of_r), paper=1, near=(1, 0.25), cause=slow)


def accsa_over_reno():
    for rate in (TWO, FOUR):
        says = f"r = {r(rate):.3g}: ACC+SA's throughput over Reno's {{bound}}"
        off = ratio_by_seed(at("FO-C-DK", rate, "dk2"), at("FO-2", rate, "reno"), packets_of)
        beyond = Cause(
            "its receiver waits for more packets than the ACK path asks for, and comes back by one a round trip",
            Off(f"FO-C dk e {rate}", f"with at most two packets an ACK, {says}", off, above=1),
        )
        value = ratio_by_seed(at("FO-2", rate, "accsa"), at("FO-2", rate, "reno"), packets_of)
        yield Claim(f"FO-2e {rate}", "Fig. 2", says, value, above=1, cause=beyond)
        says = f"with Reno's own recovery, r = {r(rate):.3g}: ACC+SA's throughput over Reno's {{bound}}"
        yield Check(f"FO-2 classic e {rate}", "Fig. 2", says, over_classic(rate, "reno"), above=1)
    for rate in FIG_2:
        says = f"r = {r(rate):.3g}: Formosa's throughput {{bound}} of that of ACC+SA with its best bound of dk"
        others = [at("FO-2", rate, "accsa"), *(at("FO-C-DK", rate, bound) for bound in BOUNDS)]
        yield Check(
            f"FO-C dk b {rate}", "not in the paper", says, ratio_by_seed(at("FO-2", rate), others, packets_of), above=1
        )
    for rate in (SLOWEST, FOUR):
        for bound in ("dk2", "dk5"):
            says = f"ten flows, r = {r(rate):.3g}: ACC+SA, at most {bound[2:]} packets an ACK: Jain index {{bound}}"
            value = each(at("FO-C-DK-TEN", rate, bound), jain_index)
            yield Check(f"FO-C dk ten {bound} {rate}", "not in the paper", says, value, at_least=0.9)


def over_classic(rate: str, reno: str):
    return ratio_by_seed(at("FO-2-CLASSIC", rate, "accsa"), at("FO-2-CLASSIC", rate, reno), packets_of)


def stacks():
    """Fig. 2 with the stacks of the paper's time."""
    id, mine = "FO-2-STACKS", "threenacks"
    for rate in (FOUR, TWO, FASTEST):
        says = f"the paper's stacks, r = {r(rate):.3g}: throughput {{bound}} of the best of {{others}}"
        value = best_of(id, rate, ("nreno", "vegas95", "accsa"), at(id, rate, mine))
        yield Check(f"FO-2 stacks b {rate}", "Fig. 2", says, value, at_least=0.98)
    for rate in (TWO, FOUR):
        says = (
            f"the paper's stacks, r = {r(rate):.3g}: ACC+SA's throughput over that of a Reno that counts ACKs {{bound}}"
        )
        value = ratio_by_seed(at(id, rate, "accsa"), at(id, rate, "nreno"), packets_of)
        yield Check(f"FO-2 stacks e {rate}", "Fig. 2", says, value, above=1)
        says = f"with Reno's own recovery, r = {r(rate):.3g}: over that of a Reno that counts ACKs {{bound}}"
        yield Check(f"FO-2 classic counts {rate}", "Fig. 2", says, over_classic(rate, "nreno"), above=1)


def difference(runs) -> float:
    """Of the largest and the smallest Jain index."""
    found = [jain_index(run) for run in runs]
    return max(found) - min(found)


QUEUES = "queues of a hundred packets"


def fig3a():
    room = Cause(
        "the queues of ten packets have room for one packet of each flow: losses and timeouts, and not signals, share "
        "the link",
        "FO-C queues",
    )
    ten = Runs("FO-3", flows__controller="formosa")
    says = "ten flows: Jain index {bound} at each reverse rate"
    yield Claim("FO-3a", "Fig. 3a", says, each(ten, jain_index), at_least=0.95, worst=True, cause=room)
    value = together([at("FO-3", rate) for rate in RATES], difference)
    yield Claim("FO-3a flat", "Fig. 3a", "and varies by {bound} over the rates", value, at_most=0.05, cause=room)
    says = f"ten flows, {QUEUES}: Jain index {{bound}} at each reverse rate"
    yield Off("FO-C queues", says, each(Runs("FO-C-QUEUES"), jain_index), at_least=0.95, worst=True)
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
    def kept(controller: str, id: str = "FO-3", rate: str = SLOWEST):
        """Utilisation at a slow rate over that at r = 0.67."""
        return over_rates(id, part_of_link, rate, FASTEST, controller)

    cycle = Cause(
        "queues of ten packets have room for one packet of each flow, and a cut of an eighth is less than what W grows "
        "between the packet that fills the queue and the cut: ten windows overflow it together",
        "FO-C delta 20kbit",
        "FO-C delta 100kbit",
    )
    for rate in (SLOWEST, FOUR):
        yield Claim(
            f"FO-3c {rate}",
            "Fig. 3b",
            f"ten flows: utilisation at r = {r(rate):.3g} is {{bound}} of that at r = 0.67",
            kept("formosa", rate=rate),
            at_least=0.90,
            cause=cycle,
        )
        for id, name, said in (("FO-C-QUEUES", "queues used", ""), ("FO-C-DELTA", "delta", ", delta = 1/4")):
            slow, fast = (Runs(id, path__reverse__rate=one) for one in (rate, FASTEST))
            says = f"ten flows, {QUEUES}{said}: utilisation at r = {r(rate):.3g} is {{bound}} of that at r = 0.67"
            yield Off(f"FO-C {name} {rate}", says, ratio_by_seed(slow, fast, part_of_link), at_least=0.90)
    halves = Cause(
        "ten windows of a few packets in a queue of ten: each loss halves one of them, and what a loss takes is not in "
        "the paper. Vegas holds its windows still",
        *(f"FO-C loss {rate}" for rate in LOST),
    )
    for rate in LOST:
        says = f"ten flows, r = {r(rate):.3g}, a loss takes an eighth: utilisation {{bound}} of the best of {{others}}"
        value = best_of("FO-3", rate, PAPERS, Runs("FO-C-LOSS", path__reverse__rate=rate), part_of_link)
        yield Off(f"FO-C loss {rate}", says, value, at_least=0.98)
    for rate in TEN_RATES:
        says = f"ten flows, r = {r(rate):.3g}: utilisation {{bound}} of the best of {{others}}"
        value = best_of("FO-3", rate, PAPERS, measure=part_of_link)
        yield Claim(f"FO-3f {rate}", "Fig. 3b", says, value, at_least=0.98, cause=halves)
    for rival in ("reno", "vegas"):
        says = f"{rival}'s utilisation at r = 20 is {{bound}} of that at r = 0.67"
        yield Claim(f"FO-3d {rival}", "Fig. 3b", says, kept(rival), at_most=0.6)
    for rival in ("reno", "vegas"):
        says = f"ACC+SA keeps more of its utilisation from r = 0.67 to 20 than {rival}: ratio of ratios {{bound}}"
        yield Claim(f"FO-3e {rival}", "Fig. 3b", says, ratio_of_values(kept("accsa"), kept(rival)), above=1)


def base_rtt():
    """Not in the paper: which of its statements come true at which base RTT, which it does not tell."""
    for title in dict.fromkeys(point["title"] for point in papers.points("formosa", "rtt")):
        lists = [
            Runs("FO-RTT", title=title, path__reverse__rate=rate, flows__controller=c)
            for rate in (FOUR, FASTEST)
            for c in ("formosa", *PAPERS)
        ]
        says = f"base RTT {title}: of Fig. 2's seven statements {{bound}} come true"
        yield Check(f"FO-RTT {title}", "Fig. 2", says, together(lists, fig2_of), at_least=6)
        lists = [
            Runs("FO-RTT-TEN", title=title, path__reverse__rate=rate, flows__controller="formosa")
            for rate in (SLOWEST, FOUR, FASTEST)
        ]
        says = f"base RTT {title}, ten flows: of Fig. 3's three statements about Formosa {{bound}} come true"
        yield Check(f"FO-RTT ten {title}", "Fig. 3", says, together(lists, fig3_of), at_least=3)


def readings():
    """Each choice that the paper leaves, by its alternative."""
    for name in VARIANTS:
        one = [at("FO-R", rate, name) for rate in (FOUR, FASTEST)]
        ten = [at("FO-R-TEN", rate, name) for rate in (SLOWEST, FOUR, FASTEST)]
        says = f"{VARIANTS[name]}: of six statements about Formosa's throughput and fairness {{bound}} come true"
        yield Check(f"FO-R {name}", "readings", says, together(one + ten, reading_of), at_least=6)


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
        best_of("FO-4", FOUR, RIVALS, slow, goodput_of),
        at_least=1,
    )
    long = Cause("the reverse flow's own data makes long round trips, in which W grows by one packet", fit)
    for rate in TWO_WAY:
        says = f"and at r = {r(rate):.3g} the highest: goodput over the best of the others {{bound}}"
        value, cause = best_of("FO-4", rate, RIVALS, measure=goodput_of), long if rate == FOUR else None
        yield Claim(f"FO-4 {rate}", "section 3.2", says, value, at_least=1, cause=cause)
    ten = {rate: at("FO-4-TEN", rate) for rate in TWO_WAY}
    says = "ten flows each way: goodput of the ten forward at r = 4 is {bound} of that at r = 0.67"
    value = ratio_by_seed(ten[FOUR], ten[FASTEST], forward_of)
    yield Claim("FO-4 ten", "section 3.2", says, value, at_least=0.8)
    for rate in TWO_WAY:
        says = f"ten flows each way, r = {r(rate):.3g}: goodput forward over Reno's {{bound}}"
        value = ratio_by_seed(ten[rate], at("FO-4-TEN", rate, "reno"), forward_of)
        yield Claim(f"FO-4 ten {rate}", "section 3.2", says, value, at_least=1)


def forward_of(run) -> float:
    """Goodput of the forward flows together, Mbit/s."""
    flows = run.job.flows
    return sum(goodput_of(run, i) for i, flow in enumerate(flows) if flow.src == flows[0].src)


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
    yield Check("FO-6", "section 2.2", says, rises, at_most=0, worst=True)
    says = "the sum as printed (q_mode 0) does overflow it: {bound} dropped"
    yield Check("FO-6 literal", "section 2.2", says, literal, at_least=1)
    nack, sack = (Runs("FO-NACK", flows__controller=c) for c in ("formosa", "reno"))
    says = "{loss} of the packets lost: ACKs that report gaps, for each packet that is sent again, {bound}"
    unasked = "{loss} of the packets lost, without the answers that rounds ask for: such ACKs for each packet {bound}"
    open_gaps = Cause(
        "flagged packets are answered also while a gap is open, and such an answer tells of the gap as well",
        Off("FO-C unasked", unasked, each(nack, lambda run: reports_per_repair(run, asked=False)), at_most=2),
    )
    yield Claim("FO-7 NACK", "section 2.3", says, each(nack, reports_per_repair), at_most=2, cause=open_gaps)
    says = "over those of a receiver with SACK: {bound}"
    yield Claim("FO-7 SACK", "section 2.3", says, ratio_by_seed(nack, sack, reports_per_repair), below=1)


def sensitivity():
    """Not in the paper: Fig. 2's r = 4 with one thing changed."""
    for title in dict.fromkeys(point["title"] for point in papers.points("formosa", "sensitivity")):
        mine, reno = (Runs("FO-S", title=title, flows__controller=c) for c in ("formosa", "reno"))
        says = f"r = 4, {title}: goodput over Reno's {{bound}}"
        yield Check(f"FO-S {title}", "not in the paper", says, ratio_by_seed(mine, reno, goodput_of), at_least=1)
