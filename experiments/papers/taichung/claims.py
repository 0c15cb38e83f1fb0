# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of "TCP-Taichung: A RTT-based Predictive Bandwidth Based with Optimal Shrink Factor ...", and ours
beside them."""

import numpy as np

from asymlab.report.verdicts import Ratio
from asymlab.results.metrics import link_metrics, link_window

TITLE = "TCP-Taichung"
SUBJECT = "The time between ACKs tells the rate: slow start ends in time, and random loss costs little."

BDP = 10e6 * 0.09 / 8 / 552  # packets: 10 Mbit/s, 90 ms, 552 bytes
PACKET_US = 552 * 8 / 10  # us: one packet's time on the link, what InterACK stands for
SPAN_S = 10  # of Fig. 3
MOST = 1.3  # times a rival's goodput where the paper sees a few per cent: more has another cause than the window's law
SENDERS = (1, 2, 10)
OTHERS = ("reno", "westwood")
LOSSES = ("0%", "0.1%", "1%", "5%", "10%")
WITH = {"newreno": "without SACK", "linux": "Linux's defaults"}
TABLE1 = {1: 1.0178, 2: 1.0163, 10: 1.0059}  # Taichung's goodput over the better one's
TABLE3 = {1: 1.0292, 2: 1.0014, 10: 1.0017}


def flow_acks(run, flow: int = 0):
    return run.acks[run.acks["flow"] == flow]


def goodput(run) -> float:
    """Mbit/s acknowledged in the first 10 s of the connection (eq. 1: MaxACK * MSS / time)."""
    acks = flow_acks(run)
    inside = acks["t"] < acks["t"][0] + SPAN_S
    return float(acks["acked"][inside].astype("u8").sum() * 8 / SPAN_S / 1e6)


def each(run) -> float:
    """Mean goodput of the run's connections, Mbit/s, over its whole length."""
    return run.metrics["goodput_bps"] / len(run.metrics["flows"]) / 1e6


def fairness(run) -> float:
    return run.metrics["jain"]


def busy(run) -> float:
    """Utilisation of the bottleneck from a second after the first ACK to the end, with what is sent again."""
    hop, start, end = run.job["watch"][0]["forward"], run.acks["t"][0] + 1, run.job["duration_s"]
    return link_metrics(link_window(run.links, hop["dev"], start, end), hop["rate_bps"], end - start)["utilisation"]


def slow_start(run) -> np.ndarray:
    """Which ACKs belong to the first slow start: up to the first at which cwnd is at ssthresh, or a loss was found."""
    acks = flow_acks(run)
    over = (acks["cwnd"] >= acks["ssthresh"]) | (acks["ca_state"] >= 2)
    return np.arange(len(acks)) < (np.argmax(over) if over.any() else len(acks))


def peak_over_bdp(run) -> float:
    """Largest window of the first slow start over the BDP."""
    return float(flow_acks(run)["cwnd"][slow_start(run)].max() / BDP)


def retransmits(run) -> float:
    return run.metrics["flows"][0]["retransmits_whole_run"]


def timeouts(run) -> float:
    return run.metrics["timeouts"]


def ideal_error(run) -> np.ndarray:
    """|ssthresh_ideal / (BDP + 1) - 1| at each ACK of the first slow start that has an estimate."""
    state = run.state(0)
    end = flow_acks(run)["t"][slow_start(run)][-1]
    ideal = state["ideal_q4"][(state["t"] <= end) & (state["ideal_q4"] > 0)] / 16
    return np.abs(ideal / (BDP + 1) - 1)


def ideal_share(run) -> float:
    """ssthresh_ideal over what each of the run's flows may have of the BDP, from 1 s on: the median of the flows'
    medians."""
    flows = len(run.metrics["flows"])
    states = [run.state(flow) for flow in range(flows)]
    medians = [np.median(s["ideal_q4"][(s["t"] >= 1) & (s["ideal_q4"] > 0)]) / 16 for s in states]
    return float(np.median(medians) / ((BDP + 1) / flows))


