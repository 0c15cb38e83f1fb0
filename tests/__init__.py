# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of the algorithms, the loader, the lab and the report."""
