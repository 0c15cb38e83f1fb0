# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of "TCP-Fusion" (Kaneko, Fujikawa, Su, Katto 2007), and ours beside them.

Most scenarios are smaller than the paper's and say in their files what that changes. Where a verdict names a loss rate
or a link rate of the paper's, the file has ours for it.
"""

from dataclasses import replace
from statistics import fmean

import numpy as np

from asymlab.results.metrics import jain

VARIANTS = ("reno", "fusion", "areno", "ctcp", "highspeed", "bic", "cubic")  # as on the hops of FU-4, FU-5, FU-T1
FRIENDLY = ("fusion", "areno", "ctcp")
GREEDY = ("highspeed", "bic", "cubic")
LOSSES = {
    "0.0025%": "1e-6",
    "0.025%": "1e-5",
    "0.25%": "1e-4",
    "2.5%": "1e-3",
}  # ours, the paper's of the same share for Reno
RARE, OFTEN = ("0.0025%", "0.025%"), ("0.25%", "2.5%")  # Reno has its fair share; leaves some of the path
SPEEDS = {"0.025%": "100", "0.25%": "300", "2.5%": "1000"}  # Mbit/s of Fig. 11, by the same measure
SPOT_LOSSES = ("0.01%", "1%")
PHASES = {"increase": 1, "steady": 2, "decrease": 3}  # enum phase of fusion.bpf.c
CUT = 0.66  # RTTmin/RTT with a full buffer of half a BDP: 40 / 60 ms
ABOVE_1 = 1 + 1e-9
RTTS = (20, 60, 120)  # ms, of Fig. 9's second flow
TABLE_1 = {  # Mbit/s that the row has beside the column, in the order of VARIANTS
    "reno": (44.9, 40.2, 42.4, 38.6, 10.3, 10.4, 18.6),
    "fusion": (50.0, 43.6, 46.0, 43.0, 21.1, 11.4, 18.7),
    "areno": (40.5, 44.0, 43.2, 38.0, 16.5, 12.2, 19.4),
    "ctcp": (53.9, 46.5, 50.5, 44.9, 20.8, 13.8, 15.0),
    "highspeed": (78.2, 61.4, 68.2, 65.8, 43.2, 29.9, 29.7),
    "bic": (81.2, 79.0, 78.0, 76.2, 59.7, 44.8, 45.4),
    "cubic": (71.7, 70.3, 68.4, 74.0, 59.6, 43.9, 44.3),
}
NAMES = {
    "reno": "Reno",
    "fusion": "Fusion",
    "areno": "ARENO",
    "ctcp": "CTCP",
    "highspeed": "HSTCP",
    "bic": "BIC",
    "cubic": "CUBIC",
    "fast": "FAST",
}


# --- measures of one run ------------------------------------------------------------------


def goodput(run, flow: int = 0) -> float:
    return run.metrics["flows"][flow]["goodput_bps"] / 1e6


def carried(run, flow: int, rate: float) -> float:
    """What arrived of a flow in order, as IP packets, over the rate of its link in Mbit/s."""
    return run.metrics["flows"][flow]["throughput_bps"] / 1e6 / rate


def share(run, a: int = 0, b: int = 1) -> float:
    """Flow a's share of the goodput of a and b."""
    return goodput(run, a) / max(goodput(run, a) + goodput(run, b), 1e-9)


def cuts(run, flow: int) -> tuple[np.ndarray, ...]:
    """(cwnd before, ssthresh after, RTT, smallest RTT so far) of each loss, from the sender's state at each ACK. RTT is
    that of the ACK that told of the loss, or the last before."""
    acks = run.acks[run.acks["flow"] == flow]
    before = np.flatnonzero((acks["ca_state"][1:] >= 2) & (acks["ca_state"][:-1] < 2))
    sampled = np.maximum.accumulate(np.where(acks["rtt_us"] > 0, np.arange(len(acks)), 0))
    smallest = np.minimum.accumulate(np.where(acks["rtt_us"] > 0, acks["rtt_us"], np.iinfo(acks["rtt_us"].dtype).max))
    return acks["cwnd"][before], acks["ssthresh"][before + 1], acks["rtt_us"][sampled[before + 1]], smallest[before + 1]


