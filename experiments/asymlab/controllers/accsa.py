# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller, Law, View, need
from ..palette import VIOLET


def thins(v: View) -> None:
    hop = v.hop("marked")
    need(
        v.count("marks") > 10 and v.count("doublings") > 5,
        f"{v.count('marks')} marks, {v.count('doublings')} doublings",
    )
    share = hop["reverse"]["packets"] / hop["forward"]["packets"]
    need(share < 0.5, f"{share:.2f} ACKs a packet")


RECORDS = [
    Controller(
        "accsa",
        "ACC+SA",
        look=dict(color=VIOLET, marker=(6, 1, 0), linestyle=(0, (3, 2, 1, 2, 1, 2))),
        law=Law("marks thin its ACKs", thins, marked=True),
        sysctls={"net.ipv4.tcp_timestamps": 0},
    )
]
