# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller, Law, cuts_to

RECORDS = [
    Controller(
        "areno",
        "Adaptive Reno",
        look=dict(color="#AA3377", marker=(4, 1, 0), linestyle=(0, (5, 1, 1, 1))),
        law=Law("a loss leaves W/(1+c)", cuts_to(lambda ack, state: ack["cwnd"] / (1 + state["c_q16"] / 65536))),
    )
]
