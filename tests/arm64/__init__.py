# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of the second architecture: make check-arm64."""
