# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A model of the kernel for the controllers' sources, and what drives it."""
