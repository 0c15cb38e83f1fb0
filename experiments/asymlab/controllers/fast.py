# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller
from ..palette import BLUE

RECORDS = [Controller("fast", "FAST", look=dict(color=BLUE, marker="o", linestyle="-"))]
