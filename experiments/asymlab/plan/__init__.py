# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""From a scenario file to the jobs that it asks for."""
