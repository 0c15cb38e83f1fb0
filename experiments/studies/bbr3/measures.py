# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures of the draft's cases."""

import numpy as np

PACKET = 1500  # bytes
MSS = 1448
PROBE_RTT = 6  # a state of bbr3


def queue_ms(run) -> float:
    """Mean delay of the forward queue."""
    return run.metrics["forward"]["queue_delay_mean_s"] * 1e3


def least_window(run) -> float:
    """The smallest window while a run measures."""
    return float(run.acks["cwnd"][run.acks["t"] >= run.job.measure_from_s].min())


def sent_again(run) -> float:
    """Packets that are sent again, of all."""
    delivered = run.metrics["goodput_bps"] * (run.job.duration_s - run.job.measure_from_s) / 8 / MSS
    again = run.metrics["flows"][0]["retransmits"]
    return again / max(again + delivered, 1)


def rate_error(run) -> float:
    """|BBR.max_bw / the path's rate - 1|, the median while a run measures."""
    state = run.state(0)
    rate = run.job.watch[0].forward.rate_bps / 8 / PACKET * 256
    return float(np.median(np.abs(state["max_bw"][state["t"] >= run.job.measure_from_s] / rate - 1)))


def drains_s(run) -> float:
    """The median time from the begin of one ProbeRTT to that of the next."""
    state = run.state(0)
    begins = np.flatnonzero((state["state"][1:] == PROBE_RTT) & (state["state"][:-1] != PROBE_RTT)) + 1
    return float(np.median(np.diff(state["t"][begins])))
