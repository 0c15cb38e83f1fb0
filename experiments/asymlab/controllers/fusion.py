# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller, Law, cuts_to, half, without_the_queue
from ..palette import INDIGO

RECORDS = [
    Controller(
        "fusion",
        "Fusion",
        look=dict(color=INDIGO, marker="P", linestyle="-"),
        law=Law(
            "a loss takes out what was queued, at most half",
            cuts_to(lambda ack, state: max(without_the_queue(ack, state), half(ack, state))),
        ),
    )
]
