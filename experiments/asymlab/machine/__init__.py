# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Guests: images, and virtual machines that run a job."""
