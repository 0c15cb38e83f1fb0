# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a paper leaves open, in each way that a switch has: which reading gives the paper's own numbers. All is a check.

A reading that is chosen because it fits the claims is chosen after the fact: so each has all rows, and what it costs.
"""

from asymlab.report.claim import Check
from asymlab.report.measures import Runs, each, goodput, goodput_each, jain_index, ratio_by_seed

TITLE = "Readings"
SUBJECT = "Where a paper leaves a choice: what each reading gives, beside the paper's numbers."
READINGS = {"link": "the link's pace", "own": "the flow's own pace", "both": "the link's, then its own"}
WITH = {"impatient": "impatient", "tuned": "with SACK"}
# The paper's Tables 1 and 2: Taichung's goodput of a connection over NewReno's, and its Jain index.
RATIOS = {1: 1.0178, 10: 1.0059}
JAIN = 0.999403  # of ten


def claims():
    for reading in READINGS:
        for profile in WITH:
            yield from tables(reading, profile)
            yield from losses(reading, profile)
        yield from larger(reading)


def says(reading: str, profile: str, what: str) -> str:
    return f"{READINGS[reading]}, {WITH[profile]}, {what}"


def tables(reading: str, profile: str):
    for n, paper in RATIOS.items():
        mine, reno = (Runs("RD-TC", profile=profile, flows__count=n, flows__controller=c) for c in (reading, "reno"))
        text = says(reading, profile, f"senders: {n}, goodput {{bound}} of NewReno's")
        value = ratio_by_seed(mine, reno, goodput_each)
        yield Check(f"RD-TC {reading} {n} {profile}", "Table 1", text, value, paper=paper, at_least=0.995)
    text = says(reading, profile, "ten senders: Jain index {bound}")
    mine = Runs("RD-TC", profile=profile, flows__count=10, flows__controller=reading)
    yield Check(f"RD-TC {reading} Jain {profile}", "Table 2", text, each(mine, jain_index), paper=JAIN, at_least=0.98)


def losses(reading: str, profile: str):
    mine, reno = (Runs("RD-TC-LOSS", profile=profile, flows__controller=c) for c in (reading, "reno"))
    text = says(reading, profile, "{loss} lost, twenty senders: goodput {bound} of NewReno's")
    value = ratio_by_seed(mine, reno, goodput_each)
    yield Check(f"RD-TC {reading} loss {profile}", "Fig. 7", text, value, paper=2.05, at_least=1.5)
    text = says(reading, profile, "{loss} lost, twenty senders: Jain index {bound}")
    id = f"RD-TC {reading} loss Jain {profile}"
    yield Check(id, "Table 4", text, each(mine, jain_index), paper=0.988709, at_least=0.97)


def larger(reading: str):
    for rate in ("100mbit", "20mbit"):
        mine, reno = (Runs("RD-TC-LONG", path__forward__rate=rate, flows__controller=c) for c in (reading, "reno"))
        text = f"{READINGS[reading]}, with SACK, {{rate}} and {{rtt[0]}} ms, one sender: goodput {{bound}} of NewReno's"
        value = ratio_by_seed(mine, reno, goodput)
        yield Check(f"RD-TC {reading} {rate}", "not in the paper", text, value, at_least=0.9)
