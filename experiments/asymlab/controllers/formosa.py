# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller
from ..palette import BLACK, ROSE

RECORDS = [
    Controller("formosa", "Formosa", look=dict(color=BLACK, marker="*", linestyle="-")),
    Controller("netsum", "Formosa, literal sum", look=dict(color=ROSE, marker="H", linestyle=(0, (4, 2)))),
]
