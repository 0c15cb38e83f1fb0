# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The main claims of "TCP-Fusion" on the paper's own path of 100 Mbit/s; ../fusion has all figures, on smaller paths.

Where the paper gives a value, the bounds lie as far above it as below.
"""

from asymlab.report import papers
from asymlab.report.measures import ABOVE_1, BELOW_1, goodput_of, ratio_by_seed
from asymlab.report.verdicts import Ratio
from asymlab.results.metrics import jain

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


def alone(results, controller: str, loss: str):
    return results.all("F100-4", path__forward__loss=loss, flows__controller=controller)


def beside(results, controller: str, id: str):
    return results.all(id, flows__0__controller=controller)


def reno_over(runs, renos):
    """Goodput of Reno beside a variant over that of Reno beside Reno, of the same seed: the mean of the two."""
    return ratio_by_seed(runs, [renos], lambda r: 2 * goodput_of(r, 1), fusion.both)


def three_jain(run) -> float:
    return jain([goodput_of(run, flow) for flow in range(3)])


def claims(results):
    verdicts = [*fig_4(results), *fig_5(results), *table(results), *fig_8(results)]
    return [v for v in verdicts if v.runs]


def fig_4(results):
    for loss in LOSSES:
        rivals = [alone(results, c, loss) for c in VARIANTS if c != "fusion"]
        yield results.judge(
            f"F100-4a {loss}",
            "Fig. 4",
            f"p = {loss}: Fusion's goodput >= 0.97 of the best of the others",
            None,
            *ratio_by_seed(alone(results, "fusion", loss), rivals, goodput_of),
            at_least=0.97,
        )
    yield results.judge(
        "F100-4b",
        "Fig. 4",
        "p = 0.1%: Fusion's goodput in [1.1, 1.7] of ARENO's",
        1.4,
        *ratio_by_seed(alone(results, "fusion", "0.1%"), [alone(results, "areno", "0.1%")], goodput_of),
        at_least=1.1,
        at_most=1.7,
    )


def fig_5(results):
    lonely = alone(results, "reno", "0.01%")
    for c in FRIENDLY:
        runs = beside(results, c, "F100-5")
        yield results.judge(
            f"F100-5a {c}",
            "Fig. 5",
            f"p = 0.01%: {NAMES[c]} has more than its Reno flow: ratio > 1",
            None,
            runs,
            Ratio(lambda r: goodput_of(r, 0) / goodput_of(r, 1)),
            at_least=ABOVE_1,
        )
        yield results.judge(
            f"F100-5b {c}",
            "Fig. 5",
            f"p = 0.01%: Reno beside {NAMES[c]} has >= 0.8 of what it has alone",
            None,
            *ratio_by_seed(runs, [lonely], lambda r: goodput_of(r, 1), goodput_of),
            at_least=0.8,
        )
    fusions, *others = (beside(results, c, "F100-5") for c in FRIENDLY)
    yield results.judge(
        "F100-5c",
        "Fig. 5",
        "p = 0.01%: Fusion beside Reno has no less than ARENO and CTCP there: ratio >= 1",
        None,
        *ratio_by_seed(fusions, others, goodput_of),
        at_least=1,
    )


def table(results):
    renos = beside(results, "reno", "F100-T1")
    for c in (*FRIENDLY, *GREEDY):
        papers_value, (low, high) = reno_row(c), row_bounds(c)
        yield results.judge(
            f"F100-T1 {c}",
            "Table 1",
            f"Reno beside {NAMES[c]} over Reno beside Reno in [{low:.2f}, {high:.2f}]",
            round(papers_value, 3),
            *reno_over(beside(results, c, "F100-T1"), renos),
            at_least=low,
            at_most=high,
        )

    low, high = row_bounds("cubic")
    yield results.check(
        "F100-C cubic",
        "cause",
        f"without CUBIC's Reno-friendly region: Reno beside it over Reno beside Reno in [{low:.2f}, {high:.2f}]",
        None,
        *reno_over(results.all("F100-C-CUBIC"), renos),
        at_least=low,
        at_most=high,
    )


def fig_8(results):
    fusions = results.all("F100-8", flows__controller="fusion")
    yield results.judge(
        "F100-8a", "Fig. 8", "three Fusion flows: Jain index >= 0.95", JAIN_FUSION, fusions, three_jain, at_least=0.95
    )
    yield results.judge(
        "F100-8b",
        "Fig. 8",
        "three HSTCP flows are less equal: their Jain index over that of Fusion's < 1",
        round(JAIN_HSTCP / JAIN_FUSION, 3),
        *ratio_by_seed(results.all("F100-8", flows__controller="highspeed"), [fusions], three_jain),
        at_most=BELOW_1,
    )
