# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller

RECORDS = [
    Controller(
        "bpf_highspeed",
        "HighSpeed, BPF port",
        look=dict(color="#9A9A9A", marker=(8, 2, 0), linestyle=(0, (10, 2, 1, 2))),
    )
]