# --- against runs of the same seed ---------------------------------------------------------


def over(runs, others, measure=each):
    """(those runs of whose seed each list of `others` has a valid run, measure over the largest of theirs)."""
    theirs = [{r.record["seed"]: measure(r) for r in rs if r.valid} for rs in others]
    complete = [r for r in runs if all(r.record["seed"] in t for t in theirs)]
    return complete, Ratio(lambda r: measure(r) / max(*(t[r.record["seed"]] for t in theirs), 1e-9))


def extreme(pairs, most):
    """Of several (runs, measure) those with the most extreme mean, by `most` (min or max): for claims about all of
    several points.

    A point whose runs are all invalid may be it: then those are returned, and nothing is judged."""

    def mean(pair):
        runs, measure = pair
        return np.mean([measure(r) for r in runs if r.valid])

    if invalid := [pair for pair in pairs if pair[0] and not any(r.valid for r in pair[0])]:
        return invalid[0]
    there = [pair for pair in pairs if pair[0]]
    return most(there, key=mean) if there else ([], None)


# --- which runs are a table's --------------------------------------------------------------


def table1(results, profile: str, n: int, controller: str):
    if n == 1:
        return results.all("TC-F3", profile=profile, flows__controller=controller)
    return results.all("TC-T1", profile=profile, flows__count=n, flows__controller=controller)


def table3(results, profile: str, n: int, controller: str):
    if profile == "linux":
        return results.all("TC-T3-LINUX", flows__controller=controller) if n == 1 else []
    return results.all("TC-T3", flows__count=n, flows__controller=controller)


def fig7(results, loss: str, controller: str, id: str = "TC-F7"):
    return results.all(id, path__forward__loss=loss, flows__controller=controller)


def claims(results):
    verdicts = [
        *slow_start_claims(results),
        *sender_claims(results),
        *udp_claims(results),
        *loss_claims(results),
        *fairness_claims(results),
        *causes(results),
    ]
    return [v for v in verdicts if v.runs]  # the quick set leaves most to the full one


def slow_start_claims(results):
    def runs(profile, controller):
        return results.all("TC-F3", profile=profile, flows__controller=controller)

    mine = runs("newreno", "taichung")
    return fig3_claims(results, runs, mine) + ideal_claims(results, mine)


def fig3_claims(results, runs, mine):
    def over_reno(profile):
        return over(runs(profile, "taichung"), [runs(profile, "reno")], goodput)

    return [
        results.judge(
            "TC-F3a",
            "Fig. 3",
            "first 10 s, without SACK: goodput in [1.03, 1.3] of NewReno's",
            1.0737,
            *over_reno("newreno"),
            at_least=1.03,
            at_most=MOST,
        ),
        results.judge(
            "TC-F3b",
            "Fig. 3",
            "the same on Linux's defaults: goodput >= 1.03 of Reno's with SACK",
            None,
            *over_reno("linux"),
            at_least=1.03,
        ),
        results.judge("TC-F3c", "Fig. 3", "no timeout, in all of 20 s", 0, mine, timeouts, at_most=0, worst=True),
        results.check(
            "TC-F3d",
            "not in the paper",
            "no packet of slow start is lost: no retransmission in 20 s",
            None,
            mine,
            retransmits,
            at_most=0,
            worst=True,
        ),
        results.judge(
            "TC-F3e", "eq. 9", "slow start ends at [0.7, 1.2] BDP", None, mine, peak_over_bdp, at_least=0.7, at_most=1.2
        ),
        results.judge(
            "TC-F3f",
            "Fig. 3",
            "NewReno's ends beyond 1.5 BDP",
            None,
            runs("newreno", "reno"),
            peak_over_bdp,
            at_least=1.5,
        ),
    ]


