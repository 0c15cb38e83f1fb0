# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
import numpy as np

from ..controller import Controller, Law, View, need
from ..palette import BLACK, ROSE


def eighths(v: View) -> None:
    state = v.states("clean")
    own = state[v.acks("clean")["ca_state"] < 3]  # in a recovery the stack brings the window down, packet by packet
    need((own["cwnd"] <= own["w"] + own["w_last"]).all(), "the window is more than the last two rounds'")
    cut = np.flatnonzero(np.diff(state["peer_signals"].astype(int)) != 0)
    to_eighth = state["w"][cut + 1] == state["w"][cut] - np.maximum(state["w"][cut] // 8, 1)
    need(to_eighth.sum() >= 3, f"{to_eighth.sum()} of {len(cut)} signals took an eighth")
    drops = v.hop("clean")["forward"]["drops"]
    need(not drops, f"{drops} packets dropped by a queue that its signals should keep short")


RECORDS = [
    Controller(
        "formosa",
        "Formosa",
        look=dict(color=BLACK, marker="*", linestyle="-"),
        law=Law("a signal takes an eighth, before the queue drops", eighths),
    ),
    Controller("netsum", "Formosa, literal sum", look=dict(color=ROSE, marker="H", linestyle=(0, (4, 2)))),
]
