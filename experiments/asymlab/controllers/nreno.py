# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller, Law, cuts_to, half

RECORDS = [
    Controller(
        "nreno",
        "NewReno of ns-2",
        look=dict(color="#994F00", marker=(3, 0, 90), linestyle=(0, (5, 2, 2, 2))),
        law=Law("a loss halves", cuts_to(half)),
    )
]
