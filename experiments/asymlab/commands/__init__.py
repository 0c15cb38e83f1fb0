# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The commands of `asymlab`: of each its options, and what it does. COMMANDS of a module are its part of the list."""
