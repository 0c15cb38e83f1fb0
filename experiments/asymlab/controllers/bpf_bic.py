# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller, Law, cuts_to


def bic(ack, state) -> float:
    cwnd = int(ack["cwnd"])
    return cwnd * 819 / 1024 if cwnd > 14 else cwnd / 2


RECORDS = [
    Controller(
        "bpf_bic",
        "BIC, BPF port",
        look=dict(color="#9A6700", marker=(3, 2, 0), linestyle=(0, (3, 1, 3, 3))),
        law=Law("a loss leaves 819/1024", cuts_to(bic)),
    )
]
