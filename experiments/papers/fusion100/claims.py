# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The main claims of "TCP-Fusion" on the paper's own path of 100 Mbit/s; ../fusion has all figures, on smaller paths.

Where the paper gives a value, the bounds lie as far above it as below.
"""

from asymlab.report import papers
from asymlab.report.claim import Claim, Off
from asymlab.report.measures import Runs, each, goodput_of, jain_of, ratio, ratio_by_seed
from asymlab.report.verdicts import Ratio

TITLE = "TCP-Fusion at 100 Mbit/s"
SUBJECT = "The paper's main figures at their own rate, delay and buffer."

fusion = papers.module("fusion", "measures")

VARIANTS, FRIENDLY, GREEDY, NAMES = fusion.VARIANTS, fusion.FRIENDLY, fusion.GREEDY, fusion.NAMES
LOSSES = ("0.01%", "0.1%", "1%")
JAIN_FUSION, JAIN_HSTCP = 0.9956, 0.834  # Fig. 8


def reno_row(controller: str) -> float:
    """Table 1: what Reno has beside the controller, over what it has beside Reno."""
    row = fusion.TABLE_1["reno"]
    return row[VARIANTS.index(controller)] / row[0]


def row_bounds(controller: str) -> tuple[float, float]:
    """What a claim about reno_row() takes: from our bound to as far on the other side of the paper's value."""
    edge = 0.8 if controller in FRIENDLY else 0.5
    low, high = sorted((edge, 2 * reno_row(controller) - edge))
    return max(low, 0), high


def alone(controller: str, loss: str) -> Runs:
    return Runs("F100-4", path__forward__loss=loss, flows__controller=controller)


def beside(controller: str, id: str) -> Runs:
    return Runs(id, flows__0__controller=controller)


def reno_over(runs: Runs):
    """Goodput of Reno beside a variant over that of Reno beside Reno, of the same seed: the mean of the two."""
    return ratio_by_seed(runs, beside("reno", "F100-T1"), lambda r: 2 * goodput_of(r, 1), fusion.both)


def three_jain(run) -> float:
    return jain_of(run, range(3))


def claims():
    yield from fig_4()
    yield from fig_5()
    yield from table()
    yield from fig_8()


def fig_4():
    for loss in LOSSES:
        rivals = [alone(c, loss) for c in VARIANTS if c != "fusion"]
        says = "p = {loss}: Fusion's goodput {bound} of the best of the others"
        value = ratio_by_seed(alone("fusion", loss), rivals, goodput_of)
        yield Claim(f"F100-4a {loss}", "Fig. 4", says, value, at_least=0.97)
    value = ratio_by_seed(alone("fusion", "0.1%"), alone("areno", "0.1%"), goodput_of)
    says = "p = {loss}: Fusion's goodput in {bound} of ARENO's"
    yield Claim("F100-4b", "Fig. 4", says, value, paper=1.4, within=(1.1, 1.7))


def fig_5():
    for c in FRIENDLY:
        runs = beside(c, "F100-5")
        says = f"p = {{loss}}: {NAMES[c]} has more than its Reno flow: ratio {{bound}}"
        yield Claim(f"F100-5a {c}", "Fig. 5", says, each(runs, Ratio(ratio)), above=1)
        value = ratio_by_seed(runs, alone("reno", "0.01%"), lambda r: goodput_of(r, 1), goodput_of)
        says = f"p = {{loss}}: Reno beside {NAMES[c]} has {{bound}} of what it has alone"
        yield Claim(f"F100-5b {c}", "Fig. 5", says, value, at_least=0.8)
    fusions, *others = (beside(c, "F100-5") for c in FRIENDLY)
    says = "p = {loss}: Fusion beside Reno has no less than ARENO and CTCP there: ratio {bound}"
    yield Claim("F100-5c", "Fig. 5", says, ratio_by_seed(fusions, others, goodput_of), at_least=1)


def table():
    for c in (*FRIENDLY, *GREEDY):
        low, high = row_bounds(c)
        says = f"Reno beside {NAMES[c]} over Reno beside Reno in [{low:.2f}, {high:.2f}]"
        value, paper = reno_over(beside(c, "F100-T1")), round(reno_row(c), 3)
        yield Claim(f"F100-T1 {c}", "Table 1", says, value, paper=paper, within=(low, high))
    low, high = row_bounds("cubic")
    beside_reno = f"Reno beside it over Reno beside Reno in [{low:.2f}, {high:.2f}]"
    says = f"without CUBIC's Reno-friendly region: {beside_reno}"
    yield Off("F100-C cubic", says, reno_over(Runs("F100-C-CUBIC")), within=(low, high))


def fig_8():
    fusions, hstcp = (Runs("F100-8", flows__controller=c) for c in ("fusion", "highspeed"))
    says = "three Fusion flows: Jain index {bound}"
    yield Claim("F100-8a", "Fig. 8", says, each(fusions, three_jain), paper=JAIN_FUSION, at_least=0.95)
    yield Claim(
        "F100-8b",
        "Fig. 8",
        "three HSTCP flows are less equal: their Jain index over that of Fusion's {bound}",
        ratio_by_seed(hstcp, fusions, three_jain),
        paper=round(JAIN_HSTCP / JAIN_FUSION, 3),
        below=1,
    )
