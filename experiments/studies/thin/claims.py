# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ACK thinning at the receiver (`asymcc thin`): no paper claims anything of it. All is a check."""

from statistics import fmean

from asymlab.report import papers
from asymlab.report.claim import Check
from asymlab.report.measures import Runs, each, goodput, ratio_by_seed, throughput

TITLE = "ACK thinning for any sender"
SUBJECT = "A receiver that drops ACKs which the sender does not need: stock senders over a slow uplink."
OURS = "ours"

fast = papers.module("fast", "claims")

EACH = {  # where thinning may cost nothing: each point of each case
    "flows": ("TH-N", "many flows over a slow uplink"),
    "flows-slow": ("TH-NSLOW", "many flows at r = 20"),
    "bad": ("TH-BAD", "a bad path with a slow uplink"),
    "twoway": ("TH-TWO", "a download beside an upload"),
    "links": ("TH-LINK", "a link of the world"),
}
UPLINKS = {"200kbit": "a quarter of the rate that its ACKs need", "2mbit": "twice that rate"}
NO_SLOWER = 0.98
NO_LATER = 1.02


def places(case: str) -> list[dict]:
    """The points of a scenario that have ACKs thinned, but for thinning."""
    points = papers.points("thin", case)
    return [{k: v for k, v in at.items() if k != "thin__thins"} for at in points if at.get("thin__thins") == 1]


def over_without(id: str, measure=goodput, **point):
    with_all_acks, thinned = (Runs(id, thin__thins=thins, **point) for thins in (0, 1))
    return ratio_by_seed(thinned, with_all_acks, measure)


def reply_s(run) -> float:
    """Mean time from a request to the end of its reply."""
    from_ns = run.record["agent"]["marks"]["measure"]["t_ns"] - run.record["agent"]["zero_ns"]
    return fmean(took for asked, took in run.record["agent"]["replies"]["0"] if asked >= from_ns) / 1e9


def claims():
    yield from of_fast()
    yield from slow_path()
    yield from uplinks()
    yield from in_each()
    yield from replies()
    yield from over_cake()


def of_fast():
    says = "FAST at k_f = 4: throughput {bound} Mbit/s where Theorem 1 has 25"
    yield Check("TH-1", OURS, says, each(Runs("TH-KF", path__reverse__rate="1mbit"), throughput), at_least=95)
    for rate in [at["path__reverse__rate"] for at in papers.points("thin", "kf")]:
        k = fast.k_f(fast.mbit(rate))
        most = fast.theorem1(k) / 1e6
        says = f"FAST at k_f = {k:.3g}: throughput >= Theorem 1's {most:.3g} Mbit/s, less {100 * (1 - NO_SLOWER):g} %"
        value = each(Runs("TH-KF", path__reverse__rate=rate), throughput)
        yield Check(f"TH-1 {rate}", OURS, says, value, at_least=NO_SLOWER * most)


def slow_path():
    for c in ("cubic", "bbr", "vegas", "reno", "taichung", "fusion"):
        thinned = Runs("TH-SLOW", thin__thins=1, flows__controller=c)
        says = f"r = 20: {c} has {{bound}} of {{rate}} with thinning"
        yield Check(f"TH-2a {c}", OURS, says, each(thinned, goodput), at_least=3.5)
        says = f"r = 20: {c} has no less with thinning than without: ratio {{bound}}"
        yield Check(f"TH-2b {c}", OURS, says, over_without("TH-SLOW", flows__controller=c), at_least=NO_SLOWER)


def uplinks():
    for rate, what in UPLINKS.items():
        for c in ("cubic", "reno", "bbr", "vegas"):
            says = f"the uplink has {what}: {c} has no less with thinning: ratio {{bound}}"
            value = over_without("TH-UP", path__reverse__rate=rate, flows__controller=c)
            yield Check(f"TH-3 {c} {rate}", OURS, says, value, at_least=NO_SLOWER)


def in_each():
    for file, (id, what) in EACH.items():
        for point in places(file):
            name = ", ".join("RED with ECN" if isinstance(value, dict) else str(value) for value in point.values())
            says = f"{what} ({name}): no less with thinning: ratio {{bound}}"
            yield Check(f"TH-4 {id} {name}", OURS, says, over_without(id, **point), at_least=NO_SLOWER)


def replies():
    for point in places("replies"):
        (size,) = point.values()
        says = f"a reply of {size} bytes takes no longer with thinning: ratio {{bound}}"
        yield Check(f"TH-5 {size}", OURS, says, over_without("TH-RR", reply_s, **point), at_most=NO_LATER)


def over_cake():
    """What CAKE's filter has made of it, thinning leaves as it is."""
    for file, id, where, without, thinned in (
        ("cake", "TH-CAKE", "owns the uplink", "CAKE, ack-filter", "CAKE, ack-filter, thinned"),
        ("modem", "TH-MODEM", "is behind the modem", "CAKE, ack-filter, behind the modem", "and thinned, rate told"),
    ):
        for c in dict.fromkeys(at["flows__controller"] for at in papers.points("thin", file)):
            says = f"CAKE with ack-filter {where}: {c} has no less with thinning: ratio {{bound}}"
            base, ours = (Runs(id, title=title, flows__controller=c) for title in (without, thinned))
            yield Check(f"TH-6 {id} {c}", OURS, says, ratio_by_seed(ours, base, goodput), at_least=NO_SLOWER)
