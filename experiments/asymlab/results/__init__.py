# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The files, tables and metrics that a run leaves, and the store that keeps them."""
