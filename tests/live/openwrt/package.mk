# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# In place of OpenWrt's own: rules.mk has all.