FU_1_FLOWS = range(0, 10, 2)  # Fusion's, on the five hops


def cut_error(run) -> float:
    """Packets by which a loss left another window than floor(cwnd max(RTTmin/RTT, 1/2)): the largest of the run."""
    cwnd, ssthresh, rtt, smallest = np.concatenate([cuts(run, f) for f in FU_1_FLOWS], axis=1)
    return float(np.abs(ssthresh - np.floor(cwnd * np.maximum(smallest / rtt, 0.5))).max())


def cut_range(run) -> float:
    """The largest RTT over RTTmin at a loss, over the smallest."""
    _, _, rtt, smallest = np.concatenate([cuts(run, f) for f in FU_1_FLOWS], axis=1)
    return float((rtt / smallest).max() / (rtt / smallest).min())


def smallest_cut(run) -> float:
    """What the deepest cut of flow 0 left of its window; what rounding took is given back."""
    cwnd, ssthresh, *_ = cuts(run, 0)
    return float(((ssthresh + 1) / cwnd).min())


def undisturbed(run) -> tuple[np.ndarray, np.ndarray]:
    """(state, the stack's cwnd) at Fusion's ACKs, those of recoveries left out."""
    acks, state = run.acks[run.acks["flow"] == 0], run.state(0)
    quiet = acks["ca_state"] < 2
    return state[quiet], acks["cwnd"][quiet]


def above_reno(run) -> float:
    """Share of Fusion's ACKs outside recovery at which cwnd is not less than its own reno_cwnd."""
    state, cwnd = undisturbed(run)
    return float((cwnd >= state["reno_q20"] >> 20).mean())


def falls(run) -> float:
    """Of the measured window's ACKs in the decrease phase (or in slow start, which has no place there) and with a
    window above reno_cwnd, the share that lowered it."""
    state, _ = undisturbed(run)
    w, reno = state["w_q20"].astype(float), state["reno_q20"].astype(float)
    mine = (
        np.isin(state["phase"][1:], (0, PHASES["decrease"]))
        & (w[1:] > reno[1:])
        & (state["t"][1:] >= run.job["measure_from_s"])
    )
    return float((np.diff(w)[mine] < 0).mean()) if mine.any() else 0.0


def phase_share(run, phase: str) -> float:
    """Share of the ACKs in the measured window that were in this phase."""
    state = run.state(0)
    return float((state["phase"][state["t"] >= run.job["measure_from_s"]] == PHASES[phase]).mean())


def alone(run, controller: str) -> float:
    """Mbit/s of a variant in FU-4."""
    return goodput(run, VARIANTS.index(controller))


def beside(run, controller: str) -> tuple[float, float]:
    """Mbit/s of a variant and its Reno flow in FU-5."""
    hop = (*VARIANTS, "fast").index(controller)
    return goodput(run, 2 * hop), goodput(run, 2 * hop + 1)


def reno_beside(run, controller: str) -> float:
    """Mbit/s of the Reno flow beside a variant in FU-5; beside Reno the mean of the two."""
    return fmean(beside(run, "reno")) if controller == "reno" else beside(run, controller)[1]


def three_jain(run) -> float:
    return jain([goodput(run, flow) for flow in range(3)])


def rtt_ratio(run, ms: int) -> float:
    """FU-9: goodput of the flow of 20 ms over that of the other."""
    hop = RTTS.index(ms)
    return goodput(run, 2 * hop) / max(goodput(run, 2 * hop + 1), 1e-9)


# Flows of FU-13 that cross 1, 2, 3 hops: the variant 0, 2, 4, its Reno 1, 3, 5.


def by_hops(run) -> np.ndarray:
    """Mbit/s of the variant's and Reno's flow together that cross 1, 2, 3 hops."""
    return np.array([goodput(run, 2 * n) + goodput(run, 2 * n + 1) for n in range(3)])


def reno_group(run) -> float:
    return sum(goodput(run, flow) for flow in (1, 3, 5))


def last_link(run) -> float:
    return run.metrics["hops"][-1]["forward"]["utilisation"]


# --- measures of several runs -------------------------------------------------------------


