# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Controllers that Linux has."""

from ..controller import Controller
from ..palette import GREEN, GREY, OLIVE, ORANGE, PURPLE, SKY, VERMILLION

RECORDS = [
    Controller("reno", "Reno", look=dict(color=VERMILLION, marker="s", linestyle="--"), linux=True),
    Controller("cubic", "CUBIC", look=dict(color=GREEN, marker="^", linestyle="-."), linux=True),
    Controller("vegas", "Vegas", look=dict(color=PURPLE, marker="D", linestyle=(0, (1, 1))), linux=True),
    Controller("westwood", "Westwood+", look=dict(color=SKY, marker="v", linestyle=(0, (6, 2))), linux=True),
    Controller(
        "highspeed", "HighSpeed", look=dict(color=GREY, marker="<", linestyle=(0, (6, 1, 1, 1, 1, 1))), linux=True
    ),
    Controller("bic", "BIC", look=dict(color=ORANGE, marker=">", linestyle=(0, (3, 1))), linux=True),
    Controller("bbr", "BBR", look=dict(color=OLIVE, marker="d", linestyle=(0, (2, 1, 1, 1))), linux=True),
    Controller("htcp", "H-TCP", linux=True),
    Controller("illinois", "Illinois", linux=True),
    Controller("veno", "Veno", linux=True),
    Controller("dctcp", "DCTCP", linux=True),
    Controller("hybla", "Hybla", linux=True),
    Controller("lp", "TCP-LP", linux=True),
    Controller("nv", "NV", linux=True),
    Controller("scalable", "Scalable", linux=True),
    Controller("yeah", "YeAH", linux=True),
    Controller("cdg", "CDG", linux=True),
]
