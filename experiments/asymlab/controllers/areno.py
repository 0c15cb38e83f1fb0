# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller

RECORDS = [
    Controller("areno", "Adaptive Reno", look=dict(color="#AA3377", marker=(4, 1, 0), linestyle=(0, (5, 1, 1, 1))))
]