def same_seed(runs) -> dict[int, object]:
    return {run.record["seed"]: run for run in runs if run.valid}


def complete(runs, *others: dict[int, object]):
    """Those whose seed all others have, and the invalid ones, which judge() names."""
    return [r for r in runs if not r.valid or all(r.record["seed"] in other for other in others)]


def table_1(results) -> dict[tuple[str, str], list[tuple[object, int, int]]]:
    """(row, column) -> [(run, its row's flow, its column's)] of Table 1, in both orders."""
    found = {}
    for run in results.valid("FU-T1"):
        names = [f["controller"] for f in run.job["flows"]]
        for i in range(0, len(names), 2):
            found.setdefault((names[i], names[i + 1]), []).append((run, i, i + 1))
            if names[i] != names[i + 1]:
                found.setdefault((names[i + 1], names[i]), []).append((run, i + 1, i))
    return found


def row_goodput(measured: list[tuple[object, int, int]], row: str, column: str) -> list[float]:
    """Mbit/s that the row has, one a seed; of two alike the mean."""
    return [fmean((goodput(run, a), goodput(run, b))) if row == column else goodput(run, a) for run, a, b in measured]


# --- claims -------------------------------------------------------------------------------


def fig_1(results):
    runs = results.all("FU-1")
    yield results.judge(
        "FU-1a",
        "Fig. 1, eq. 1",
        "a loss leaves floor(cwnd max(RTTmin/RTT, 1/2)): largest error <= 1 packet",
        None,
        runs,
        cut_error,
        at_most=1,
        worst=True,
    )
    yield results.judge(
        "FU-1b",
        "Fig. 1",
        "losses at RTTs of 1 to 4 RTTmin: the largest ratio over the smallest >= 3",
        None,
        runs,
        cut_range,
        at_least=3,
    )


def fig_2(results):
    runs = results.all("FU-2")
    yield results.judge(
        "FU-2a",
        "Fig. 2, eq. 1",
        f"buffer 0.5 BDP: no loss cuts Fusion's window below RTTmin/RTT = {CUT}",
        None,
        runs,
        smallest_cut,
        at_least=CUT,
        worst=True,
    )
    yield results.judge(
        "FU-2b",
        "Fig. 2",
        "cwnd >= its own reno_cwnd at every ACK: share of ACKs is 1",
        None,
        runs,
        above_reno,
        at_least=1,
        worst=True,
    )
    for phase in PHASES:
        yield results.judge(
            f"FU-2c {phase}",
            "section II.B",
            f"the {phase} phase is visited: share of ACKs > 0",
            None,
            runs,
            lambda r: phase_share(r, phase),
            at_least=1e-9,
        )
    yield results.judge(
        "FU-2d",
        "section II.B",
        "where reno_cwnd does not hold it, each ACK of the decrease phase lowers the window: share >= 0.95",
        None,
        runs,
        falls,
        at_least=0.95,
    )


def fig_4(results):
    def at(loss):
        return results.all("FU-4", path__hops__forward__loss=loss)

    for c in VARIANTS:
        yield results.judge(
            f"FU-4a {c}",
            "Fig. 4",
            f"p = 1e-6: {NAMES[c]} alone uses >= 0.9 of the link",
            None,
            at(RARE[0]),
            lambda r: carried(r, VARIANTS.index(c), 20),
            at_least=0.9,
        )
    for loss, papers in LOSSES.items():
        yield results.judge(
            f"FU-4b {papers}",
            "Fig. 4",
            f"p = {papers}: Fusion's goodput >= 0.97 of the best of the others",
            None,
            at(loss),
            lambda r: alone(r, "fusion") / max(alone(r, c) for c in VARIANTS if c != "fusion"),
            at_least=0.97,
        )
    seeds = [same_seed(at(loss)) for loss in LOSSES]
    yield results.judge(
        "FU-4c",
        "Fig. 4",
        "the largest Fusion/ARENO of all loss rates is in [1.1, 2.5]",
        1.4,
        complete(at(RARE[0]), *seeds),
        lambda r: max(alone(s[r.record["seed"]], "fusion") / alone(s[r.record["seed"]], "areno") for s in seeds),
        at_least=1.1,
        at_most=2.5,
    )
    for loss in SPOT_LOSSES:
        mine, others = (
            results.all("FU-4-100", path__forward__loss=loss, flows__controller="fusion"),
            [
                same_seed(results.all("FU-4-100", path__forward__loss=loss, flows__controller=c))
                for c in ("areno", "reno")
            ],
        )
        yield results.judge(
            f"FU-4d {loss}",
            "Fig. 4",
            f"100 Mbit/s, p = {loss}: Fusion's goodput >= 0.97 of the better of ARENO and Reno",
            None,
            complete(mine, *others),
            lambda r: goodput(r) / max(goodput(o[r.record["seed"]]) for o in others),
            at_least=0.97,
        )


