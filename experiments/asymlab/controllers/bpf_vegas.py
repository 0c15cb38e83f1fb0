# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
import numpy as np

from ..controller import Controller, Law, View, need


def queues(v: View) -> None:
    """While it has more than 4 packets queued it comes down by one a round trip; then it keeps 2 to 4."""
    acks = v.acks("clean")
    acks = acks[acks["rtt_us"] > 0]
    queued = acks["cwnd"] * (1 - acks["rtt_us"].min() / acks["rtt_us"])
    late = np.flatnonzero(acks["t"] > 3)
    above = late[: np.argmin(queued[late] > 5) if (queued[late] <= 5).any() else len(late)]
    if len(above) > 1:
        rounds = float((np.diff(acks["t"][above]) * 1e6 / acks["rtt_us"][above][1:]).sum())
        fell = int(acks["cwnd"][above[0]]) - int(acks["cwnd"][above[-1]])
        need(0.8 * rounds - 2 <= fell <= 1.1 * rounds + 2, f"{fell} packets in {rounds:.0f} round trips")
    rest = queued[late[len(above) :]]
    need(len(above) > 1 or len(rest), "no samples of the RTT")
    need(not len(rest) or 1 <= rest.mean() <= 5, f"{rest.mean() if len(rest) else 0:.1f} packets queued at rest")


RECORDS = [
    Controller(
        "bpf_vegas",
        "Vegas, BPF port",
        look=dict(color="#7E3F66", marker="x", linestyle=(0, (1, 1, 3, 1))),
        law=Law("2 to 4 packets are queued, or one less each round trip", queues, far=True),
    )
]
