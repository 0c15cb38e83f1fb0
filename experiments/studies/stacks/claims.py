# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How much of a congestion control was loss recovery: each paper's headline, a ratio to a rival, under six stacks.

Both run on the same stack. No paper says anything of stacks, so all is a check: that the order which the paper claims
comes out on each, that the ratio moves from the oldest stack to the newest where packets are lost, and that it stays
where none is.
"""

from collections.abc import Callable
from typing import NamedTuple

from asymlab.report import papers
from asymlab.report.claim import Cause, Check, Off
from asymlab.report.measures import (
    Runs,
    each,
    goodput_each,
    goodput_of,
    ratio_by_seed,
    ratio_of_values,
    throughput,
    utilisation,
)

TITLE = "Stacks"
SUBJECT = "How much of a congestion control was loss recovery: the papers' headlines under six stacks."

STACKS = {  # profile -> in words
    "classic": "Reno's own",
    "newreno": "slow but steady",
    "impatient": "impatient",
    "ns2": "SACK",
    "tuned": "SACK, RACK, TLP",
}
SLOW, TODAY = "newreno", "tuned"
COUNTS_ACKS = "acks"  # the sixth: as today, but the rival counts ACKs (nreno)
THEOREM1 = 25  # Mbit/s at k_f = 4
MOVED = 1.1  # recovery has a part in a headline if the ratio moves by so much from stack to stack
STILL = (0.98, 1.02)

packets_of = papers.module("formosa", "measures").packets_of
fairness = papers.module("pseudorate", "claims").fairness


class Headline(NamedTuple):
    """A paper's, as a ratio of two controllers' runs."""

    label: str
    source: str
    id: str
    mine: str
    rival: str
    measure: Callable
    paper: float | None = None
    point: dict = {}
    ack_counting: bool = True  # the sixth stack is there

    def runs(self, stack: str, rival: bool = False) -> Runs:
        profile = TODAY if stack == COUNTS_ACKS else stack
        name = self.rival if rival else self.mine
        if rival and stack == COUNTS_ACKS:
            name = "nreno"
        if name == "threenacks" and profile == TODAY:
            name = "formosa"
        return Runs(self.id, profile=profile, flows__controller=name, **self.point)

    def stacks(self) -> dict[str, str]:
        return STACKS | ({COUNTS_ACKS: f"{STACKS[TODAY]}, and the rival counts ACKs"} if self.ack_counting else {})


ONE, TEN = {"flows__count": 1}, {"flows__count": 10}
LOSING = {  # those in which packets are lost
    "taichung 1": Headline(
        "Taichung over NewReno, one sender", "Table 1", "ST-TC", "own", "reno", goodput_each, 1.0178, ONE
    ),
    "link 1": Headline(
        "Taichung by the link's pace, one sender", "Table 1", "ST-TC", "link", "reno", goodput_each, 1.0178, ONE
    ),
    "taichung 10": Headline(
        "Taichung over NewReno, ten senders", "Table 1", "ST-TC", "own", "reno", goodput_each, 1.0059, TEN
    ),
    "link 10": Headline(
        "Taichung by the link's pace, ten senders", "Table 1", "ST-TC", "link", "reno", goodput_each, 1.0059, TEN
    ),
    "loss": Headline("Taichung over NewReno, 10 % lost", "Fig. 7", "ST-LOSS", "own", "reno", goodput_each, 2.05),
    "formosa": Headline("Formosa over Reno, r = 4", "Fig. 2", "ST-FO", "threenacks", "reno", packets_of),
    "accsa": Headline("ACC+SA over Reno, r = 4", "Fig. 2", "ST-FO", "accsa", "reno", packets_of),
    "fusion": Headline("Fusion over Reno, 0.1 % lost", "Fig. 4", "ST-FU", "fusion", "reno", goodput_of),
}
LOTS = {  # and those in which none is
    "lot": Headline(
        "Pseudo-rate over Vegas, throughput",
        "Table 3",
        "ST-PR",
        "pseudorate",
        "vegas95",
        utilisation,
        1.032,
        ack_counting=False,
    ),
    "jain": Headline(
        "Pseudo-rate over Vegas, Jain index",
        "Table 3",
        "ST-PR",
        "pseudorate",
        "vegas95",
        fairness,
        1.117,
        ack_counting=False,
    ),
}
HEADLINES = LOSING | LOTS


def gain(of: Headline, stack: str):
    return ratio_by_seed(of.runs(stack), of.runs(stack, rival=True), of.measure)


def moved(of: Headline):
    """The ratio on the slow but steady stack over that on the one of today."""
    return ratio_of_values(gain(of, SLOW), gain(of, TODAY))


def grown(of: Headline, rival: bool):
    """What one of the two has on the stack of today over what it has on the slow but steady one."""
    return ratio_by_seed(of.runs(TODAY, rival), of.runs(SLOW, rival), of.measure)


def held_back(name: str) -> Cause:
    """Added when the ratio was found to move the other way."""
    of = LOSING[name]
    mine, theirs = of.label.split(",")[0].split(" over ")
    says = f"{of.label}: with RACK and TLP {{name}} has {{{{bound}}}} of what it has where recovery is slow"
    return Cause(
        "a slow recovery holds the larger window back more than the rival's small one: it hides the gain",
        Off(f"ST {name} mine", says.format(name=mine), grown(of, False), at_least=1.5),
        Off(f"ST {name} rival", says.format(name=theirs), grown(of, True), at_most=1.4),
    )


def claims():
    for name, of in HEADLINES.items():
        for stack, words in of.stacks().items():
            says = f"{of.label}; {words}: the paper's order, ratio {{bound}}"
            yield Check(f"ST {name} {stack}", of.source, says, gain(of, stack), paper=of.paper, at_least=1)
    causes = {name: held_back(name) for name in ("loss", "fusion")}
    for name, of in HEADLINES.items():
        says = f"{of.label}: the ratio of {STACKS[SLOW]} over that of {STACKS[TODAY]}: {{bound}}"
        bound = {"at_least": MOVED} if name in LOSING else {"within": STILL}
        yield Check(f"ST {name} moved", "not in the paper", says, moved(of), cause=causes.get(name), **bound)
    says = "Taichung over NewReno, one sender: the slow but steady rival makes a gain of {bound}"
    yield Check("ST taichung timer", "not in the paper", says, gain(LOSING["taichung 1"], SLOW), at_least=10)
    for stack, words in STACKS.items():
        says = f"FAST, k_f = 4; {words}: throughput {{bound}} Mbit/s"
        value = each(Runs("ST-FA", profile=stack), throughput)
        yield Check(f"ST fast {stack}", "Theorem 1", says, value, paper=THEOREM1, near=(THEOREM1, 0.02))
