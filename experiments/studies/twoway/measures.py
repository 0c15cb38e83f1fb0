# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures of a download and its uploads."""

from math import prod

from asymlab.report.measures import LEAST, goodput_of


def download(run) -> float:
    return goodput_of(run, 0)


def upload(run) -> float:
    """All uploads, Mbit/s."""
    return sum(goodput_of(run, flow) for flow in range(1, len(run.metrics["flows"])))


def queue_s(run) -> float:
    """The mean time in the downlink's queue."""
    return run.metrics["forward"]["queue_delay_mean_s"]


MEASURES = {"download": download, "upload": upload, "queue_s": queue_s}


def over_cubic(runs, name: str) -> float:
    """A controller's over CUBIC's, the geometric mean over paths: each path has a run of both, one behind the other."""
    measure = MEASURES[name]
    ratios = [max(measure(own), LEAST) / max(measure(cubic), LEAST) for own, cubic in zip(runs[::2], runs[1::2])]
    return prod(ratios) ** (1 / len(ratios))