def fig_5(results):
    def at(loss):
        return results.all("FU-5", path__hops__forward__loss=loss)

    for c in FRIENDLY:
        for loss in RARE:
            yield results.judge(
                f"FU-5a {c} {LOSSES[loss]}",
                "Fig. 5",
                f"p = {LOSSES[loss]}: {NAMES[c]}'s and Reno's goodputs differ by <= 0.25 of their sum",
                None,
                at(loss),
                lambda r: abs(2 * beside(r, c)[0] / sum(beside(r, c)) - 1),
                at_most=0.25,
            )
        for loss in OFTEN:
            lonely = same_seed(results.all("FU-4", path__hops__forward__loss=loss))
            yield results.judge(
                f"FU-5b {c} {LOSSES[loss]}",
                "Fig. 5",
                f"p = {LOSSES[loss]}: {NAMES[c]} has more than its Reno flow: ratio > 1",
                None,
                at(loss),
                lambda r: beside(r, c)[0] / beside(r, c)[1],
                at_least=ABOVE_1,
            )
            yield results.judge(
                f"FU-5c {c} {LOSSES[loss]}",
                "Fig. 5",
                f"p = {LOSSES[loss]}: Reno beside {NAMES[c]} has >= 0.8 of what it has alone",
                None,
                complete(at(loss), lonely),
                lambda r: beside(r, c)[1] / alone(lonely[r.record["seed"]], "reno"),
                at_least=0.8,
            )
    for loss in OFTEN:
        yield results.judge(
            f"FU-5d {LOSSES[loss]}",
            "Fig. 5",
            f"p = {LOSSES[loss]}: Fusion beside Reno has no less than ARENO and CTCP there: ratio >= 1",
            None,
            at(loss),
            lambda r: beside(r, "fusion")[0] / max(beside(r, "areno")[0], beside(r, "ctcp")[0]),
            at_least=1,
        )


def fig_6(results):
    for c in GREEDY:
        for loss in RARE:
            yield results.judge(
                f"FU-6 {c} {LOSSES[loss]}",
                "Fig. 6",
                f"p = {LOSSES[loss]}: a Reno flow beside {NAMES[c]} has <= 0.6 of the fair share",
                None,
                results.all("FU-5", path__hops__forward__loss=loss),
                lambda r: 2 * beside(r, c)[1] / sum(beside(r, c)),
                at_most=0.6,
            )
        yield results.judge(
            f"FU-6 {c} 100",
            "Fig. 6",
            f"100 Mbit/s, p = 1e-5: a Reno flow beside {NAMES[c]} has <= 0.6 of the fair share",
            None,
            results.all("FU-11-100", flows__0__controller=c),
            lambda r: 2 * share(r, 1, 0),
            at_most=0.6,
        )


