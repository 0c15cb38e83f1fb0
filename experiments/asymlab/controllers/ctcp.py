# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller

RECORDS = [Controller("ctcp", "Compound", look=dict(color="#4477AA", marker="8", linestyle=(0, (8, 2, 1, 2))))]
