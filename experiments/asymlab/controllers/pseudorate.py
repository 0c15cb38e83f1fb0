# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller
from ..palette import BROWN, TEAL

RECORDS = [
    Controller("pseudorate", "Pseudo-rate", look=dict(color=TEAL, marker="h", linestyle="-")),
    Controller("literal", "Pseudo-rate as printed", look=dict(color=BROWN, marker="p", linestyle=(0, (4, 1, 1, 1)))),
]
