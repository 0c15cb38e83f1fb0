# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Options beyond the papers: that each helps where it is recommended, and what it costs elsewhere. All is a check.

Runs with and without an option are compared seed by seed.
"""

from asymlab.report import papers
from asymlab.report.measures import ABOVE_1, BELOW_1, by_seed, goodput, goodput_of, paired, ratio_by_seed
from asymlab.report.verdicts import Ratio
from asymlab.results.metrics import goodput_bins, jain

TITLE = "Options beyond the papers"
SUBJECT = "What an option of a controller brings where it is recommended, and what it costs elsewhere."
OURS = "ours"

NAMES = papers.module("fusion", "measures").NAMES
COSTS_NOTHING = 0.98
DRAINS = {
    "fast": "fast_drains",
    "fusion": "fusion_drains",
    "taichung": "taichung_drains",
    "pseudorate": "pseudo_drains",
}
LONG = {"fast": "FAST", "fusion": "Fusion", "taichung": "Taichung", "pseudorate": "Pseudo-rate"}


# --- measures of one run ------------------------------------------------------------------


def of_flow(flow: int):
    return lambda run: goodput_of(run, flow)


def resent(run) -> int:
    """Packets sent again in the whole run, and one: none in both is a ratio of 1."""
    return 1 + sum(f["retransmits_whole_run"] for f in run.metrics["flows"])


def equality(run, after_s: float = 0) -> float:
    """Jain index of the flows that run to the end."""
    end, bin_s = run.job.duration_s, run.job.bin_ms / 1e3
    stay = [f.id for f in run.job.flows if f.stop_s in (None, end)]
    return jain([goodput_bins(run.goodput, f, end, bin_s)[round(after_s / bin_s) :].sum() for f in stay])


def over_other(run) -> float:
    """The first flow's goodput over the second's."""
    return goodput_of(run, 0) / goodput_of(run, 1)


# --- claims -------------------------------------------------------------------------------


class Pairs:
    """The runs of a scenario with an option, each beside that of the same seed without."""

    def __init__(self, results, name: str, id: str, off: dict, on: dict):
        self.results, self.name = results, name
        self.without = results.all(id, **off)
        self.runs = paired(results.all(id, **on), by_seed(self.without))

    def check(self, letter: str, claim: str, measure, at_least: float = 0, at_most: float | None = None):
        """measure with the option over measure without."""
        said = f"{self.name}: {claim}"
        ratio = ratio_by_seed(self.runs, [self.without], measure)
        return self.results.check(f"OP-{letter}", OURS, said, None, *ratio, at_least=at_least, at_most=at_most)


def swept(results, name: str, id: str, key: str, values, **point) -> Pairs:
    off, on = ({key: value} | point for value in values)
    return Pairs(results, name, id, off, on)


def claims(results):
    verdicts = [
        *many_flows(results),
        *two_way(results),
        *routes(results),
        *marks(results),
        *start(results),
        *radio(results),
        *early(results),
        *pacing(results),
    ]
    return [v for v in verdicts if v.runs]


def many_flows(results):
    def own(place: str, id: str = "OP-OWN", **point) -> Pairs:
        return swept(results, f"own_q 4, {place}", id, "controllers__taichung__own_q", (0, 4), **point)

    ten, no_sack = (own(title, title=title) for title in ("ten flows", "ten flows without SACK"))
    yield ten.check("1a", "fewer retransmissions, ratio < 1", resent, at_most=BELOW_1)
    yield ten.check("1b", "goodput >= 0.98 of that without", goodput, COSTS_NOTHING)
    yield ten.check("1c", "Jain index >= 0.98 of that without", equality, COSTS_NOTHING)
    yield no_sack.check("1d", "more goodput, ratio > 1", goodput, ABOVE_1)
    yield no_sack.check("1e", "fewer retransmissions, ratio < 1", resent, at_most=BELOW_1)
    for share in ("1", "10"):
        alone = own(title := f"one flow, {share} % loss", title=title)
        yield alone.check(f"1f {share}%", "goodput >= 0.98 of that without", goodput, COSTS_NOTHING)
    for other in ("reno", "cubic"):
        beside = own(f"beside {NAMES[other]}", "OP-OWN-BESIDE", flows__1__controller=other)
        yield beside.check(f"1g {other}", "the other has >= 0.98 of what it has without", of_flow(1), COSTS_NOTHING)


def two_way(results):
    span = swept(results, "span_q8 16, CUBIC the other way", "OP-SPAN", "controllers__taichung__span_q8", (1, 16))
    yield span.check("2a", "fewer retransmissions, ratio < 1", resent, at_most=BELOW_1)
    yield span.check("2b", "Taichung's goodput >= 0.9 of that without", of_flow(0), 0.9)
    yield span.check("2c", "CUBIC's goodput >= 0.98 of that without", of_flow(1), COSTS_NOTHING)


def routes(results):
    for controller, drains in DRAINS.items():
        name = f"rtt_min_win_s 3, {LONG[controller]}"
        longer, same = (
            Pairs(
                results,
                f"{name}, {title}",
                "OP-ROUTE",
                {"flows__controller": controller, "title": title},
                {"flows__controller": drains, "title": title},
            )
            for title in ("40 ms becomes 80", "40 ms stays")
        )
        yield results.check(
            f"OP-3a {controller}",
            OURS,
            f"{longer.name}: goodput >= 0.9 of 2.41 Mbit/s",
            None,
            longer.runs,
            goodput,
            at_least=0.9 * 2.41,
        )
        yield longer.check(f"3b {controller}", "goodput >= 0.98 of that without", goodput, COSTS_NOTHING)
        yield same.check(f"3c {controller}", "goodput >= 0.98 of that without", goodput, COSTS_NOTHING)


def marks(results):
    for controller in ("fusion", "taichung"):
        for other in ("reno", "cubic"):
            pairs = Pairs(
                results,
                f"ecn_beta_percent 50, {LONG[controller]} beside {NAMES[other]}",
                "OP-ECN",
                {"flows__0__controller": f"{controller}_paper", "flows__1__controller": other},
                {"flows__0__controller": controller, "flows__1__controller": other},
            )
            at = f"{controller} {other}"
            yield results.check(
                f"OP-4a {at}",
                OURS,
                f"{pairs.name}: its goodput over the other's in [0.5, 2]",
                None,
                pairs.runs,
                Ratio(over_other),
                at_least=0.5,
                at_most=2,
            )
            yield pairs.check(f"4b {at}", "that ratio is smaller than by the paper's cut", over_other, at_most=BELOW_1)
            yield pairs.check(f"4c {at}", "goodput of both >= 0.9 of that by the paper's cut", goodput, 0.9)


def start(results):
    for queue in (67, 17):
        pairs = swept(
            results,
            f"ss_exit 3, a queue of {queue} packets",
            "OP-START",
            "controllers__fusion__ss_exit",
            (0, 3),
            path__forward__queue=queue,
        )
        if queue == 67:
            yield pairs.check("5a", "fewer retransmissions, ratio < 1", resent, at_most=BELOW_1)
        yield pairs.check(f"5b {queue}", "goodput of the start >= 0.98 of that without", goodput, COSTS_NOTHING)


def radio(results):
    def winc(place: str, id: str, **point) -> Pairs:
        return swept(
            results, f"dmin_winc_us 4000, {place}", id, "controllers__fusion__dmin_winc_us", (1000, 4000), **point
        )

    often, seldom = (winc(f"{p} loss", "OP-RADIO", path__forward__loss=p) for p in ("1%", "0.1%"))
    yield often.check("6a", "more goodput, ratio > 1", goodput, ABOVE_1)
    yield seldom.check("6b", "goodput >= 0.98 of that without", goodput, COSTS_NOTHING)
    for other in ("reno", "cubic"):
        beside = winc(f"beside {NAMES[other]}", "OP-RADIO-BESIDE", flows__1__controller=other)
        yield beside.check(f"6c {other}", "Fusion's goodput >= 0.98 of that without", of_flow(0), COSTS_NOTHING)
        yield beside.check(f"6d {other}", "the other's goodput >= 0.98 of that without", of_flow(1), COSTS_NOTHING)


def early(results):
    pairs = swept(results, "early 3, four flows", "OP-EARLY", "controllers__pseudorate__early", (0, 3))
    yield pairs.check("7a", "fewer retransmissions, ratio < 1", resent, at_most=BELOW_1)
    yield pairs.check("7b", "goodput >= 0.98 of that without", goodput, COSTS_NOTHING)
    yield pairs.check(
        "7c", "Jain index of those that stay >= 0.98 of that without", lambda r: equality(r, 1.8), COSTS_NOTHING
    )


def pacing(results):
    for packets in (8, 16):
        title = f"an ACK for {packets}"
        pairs = swept(
            results, f"pacing 1, {title} packets", "OP-PACING", "controllers__fast__pacing", (0, 1), title=title
        )
        yield pairs.check(f"8a {packets}", "more goodput, ratio > 1", goodput, ABOVE_1)
