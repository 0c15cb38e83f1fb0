# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""asymcc on this machine's own kernel, as root."""
