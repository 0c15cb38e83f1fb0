# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Table 1 of the TCP-Fusion paper, edition 2026: six controllers of 2007 beside four of today. All is a check: what the
paper says of 28 of the pairs is judged at full length in ../fusion."""

from itertools import combinations_with_replacement

from asymlab.report import papers
from asymlab.report.claim import Check
from asymlab.report.measures import Runs, each, extreme, ratio_by_seed, utilisation

TITLE = "Table 1, edition 2026"
SUBJECT = "TCP-Fusion's Table 1 with the controllers of today: who can live with whom at 100 Mbit/s and 40 ms."

fusion = papers.module("fusion", "measures")
OLD = ("reno", "fusion", "areno", "ctcp", "highspeed", "bic")
NEW = ("cubic", "bbr", "taichung", "fast")
ALL = OLD + NEW
NAMES = fusion.NAMES | {"bbr": "BBR", "taichung": "Taichung"}
FRIENDLY = ("fusion", "areno", "ctcp")
FAIR = (0.4, 0.6)  # of what both have


def pair(a: str, b: str) -> Runs:
    first, second = sorted((a, b), key=ALL.index)
    return Runs("T26", flows__0__controller=first, flows__1__controller=second)


def of_both(controller: str, other: str):
    """A controller's share of what both have."""

    def share(run) -> float:
        mine, theirs = (fusion.kind_of(run, c) for c in (controller, other))
        return mine / (mine + theirs)

    return each(pair(controller, other), share)


def paper_cell(row: str, column: str) -> float | None:
    known = fusion.VARIANTS
    return fusion.TABLE_1[row][known.index(column)] if row in known and column in known else None


def claims():
    yield from beside_reno()
    yield from beside_cubic()
    yield from beside_bbr()
    yield from link()


def beside_reno():
    """What Reno has beside each, over what it has beside Reno."""
    for c in ALL[1:]:
        theirs, own = paper_cell("reno", c), paper_cell("reno", "reno")
        value = ratio_by_seed(pair("reno", c), pair("reno", "reno"), lambda r: fusion.kind_of(r, "reno"))
        says = f"Reno beside {NAMES[c]} has {{bound}} of what it has beside Reno"
        paper = round(theirs / own, 3) if theirs and own else None
        bound = {"at_least": 0.8} if c in (*FRIENDLY, "taichung", "fast") else {"at_most": 0.5}
        source = "Table 1" if theirs else "not in the paper"
        yield Check(f"T26 reno {c}", source, says, value, paper=paper, **bound)


def beside_cubic():
    """Who lives with what most hosts send by now."""
    for c in ALL:
        if c == "cubic":
            continue
        mine, theirs = paper_cell(c, "cubic"), paper_cell("cubic", c)
        paper = round(mine / (mine + theirs), 3) if mine and theirs else None
        says = f"{NAMES[c]} beside CUBIC has {{bound}} of what both have"
        source = "Table 1" if mine else "not in the paper"
        yield Check(f"T26 cubic {c}", source, says, of_both(c, "cubic"), paper=paper, within=FAIR)


def beside_bbr():
    for c in ALL:
        if c != "bbr":
            says = f"{NAMES[c]} beside BBR has {{bound}} of what both have"
            yield Check(f"T26 bbr {c}", "not in the paper", says, of_both(c, "bbr"), within=FAIR)


def link():
    for c in ALL:
        says = f"{NAMES[c]} beside {NAMES[c]}: of the link they use {{bound}}"
        yield Check(
            f"T26 link {c}",
            "Table 1" if c in fusion.VARIANTS else "not in the paper",
            says,
            each(pair(c, c), utilisation),
            at_least=0.9,
        )
    pairs = [each(pair(a, b), utilisation) for a, b in combinations_with_replacement(ALL, 2)]
    says = "the pair that leaves most of the link unused: it uses {bound}"
    yield Check("T26 link least", "not in the paper", says, extreme(pairs, min), at_least=0.85)
