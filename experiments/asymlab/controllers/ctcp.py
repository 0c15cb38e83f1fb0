# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
import numpy as np

from ..controller import Controller, Law, View, cuts_to, half, need


def compound(v: View) -> None:
    state, acks = v.states("clean"), v.acks("clean")
    quiet = np.flatnonzero((acks["ca_state"][1:] == 0) & (acks["ca_state"][:-1] == 0)) + 1
    same = ((state["cwnd_q20"] + state["dwnd_q20"])[quiet] >> 20) == acks["cwnd"][quiet]
    need(same.mean() > 0.9, f"cwnd + dwnd is the window at {same.mean():.0%} of the ACKs")
    need(v.count("increases"), f"dwnd could grow {v.count('increases')} times")
    cuts_to(half)(v)


RECORDS = [
    Controller(
        "ctcp",
        "Compound",
        look=dict(color="#4477AA", marker="8", linestyle=(0, (8, 2, 1, 2))),
        law=Law("both windows make one, and a loss halves it", compound, far=True),
    )
]
