# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures of downloads and their uploads."""

from math import prod

from asymlab.report.measures import LEAST, goodput_of

UPLOADS_S = 2  # when uploads begin; the downloads have by then


def rates(run, upload: bool) -> float:
    """The sum over all uploads, or all downloads, Mbit/s."""
    return sum(goodput_of(run, i) for i, flow in enumerate(run.job.flows) if (flow.start_s >= UPLOADS_S) == upload)


def download(run) -> float:
    return rates(run, False)


def upload(run) -> float:
    return rates(run, True)


def queue_s(run) -> float:
    """The mean time in the downlink's queue."""
    return run.metrics["forward"]["queue_delay_mean_s"]


MEASURES = {"download": download, "upload": upload, "queue_s": queue_s}


def over_cubic(runs, name: str) -> float:
    """A controller's over CUBIC's, the geometric mean over paths: each path has a run of both, one behind the other."""
    measure = MEASURES[name]
    ratios = [max(measure(own), LEAST) / max(measure(cubic), LEAST) for own, cubic in zip(runs[::2], runs[1::2])]
    return prod(ratios) ** (1 / len(ratios))
