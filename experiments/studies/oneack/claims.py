# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A stability law for one ACK a window, which no paper has. All is a check.

A flow learns of the queue once a round. From the packet that begins a queue to the cut its W grows by cathresh, by the
packet that exceeds it, and by the round that the signal takes: GROWTH packets at most. So the queue is held if a cut
takes as much, delta W >= g at the largest W that there is, (BDP + B) / N, and if the queue has room for all flows'
growth, N g <= B. The margin is the smaller of delta W and B / N. The law: no packet is dropped where it is g or more.
"""

from statistics import fmean
from typing import NamedTuple

from asymlab.report.claim import Cause, Check
from asymlab.report.measures import Runs, goodput_of, jain_of, together

TITLE = "One ACK a window"
SUBJECT = "How large a cut must be where a sender hears of its queue once a round trip: a law, and 256 links."

GROWTH = 4  # g, packets: cathresh 2, one that exceeds it, and one while the signal is under way
DELTA = {"sixteenth": 1 / 16, "eighth": 1 / 8, "quarter": 1 / 4}
OWN = "own"  # its cut takes GROWTH packets at least, and half of W at most
FEW = 8  # below this W, half of W is less than GROWTH
BDP = {"10 ms": 12.5, "20 ms": 25, "40 ms": 50, "80 ms": 100}  # packets of 1000 bytes at 10 Mbit/s
BDP_ELSEWHERE = 5e6 * 0.1 / 8 / 552
QUEUES = (10, 20, 40, 100)  # of the links of a run


class Link(NamedTuple):
    """One link of a run, and its flows."""

    id: str
    point: tuple  # of the run
    hop: int  # from 0
    flows: int
    controller: str
    bdp: float  # packets
    queue: int  # packets

    @property
    def runs(self) -> Runs:
        return Runs(self.id, **dict(self.point))

    @property
    def widest(self) -> float:
        """The largest W of a flow, packets: with the queue full."""
        return (self.bdp + self.queue) / self.flows

    @property
    def room(self) -> float:
        """Packets of queue for each flow."""
        return self.queue / self.flows

    @property
    def cut(self) -> float:
        """What a signal takes from the largest W, packets."""
        if self.controller == OWN:
            return min(max(self.widest / 8, GROWTH), self.widest / 2)
        return DELTA[self.controller] * self.widest

    @property
    def margin(self) -> float:
        return min(self.cut, self.room)

    @property
    def which(self) -> range:
        """Its flows in the run."""
        return range(self.hop * self.flows, (self.hop + 1) * self.flows)

    def forward(self, run) -> dict:
        """Metrics of its forward queue in the measured window."""
        return run.metrics["hops"][self.hop]["forward"]

    def held(self, run) -> bool:
        return self.forward(run)["drops"] == 0

    def goodput(self, run) -> float:
        """Of its flows together, Mbit/s."""
        return sum(goodput_of(run, flow) for flow in self.which)

    def jain(self, run) -> float:
        return jain_of(run, self.which)


def links_of(id: str, point: dict, bdp: float, queues) -> list[Link]:
    flows, controller = point["flows__count"], point["flows__controller"]
    return [Link(id, tuple(point.items()), hop, flows, controller, bdp, queue) for hop, queue in enumerate(queues)]


LAW = [
    link
    for title, bdp in BDP.items()
    for n in (1, 2, 4, 10)
    for controller in (*DELTA, OWN)
    for link in links_of("OA-LAW", {"title": title, "flows__count": n, "flows__controller": controller}, bdp, QUEUES)
]
ELSEWHERE = [
    link
    for n in (2, 5, 15)
    for controller in ("eighth", OWN)
    for link in links_of("OA-ELSE", {"flows__count": n, "flows__controller": controller}, BDP_ELSEWHERE, (30, 60))
]
SET = [link for link in LAW if link.controller != OWN]
HELD = [link for link in SET if link.margin >= GROWTH]
LOST = [link for link in SET if link.margin <= GROWTH / 2]
NEAR = [link for link in SET if GROWTH / 2 < link.margin < GROWTH]
SELF = [link for link in LAW if link.controller == OWN and link.room >= GROWTH and link.widest >= FEW]
CRAMPED = [link for link in LAW if link.controller == OWN and link.room <= GROWTH / 2]
# Where the paper's delta is too small, though the queue has room for the growth.
SMALL = [k for k in LAW if k.controller == "eighth" and k.cut < GROWTH <= k.room and k.widest >= FEW]
SAID = [link for link in ELSEWHERE if not GROWTH / 2 < link.margin < GROWTH]


def over_links(links, measure):
    """A measure of a list of (link, its run)."""
    return together([link.runs for link in links], lambda runs: measure(list(zip(links, runs, strict=True))))


def share(links):
    """Of the links that drop no packet."""
    return over_links(links, lambda found: fmean(link.held(run) for link, run in found))


def as_the_law_says(found) -> float:
    """Share of the links without a drop where the margin is GROWTH, and with drops where it is half."""
    return fmean(link.held(run) == (link.margin >= GROWTH) for link, run in found)


def of_small(measure):
    """With the own delta over that with the paper's, mean of the links where that one is too small."""
    place = {(k.bdp, k.flows, k.queue): k for k in LAW if k.controller == OWN}
    mine = [place[k.bdp, k.flows, k.queue] for k in SMALL]

    def over(found) -> float:
        ours, papers = found[: len(mine)], found[len(mine) :]
        return fmean(measure(*a) / measure(*b) for a, b in zip(ours, papers, strict=True))

    return over_links(mine + SMALL, over)