def table(results):
    measured = table_1(results)
    both = {
        run.record["seed"]: fmean((goodput(run, a), goodput(run, b)))
        for run, a, b in measured.get(("reno", "reno"), ())
    }
    for c in (*FRIENDLY, *GREEDY):
        flows = {run.record["key"]: a for run, a, _ in measured.get(("reno", c), ())}
        runs = [run for run, *_ in measured.get(("reno", c), ()) if run.record["seed"] in both]
        papers = TABLE_1["reno"][VARIANTS.index(c)] / TABLE_1["reno"][0]
        bound = {"at_least": 0.8} if c in FRIENDLY else {"at_most": 0.5}
        yield results.judge(
            f"FU-T1a {c}",
            "Table 1",
            f"Reno beside {NAMES[c]} over Reno beside Reno {'>= 0.8' if c in FRIENDLY else '<= 0.5'}",
            round(papers, 3),
            runs,
            lambda r: goodput(r, flows[r.record["key"]]) / both[r.record["seed"]],
            **bound,
        )

    def extreme(pairs, pick):
        """The pair whose mean Jain index is the smallest or largest: (names, runs, measure)."""
        found = {p: measured[p] for p in pairs if p in measured}
        if not found:
            return "", [], None
        pair = pick(found, key=lambda p: fmean(jain([goodput(run, a), goodput(run, b)]) for run, a, b in found[p]))
        flows = {run.record["key"]: (a, b) for run, a, b in found[pair]}
        return (
            f": {NAMES[pair[0]]} and {NAMES[pair[1]]}",
            [run for run, *_ in found[pair]],
            lambda r: jain([goodput(r, f) for f in flows[r.record["key"]]]),
        )

    group = ("reno", *FRIENDLY)
    names, runs, measure = extreme([(a, b) for i, a in enumerate(group) for b in group[i:]], min)
    yield results.judge(
        "FU-T1b",
        "Table 1",
        f"Jain index of each pair of Reno, Fusion, ARENO, CTCP >= 0.95; the smallest{names}",
        0.973,
        runs,
        measure,
        at_least=0.95,
    )
    for c in GREEDY:
        papers = max(jain([TABLE_1[a][VARIANTS.index(c)], TABLE_1[c][VARIANTS.index(a)]]) for a in group)
        names, runs, measure = extreme([(a, c) for a in group], max)
        yield results.judge(
            f"FU-T1c {c}",
            "Table 1",
            f"Jain index of {NAMES[c]} with each of them <= 0.85; the largest{names}",
            round(papers, 3),
            runs,
            measure,
            at_most=0.85,
        )


def fig_8(results):
    def of(c):
        return results.all("FU-8", flows__controller=c)

    fusion = same_seed(of("fusion"))
    yield results.judge(
        "FU-8a",
        "Fig. 8",
        "three Fusion flows: Jain index >= 0.95 while all are there",
        0.9956,
        of("fusion"),
        three_jain,
        at_least=0.95,
    )
    yield results.judge(
        "FU-8b",
        "Fig. 8",
        "three HSTCP flows are less equal: their Jain index over that of Fusion's < 1",
        round(0.834 / 0.9956, 3),
        complete(of("highspeed"), fusion),
        lambda r: three_jain(r) / three_jain(fusion[r.record["seed"]]),
        at_most=1 - 1e-9,
    )
    for c in VARIANTS:
        if c not in ("fusion", "highspeed"):
            yield results.judge(
                f"FU-8c {c}",
                "Fig. 8",
                f"three {NAMES[c]} flows: Jain index >= 0.9",
                None,
                of(c),
                three_jain,
                at_least=0.9,
            )


def fig_9(results):
    runs = {c: results.all("FU-9", flows__controller=c) for c in VARIANTS}
    seeds = {c: same_seed(runs[c]) for c in VARIANTS}
    for c in VARIANTS:
        yield results.judge(
            f"FU-9a {c}",
            "Fig. 9",
            f"two {NAMES[c]} flows of 20 ms: ratio in [0.8, 1.25]",
            None,
            runs[c],
            lambda r: rtt_ratio(r, 20),
            at_least=0.8,
            at_most=1.25,
        )
        yield results.judge(
            f"FU-9b {c}",
            "Fig. 9",
            f"{NAMES[c]}: the ratio grows with the RTT: of 60 over 20 ms, and of 120 over 60 ms, the smaller > 1",
            None,
            runs[c],
            lambda r: min(rtt_ratio(r, 60) / rtt_ratio(r, 20), rtt_ratio(r, 120) / rtt_ratio(r, 60)),
            at_least=ABOVE_1,
        )
    for c in FRIENDLY:
        for ms in RTTS[1:]:
            yield results.judge(
                f"FU-9c {c} {ms}",
                "Fig. 9",
                f"20 and {ms} ms: {NAMES[c]}'s ratio over Reno's in [0.7, 1.3]",
                None,
                complete(runs[c], seeds["reno"]),
                lambda r: rtt_ratio(r, ms) / rtt_ratio(seeds["reno"][r.record["seed"]], ms),
                at_least=0.7,
                at_most=1.3,
            )
    for c, word, pick, bound in (
        ("highspeed", "largest", max, {"at_least": 1}),
        ("cubic", "smallest", min, {"at_most": 1}),
    ):
        others = [seeds[o] for o in VARIANTS if o != c]
        yield results.judge(
            f"FU-9d {c}",
            "Fig. 9",
            f"20 and 120 ms: {NAMES[c]}'s ratio is the {word}: over the next {'>=' if pick is max else '<='} 1",
            None,
            complete(runs[c], *others),
            lambda r: rtt_ratio(r, 120) / pick(rtt_ratio(o[r.record["seed"]], 120) for o in others),
            **bound,
        )


