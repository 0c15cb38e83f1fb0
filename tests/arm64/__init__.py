# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What another architecture needs: make check-arm64."""