LARGER = Cause("the larger cut empties the queue, and then the link is idle")
APART = Cause("larger cuts, at different times, set the windows further apart")


def claims():
    says = f"delta W and B / N are {GROWTH} packets or more ({len(HELD)} links): no drop in {{bound}} of them"
    yield Check("OA-1 held", "the law", says, share(HELD), paper=1, at_least=0.95)
    says = f"one of them is {GROWTH // 2} or less ({len(LOST)} links): no drop in {{bound}}"
    yield Check("OA-2 lost", "the law", says, share(LOST), paper=0, at_most=0.05)
    says = f"between the two ({len(NEAR)} links): no drop in {{bound}}"
    yield Check("OA-3 between", "the law", says, share(NEAR), within=(0.05, 0.95))
    for name, delta in DELTA.items():
        held, lost = ([link for link in links if link.controller == name] for links in (HELD, LOST))
        says = f"delta {delta:g}: {GROWTH} or more ({len(held)} links): no drop in {{bound}}"
        yield Check(f"OA-1 {name}", "the law", says, share(held), paper=1, at_least=0.9)
        says = f"delta {delta:g}: {GROWTH // 2} or less ({len(lost)} links): no drop in {{bound}}"
        yield Check(f"OA-2 {name}", "the law", says, share(lost), paper=0, at_most=0.1)
    says = f"delta max(1/8, 4/W), W at least {FEW}, B / N at least {GROWTH} ({len(SELF)} links): no drop in {{bound}}"
    spare = Cause(
        "the queue has room for some four packets a flow, and flows that signal in the same round need all of it"
    )
    yield Check("OA-4 own", "the law", says, share(SELF), paper=1, at_least=0.95, cause=spare)
    says = f"the same, B / N at most {GROWTH // 2} ({len(CRAMPED)} links): no delta helps, no drop in {{bound}}"
    yield Check("OA-4 cramped", "the law", says, share(CRAMPED), paper=0, at_most=0.05)
    says = f"where delta 1/8 is too small alone ({len(SMALL)} links): goodput with 4/W over that with 1/8 {{bound}}"
    yield Check("OA-5 goodput", "what it brings", says, of_small(Link.goodput), at_least=1, cause=LARGER)
    says = "and the Jain index {bound}"
    yield Check("OA-5 Jain", "what it brings", says, of_small(Link.jain), at_least=1, cause=APART)
    says = f"5 Mbit/s, 100 ms, packets of 552 bytes ({len(SAID)} links): drops, or none, as the law says in {{bound}}"
    yield Check("OA-6 elsewhere", "the law", says, over_links(SAID, as_the_law_says), paper=1, at_least=0.9)
