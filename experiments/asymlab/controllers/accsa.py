# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller
from ..palette import VIOLET

RECORDS = [Controller("accsa", "ACC+SA", look=dict(color=VIOLET, marker=(6, 1, 0), linestyle=(0, (3, 2, 1, 2, 1, 2))))]
