# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The measures of Formosa's claims and figures, and the rates at which they are taken."""

from asymlab.report.measures import goodput_of, ratio_by_seed
from asymlab.report.verdicts import Ratio

RATES = ("20kbit", "60kbit", "100kbit", "200kbit", "400kbit", "600kbit")
SLOWEST, FOUR, TWO, FASTEST = "20kbit", "100kbit", "200kbit", "600kbit"  # r = 20, 4, 2, 0.67
PAPERS = ("reno", "vegas", "accsa")  # the rivals that the paper shows
RIVAL_NAMES = {"reno": "Reno", "vegas": "Vegas", "accsa": "ACC+SA"}
RIVALS = (*PAPERS, "cubic", "bbr")
PAYLOAD = 0.96  # of a packet without options
OPTION = 0.012  # of a packet: what the data option takes from the payload of those that have one
WITH_OPTION = ("formosa", "accsa")
FORWARD = 10e6  # bit/s
PACKET_S = 8e-4  # a data packet's time on the forward link


def kbit(rate: str) -> float:
    return float(rate.removesuffix("kbit"))


def r(rate: str) -> float:
    """Asymmetry ratio: an ACK's time on the reverse link over a data packet's on the forward link."""
    return 400 / kbit(rate)


def throughput(run) -> float:
    """Of the first flow, Mbit/s: whole packets, with the options in them."""
    share = PAYLOAD - OPTION if run.metrics["flows"][0]["controller"] in WITH_OPTION else PAYLOAD
    return goodput_of(run) / share


def used(run) -> float:
    """Goodput of all flows over the most that packets without options could have."""
    return run.metrics["goodput_bps"] / (FORWARD * PAYLOAD)


def drops(run) -> float:
    """Packets that the forward queue dropped in the measured window."""
    return float(run.metrics["forward"]["drops"])


def drops_in_all(run) -> float:
    links = run.links[run.links["dev"] == run.job.watch[0].forward.dev]
    return float(links["drops"].max())


# --- against runs of the same seed ---------------------------------------------------------


def all_by_seed(runs) -> dict[int, list]:
    """The valid runs, those of a seed together."""
    found = {}
    for run in runs:
        if run.valid:
            found.setdefault(run.record["seed"], []).append(run)
    return found


def over_each(pairs, measure):
    """(all the runs of pairs of (runs, others), measure over that of the other of the same seed in its own pair)."""
    complete = [ratio_by_seed(runs, [others], measure) for runs, others in pairs]
    ratio = {run.record["key"]: ratio for runs, ratio in complete for run in runs}
    return [run for runs, _ in complete for run in runs], Ratio(lambda run: ratio[run.record["key"]](run))
