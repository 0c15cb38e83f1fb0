# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Exact instruction counts of a run, by kernel function, module, BPF program and user program."""
