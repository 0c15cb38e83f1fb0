# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures of downloads and their uploads."""

from math import prod

from asymlab.report.measures import LEAST, goodput_of

PACKET = 1500  # bytes
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


def upload_loss(runs) -> float:
    """Packets that the uploads send again, in parts of those that they send, on all of these paths."""
    again = packets = 0.0
    for run in runs:
        seconds = run.job.duration_s - run.job.measure_from_s
        for flow in run.job.flows:
            if flow.start_s >= UPLOADS_S:
                metrics = run.metrics["flows"][flow.id]
                again += metrics["retransmits"]
                packets += metrics["throughput_bps"] * seconds / 8 / PACKET
    return again / max(packets, 1)


def over_cubic(runs, name: str) -> float:
    """A controller's over CUBIC's, the geometric mean over paths: each path has a run of both, one behind the other."""
    measure = MEASURES[name]
    ratios = [max(measure(own), LEAST) / max(measure(cubic), LEAST) for own, cubic in zip(runs[::2], runs[1::2])]
    return prod(ratios) ** (1 / len(ratios))
