# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures of a flow whose rate falls as the measurement begins."""

import numpy as np

LONG_MS = 280  # an RTT of 80 ms, and a fifth of a second
TICK_S = 0.1  # a shorter time is none


def rtts_ms(run) -> tuple[np.ndarray, np.ndarray]:
    """s since the fall, and the RTT of each ACK that is kept, ms."""
    acks = run.acks[(run.acks["t"] >= run.job.measure_from_s) & (run.acks["rtt_us"] > 0)]
    return acks["t"] - run.job.measure_from_s, acks["rtt_us"] / 1e3


def longest_rtt_ms(run) -> float:
    return float(rtts_ms(run)[1].max())


def long_s(run) -> float:
    """Until no RTT of the run is long any more."""
    t, rtts = rtts_ms(run)
    return max(float(t[rtts >= LONG_MS].max(initial=0)), TICK_S)
