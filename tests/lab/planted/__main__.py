# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The table of planted faults."""

from . import main

main()
