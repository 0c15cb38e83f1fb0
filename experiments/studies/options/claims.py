# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Options beyond the papers: that each helps where it is recommended, and what it costs elsewhere. All is a check.

Runs with and without an option are compared seed by seed.
"""

from asymlab.report import papers
from asymlab.report.claim import Cause, Check
from asymlab.report.judged import Ratio
from asymlab.report.measures import Runs, each, goodput, goodput_of, ratio, ratio_by_seed
from asymlab.results.metrics import goodput_bins, jain

TITLE = "Options beyond the papers"
SUBJECT = "What an option of a controller brings where it is recommended, and what it costs elsewhere."
OURS = "ours"

NAMES = papers.module("fusion", "measures").NAMES
COSTS_NOTHING = 0.98
NEARLY = 0.9
ROUTE_MBITS = 2.41  # that each can have on the path of route
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


# --- claims -------------------------------------------------------------------------------

FEWER, MORE = "fewer retransmissions, ratio {bound}", "more goodput, ratio {bound}"
NO_LESS = "goodput {bound} of that without"


class Pairs:
    """The runs of a scenario with an option, each beside that of the same seed without."""

    def __init__(self, name: str, id: str, off: dict, on: dict):
        self.name, self.without, self.runs = name, Runs(id, **off), Runs(id, **on)

    def check(self, letter: str, says: str, measure, **bound) -> Check:
        """measure with the option over measure without."""
        value = ratio_by_seed(self.runs, self.without, measure)
        return Check(f"OP-{letter}", OURS, f"{self.name}: {says}", value, **bound)

    def fewer(self, letter: str) -> Check:
        return self.check(letter, FEWER, resent, below=1)

    def more(self, letter: str) -> Check:
        return self.check(letter, MORE, goodput, above=1)

    def no_less(self, letter: str, says: str = NO_LESS, measure=goodput, cause: Cause | None = None) -> Check:
        return self.check(letter, says, measure, at_least=COSTS_NOTHING, cause=cause)


def swept(name: str, id: str, key: str, values, **point) -> Pairs:
    off, on = ({key: value} | point for value in values)
    return Pairs(name, id, off, on)


def claims():
    yield from many_flows()
    yield from two_way()
    yield from routes()
    yield from marks()
    yield from start()
    yield from radio()
    yield from early()
    yield from pacing()


def many_flows():
    def own(place: str, id: str = "OP-OWN", **point) -> Pairs:
        return swept(f"own_q 4, {place}", id, "controllers__taichung__own_q", (0, 4), **point)

    ten, no_sack = (own(title, title=title) for title in ("ten flows", "ten flows without SACK"))
    yield ten.fewer("1a")
    yield ten.no_less("1b")
    yield ten.no_less("1c", "Jain index {bound} of that without", equality)
    yield no_sack.more("1d")
    yield no_sack.fewer("1e")
    for share in ("1", "10"):
        yield own(title := f"one flow, {share} % loss", title=title).no_less(f"1f {share}%")
    for other in ("reno", "cubic"):
        beside = own(f"beside {NAMES[other]}", "OP-OWN-BESIDE", flows__1__controller=other)
        yield beside.no_less(f"1g {other}", "the other has {bound} of what it has without", of_flow(1))


def two_way():
    span = swept("span_q8 16, CUBIC the other way", "OP-SPAN", "controllers__taichung__span_q8", (1, 16))
    yield span.fewer("2a")
    yield span.check("2b", "Taichung's goodput {bound} of that without", of_flow(0), at_least=0.9)
    yield span.no_less("2c", "CUBIC's goodput {bound} of that without", of_flow(1))


def routes():
    refills = Cause(
        "each three seconds its window falls to what drains its queue, and grows again from there cycle by cycle"
    )
    for controller, drains in DRAINS.items():
        longer, same = (
            Pairs(
                f"rtt_min_win_s 3, {LONG[controller]}, {title}",
                "OP-ROUTE",
                {"flows__controller": controller, "title": title},
                {"flows__controller": drains, "title": title},
            )
            for title in ("40 ms becomes 80", "40 ms stays")
        )
        says = f"{longer.name}: goodput >= {NEARLY} of {ROUTE_MBITS} Mbit/s"
        yield Check(f"OP-3a {controller}", OURS, says, each(longer.runs, goodput), at_least=NEARLY * ROUTE_MBITS)
        yield longer.no_less(f"3b {controller}")
        yield same.no_less(f"3c {controller}", cause=refills if controller == "pseudorate" else None)


def marks():
    for controller in ("fusion", "taichung"):
        for other in ("reno", "cubic"):
            pairs = Pairs(
                f"ecn_beta_percent 50, {LONG[controller]} beside {NAMES[other]}",
                "OP-ECN",
                {"flows__0__controller": f"{controller}_paper", "flows__1__controller": other},
                {"flows__0__controller": controller, "flows__1__controller": other},
            )
            at, says = f"{controller} {other}", f"{pairs.name}: its goodput over the other's in {{bound}}"
            yield Check(f"OP-4a {at}", OURS, says, each(pairs.runs, Ratio(ratio)), within=(0.5, 2))
            yield pairs.check(f"4b {at}", "that ratio is smaller than by the paper's cut", ratio, below=1)
            says = "goodput of both {bound} of that by the paper's cut"
            yield pairs.check(f"4c {at}", says, goodput, at_least=NEARLY)


def start():
    for queue in (67, 17):
        name = f"ss_exit 3, a queue of {queue} packets"
        pairs = swept(name, "OP-START", "controllers__fusion__ss_exit", (0, 3), path__forward__queue=queue)
        if queue == 67:
            yield pairs.fewer("5a")
        yield pairs.no_less(f"5b {queue}", "goodput of the start {bound} of that without")


def radio():
    def winc(place: str, id: str, **point) -> Pairs:
        return swept(f"dmin_winc_us 4000, {place}", id, "controllers__fusion__dmin_winc_us", (1000, 4000), **point)

    often, seldom = (winc(f"{p} loss", "OP-RADIO", path__forward__loss=p) for p in ("1%", "0.1%"))
    yield often.more("6a")
    yield seldom.no_less("6b")
    for other in ("reno", "cubic"):
        beside = winc(f"beside {NAMES[other]}", "OP-RADIO-BESIDE", flows__1__controller=other)
        yield beside.no_less(f"6c {other}", "Fusion's goodput {bound} of that without", of_flow(0))
        yield beside.no_less(f"6d {other}", "the other's goodput {bound} of that without", of_flow(1))


def early():
    pairs = swept("early 3, four flows", "OP-EARLY", "controllers__pseudorate__early", (0, 3))
    yield pairs.fewer("7a")
    yield pairs.no_less("7b")
    yield pairs.no_less("7c", "Jain index of those that stay {bound} of that without", lambda r: equality(r, 1.8))


def pacing():
    for packets in (8, 16):
        title = f"an ACK for {packets}"
        pairs = swept(f"pacing 1, {title} packets", "OP-PACING", "controllers__fast__pacing", (0, 1), title=title)
        yield pairs.more(f"8a {packets}")
