# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ACK thinning at the receiver (`asymcc thin`): no paper claims anything of it. All is a check."""

from statistics import fmean

from asymlab.report import papers
from asymlab.report.measures import goodput, ratio_by_seed, throughput

TITLE = "ACK thinning for any sender"
SUBJECT = "A receiver that drops ACKs which the sender does not need: stock senders over a slow uplink."
OURS = "ours"

fast = papers.module("fast", "claims")

EACH = {  # where thinning may cost nothing: each point of each
    "TH-N": "many flows over a slow uplink",
    "TH-NSLOW": "many flows at r = 20",
    "TH-BAD": "a bad path with a slow uplink",
    "TH-TWO": "a download beside an upload",
    "TH-LINK": "a link of the world",
}
UPLINKS = {"200kbit": "a quarter of the rate that its ACKs need", "2mbit": "twice that rate"}
NO_SLOWER = 0.98
NO_LATER = 1.02


def over_without(results, id: str, measure=goodput, **point):
    with_all_acks, thinned = (results.all(id, thin__thins=thins, **point) for thins in (0, 1))
    return ratio_by_seed(thinned, [with_all_acks], measure)


def places(results, id: str) -> list[dict]:
    """The points of a scenario, but for thinning: as keywords."""
    found = []
    for run in results.all(id, thin__thins=1):
        point = {k.replace(".", "__"): v for k, v in run.record["point"].items() if k != "thin.thins"}
        if point not in found:
            found.append(point)
    return found


def reply_s(run) -> float:
    """Mean time from a request to the end of its reply."""
    from_ns = run.record["agent"]["marks"]["measure"]["t_ns"] - run.record["agent"]["zero_ns"]
    return fmean(took for asked, took in run.record["agent"]["replies"]["0"] if asked >= from_ns) / 1e9


def claims(results):
    verdicts = [
        *of_fast(results),
        *slow_path(results),
        *uplinks(results),
        *in_each(results),
        *replies(results),
        *over_cake(results),
    ]
    return [v for v in verdicts if v.runs]


def of_fast(results):
    verdicts = [
        results.check(
            "TH-1",
            OURS,
            "FAST at k_f = 4: throughput >= 95 Mbit/s where Theorem 1 has 25",
            None,
            results.all("TH-KF", path__reverse__rate="1mbit"),
            throughput,
            at_least=95,
        )
    ]
    for rate in fast.RATES:
        k = fast.k_f(fast.mbit(rate))
        bound = fast.theorem1(k) / 1e6
        verdicts.append(
            results.check(
                f"TH-1 {rate}",
                OURS,
                f"FAST at k_f = {k:.3g}: throughput >= Theorem 1's {bound:.3g} Mbit/s, less 2 %",
                None,
                results.all("TH-KF", path__reverse__rate=rate),
                throughput,
                at_least=NO_SLOWER * bound,
            )
        )
    return verdicts


def slow_path(results):
    verdicts = []
    for controller in ("cubic", "bbr", "vegas", "reno", "taichung", "fusion"):
        runs, ratio = over_without(results, "TH-SLOW", flows__controller=controller)
        verdicts += [
            results.check(
                f"TH-2a {controller}",
                OURS,
                f"r = 20: {controller} has >= 3.5 of 10 Mbit/s with thinning",
                None,
                runs,
                goodput,
                at_least=3.5,
            ),
            results.check(
                f"TH-2b {controller}",
                OURS,
                f"r = 20: {controller} has no less with thinning than without: ratio >= {NO_SLOWER}",
                None,
                runs,
                ratio,
                at_least=NO_SLOWER,
            ),
        ]
    return verdicts


def uplinks(results):
    verdicts = []
    for rate, what in UPLINKS.items():
        for controller in ("cubic", "reno", "bbr", "vegas"):
            runs, ratio = over_without(results, "TH-UP", path__reverse__rate=rate, flows__controller=controller)
            verdicts.append(
                results.check(
                    f"TH-3 {controller} {rate}",
                    OURS,
                    f"the uplink has {what}: {controller} has no less with thinning: ratio >= {NO_SLOWER}",
                    None,
                    runs,
                    ratio,
                    at_least=NO_SLOWER,
                )
            )
    return verdicts


def in_each(results):
    verdicts = []
    for id, what in EACH.items():
        for point in places(results, id):
            runs, ratio = over_without(results, id, **point)
            name = ", ".join("RED with ECN" if isinstance(value, dict) else str(value) for value in point.values())
            verdicts.append(
                results.check(
                    f"TH-4 {id} {name}",
                    OURS,
                    f"{what} ({name}): no less with thinning: ratio >= {NO_SLOWER}",
                    None,
                    runs,
                    ratio,
                    at_least=NO_SLOWER,
                )
            )
    return verdicts


def replies(results):
    verdicts = []
    for size in results.points("TH-RR", "flows.reply"):
        verdicts.append(
            results.check(
                f"TH-5 {size}",
                OURS,
                f"a reply of {size} bytes takes no longer with thinning: ratio <= {NO_LATER}",
                None,
                *over_without(results, "TH-RR", reply_s, flows__reply=size),
                at_most=NO_LATER,
            )
        )
    return verdicts


def over_cake(results):
    """What CAKE's filter has made of it, thinning leaves as it is."""
    verdicts = []
    for id, where, without, thinned in (
        ("TH-CAKE", "owns the uplink", "CAKE, ack-filter", "CAKE, ack-filter, thinned"),
        ("TH-MODEM", "is behind the modem", "CAKE, ack-filter, behind the modem", "and thinned, rate told"),
    ):
        for controller in results.points(id, "flows.controller"):
            here = {"flows__controller": controller}
            verdicts.append(
                results.check(
                    f"TH-6 {id} {controller}",
                    OURS,
                    f"CAKE with ack-filter {where}: {controller} has no less with thinning: ratio >= {NO_SLOWER}",
                    None,
                    *ratio_by_seed(
                        results.all(id, title=thinned, **here), [results.all(id, title=without, **here)], goodput
                    ),
                    at_least=NO_SLOWER,
                )
            )
    return verdicts
