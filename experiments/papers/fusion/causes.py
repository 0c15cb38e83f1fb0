# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Causes of the verdicts of Figs. 5 and 9, each turned off. Other figures have theirs in claims.py."""

from asymlab.report.measures import ABOVE_1, BELOW_1, ratio_by_seed
from asymlab.report.verdicts import Ratio

from .measures import GREEDY, NAMES, VARIANTS, pair_ratio, rtt_ratio


def fig_5(results):
    yield results.check(
        "FU-C CTCP",
        "cause",
        "20 Mbit/s, p = 2.5%: CTCP without its low window has more than its Reno flow: ratio > 1",
        None,
        results.all("FU-C-CTCP"),
        Ratio(pair_ratio),
        at_least=ABOVE_1,
    )
    steps = results.all("FU-C-STEPS")
    where = "20 Mbit/s, p = 2.5%, an ACK for each packet"
    yield results.check(
        "FU-C steps",
        "cause",
        f"{where}: CTCP has more than NReno, whose steps take as many packets: ratio > 1",
        None,
        steps,
        Ratio(pair_ratio),
        at_least=ABOVE_1,
    )
    for pair, name in ((1, "CTCP"), (2, "NReno")):
        yield results.check(
            f"FU-C steps {name}",
            "cause",
            f"{where}: {name} has less than Linux's Reno, whose steps take fewer packets: ratio < 1",
            None,
            steps,
            Ratio(lambda r, pair=pair: pair_ratio(r, pair)),
            at_most=BELOW_1,
        )


def fig_9(results, delayed_reno, others):
    for c in GREEDY:
        runs = results.all("FU-C-SHORT", flows__controller=c)
        yield results.check(
            f"FU-C short {c} 60",
            "cause",
            f"20 Mbit/s, a queue of 17 packets, {NAMES[c]}: the flow of 20 ms has more than that of 60 ms: ratio > 1",
            None,
            runs,
            Ratio(lambda r: rtt_ratio(r, 60)),
            at_least=ABOVE_1,
        )
        yield results.check(
            f"FU-C short {c} 120",
            "cause",
            f"20 Mbit/s, a queue of 17 packets, {NAMES[c]}: the ratio grows with the RTT: beside 120 ms over beside "
            "60 ms > 1",
            None,
            runs,
            Ratio(lambda r: rtt_ratio(r, 120) / rtt_ratio(r, 60)),
            at_least=ABOVE_1,
        )

    def of(c):
        return results.all("FU-C-RTTS", flows__controller=c)

    yield results.check(
        "FU-C RTTs highspeed",
        "cause",
        "20 Mbit/s, 20 and 120 ms, an ACK for each packet: HSTCP's ratio over Reno's >= 1",
        None,
        *ratio_by_seed(of("highspeed"), [of("reno")], pair_ratio),
        at_least=1,
    )
    yield results.check(
        "FU-C RTTs cubic",
        "cause",
        "20 Mbit/s, 20 and 120 ms: without its Reno-friendly region CUBIC's ratio is the smallest: over the next <= 1",
        None,
        *ratio_by_seed(of("cubic"), others, pair_ratio, lambda r: rtt_ratio(r, 120), best=min),
        at_most=1,
    )
    yield results.check(
        "FU-C RTTs ctcp",
        "cause",
        "20 Mbit/s, 20 and 120 ms: without its delay window CTCP's ratio over Reno's in [0.7, 1.3]",
        None,
        *ratio_by_seed(of("no_delay_window"), [delayed_reno], pair_ratio, lambda r: rtt_ratio(r, 120)),
        at_least=0.7,
        at_most=1.3,
    )


def marks(results):
    def of(c, ack):
        return results.all("FU-C-MARKS", title=f"{c}, ACKs: {ack}")

    def over_reno(c):
        return ratio_by_seed(of(c, "delayed"), [of("reno", "delayed")], pair_ratio)

    where = "20 Mbit/s, 20 and 120 ms, marks instead of losses"
    yield results.check(
        "FU-C marks fusion",
        "cause",
        f"{where}, which halve the window: Fusion's ratio over Reno's in [0.7, 1.3]",
        None,
        *over_reno("fusion"),
        at_least=0.7,
        at_most=1.3,
    )
    yield results.check(
        "FU-C marks paper",
        "cause",
        f"{where}, with equation (5) for a mark as well: Fusion's ratio over Reno's < 1",
        None,
        *over_reno("fusion_paper"),
        at_most=BELOW_1,
    )
    others = [of(c, "every") for c in VARIANTS if c != "highspeed"]
    yield results.check(
        "FU-C marks highspeed",
        "cause",
        f"{where}, an ACK for each packet: HSTCP's ratio is the largest: over the next >= 1",
        None,
        *ratio_by_seed(of("highspeed", "every"), others, pair_ratio),
        at_least=1,
    )
    yield results.check(
        "FU-C marks delayed",
        "cause",
        f"{where}, delayed ACKs: HSTCP's ratio over BIC's < 1",
        None,
        *ratio_by_seed(of("highspeed", "delayed"), [of("bic", "delayed")], pair_ratio),
        at_most=BELOW_1,
    )
