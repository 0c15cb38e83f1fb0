# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The competition matrix: every controller against every other. No paper claims anything of it; its figures are all.

Share: of the pair's goodput. Harm (Ware et al. 2019, "Beyond Jain's Fairness Index"): what a controller loses of
the goodput that it has alone, 0 to 1, when the other comes. All are means over the seeds.
"""

from statistics import fmean

TITLE = "Competition matrix"
SUBJECT = "Every controller against every other; no paper claims anything of it."

RATES = {"3mbit": "ACK path as fast as the data's", "30kbit": "ACK path at r = 4"}

Table = dict[tuple[str, str], float]  # (of, beside) -> value


def tabled(results, rate: str, measure) -> Table:
    """measure(run, mine, other) in both orders of each pair's flows, of a controller beside itself too."""
    found: dict[tuple[str, str], list[float]] = {}
    for run in results.valid("MX-PAIR", path__reverse__rate=rate):
        flows = run.metrics["flows"]
        for mine, other in (flows, flows[::-1]):
            value = measure(run, mine, other)
            if value is not None:
                found.setdefault((mine["controller"], other["controller"]), []).append(value)
    return {pair: fmean(values) for pair, values in found.items()}


def shares(results, rate: str) -> Table:
    """Of a controller beside itself the larger share of the two."""

    def share(run, mine, other):
        x, y = mine["goodput_bps"], other["goodput_bps"]
        if x + y == 0:
            return None
        return (max(x, y) if mine["controller"] == other["controller"] else x) / (x + y)

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


def claims(results):
    return []
