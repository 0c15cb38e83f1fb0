# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller, Law, cuts_to, half

RECORDS = [
    Controller(
        "prague",
        "Prague",
        look=dict(color="#B00068", marker=(5, 2, 0), linestyle=(0, (4, 1, 1, 1, 1, 1))),
        law=Law("a loss halves", cuts_to(half)),
        bends=(("ack", "changed during recovery"),),  # it grows in a reduction for a mark
    )
]
