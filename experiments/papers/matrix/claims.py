# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The competition matrix: every controller against every other. No paper claims anything of it; its figures are all.

Share: of the pair's goodput. Harm (Ware et al. 2019, "Beyond Jain's Fairness Index"): what a controller loses of
the goodput that it has alone, 0 to 1, when the other comes.
"""

RATES = {"3mbit": "ACK path as fast as the data's", "30kbit": "ACK path at r = 4"}


def shares(results, rate: str) -> dict[tuple[str, str], float]:
    """(of, beside) -> share of `of`, in both orders; of a controller beside itself its larger one."""
    found = {}
    for run in results.all("MX-PAIR", path__reverse__rate=rate):
        if run.valid:
            (a, x), (b, y) = ((f["controller"], f["goodput_bps"]) for f in run.metrics["flows"])
            if a == b:
                found[a, a] = max(x, y) / (x + y)
            else:
                found[a, b], found[b, a] = x / (x + y), y / (x + y)
    return found


def jains(results, rate: str) -> dict[tuple[str, str], float]:
    found = {}
    for run in results.all("MX-PAIR", path__reverse__rate=rate):
        if run.valid:
            a, b = (f["controller"] for f in run.metrics["flows"])
            found[a, b] = found[b, a] = run.metrics["jain"]
    return found


def harms(results, rate: str) -> dict[tuple[str, str], float]:
    """(of, beside) -> harm that `beside` does to `of`; beside itself the mean of the two."""
    alone = {run.metrics["flows"][0]["controller"]: run.metrics["goodput_bps"]
             for run in results.all("MX-ALONE", path__reverse__rate=rate) if run.valid}
    found: dict[tuple[str, str], list[float]] = {}
    for run in results.all("MX-PAIR", path__reverse__rate=rate):
        if run.valid:
            flows = run.metrics["flows"]
            for mine, other in (flows, flows[::-1]):
                if before := alone.get(mine["controller"]):
                    found.setdefault((mine["controller"], other["controller"]), []).append(max(0.0, 1 - mine["goodput_bps"] / before))
    return {pair: sum(values) / len(values) for pair, values in found.items()}


def claims(results):
    return []
