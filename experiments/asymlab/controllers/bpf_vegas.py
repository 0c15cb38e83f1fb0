# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller

RECORDS = [
    Controller("bpf_vegas", "Vegas, BPF port", look=dict(color="#7E3F66", marker="x", linestyle=(0, (1, 1, 3, 1))))
]
