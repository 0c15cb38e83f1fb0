# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A server, a path and a browser for test_clients.py."""
