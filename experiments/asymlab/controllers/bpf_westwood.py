# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller

RECORDS = [
    Controller(
        "bpf_westwood", "Westwood+, BPF port", look=dict(color="#2A7AA8", marker="+", linestyle=(0, (6, 1, 3, 1)))
    )
]
