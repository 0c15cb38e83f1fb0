# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller, Law, queue_between
from ..palette import BROWN, TEAL

RECORDS = [
    Controller(
        "pseudorate",
        "Pseudo-rate",
        look=dict(color=TEAL, marker="h", linestyle="-"),
        law=Law("N_queue packets are queued", queue_between(1, 5)),
        changed={"n_queue": 20},
        queues={"clean": 400},  # it rests only after an overshoot without loss
    ),
    Controller("literal", "Pseudo-rate as printed", look=dict(color=BROWN, marker="p", linestyle=(0, (4, 1, 1, 1)))),
]