def ideal_claims(results, mine):
    return [
        results.judge(
            "TC-X",
            "eq. 6",
            "ssthresh_ideal is within 15 % of BDP + 1 in slow start: its median error",
            None,
            mine,
            lambda r: float(np.median(ideal_error(r))),
            at_most=0.15,
        ),
        results.judge(
            "TC-X exit",
            "eq. 6",
            "and when slow start ends",
            None,
            mine,
            lambda r: float(ideal_error(r)[-1]),
            at_most=0.15,
        ),
        results.check(
            "TC-X ten",
            "eq. 6, beyond the paper",
            "ten senders: ssthresh_ideal <= 1.5 times a tenth of BDP + 1, its median over all",
            None,
            results.all("TC-TEN"),
            ideal_share,
            at_most=1.5,
        ),
    ]


def sender_claims(results):
    verdicts = []
    for profile, how in WITH.items():
        mine = {n: table1(results, profile, n, "taichung") for n in SENDERS}
        others = {n: [table1(results, profile, n, c) for c in OTHERS] for n in SENDERS}
        for n in SENDERS:
            verdicts.append(
                results.judge(
                    f"TC-T1 {n} {profile}",
                    "Table 1",
                    f"{how}, {senders(n)}: goodput in [0.995, 1.3] of the better of NewReno's and Westwood+'s",
                    TABLE1[n],
                    *over(mine[n], others[n]),
                    at_least=0.995,
                    at_most=MOST,
                )
            )
        verdicts += [
            results.judge(
                f"TC-T1 reno {profile}",
                "Table 1",
                f"{how}, one sender: goodput in [1.01, 1.3] of NewReno's",
                1.0178,
                *over(mine[1], others[1][:1]),
                at_least=1.01,
                at_most=MOST,
            ),
            results.judge(
                f"TC-T2 2 {profile}",
                "Table 2",
                f"{how}, two senders: Jain index >= 0.99, Taichung's, NewReno's and Westwood+'s: the least",
                0.99993,
                *extreme([(rs, fairness) for rs in (mine[2], *others[2])], min),
                at_least=0.99,
                note=lambda rs: f"it is {rs[0].metrics['flows'][0]['controller']}'s",
            ),
            results.judge(
                f"TC-T2 10 {profile}",
                "Table 2",
                f"{how}, ten senders: Taichung's Jain index >= 0.98",
                0.999403,
                mine[10],
                fairness,
                at_least=0.98,
            ),
        ]
    return verdicts


def udp_claims(results):
    verdicts = []
    for profile, n in (*(("newreno", n) for n in SENDERS), ("linux", 1)):
        mine, others = table3(results, profile, n, "taichung"), [table3(results, profile, n, c) for c in OTHERS]
        verdicts.append(
            results.judge(
                f"TC-T3 {n} {profile}",
                "Table 3",
                f"{WITH[profile]}, {senders(n)} beside 5 Mbit/s of UDP: goodput in [0.995, 1.3] of the better of "
                "NewReno's and Westwood+'s",
                TABLE3[n],
                *over(mine, others),
                at_least=0.995,
                at_most=MOST,
            )
        )
        if n == 1:
            verdicts.append(
                results.judge(
                    f"TC-T3 reno {profile}",
                    "Table 3",
                    f"{WITH[profile]}, one sender beside 5 Mbit/s of UDP: goodput in [1.02, 1.3] of NewReno's",
                    1.0775,
                    *over(mine, others[:1]),
                    at_least=1.02,
                    at_most=MOST,
                )
            )
    for controller, name in (("taichung", "Taichung"), ("reno", "NewReno"), ("westwood", "Westwood+")):
        by_n = [table3(results, "newreno", n, controller) for n in SENDERS]
        verdicts.append(
            results.judge(
                f"TC-T3 falls {controller}",
                "Table 3",
                f"{name}'s goodput of a connection falls with the number of senders: larger one of the ratios 2 to 1 "
                "and 10 to 2 < 1",
                None,
                *extreme([over(more, [fewer]) for fewer, more in zip(by_n, by_n[1:])], max),
                at_most=1 - 1e-9,
            )
        )
    return verdicts


