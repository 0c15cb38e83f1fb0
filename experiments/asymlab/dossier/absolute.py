# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The queue, the losses and the repairs of runs in plain numbers, which stand beside the ratios of the answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass
from statistics import fmean

import numpy as np

from ..guest.job import Bottleneck
from ..results.metrics import ETHERNET, link_window, mean_rate, rates_of
from ..results.store import Run


@dataclass(frozen=True)
class Absolute:
    """Numbers of all flows, at the forward queue of the busiest hop, while a run measures; of several runs the mean."""

    queue_ms: float
    queue_p99_ms: float  # of packets, each with the mean delay of its bin; of a link with a trace nan
    dropped: float  # share of the packets
    resent_mb: float  # bytes that were sent again, 1e6

    @property
    def numbers(self) -> dict[str, float | None]:
        """By name; None for nan."""
        return {name: None if np.isnan(value) else value for name, value in asdict(self).items()}

    def __str__(self) -> str:
        p99 = "" if np.isnan(self.queue_p99_ms) else f", p99 {self.queue_p99_ms:.3g}"
        return f"{self.queue_ms:.3g} ms{p99}; {100 * self.dropped:.2g} % dropped; {self.resent_mb:.2g} MB again"


def of(run: Run) -> Absolute:
    forward = run.metrics["forward"]
    arrived = forward["packets"] + forward["drops"]
    resent = sum(flow["retransmits"] for flow in run.metrics["flows"]) * max(link.mtu for link in run.job.links)
    return Absolute(forward["queue_delay_mean_s"] * 1e3, p99_ms(run), forward["drops"] / max(arrived, 1), resent / 1e6)


def p99_ms(run: Run) -> float:
    job = run.job
    way = next(hop.forward for hop in job.watch if hop.name == run.metrics["busiest"])
    if any(dev == way.dev and isinstance(shape, Bottleneck) and shape.trace for dev, shape in job.shapes):
        return float("nan")
    rows = link_window(run.links, way.dev, job.measure_from_s, job.duration_s)
    rows = rows[rows["packets"] > 0]
    if not len(rows):
        return 0.0
    rates, packets = rates_of(way, job), rows["packets"].astype(float)
    rate = np.array([mean_rate(rates, t, t + job.bin_ms / 1e3) for t in rows["t"]])
    delay = rows["qlen_sum"] / packets * (rows["bytes"] / packets - ETHERNET) * 8 / rate
    order = np.argsort(delay)
    passed = np.cumsum(packets[order])
    return float(delay[order][np.searchsorted(passed, 0.99 * passed[-1])]) * 1e3


def mean(runs: Iterable[Run]) -> Absolute | None:
    """None without runs."""
    columns = zip(*(astuple(of(run)) for run in runs), strict=True)
    return Absolute(*values) if (values := [fmean(column) for column in columns]) else None
