# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How long the first flow takes, beside the time that C4 keeps in each of 100 runs."""

from asymlab.report.measures import done

# s after the first flow's start, by scenario and path: main_target_time of sim_specs, less the start.
C4_S = {
    "C4-ALONE": {
        **{"20mbit": 5.0, "200mbit": 1.3, "1.5mbit": 22.0, "512kbit": 22.0, "satellite": 7.4, "low-and-up": 7.9},
        **{"drop-and-back": 8.15, "black-hole": 6.1, "short-to-long": 22.0, "suspensions": 5.4},
    },
    "C4-ITSELF": {"short": 6.7, "short-second": 7.65, "short-first": 4.1, "long": 22.8, "long-first": 22.1},
    "C4-CUBIC": {"short": 6.8, "long": 21.9, "long-first": 22.0},
    "C4-BBR": {"short": 6.7, "long": 23.0, "long-first": 23.0},
}


def took_s(run) -> float:
    """At most what the run has."""
    return min(done(run), run.job.duration_s - run.job.flows[0].start_s)


def over_c4(run, id: str, path: str) -> float:
    return took_s(run) / C4_S[id][path]
