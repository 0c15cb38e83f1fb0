# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures of the options' checks, beside goodput."""

from asymlab.results.metrics import goodput_bins, jain


def resent(run) -> int:
    """Packets sent again in the whole run, and one: none in both is a ratio of 1."""
    return 1 + sum(f["retransmits_whole_run"] for f in run.metrics["flows"])


def equality(run, after_s: float = 0) -> float:
    """Jain index of the flows that run to the end."""
    end, bin_s = run.job.duration_s, run.job.bin_ms / 1e3
    stay = [f.id for f in run.job.flows if f.stop_s in (None, end)]
    return jain([goodput_bins(run.goodput, f, end, bin_s)[round(after_s / bin_s) :].sum() for f in stay])
