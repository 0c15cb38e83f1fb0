# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller, Law, cuts_to


def cubic(ack, state) -> float:
    return ack["cwnd"] * 0.7


RECORDS = [
    Controller(
        "cubic9438",
        "CUBIC of RFC 9438",
        look=dict(color="#005F60", marker=(7, 1, 0), linestyle=(0, (8, 2))),
        law=Law("a loss leaves 0.7", cuts_to(cubic)),
    )
]
