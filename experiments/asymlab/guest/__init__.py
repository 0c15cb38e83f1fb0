# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The agent, which runs beside the traffic: in the guest, or as root on a live host. It imports nothing of the rest."""
