# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A stability law for one ACK a window, which no paper has. All is a check.

A flow learns of the queue once a round. From the packet that begins a queue to the cut its W grows by cathresh, by the
packet that exceeds it, and by the round that the signal takes: GROWTH packets at most. So the queue is held if a cut
takes as much, delta W >= g at the largest W that there is, (BDP + B) / N, and if the queue has room for all flows'
growth, N g <= B. `margin` is the smaller of delta W and B / N. The law: no packet is dropped where it is g or more.
"""

from statistics import fmean

from asymlab.report import papers
from asymlab.report.claim import Check
from asymlab.report.measures import Runs, goodput, jain_index, together

TITLE = "One ACK a window"
SUBJECT = "How large a cut must be where a sender hears of its queue once a round trip: a law, and 256 paths."

GROWTH = 4  # g, packets: cathresh 2, one that exceeds it, and one while the signal is under way
BDP = {"10 ms": 12.5, "20 ms": 25, "40 ms": 50, "80 ms": 100}  # of law.toml, packets of 1000 bytes at 10 Mbit/s
BDP_ELSEWHERE = 5e6 * 0.1 / 8 / 552
DELTA = {"sixteenth": 1 / 16, "eighth": 1 / 8, "quarter": 1 / 4}
OWN = "own"  # its cut takes GROWTH packets at least, and half of W at most
FEW = 8  # below this W, half of W is less than GROWTH


def widest(point) -> float:
    """The largest W of a flow, packets: with the queue full."""
    bdp = BDP[point["title"]] if "title" in point else BDP_ELSEWHERE
    return (bdp + point["path__forward__queue"]) / point["flows__count"]


def room(point) -> float:
    """Packets of queue for each flow."""
    return point["path__forward__queue"] / point["flows__count"]


def cut(point) -> float:
    """What a signal takes from the largest W, packets."""
    w, name = widest(point), point["flows__controller"]
    return min(max(w / 8, GROWTH), w / 2) if name == OWN else DELTA[name] * w


def margin(point) -> float:
    return min(cut(point), room(point))


def drops(run) -> float:
    """Packets that the forward queue dropped in the measured window."""
    return float(run.metrics["forward"]["drops"])


POINTS = papers.points("oneack", "law.toml")
HELD = [p for p in POINTS if p["flows__controller"] != OWN and margin(p) >= GROWTH]
LOST = [p for p in POINTS if p["flows__controller"] != OWN and margin(p) <= GROWTH / 2]
NEAR = [p for p in POINTS if p["flows__controller"] != OWN and GROWTH / 2 < margin(p) < GROWTH]
SELF = [p for p in POINTS if p["flows__controller"] == OWN and room(p) >= GROWTH and widest(p) >= FEW]
CRAMPED = [p for p in POINTS if p["flows__controller"] == OWN and room(p) <= GROWTH / 2]
# Where the paper's delta is too small, though the queue has room for the growth; and the same paths with the own one.
SMALL = [p for p in POINTS if p["flows__controller"] == "eighth" and cut(p) < GROWTH <= room(p) and widest(p) >= FEW]


ALL_ELSEWHERE = papers.points("oneack", "elsewhere.toml")
ELSEWHERE = [p for p in ALL_ELSEWHERE if not GROWTH / 2 < margin(p) < GROWTH]


def at(point, **other) -> Runs:
    return Runs("OA-LAW", **(point | other))


def without_a_drop(runs) -> float:
    """Share of the runs."""
    return fmean(drops(run) == 0 for run in runs)


def share(points):
    return together([at(p) for p in points], without_a_drop)


def as_the_law_says(runs) -> float:
    """Share of the runs of another path: none is dropped where the margin is GROWTH, and some are where it is half."""
    return fmean((drops(run) == 0) == (margin(p) >= GROWTH) for run, p in zip(runs, ELSEWHERE, strict=True))


def of_small(measure):
    """The own delta's over the paper's, mean over the paths where that one is too small."""

    def over(runs) -> float:
        own, paper = runs[: len(SMALL)], runs[len(SMALL) :]
        return fmean(measure(a) / measure(b) for a, b in zip(own, paper, strict=True))

    return together([at(p, flows__controller=OWN) for p in SMALL] + [at(p) for p in SMALL], over)


def claims():
    says = f"delta W and B / N are {GROWTH} packets or more ({len(HELD)} paths): no drop in {{bound}} of them"
    yield Check("OA-1 held", "the law", says, share(HELD), paper=1, at_least=0.95)
    says = f"one of them is {GROWTH // 2} or less ({len(LOST)} paths): no drop in {{bound}}"
    yield Check("OA-2 lost", "the law", says, share(LOST), paper=0, at_most=0.05)
    says = f"between the two ({len(NEAR)} paths): no drop in {{bound}}"
    yield Check("OA-3 between", "the law", says, share(NEAR), within=(0.05, 0.95))
    for name, delta in DELTA.items():
        held = [p for p in HELD if p["flows__controller"] == name]
        lost = [p for p in LOST if p["flows__controller"] == name]
        says = f"delta {delta:g}: {GROWTH} or more ({len(held)} paths): no drop in {{bound}}"
        yield Check(f"OA-1 {name}", "the law", says, share(held), paper=1, at_least=0.9)
        says = f"delta {delta:g}: {GROWTH // 2} or less ({len(lost)} paths): no drop in {{bound}}"
        yield Check(f"OA-2 {name}", "the law", says, share(lost), paper=0, at_most=0.1)
    says = f"delta max(1/8, 4/W), W at least {FEW}, B / N at least {GROWTH} ({len(SELF)} paths): no drop in {{bound}}"
    yield Check("OA-4 own", "the law", says, share(SELF), paper=1, at_least=0.95)
    says = f"the same, B / N at most {GROWTH // 2} ({len(CRAMPED)} paths): no delta helps, no drop in {{bound}}"
    yield Check("OA-4 cramped", "the law", says, share(CRAMPED), paper=0, at_most=0.05)
    says = f"where delta 1/8 is too small alone ({len(SMALL)} paths): goodput with 4/W over that with 1/8 {{bound}}"
    yield Check("OA-5 goodput", "what it brings", says, of_small(goodput), at_least=1)
    says = "and the Jain index {bound}"
    yield Check("OA-5 Jain", "what it brings", says, of_small(jain_index), at_least=1)
    where = f"{{rate}}, {{rtt[0]}} ms, packets of 552 bytes ({len(ELSEWHERE)} paths)"
    says = f"{where}: drops, or none, as the law says in {{bound}}"
    value = together([Runs("OA-ELSE", **p) for p in ELSEWHERE], as_the_law_says)
    yield Check("OA-6 elsewhere", "the law", says, value, paper=1, at_least=0.9)
