# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A stability law for one ACK a window, which no paper has, and which of the links it is about.

A flow learns of the queue once a round. From the packet that begins a queue to the cut its W grows by cathresh, by the
packet that exceeds it, and by the round that the signal takes: GROWTH packets at most. So the queue is held if a cut
takes as much, delta W >= g at the largest W that there is, (BDP + B) / N, and if the queue has room for all flows'
growth, N g <= B. The margin is the smaller of delta W and B / N. The law: no packet is dropped where it is g or more.
"""

from statistics import fmean
from typing import NamedTuple

from asymlab.report.measures import Runs, goodput_of, jain_of

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
        """The packets that a signal takes from the largest W."""
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
        """Its flows' sum, Mbit/s."""
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
# The links on which the paper's delta is too small, though the queue has room for the growth.
SMALL = [k for k in LAW if k.controller == "eighth" and k.cut < GROWTH <= k.room and k.widest >= FEW]
SAID = [link for link in ELSEWHERE if not GROWTH / 2 < link.margin < GROWTH]


def of_link(link: Link, controller: str) -> Link:
    """The same link with another controller."""
    place = {(k.bdp, k.flows, k.queue): k for k in LAW if k.controller == controller}
    return place[link.bdp, link.flows, link.queue]


LINKS = {
    "held": HELD,
    "lost": LOST,
    "near": NEAR,
    "self": SELF,
    "cramped": CRAMPED,
    "elsewhere": SAID,
    "small": [of_link(link, OWN) for link in SMALL] + SMALL,
    **{f"held {name}": [link for link in HELD if link.controller == name] for name in DELTA},
    **{f"lost {name}": [link for link in LOST if link.controller == name] for name in DELTA},
}


def held_share(runs, *name: str) -> float:
    """The share of these links that drop no packet; each has a run."""
    links = LINKS[" ".join(name)]
    return fmean(link.held(run) for link, run in zip(links, runs, strict=True))


def as_the_law_says(runs) -> float:
    """Share of the links without a drop where the margin is GROWTH, and with drops where it is half."""
    return fmean(link.held(run) == (link.margin >= GROWTH) for link, run in zip(SAID, runs, strict=True))


def of_small(runs, what: str) -> float:
    """With the own delta over that with the paper's, mean of the links where that one is too small."""
    measure = {"goodput": Link.goodput, "jain": Link.jain}[what]
    values = [measure(link, run) for link, run in zip(LINKS["small"], runs, strict=True)]
    return fmean(own / papers for own, papers in zip(values[: len(SMALL)], values[len(SMALL) :], strict=True))
