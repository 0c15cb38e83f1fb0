# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Properties that each controller must have: on each kernel, on random paths."""
