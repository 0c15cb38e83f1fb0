# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The measures of the competition matrix's checks and figures.

Share: of the pair's goodput. Harm (Ware et al. 2019, "Beyond Jain's Fairness Index"): what a controller loses of
the goodput that it has alone, 0 to 1, when the other comes. All are means over the seeds.
"""

from dataclasses import dataclass
from statistics import fmean

RATES = {"3mbit": "ACK path as fast as the data's", "30kbit": "ACK path at r = 4"}  # of the square

OURS = ("fast", "formosa", "fusion", "taichung", "pseudorate")
MET = ("reno", "cubic", "bbr", "bbr3")  # what a user meets


@dataclass(frozen=True)
class Path:
    """A path on which each is alone, and ours are beside those that a user meets."""

    name: str
    title: str
    alone: str  # scenarios
    pairs: str


FAST_PATH = Path("100mbit", "100 Mbit/s", "MX-ALONE-100", "MX-PAIR-100")
DOCSIS = Path("docsis", "DOCSIS 1.0, whose ACKs fill the uplink", "MX-ALONE-DOCSIS", "MX-PAIR-DOCSIS")
PATHS = (FAST_PATH, DOCSIS)

Table = dict[tuple[str, str], float]  # (of, beside) -> value


# --- what is measured -----------------------------------------------------------------------


def base_s(run) -> float:
    """RTT of the empty path."""
    return min(probe.base_rtt_us for probe in run.job.probes) / 1e6


def queue_ms(run) -> float:
    """Mean RTT of the first flow above that of the empty path."""
    return 1e3 * (run.metrics["flows"][0]["rtt_s"]["mean"] - base_s(run))


def of_link(run) -> float:
    """The data of all flows since the first began, as IP packets, over what the link carries in that time."""
    began = min(flow.start_s for flow in run.job.flows)
    most = run.job.watch[0].forward.rate_bps * (run.job.duration_s - began) * run.job.payload_share
    rows = run.goodput[run.goodput["t"] < run.job.duration_s]
    return 8 * float(rows["bytes"].sum()) / most


def rtt_above_ms(run) -> float:
    """The least RTT of all flows, above the path's."""
    return 1e3 * (min(flow["rtt_s"]["min"] for flow in run.metrics["flows"] if flow["rtt_s"]) - base_s(run))


def share_of_pair(run, mine, other) -> float | None:
    """The first controller's share; beside itself it is the larger of the two."""
    x, y = mine["goodput_bps"], other["goodput_bps"]
    if x + y == 0:
        return None
    return (max(x, y) if mine["controller"] == other["controller"] else x) / (x + y)


def share_of(run, controller: str) -> float:
    """The named controller's share of the goodput of all."""
    return next(
        flow["goodput_bps"] / run.metrics["goodput_bps"]
        for flow in run.metrics["flows"]
        if flow["controller"] == controller
    )


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
