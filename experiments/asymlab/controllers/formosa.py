# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
import numpy as np

from ..controller import Controller, Law, View, need
from ..palette import BLACK, ROSE


def eighths(v: View) -> None:
    state = v.states("clean")
    need((state["cwnd"] <= state["w"] + state["w_last"]).all(), "the window is more than the last two rounds'")
    before = state[state["t"] < v.change]
    cut = np.flatnonzero(np.diff(before["peer_signals"].astype(int)) != 0)
    to_eighth = before["w"][cut + 1] == before["w"][cut] - np.maximum(before["w"][cut] // 8, 1)
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
