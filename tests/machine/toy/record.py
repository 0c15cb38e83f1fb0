# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
from ..controller import Controller, Law, cuts_to, half

RECORDS = [Controller("toy", "toy, an AIMD", law=Law("a loss halves", cuts_to(half)))]
