# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
import math

import numpy as np

from ..controller import Controller, Law, View, need


def rate_by_rtt(v: View) -> None:
    """After a recovery ssthresh is the estimate, bytes a tick, by the shortest RTT in whole ticks.

    A second has one of these numbers of ticks, whichever fits all.
    """
    seen, fits = [], {100, 250, 300, 1000}
    for role in ("clean", "lossy"):
        if role in v.roles:
            acks, states = v.acks(role), v.states(role)
            for k in np.flatnonzero((acks["ca_state"][1:] == 0) & (acks["ca_state"][:-1] == 3)) + 1:
                after, rate, rtt = int(acks[k]["ssthresh"]), int(states[k]["estimate"]), int(states[k]["rtt_min"])
                seen.append(f"{after} packets by {rate} bytes a tick and {rtt} us")
                fits = {hz for hz in fits if abs(after - max(rate * math.ceil(rtt * hz / 1e6) / v.mss, 2)) <= 2}
    need(len(seen) >= 2, f"{len(seen)} recoveries")
    need(fits, "; ".join(seen[:3]))


RECORDS = [
    Controller(
        "bpf_westwood",
        "Westwood+, BPF port",
        look=dict(color="#2A7AA8", marker="+", linestyle=(0, (6, 1, 3, 1))),
        law=Law("a loss leaves rate by RTTmin", rate_by_rtt),
        bends=(
            *((loss, "a loss raises ssthresh") for loss in ("ack", "loss", "cwr", "rto")),  # if the path carried more
            ("event", "changed during recovery"),  # the end of a recovery, here at any time, sets the window
        ),
    )
]
