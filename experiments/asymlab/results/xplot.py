# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Files for xplot (Shepard's program, which tcptrace writes for as well): each flow of a run over its time, in bytes.

They are made of the run's own trace, so no second run is needed. A point is an ACK, and the sender's state before it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .. import LabError
from ..guest.job import Job
from .pcapng import named
from .store import Run

COLOURS = ACKED, FLYING, WINDOW, AGAIN = "green", "white", "yellow", "red"
LEGEND = "acknowledged green, and in flight white, and cwnd yellow, sent again red R"


def mss(job: Job) -> int:
    """Bytes of payload in a full packet."""
    return round(job.payload_share * max(link.mtu for link in job.links))


def stairs(t: np.ndarray, y: np.ndarray) -> list[str]:
    """A line that keeps its value until the next point."""
    lines = []
    for begin, before, end, after in zip(t[:-1], y[:-1], t[1:], y[1:]):
        lines += [f"line {begin:.6f} {before} {end:.6f} {before}", f"line {end:.6f} {before} {end:.6f} {after}"]
    return lines


def text_of(title: str, acks: np.ndarray, segment: int) -> str:
    """acks: those of one flow."""
    t = acks["t"]
    acked = np.cumsum(acks["acked"], dtype="i8")
    before = acked - acks["acked"]
    lines = ["timeval double", "title", f"{title}: {LEGEND}", "xlabel", "time", "ylabel", "bytes"]
    for colour, level in (
        (ACKED, acked),
        (FLYING, before + acks["in_flight"].astype("i8") * segment),
        (WINDOW, before + acks["cwnd"].astype("i8") * segment),
    ):
        lines += [colour, *stairs(t, level)]
    lines.append(AGAIN)
    for at in np.flatnonzero(np.diff(acks["retrans"].astype("i8"), prepend=0) > 0):
        lines += [f"rtext {t[at]:.6f} {before[at]}", "R"]
    return "\n".join([*lines, "go"]) + "\n"


def write(run: Run, folder: Path) -> str:
    """A file for each flow, and a line that tells of them."""
    file = folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        acks, segment = run.acks, mss(run.job)
        for flow in run.job.flows:
            file = folder / f"{named(run)}-flow-{flow.id}.xpl"
            title = f"{run.record['name']}, flow {flow.id}, {flow.controller}"
            file.write_text(text_of(title, acks[acks["flow"] == flow.id], segment))
    except OSError as e:
        raise LabError(f"{file}: {e.strerror}") from None
    return f"{run.record['name']}: {len(run.job.flows)} files for xplot in {folder}"
