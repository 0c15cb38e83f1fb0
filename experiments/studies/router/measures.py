# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures of a router's hosts, and of how long requests and downloads take."""

from asymlab.report.measures import goodput, goodput_of

FLOWS = (4, 4, 3, 3, 3, 3)  # downloads of each host


def least_host(run) -> float:
    """The worst host's mean download over the mean of all downloads."""
    began, means = 0, []
    for n in FLOWS:
        means.append(sum(goodput_of(run, flow) for flow in range(began, began + n)) / n)
        began += n
    return min(means) / (goodput(run) / sum(FLOWS))


def reply_every_s(run, flow: int) -> float:
    """Mean time from one request of a flow to the next. One that is not answered counts, too."""
    agent = run.record["agent"]
    began, ended = (agent["marks"][mark]["t_ns"] for mark in ("measure", "end"))
    answered = [asked for asked, _ in agent["replies"][str(flow)] if asked >= began - agent["zero_ns"]]
    return (ended - began) / 1e9 / max(len(answered), 1)


def fin_s(run) -> float:
    """From the close to the ACK of the last data and the FIN."""
    _, took_ns = run.record["agent"]["closed"]["0"]
    return took_ns / 1e9


def whole_s(run) -> float:
    """From the SYN to that ACK."""
    return sum(run.record["agent"]["closed"]["0"]) / 1e9
