# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
import numpy as np

from ..controller import Controller, Law, View, need
from ..palette import BLACK, ROSE


def eighths(v: View) -> None:
    state = v.states("clean")
    own = state[v.acks("clean")["ca_state"] < 3]  # in a recovery the stack brings the window down, packet by packet
    need((own["cwnd"] <= own["w"] + own["w_last"]).all(), "the window is more than the last two rounds'")
    cut = np.flatnonzero(np.diff(state["peer_signals"].astype(int)) != 0)
    w = state["w"].astype("i8") * 2**16 + state["w_part"]
    to_eighth = w[cut + 1] == w[cut] - w[cut] // 8
    need(to_eighth.sum() >= 3, f"{to_eighth.sum()} of {len(cut)} signals took an eighth")
    drops = v.hop("clean")["forward"]["drops"]
    need(not drops, f"{drops} packets dropped by a queue that its signals should keep short")


RECORDS = [
    Controller(
        "formosa",
        "Formosa",
        look=dict(color=BLACK, marker="*", linestyle="-"),
        law=Law("a signal takes an eighth, before the queue drops", eighths),
        # A signal comes a round late. A round of a BDP queues nothing, the next two have 1.6 and 2.6 BDPs and are both
        # on the way before the cut: 4.2 BDPs of 50 packets, one of which is the path's.
        queues={"clean": 170},
    ),
    Controller("netsum", "Formosa, literal sum", look=dict(color=ROSE, marker="H", linestyle=(0, (4, 2)))),
]