def fig_10(results):
    for c in VARIANTS:
        runs = results.all("FU-10", flows__0__controller=c)
        yield results.judge(
            f"FU-10a {c}",
            "Fig. 10",
            f"30 Mbit/s, 20 ms: {NAMES[c]} takes [0.4, 0.6] of what it and a Reno flow get",
            None,
            runs,
            lambda r: share(r, 0, 2),
            at_least=0.4,
            at_most=0.6,
        )
        yield results.judge(
            f"FU-10b {c}",
            "Fig. 10",
            f"{NAMES[c]} alone uses >= 0.9 of the link",
            None,
            runs,
            lambda r: carried(r, 1, 30),
            at_least=0.9,
        )


def fig_11(results):
    for loss, speed in SPEEDS.items():
        runs = results.all("FU-5", path__hops__forward__loss=loss)
        for c in FRIENDLY:
            yield results.judge(
                f"FU-11a {c} {speed}",
                "Fig. 11",
                f"{speed} Mbit/s: Reno beside {NAMES[c]} has >= 0.85 of what it has beside Reno",
                None,
                runs,
                lambda r: reno_beside(r, c) / reno_beside(r, "reno"),
                at_least=0.85,
            )
        yield results.judge(
            f"FU-11b {speed}",
            "Fig. 11",
            f"{speed} Mbit/s: Fusion and Reno together have the most of these three: over the next >= 0.99",
            None,
            runs,
            lambda r: sum(beside(r, "fusion")) / max(sum(beside(r, c)) for c in FRIENDLY[1:]),
            at_least=0.99,
        )
        for c in ("highspeed", "bic"):
            yield results.judge(
                f"FU-11c {c} {speed}",
                "Fig. 11",
                f"{speed} Mbit/s: Reno has less beside {NAMES[c]} than beside Fusion: ratio < 1",
                None,
                runs,
                lambda r: reno_beside(r, c) / reno_beside(r, "fusion"),
                at_most=1 - 1e-9,
            )
    yield results.judge(
        "FU-11d",
        "Fig. 11",
        "100 Mbit/s: FAST's share beside Reno < 0.4",
        None,
        results.all("FU-5", path__hops__forward__loss="0.025%"),
        lambda r: beside(r, "fast")[0] / sum(beside(r, "fast")),
        at_most=0.4 - 1e-9,
    )

    def at_100(c):
        return results.all("FU-11-100", flows__0__controller=c)

    fusion = same_seed(at_100("fusion"))
    for c in ("highspeed", "bic"):
        yield results.judge(
            f"FU-11e {c}",
            "Fig. 11",
            f"100 Mbit/s as it stands: Reno has less beside {NAMES[c]} than beside Fusion: ratio < 1",
            None,
            complete(at_100(c), fusion),
            lambda r: goodput(r, 1) / goodput(fusion[r.record["seed"]], 1),
            at_most=1 - 1e-9,
        )
    yield results.judge(
        "FU-11e fast",
        "Fig. 11",
        "100 Mbit/s as it stands: FAST's share beside Reno < 0.4",
        None,
        at_100("fast"),
        share,
        at_most=0.4 - 1e-9,
    )

    def at_1000(c):
        return results.all("FU-11-1000", flows__0__controller=c)

    reno = same_seed(at_1000("reno"))
    for c in FRIENDLY:
        yield results.judge(
            f"FU-11f {c}",
            "Fig. 11",
            f"1000 Mbit/s at a tenth: Reno beside {NAMES[c]} has >= 0.85 of what it has beside Reno",
            None,
            complete(at_1000(c), reno),
            lambda r: 2 * goodput(r, 1) / (goodput(reno[r.record["seed"]], 0) + goodput(reno[r.record["seed"]], 1)),
            at_least=0.85,
        )
    others = [same_seed(at_1000(c)) for c in FRIENDLY[1:]]
    yield results.judge(
        "FU-11g",
        "Fig. 11",
        "1000 Mbit/s at a tenth: Fusion and Reno together have the most of these three: over the next >= 0.99",
        None,
        complete(at_1000("fusion"), *others),
        lambda r: (
            (goodput(r, 0) + goodput(r, 1))
            / max(goodput(o[r.record["seed"]], 0) + goodput(o[r.record["seed"]], 1) for o in others)
        ),
        at_least=0.99,
    )


