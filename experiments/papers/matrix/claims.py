# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The competition matrix: every controller beside every other on a slow path, ours beside Reno, CUBIC and BBR on two
more. No paper claims anything of it. Its checks are of physics, and of what docs/choosing.md says of such paths.

Share: of the pair's goodput. Harm (Ware et al. 2019, "Beyond Jain's Fairness Index"): what a controller loses of
the goodput that it has alone, 0 to 1, when the other comes. All are means over the seeds.
"""

from dataclasses import dataclass
from statistics import fmean

from asymlab.report.measures import ABOVE_1, BELOW_1, goodput, ratio_by_seed

TITLE = "Competition matrix"
SUBJECT = (
    "Every controller beside every other, and ours beside Reno, CUBIC and BBR on two more paths; no paper claims "
    "anything of it."
)

RATES = {"3mbit": "ACK path as fast as the data's", "30kbit": "ACK path at r = 4"}  # of the square

OURS = ("fast", "formosa", "fusion", "taichung", "pseudorate")
MET = ("reno", "cubic", "bbr")  # what a user meets


@dataclass(frozen=True)
class Path:
    """Where each is alone, and ours are beside those that a user meets."""

    name: str
    title: str
    alone: str  # scenarios
    pairs: str


FAST_PATH = Path("100mbit", "100 Mbit/s", "MX-ALONE-100", "MX-PAIR-100")
DOCSIS = Path("docsis", "DOCSIS 1.0, whose ACKs fill the uplink", "MX-ALONE-DOCSIS", "MX-PAIR-DOCSIS")
PATHS = (FAST_PATH, DOCSIS)
SCENARIOS = ("MX-ALONE", "MX-PAIR", *(id for path in PATHS for id in (path.alone, path.pairs)))

LINK_MOST = 1.003  # of the link's rate: 0.2 % that the shaper may be off, and the packets of its bucket
RTT_SHORT_MS = 1.01  # timestamps count in ms, and the delay has a jitter of 2 us
AS_MUCH = 0.98  # choosing.md takes goodputs within 2 % for equal
NEARLY_ALL = 0.9
FRIENDLY = 0.8  # of a share, and its inverse: as for TCP-Fusion's Table 1

Table = dict[tuple[str, str], float]  # (of, beside) -> value


# --- what is measured -----------------------------------------------------------------------


def base_s(run) -> float:
    """RTT of the empty path."""
    return min(probe.base_rtt_us for probe in run.job.probes) / 1e6


def queue_ms(run) -> float:
    """Mean RTT of the first flow above that of the empty path."""
    return 1e3 * (run.metrics["flows"][0]["rtt_s"]["mean"] - base_s(run))


def of_link(run) -> float:
    """What all flows had since the first began, as IP packets, over what the link carries in that time."""
    began = min(flow.start_s for flow in run.job.flows)
    most = run.job.watch[0].forward.rate_bps * (run.job.duration_s - began) * run.job.payload_share
    rows = run.goodput[run.goodput["t"] < run.job.duration_s]
    return 8 * float(rows["bytes"].sum()) / most


def rtt_above_ms(run) -> float:
    """The least RTT of all flows, above the path's."""
    return 1e3 * (min(flow["rtt_s"]["min"] for flow in run.metrics["flows"] if flow["rtt_s"]) - base_s(run))


def share(run, mine, other) -> float | None:
    """Of a controller beside itself the larger share of the two."""
    x, y = mine["goodput_bps"], other["goodput_bps"]
    if x + y == 0:
        return None
    return (max(x, y) if mine["controller"] == other["controller"] else x) / (x + y)


def each(runs, measure) -> dict[tuple[str, str], list[float]]:
    """measure(run, mine, other) in both orders of each pair's flows, of a controller beside itself too."""
    found: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        first, second = run.metrics["flows"]
        for mine, other in ((first, second), (second, first)):
            value = measure(run, mine, other)
            if value is not None:
                found.setdefault((mine["controller"], other["controller"]), []).append(value)
    return found


# --- the square -----------------------------------------------------------------------------


def tabled(results, rate: str, measure) -> Table:
    found = each(results.valid("MX-PAIR", path__reverse__rate=rate), measure)
    return {pair: fmean(values) for pair, values in found.items()}


def shares(results, rate: str) -> Table:
    return tabled(results, rate, share)


def jains(results, rate: str) -> Table:
    return tabled(results, rate, lambda run, *_: run.metrics["jain"])


def harms(results, rate: str) -> Table:
    """Against the run alone of the same seed; beside itself the mean of the two."""
    alone = {
        (run.metrics["flows"][0]["controller"], run.record["seed"]): run.metrics["goodput_bps"]
        for run in results.valid("MX-ALONE", path__reverse__rate=rate)
    }

    def harm(run, mine, other):
        before = alone.get((mine["controller"], run.record["seed"]))
        return max(0.0, 1 - mine["goodput_bps"] / before) if before else None

    return tabled(results, rate, harm)


