# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller
from ..palette import INDIGO

RECORDS = [Controller("fusion", "Fusion", look=dict(color=INDIGO, marker="P", linestyle="-"))]
