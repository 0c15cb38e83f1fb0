# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a run leaves: files, tables, metrics, and the store that keeps them."""