# --- checks ---------------------------------------------------------------------------------


def claims(results):
    verdicts = [*physics(results), *fast_path(results), *docsis(results), *friendly(results)]
    return [v for v in verdicts if v.runs]


def physics(results):
    for id in SCENARIOS:
        runs = results.all(id)
        yield results.check(
            f"MX-1a {id}",
            "physics",
            f"no run has more than its link carries: <= {LINK_MOST} of it",
            None,
            runs,
            of_link,
            at_most=LINK_MOST,
            worst=True,
        )
        yield results.check(
            f"MX-1b {id}",
            "physics",
            f"no RTT is below the path's: its least, above that, >= -{RTT_SHORT_MS} ms",
            None,
            runs,
            rtt_above_ms,
            at_least=-RTT_SHORT_MS,
            worst=True,
        )


def over_best(results, id: str, controller: str, others, **point):
    """Runs of a controller, and its goodput over the best of the others' of the same seed."""
    mine, *theirs = (results.all(id, flows__controller=c, **point) for c in (controller, *others))
    return ratio_by_seed(mine, theirs, goodput)


def over_all_acks(results, controller: str, measure):
    """Runs with thinning, and their measure over that of the run of the same seed with all ACKs."""
    base, thinned = (results.all(DOCSIS.alone, thin__thins=n, flows__controller=controller) for n in (0, 1))
    return ratio_by_seed(thinned, [base], measure)


def share_of(run, controller: str) -> float:
    return next(
        flow["goodput_bps"] / run.metrics["goodput_bps"]
        for flow in run.metrics["flows"]
        if flow["controller"] == controller
    )


def beside(results, id: str, mine: str, other: str):
    return results.all(id, flows__0__controller=mine, flows__1__controller=other)


def fast_path(results):
    runs, ratio = over_best(results, FAST_PATH.alone, "cubic", OURS)
    yield results.check(
        "MX-2",
        "choosing.md",
        f"100 Mbit/s, no loss, ACKs with room: nothing to gain over CUBIC: it over the best of ours >= {AS_MUCH}",
        None,
        runs,
        ratio,
        at_least=AS_MUCH,
    )
    yield results.check(
        "MX-3",
        "choosing.md",
        f"100 Mbit/s: CUBIC takes nearly all of the link beside Pseudo-rate: its share >= {NEARLY_ALL}",
        None,
        beside(results, FAST_PATH.pairs, "pseudorate", "cubic"),
        lambda run: share_of(run, "cubic"),
        at_least=NEARLY_ALL,
    )


def docsis(results):
    """The uplink has less than 1/57 of the rate."""
    runs, ratio = over_best(
        results, DOCSIS.alone, "formosa", [c for c in (*OURS, *MET) if c != "formosa"], thin__thins=0
    )
    yield results.check(
        "MX-4a",
        "choosing.md",
        f"ACKs fill the uplink: nobody has more than Formosa: over the best of the others >= {AS_MUCH}",
        None,
        runs,
        ratio,
        at_least=AS_MUCH,
    )
    runs, ratio = over_all_acks(results, "cubic", goodput)
    yield results.check(
        "MX-4b",
        "choosing.md",
        "ACKs fill the uplink: CUBIC has more with ACKs thinned: ratio > 1",
        None,
        runs,
        ratio,
        at_least=ABOVE_1,
    )
    runs, ratio = over_all_acks(results, "cubic", queue_ms)
    yield results.check(
        "MX-4c",
        "choosing.md",
        "ACKs fill the uplink: CUBIC's queue is shorter with ACKs thinned: ratio of the RTTs above the path's < 1",
        None,
        runs,
        ratio,
        at_most=BELOW_1,
    )
    for controller in (*OURS, *MET):
        runs, ratio = over_all_acks(results, controller, goodput)
        yield results.check(
            f"MX-5 {controller}",
            "thinning.md",
            f"ACKs fill the uplink: {controller} has no less with ACKs thinned: ratio >= {AS_MUCH}",
            None,
            runs,
            ratio,
            at_least=AS_MUCH,
        )


def friendly(results):
    """Fusion gets what Reno would get beside CUBIC."""
    for path in PATHS:
        # Reno's run is the one that has it beside CUBIC.
        reno, fusion = (beside(results, path.pairs, *pair) for pair in (("cubic", "reno"), ("fusion", "cubic")))
        yield results.check(
            f"MX-6 {path.name}",
            "choosing.md",
            f"Fusion has beside CUBIC what Reno has: ratio of their shares in [{FRIENDLY}, {1 / FRIENDLY}]",
            None,
            *ratio_by_seed(fusion, [reno], lambda run: share_of(run, "fusion"), lambda run: share_of(run, "reno")),
            at_least=FRIENDLY,
            at_most=1 / FRIENDLY,
        )