def fig_13(results):
    group = ("reno", *FRIENDLY)
    without = {c: results.all("FU-13", flows__0__controller=c) for c in group}
    reverse = {c: results.all("FU-13-REVERSE", flows__0__controller=c) for c in group}
    before = {c: same_seed(without[c]) for c in group}
    for c in group:
        yield results.judge(
            f"FU-13a {c}",
            "Fig. 13",
            f"{NAMES[c]}, no reverse traffic: R3-R4 is used by >= 0.95",
            None,
            without[c],
            last_link,
            at_least=0.95,
        )
    for c in group:
        runs, seed = complete(reverse[c], before[c]), before[c]
        yield results.judge(
            f"FU-13b {c}",
            "Fig. 13",
            f"{NAMES[c]}: reverse traffic lowers what the flows get of R3-R4: ratio < 1",
            None,
            runs,
            lambda r: by_hops(r).sum() / by_hops(seed[r.record["seed"]]).sum(),
            at_most=1 - 1e-9,
        )
    for what, found in (("without", without), ("with", reverse)):
        reno = same_seed(found["reno"])
        for c in FRIENDLY:
            yield results.judge(
                f"FU-13c {c} {what}",
                "Fig. 13",
                f"{what} reverse traffic: the three Reno flows beside {NAMES[c]} have >= 0.8 of "
                "what they have beside Reno",
                None,
                complete(found[c], reno),
                lambda r: reno_group(r) / (by_hops(reno[r.record["seed"]]).sum() / 2),
                at_least=0.8,
            )
    for c in group:
        runs, seed = complete(reverse[c], before[c]), before[c]
        yield results.judge(
            f"FU-13d {c}",
            "Fig. 13",
            f"{NAMES[c]}: reverse traffic makes flows of 1, 2, 3 hops more equal: Jain index with over without > 1",
            None,
            runs,
            lambda r: jain(by_hops(r)) / jain(by_hops(seed[r.record["seed"]])),
            at_least=ABOVE_1,
        )
        for hops, word, bound in ((1, "less", {"at_most": 1 - 1e-9}), (2, "more", {"at_least": ABOVE_1})):
            yield results.judge(
                f"FU-13e {c} {hops}",
                "Fig. 13",
                f"{NAMES[c]}: with reverse traffic the flows of {hops} hop{'s' * (hops > 1)} have {word}: "
                f"ratio {'>' if hops > 1 else '<'} 1",
                None,
                runs,
                lambda r: by_hops(r)[hops - 1] / by_hops(seed[r.record["seed"]])[hops - 1],
                **bound,
            )


ROWS = {
    "FU-1": (fig_1, "Fig. 1"),
    "FU-2": (fig_2, "Fig. 2"),
    "FU-4": (fig_4, "Fig. 4"),
    "FU-5": (fig_5, "Fig. 5"),
    "FU-6": (fig_6, "Fig. 6"),
    "FU-T1": (table, "Table 1"),
    "FU-8": (fig_8, "Fig. 8"),
    "FU-9": (fig_9, "Fig. 9"),
    "FU-10": (fig_10, "Fig. 10"),
    "FU-11": (fig_11, "Fig. 11"),
    "FU-13": (fig_13, "Fig. 13"),
}


