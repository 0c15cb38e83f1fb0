# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller

RECORDS = [
    Controller("bpf_bic", "BIC, BPF port", look=dict(color="#9A6700", marker=(3, 2, 0), linestyle=(0, (3, 1, 3, 3))))
]
