# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller, Law, View, need

ROWS = ((38, 128), (118, 112), (221, 104), (347, 98), (495, 93), (10_000, 84))  # windows up to, b in 1/256


def leaves(v: View) -> None:
    """By the row of the window; in slow start by that of the last one beyond it, which may be the first: a half."""
    seen = 0
    for ack, after, _ in v.cuts():
        cwnd = int(ack["cwnd"])
        laws = [cwnd - cwnd * next(part for top, part in ROWS if cwnd <= top) / 256]
        laws += [cwnd / 2] if cwnd < ack["ssthresh"] else []
        need(min(abs(after - law) for law in laws) <= 3, f"from {cwnd} to {after}, not {laws[0]:.0f}")
        seen += 1
    need(seen >= 3, f"{seen} losses")


RECORDS = [
    Controller(
        "bpf_highspeed",
        "HighSpeed, BPF port",
        look=dict(color="#9A9A9A", marker=(8, 2, 0), linestyle=(0, (10, 2, 1, 2))),
        law=Law("a loss leaves 1-b(w)", leaves),
    )
]
