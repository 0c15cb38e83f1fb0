# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures of uploads, downloads, and the queue of the modem that uploads pass: that of hop 1, reverse."""

import numpy as np

from asymlab.report.measures import goodput_of
from asymlab.results import metrics

SHORT_S = 0.02  # a queue of the modem that nobody minds
FALL_S, RISE_S = 20, 40  # when the case step has another rate
RISE_LONG_S = 0.5  # so long the modem is in use once the new rate is found


def rates(run, up: bool) -> float:
    """The sum over all uploads, or all downloads, Mbit/s."""
    return sum(goodput_of(run, i) for i, flow in enumerate(run.job.flows) if (flow.src == "dst0") == up)


def down(run) -> float:
    return rates(run, False)


def up(run) -> float:
    return rates(run, True)


def modem_use(run) -> float:
    """The part of its capacity that the modem uses."""
    return run.metrics["hops"][0]["reverse"]["utilisation"]


def queues(run) -> tuple[np.ndarray, np.ndarray]:
    """Each bin of the run in which a packet left the modem: its start, and the mean wait of its packets, s."""
    job, modem = run.job, run.job.watch[0].reverse
    rows, bin_s = metrics.link_window(run.links, modem.dev, 0, job.duration_s), job.bin_ms / 1e3
    trace, each = metrics.trace_of(job, modem.dev), [rows[i : i + 1] for i in range(len(rows))]
    if trace:
        waits = [metrics.queue_delay_by_trace(row, trace, bin_s) for row in each]
    else:
        waits = [metrics.queue_delay(row, metrics.rates_of(modem, job), bin_s) for row in each]
    return np.array(rows["t"]), np.array(waits)


def queue_ms(run, share: int = 95) -> float:
    """A percentile of the modem's queue over all bins, ms."""
    t, waits = queues(run)
    return 1e3 * float(np.percentile(waits[t >= run.job.measure_from_s], share))


def queue_p75_ms(run) -> float:
    return queue_ms(run, 75)


def search_s(run) -> float:
    """From the first bin in which the modem has a queue that is not short to the next one with a short one."""
    t, waits = queues(run)
    begin = t[waits > SHORT_S]
    end = t[(waits <= SHORT_S) & (t > begin[0])] if len(begin) else []
    return float(end[0] - begin[0]) if len(end) else run.job.duration_s


def fall_s(run) -> float:
    """From half the rate to the end of the bin with the modem's longest queue: then less comes than leaves."""
    t, waits = queues(run)
    after = (t >= FALL_S) & (t < FALL_S + 5)
    return float(t[after][np.argmax(waits[after])] + run.job.bin_ms / 1e3 - FALL_S)


def rise_s(run) -> float:
    """From twice the rate till half a second begins in which the modem passes 0.85 of it."""
    modem, bin_s = run.job.watch[0].reverse, run.job.bin_ms / 1e3
    rows, nr = metrics.link_window(run.links, modem.dev, RISE_S, run.job.duration_s), round(RISE_LONG_S / bin_s)
    sums = np.convolve((rows["bytes"] - metrics.ETHERNET * rows["packets"].astype(float)) * 8, np.ones(nr), "valid")
    full = rows["t"][: len(sums)][sums >= 0.85 * modem.rate_bps * RISE_LONG_S]
    return float(full[0] - RISE_S) if len(full) else run.job.duration_s - RISE_S


def reply_ms(run) -> float:
    """p95 of the time that a request's reply takes, ms."""
    times = metrics.reply_times(run.job.flows[0], run.job, run.record["agent"]["replies"]["0"], run.job.measure_from_s)
    return float(np.percentile(times, 95)) / 1e6


def took_s(run, name: str) -> float:
    """The time that a program took, or the time that it had if it was not there at the end."""
    program = run.programs[name]
    return (run.job.duration_s if program["end_s"] is None else program["end_s"]) - program["start_s"]


def page_s(run) -> float:
    return took_s(run, "page")


def one_ms(run) -> float:
    return 1e3 * took_s(run, "one")
