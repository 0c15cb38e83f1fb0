# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The kernel of the engine uml: its source, our edits to it, its configuration, its build."""