def loss_claims(results):
    mine = {p: fig7(results, p, "taichung") for p in LOSSES}
    reno, westwood = ({p: fig7(results, p, c) for p in LOSSES} for c in OTHERS)
    rising = [
        over(by_p[after], [by_p[before]])
        for by_p in (mine, reno, westwood)
        for before, after in zip(LOSSES, LOSSES[1:])
    ]
    verdicts = [
        results.judge(
            "TC-F7a",
            "Fig. 7",
            "no one's goodput rises with the loss rate: the largest ratio from point to point <= 1.03",
            None,
            *extreme(rising, max),
            at_most=1.03,
        )
    ]
    for p in LOSSES:
        slack, text = (0.95, ">= 0.95 of") if p == "0%" else (1, ">=")
        verdicts += [
            results.judge(
                f"TC-F7b {p} over Westwood+",
                "Fig. 7",
                f"{p} of data lost: Taichung's goodput {text} Westwood+'s",
                None,
                *over(mine[p], [westwood[p]]),
                at_least=slack,
            ),
            results.judge(
                f"TC-F7b {p} over NewReno",
                "Fig. 7",
                f"{p} of data lost: Westwood+'s goodput {text} NewReno's",
                None,
                *over(westwood[p], [reno[p]]),
                at_least=slack,
            ),
        ]
    return verdicts + loss_without_sack(results) + heavy_loss(results)


def loss_without_sack(results):
    one = {c: fig7(results, "1%", c, "TC-F7-NEWRENO") for c in ("taichung", "westwood")}
    return [
        results.judge(
            "TC-F7b-NEWRENO 1%",
            "Fig. 7",
            "without SACK, 1% of data lost: Taichung's goodput >= Westwood+'s",
            None,
            *over(one["taichung"], [one["westwood"]]),
            at_least=1,
        )
    ]


def heavy_loss(results):
    verdicts = []
    for id, what in (
        ("TC-F7", "Linux's defaults, 10 % of data lost"),
        ("TC-F7-NEWRENO", "without SACK, 10 % of data lost"),
        ("TC-F7-ACKS", "Linux's defaults, 10 % of data and of ACKs lost"),
    ):
        point = {} if id == "TC-F7-ACKS" else {"path__forward__loss": "10%"}
        taichung, newreno, plus = (results.all(id, flows__controller=c, **point) for c in ("taichung", *OTHERS))
        name = id.replace("TC-F7", "TC-F7c")
        verdicts += [
            results.judge(
                f"{name} reno",
                "Fig. 7",
                f"{what}: goodput in [1.5, 2.6] of NewReno's",
                2.05,
                *over(taichung, [newreno]),
                at_least=1.5,
                at_most=2.6,
            ),
            results.judge(
                f"{name} westwood",
                "Fig. 7",
                f"{what}: goodput in [1.25, 2.25] of Westwood+'s",
                1.75,
                *over(taichung, [plus]),
                at_least=1.25,
                at_most=2.25,
            ),
        ]
    return verdicts


def fairness_claims(results):
    verdicts = []
    for id, losses, how in (("TC-F7", LOSSES, "Linux's defaults"), ("TC-F7-NEWRENO", ("1%", "10%"), "without SACK")):
        name = id.replace("TC-F7", "TC-T4")
        taichung, newreno = ([(fig7(results, p, c, id), fairness) for p in losses] for c in ("taichung", "reno"))
        verdicts += [
            results.judge(
                name,
                "Table 4",
                f"{how}: Taichung's Jain index of twenty flows >= 0.97 at every loss rate: the least",
                0.988328,
                *extreme(taichung, min),
                at_least=0.97,
            ),
            results.judge(
                f"{name} reno",
                "Table 4",
                f"{how}: NewReno's >= 0.98 at every loss rate: the least",
                0.984752,
                *extreme(newreno, min),
                at_least=0.98,
            ),
        ]
    return verdicts


def senders(n: int) -> str:
    return "one sender" if n == 1 else f"{n} senders"


