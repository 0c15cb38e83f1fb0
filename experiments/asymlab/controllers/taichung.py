# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller, Law, cuts_to, without_the_queue
from ..palette import WINE

RECORDS = [
    Controller(
        "taichung",
        "Taichung",
        look=dict(color=WINE, marker="X", linestyle="-"),
        law=Law("a loss takes out what was queued", cuts_to(without_the_queue), far=True),
    )
]