SMALL = (
    "Linux's HSTCP counts ACKs, not packets: with delayed ACKs it grows by half a packet a round trip up to windows of 38, by one, as Reno, up to 118; "
    "at the paper's 100 Mbit/s, with one seed, by 2.0 to 2.5, and it presses Reno down: to 0.62 of the fair share (FU-6 highspeed 100), 0.54 of what "
    "Reno has beside Fusion (FU-11e highspeed)"
)
MODERN = "Linux's CUBIC of today grows as Reno where Reno would have more (RFC 9438, section 4.3); the paper's was that of 2006"
FEW = "a flow loses 5 to 36 packets in the six seconds measured: chance decides, and this is one seed"
CONVERGING = (
    "the flows still converge: the Jain index grows from third to third of the nine seconds measured, for Fusion 0.80, 0.95, 0.99, for Reno 0.72, 0.92, "
    "0.97, for BIC 0.71, 0.81, 0.89, for CUBIC 0.77, 0.83, 0.87"
)
UNSETTLED = (
    "the ratios of 20 over 120 ms still fall from the first to the last third of the twelve seconds measured: Reno's from 9.8 to 5.2, Fusion's from 6.5 to "
    "3.7, ARENO's from 6.2 to 3.3"
)
CAUSES = {  # of verdicts that are not reproduced, by the beginning of their ids; the first counts
    "FU-5b ctcp 1e-3": "windows are 8 to 9 packets, where CTCP is Reno: it has 0.97 (0.89 to 1.05) of the mean of the run's nine Reno flows",
    "FU-11c highspeed 300": "HSTCP and Reno together have 11 to 13 of 20 Mbit/s: random loss limits Reno, not the rival",
    "FU-11c bic 1000": "BIC and Reno together have 4 to 5 of 20 Mbit/s: random loss limits Reno, not the rival",
    "FU-6 highspeed 1": SMALL,
    "FU-T1a highspeed": SMALL,
    "FU-T1c highspeed": SMALL,
    "FU-9d highspeed": SMALL,
    "FU-11c highspeed": SMALL,
    "FU-6 cubic": MODERN,
    "FU-T1a cubic": MODERN,
    "FU-T1c cubic": MODERN,
    "FU-9d cubic": MODERN,
    "FU-8a": CONVERGING,
    "FU-8c": CONVERGING,
    "FU-8b": "Fusion's flows still converge (FU-8a): over the last three of the nine seconds measured the ratio is 0.93 (0.88 to 0.98)",
    "FU-9c ctcp 120": "CTCP's flow of 120 ms grows by 2.3 packets a round trip, Reno's by 0.9",
    "FU-9c fusion 120": UNSETTLED,
    "FU-9c areno 120": UNSETTLED,
    "FU-11f": FEW,
    "FU-11g": FEW,
    "FU-10a bic": "50 packets of path are above BIC's low window of 14: it searches by up to 16 packets a round trip beside Reno's one",
    "FU-13e areno 2": "all flows together have 0.92 of what they have without reverse traffic (FU-13b); the rest is not explained",
    "FU-13": "six seconds measured at 10 Mbit/s: from seed to seed the flows' ratios go from 0.5 to 1.5, further than reverse traffic moves their means",
}


def because(verdict):
    """The verdict with the cause of its failure, if it is known."""
    known = next((words for id, words in CAUSES.items() if verdict.id.startswith(id)), "")
    return (
        replace(verdict, reason=f"{known}; {verdict.reason}")
        if known and verdict.verdict == "not reproduced"
        else verdict
    )


def claims(results):
    """All of the full set; of the quick one what it has runs for, and a line for a figure without any."""
    quick = all(task.case.which == "quick" for task, _ in results.found)
    verdicts = []
    for id, (row, source) in ROWS.items():
        found = [because(v) for v in row(results)]
        if quick:
            found = [v for v in found if v.runs] or [
                results.not_measured(id, source, f"the claims of {source}", "in the full set")
            ]
        verdicts += found
    return verdicts
