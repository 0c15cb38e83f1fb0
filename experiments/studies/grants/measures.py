# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures of a line with turns."""


def queue_ms(run) -> float:
    """Mean delay of the data's queue."""
    return run.metrics["forward"]["queue_delay_mean_s"] * 1e3


def more_ms(runs) -> float:
    """The first run's queue beyond the second one's."""
    return queue_ms(runs[0]) - queue_ms(runs[1])
