# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
import numpy as np

from ..controller import Controller, Law, View, need
from ..palette import YELLOW


def gain_times_rate(v: View) -> None:
    state, acks = v.states("clean"), v.acks("clean")
    full = state["full_bw_reached"] == 1
    rate = (state["bw"].astype("u8") * int(v.mss) >> 8) * state["pacing_gain"] * 99 // 10_000
    right = acks["pacing"][full] == rate[full]
    need(right.mean() > 0.99, f"{(~right).sum()} of {right.size} pacing rates are not gain times the modelled rate")
    need(set(range(2, 7)) <= set(np.unique(state["state"])), "not all states of ProbeBW, and ProbeRTT, were seen")


RECORDS = [
    Controller(
        "bbr3",
        "BBRv3",
        look=dict(color=YELLOW, marker=(5, 1, 0), linestyle=(0, (7, 1, 2, 1))),
        law=Law("it paces at 0.99 of gain times rate, in all states", gain_times_rate),
        # Its window follows the model, in a recovery too; a probe raises it, whoever limits; it has no ssthresh.
        bends=(
            ("ack", "grows while the application limits"),
            ("ack", "changed during recovery"),
            ("loss", "changed during recovery"),
            ("ack", "a loss raises ssthresh"),
            ("loss", "a loss raises ssthresh"),
            ("cwr", "a loss raises ssthresh"),
            ("rto", "a loss raises ssthresh"),
        ),
    )
]
