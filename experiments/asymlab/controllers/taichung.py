# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller
from ..palette import WINE

RECORDS = [Controller("taichung", "Taichung", look=dict(color=WINE, marker="X", linestyle="-"))]
