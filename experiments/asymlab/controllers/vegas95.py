# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller

RECORDS = [
    Controller("vegas95", "Vegas as published", look=dict(color="#AA4499", marker=(4, 0, 22.5), linestyle=(0, (1, 2))))
]
