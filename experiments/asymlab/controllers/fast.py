# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller, Law, queue_between
from ..palette import BLUE

RECORDS = [
    Controller(
        "fast",
        "FAST",
        look=dict(color=BLUE, marker="o", linestyle="-"),
        law=Law("alpha packets are queued", queue_between(17, 23)),
        fitting={"alpha": 20},
        changed={"alpha": 60},
    )
]
