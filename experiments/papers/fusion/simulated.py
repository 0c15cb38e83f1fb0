# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figs. 11 and 13 of TCP-Fusion, which the paper simulated: fast paths, and several bottlenecks."""

from asymlab.report.claim import Check, Claim
from asymlab.report.measures import Runs, each, extreme, goodput_of, joined, ratio_by_seed, share
from asymlab.results.metrics import jain

from .measures import FRIENDLY, NAMES, SIMULATED, beside, both, by_hops, fast, last_link, reno_group


def claims():
    for speed in (100, 300, 600, 1000):
        yield from fig_11(speed, Claim if speed <= 300 else Check)
    yield from fasts()
    yield from fig_13()
    yield from fig_13_elsewhere()


def fig_11(speed: int, of):
    """of: Claim, or Check where there is one short run."""
    for c in FRIENDLY:
        says = f"{{rate}}: Reno beside {NAMES[c]} has {{bound}} of what it has beside Reno"
        value = ratio_by_seed(fast(c, speed), fast("reno", speed), lambda r: 2 * goodput_of(r, 1), both)
        yield of(f"FU-11a {c} {speed}", "Fig. 11", says, value, at_least=0.85)
    says = "{rate}: Fusion and Reno together have {bound} of what the better of ARENO and CTCP has with Reno"
    rivals = [ratio_by_seed(fast("fusion", speed), fast(c, speed), both) for c in FRIENDLY[1:]]
    yield of(f"FU-11b {speed}", "Fig. 11", says, extreme(rivals, min), at_least=0.97)
    for c in ("highspeed", "bic"):
        says = f"{{rate}}: Reno has less beside {NAMES[c]} than beside Fusion: ratio {{bound}}"
        value = ratio_by_seed(fast(c, speed), fast("fusion", speed), lambda r: goodput_of(r, 1))
        yield of(f"FU-11c {c} {speed}", "Fig. 11", says, value, below=1)


def fasts():
    says = "{rate}: FAST's share beside Reno {bound}"
    yield Claim("FU-11d 100", "Fig. 11", says, each(fast("fast", 100), share), below=0.4)
    yield Check("FU-11d 300", "Fig. 11", says, each(fast("fast", 300), share), at_least=0.4)
    for speed in (100, 300):
        value = each(Runs("FU-11-ALPHA", path__forward__rate=f"{speed}mbit"), share)
        yield Check(f"FU-11d {speed} 200", "Fig. 11", f"with alpha 200, {says}", value, at_least=0.4)


def all_flows(run) -> float:
    return by_hops(run).sum()


def over_none(measure, controllers, with_: str, without: str):
    """What reverse traffic changes: over the run of the same seed without it, of all these variants."""
    return joined([ratio_by_seed(beside(with_, c), beside(without, c), measure) for c in controllers])


def fig_13():
    plain, reverse = "FU-13", "FU-13-REVERSE"
    for c in SIMULATED:
        says = f"{{rate}} a hop, {NAMES[c]}, no reverse traffic: R3-R4 is used by {{bound}}"
        yield Check(f"FU-13a {c}", "Fig. 13", says, each(beside(plain, c), last_link), at_least=0.95)
        says = f"{{rate}} a hop, {NAMES[c]}: reverse traffic lowers what the flows get of R3-R4: ratio {{bound}}"
        yield Claim(f"FU-13b {c}", "Fig. 13", says, over_none(all_flows, [c], reverse, plain), below=1)
    for what, id in (("without", plain), ("with", reverse)):
        for c in FRIENDLY:
            says = (
                f"{{rate}} a hop, {what} reverse traffic: the three Reno flows beside {NAMES[c]} have {{bound}} of "
                "what they have beside Reno"
            )
            value = ratio_by_seed(beside(id, c), beside(id, "reno"), reno_group, lambda r: all_flows(r) / 2)
            yield Claim(f"FU-13c {c} {what}", "Fig. 13", says, value, at_least=0.8)
    yield from hops(Claim, "FU-13", "the eight variants", SIMULATED, plain)


def hops(of, id: str, what: str, controllers, plain: str, reverse: str = ""):
    """What reverse traffic moves between the flows of one, two and three hops."""

    def value(measure):
        return over_none(measure, controllers, reverse or f"{plain}-REVERSE", plain)

    says = f"{{rate}} a hop, {what}: reverse traffic makes flows of 1, 2, 3 hops more equal: Jain index {{bound}} times"
    yield of(f"{id}d", "Fig. 13", says, value(lambda r: jain(by_hops(r))), above=1)
    says = f"{{rate}} a hop, {what}: with reverse traffic the flows of 1 hop have less: ratio {{bound}}"
    yield of(f"{id}e 1", "Fig. 13", says, value(lambda r: by_hops(r)[0]), below=1)
    says = f"{{rate}} a hop, {what}: with reverse traffic the flows of 2 hops have more: ratio {{bound}}"
    yield of(f"{id}e 2", "Fig. 13", says, value(lambda r: by_hops(r)[1]), above=1)


def fig_13_elsewhere():
    """Two things that the paper does not tell: the rate, and how often the receivers acknowledge."""
    two = ("reno", "fusion")
    yield from hops(Check, "FU-13-100 ", "Reno and Fusion", two, "FU-13-100")
    yield from hops(Check, "FU-13-D ", "Reno and Fusion, delayed ACKs", two, "FU-13-D", "FU-13-D-REVERSE")
