# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What must hold of every controller: on each kernel, on random paths."""
