# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller, Law, queue_between

RECORDS = [
    Controller(
        "vegas95",
        "Vegas as published",
        look=dict(color="#AA4499", marker=(4, 0, 22.5), linestyle=(0, (1, 2))),
        law=Law("1 to 3 packets are queued", queue_between(0.5, 4)),
    )
]
