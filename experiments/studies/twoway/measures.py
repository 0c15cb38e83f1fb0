# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures of downloads and their uploads."""

from math import prod

from asymlab.report.measures import LEAST, goodput_of

PACKET = 1500  # bytes


def flows_of(run, upload: bool) -> list[int]:
    """The uploads, or the downloads: the first flow is one."""
    flows = run.job.flows
    return [i for i, flow in enumerate(flows) if (flow.src != flows[0].src) == upload]


def rates(run, upload: bool) -> float:
    """The sum over all uploads, or all downloads, Mbit/s."""
    return sum(goodput_of(run, i) for i in flows_of(run, upload))


def download(run) -> float:
    return rates(run, False)


def upload(run) -> float:
    return rates(run, True)


def queue_s(run) -> float:
    """The mean time in the downlink's queue, a packet's time at the least: a ratio to next to nothing tells nothing."""
    return max(run.metrics["forward"]["queue_delay_mean_s"], PACKET * 8 / run.job.watch[0].forward.rate_bps)


MEASURES = {"download": download, "upload": upload, "queue_s": queue_s}


def sent_again(runs, *uploads: bool) -> float:
    """Packets that are sent again, in parts of those that arrive, on all of these paths."""
    again = packets = 0.0
    for run in runs:
        seconds = run.job.duration_s - run.job.measure_from_s
        for i in (i for upload in uploads for i in flows_of(run, upload)):
            metrics = run.metrics["flows"][i]
            again += metrics["retransmits"]
            packets += metrics["throughput_bps"] * seconds / 8 / PACKET
    return again / max(packets, 1)


def upload_loss(runs) -> float:
    return sent_again(runs, True)


def download_loss(runs) -> float:
    return sent_again(runs, False)


def loss(runs) -> float:
    return sent_again(runs, False, True)


def over_cubic(runs, name: str) -> float:
    """A controller's over CUBIC's, the geometric mean over paths: each path has a run of both, one behind the other."""
    measure = MEASURES[name]
    ratios = [max(measure(own), LEAST) / max(measure(cubic), LEAST) for own, cubic in zip(runs[::2], runs[1::2])]
    return prod(ratios) ** (1 / len(ratios))
