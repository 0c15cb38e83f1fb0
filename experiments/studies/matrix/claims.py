# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The competition matrix: every controller beside every other on a slow path, ours beside Reno, CUBIC and both BBRs on
two more. No paper claims anything of it. Its checks are of physics, and of what docs/choosing.md says of such paths.

Share: of the pair's goodput. Harm (Ware et al. 2019, "Beyond Jain's Fairness Index"): what a controller loses of
the goodput that it has alone, 0 to 1, when the other comes. All are means over the seeds.
"""

from dataclasses import dataclass
from statistics import fmean

from asymlab.report.claim import Check
from asymlab.report.measures import Runs, each, goodput, ratio_by_seed

TITLE = "Competition matrix"
SUBJECT = (
    "Every controller beside every other, and ours beside Reno, CUBIC, BBR and BBRv3 on two more paths; no paper "
    "claims anything of it."
)

RATES = {"3mbit": "ACK path as fast as the data's", "30kbit": "ACK path at r = 4"}  # of the square

OURS = ("fast", "formosa", "fusion", "taichung", "pseudorate")
MET = ("reno", "cubic", "bbr", "bbr3")  # what a user meets


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


def share_of_pair(run, mine, other) -> float | None:
    """Of a controller beside itself the larger share of the two."""
    x, y = mine["goodput_bps"], other["goodput_bps"]
    if x + y == 0:
        return None
    return (max(x, y) if mine["controller"] == other["controller"] else x) / (x + y)


def by_pair(runs, measure) -> dict[tuple[str, str], list[float]]:
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
    found = by_pair(results.valid("MX-PAIR", path__reverse__rate=rate), measure)
    return {pair: fmean(values) for pair, values in found.items()}


def shares(results, rate: str) -> Table:
    return tabled(results, rate, share_of_pair)


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


def claims():
    yield from physics()
    yield from fast_path()
    yield from docsis()
    yield from friendly()
    yield from both_bbrs()


def physics():
    for id in SCENARIOS:
        says = "no run has more than its link carries: {bound} of it"
        yield Check(f"MX-1a {id}", "physics", says, each(Runs(id), of_link), at_most=LINK_MOST, worst=True)
        says = "no RTT is below the path's: its least, above that, {bound} ms"
        yield Check(f"MX-1b {id}", "physics", says, each(Runs(id), rtt_above_ms), at_least=-RTT_SHORT_MS, worst=True)


def over_best(id: str, controller: str, others, **point):
    """Its goodput over the best of the others'."""
    mine, *theirs = (Runs(id, flows__controller=c, **point) for c in (controller, *others))
    return ratio_by_seed(mine, theirs, goodput)


def over_all_acks(controller: str, measure):
    """With thinning over with all ACKs."""
    base, thinned = (Runs(DOCSIS.alone, thin__thins=n, flows__controller=controller) for n in (0, 1))
    return ratio_by_seed(thinned, base, measure)


def share_of(run, controller: str) -> float:
    return next(
        flow["goodput_bps"] / run.metrics["goodput_bps"]
        for flow in run.metrics["flows"]
        if flow["controller"] == controller
    )


def beside(id: str, mine: str, other: str) -> Runs:
    return Runs(id, flows__0__controller=mine, flows__1__controller=other)


def fast_path():
    says = "{rate}, no loss, ACKs with room: nothing to gain over CUBIC: it over the best of ours {bound}"
    yield Check("MX-2", "choosing.md", says, over_best(FAST_PATH.alone, "cubic", OURS), at_least=AS_MUCH)
    says = "{rate}: CUBIC takes nearly all of the link beside Pseudo-rate: its share {bound}"
    value = each(beside(FAST_PATH.pairs, "pseudorate", "cubic"), lambda run: share_of(run, "cubic"))
    yield Check("MX-3", "choosing.md", says, value, at_least=NEARLY_ALL)


def docsis():
    """The uplink has less than 1/57 of the rate."""
    where, everybody = "ACKs fill the uplink", (*OURS, *MET)
    others = [c for c in everybody if c != "formosa"]
    says = f"{where}: nobody has more than Formosa: over the best of the others {{bound}}"
    value = over_best(DOCSIS.alone, "formosa", others, thin__thins=0)
    yield Check("MX-4a", "choosing.md", says, value, at_least=AS_MUCH)
    says = f"{where}: CUBIC has more with ACKs thinned: ratio {{bound}}"
    yield Check("MX-4b", "choosing.md", says, over_all_acks("cubic", goodput), above=1)
    says = f"{where}: CUBIC's queue is shorter with ACKs thinned: ratio of the RTTs above the path's {{bound}}"
    yield Check("MX-4c", "choosing.md", says, over_all_acks("cubic", queue_ms), below=1)
    for c in everybody:
        says = f"{where}: {c} has no less with ACKs thinned: ratio {{bound}}"
        yield Check(f"MX-5 {c}", "thinning.md", says, over_all_acks(c, goodput), at_least=AS_MUCH)


def friendly():
    """Fusion gets what Reno would get beside CUBIC."""
    for path in PATHS:
        # Reno's run is the one that has it beside CUBIC.
        reno, fusion = (beside(path.pairs, *pair) for pair in (("cubic", "reno"), ("fusion", "cubic")))
        value = ratio_by_seed(fusion, reno, lambda run: share_of(run, "fusion"), lambda run: share_of(run, "reno"))
        says = "Fusion has beside CUBIC what Reno has: ratio of their shares in {bound}"
        yield Check(f"MX-6 {path.name}", "choosing.md", says, value, within=(FRIENDLY, 1 / FRIENDLY))


def both_bbrs():
    """CUBIC's share beside BBRv3 over that beside BBR."""
    for path in PATHS:
        new, old = (beside(path.pairs, "cubic", c) for c in ("bbr3", "bbr"))
        value = ratio_by_seed(new, old, lambda run: share_of(run, "cubic"))
        says = "BBRv3 leaves CUBIC more than BBR does: ratio of its shares {bound}"
        yield Check(f"MX-7 {path.name}", "bbr3.md", says, value, above=1)