def causes(results):
    """Of claims that fail, with the cause turned off, or shown to leave no room (reasons.toml)."""
    check, source = results.check, "cause"

    def own(title):
        return results.all("TC-C-OWN", title=title)

    verdicts = [
        check(
            "TC-C repair",
            source,
            "Linux's defaults, whose SACK repairs slow start's losses: goodput of the first 10 s <= 1.3 of Reno's",
            None,
            *over(table1(results, "linux", 1, "taichung"), [table1(results, "linux", 1, "reno")], goodput),
            at_most=MOST,
        ),
        check(
            "TC-C busy",
            source,
            "Linux's defaults, one Reno sender: the link is busy >= 0.98 of the time after its first second",
            None,
            table1(results, "linux", 1, "reno"),
            busy,
            at_least=0.98,
        ),
    ]
    for p in ("0.1%", "1%"):
        verdicts.append(
            check(
                f"TC-C busy {p}",
                source,
                f"{p} of data lost, whoever sends: the link is busy >= 0.98 of the time after a second: the least",
                None,
                *extreme([(fig7(results, p, c), busy) for c in ("taichung", *OTHERS)], min),
                at_least=0.98,
            )
        )
    for profile, how in WITH.items():
        title = f"Table 1, {how}"
        verdicts += [
            check(
                f"TC-C own goodput {profile}",
                source,
                f"{how}, ten senders with own_q: goodput in [0.995, 1.3] of the better of NewReno's and Westwood+'s",
                None,
                *over(own(title), [table1(results, profile, 10, c) for c in OTHERS]),
                at_least=0.995,
                at_most=MOST,
            ),
            check(
                f"TC-C own Jain {profile}",
                source,
                f"{how}, ten senders with own_q: Jain index >= 0.98",
                None,
                own(title),
                fairness,
                at_least=0.98,
            ),
        ]
    verdicts.append(
        check(
            "TC-C own twenty",
            source,
            "no loss, twenty flows with own_q: Jain index >= 0.97",
            None,
            own("Table 4, no loss"),
            fairness,
            at_least=0.97,
        )
    )
    return verdicts + own_causes(results, own) + long_causes(results)


def own_causes(results, own):
    """With own_q: beside UDP, and where packets are lost at random."""
    verdicts = []
    for id, said, runs, others, bounds in (
        (
            "own udp",
            "without SACK, ten senders with own_q beside 5 Mbit/s of UDP: goodput in [0.995, 1.3] of the better of "
            "NewReno's and Westwood+'s",
            results.all("TC-C-OWN-UDP"),
            [table3(results, "newreno", 10, c) for c in OTHERS],
            {"at_least": 0.995, "at_most": MOST},
        ),
        (
            "own 1%",
            "without SACK, 1% of data lost, twenty flows with own_q: goodput >= Westwood+'s",
            own("Fig. 7, without SACK, 1 % lost"),
            [fig7(results, "1%", "westwood", "TC-F7-NEWRENO")],
            {"at_least": 1},
        ),
    ):
        verdicts.append(results.check(f"TC-C {id}", "cause", said, None, *over(runs, others), **bounds))
    return verdicts


def long_causes(results):
    """Shares over two minutes, and a minute after the flows began."""
    long, later = "two minutes", "from 60 to 120 s"
    verdicts = []
    for when, title, index in (
        (long, "ten, without SACK", 0.98),
        (long, "ten, Linux's defaults", 0.98),
        (long, "twenty", 0.97),
        (long, "twenty Reno", 0.98),
        (long, "twenty Reno, without SACK, 1 % lost", 0.98),
        (long, "two Reno, without SACK", 0.99),
        (later, "two Reno", 0.99),
        (later, "two Reno, without SACK", 0.99),
        (later, "ten, Linux's defaults", 0.98),
    ):
        name = "long" if when == long else "later"
        verdicts.append(
            results.check(
                f"TC-C {name} {title}",
                "cause",
                f"{title}{'' if 'Reno' in title else ', with own_q'}, {when}: Jain index >= {index}",
                None,
                results.all(f"TC-C-{name.upper()}", title=title),
                fairness,
                at_least=index,
            )
        )
    return verdicts
