# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The measure of ACK thinning that no other suite has."""

from statistics import fmean


def reply_s(run) -> float:
    """Mean time from a request to the end of its reply."""
    from_ns = run.record["agent"]["marks"]["measure"]["t_ns"] - run.record["agent"]["zero_ns"]
    return fmean(took for asked, took in run.record["agent"]["replies"]["0"] if asked >= from_ns) / 1e9
