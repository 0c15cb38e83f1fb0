# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Commands of `asymlab` in files of their own: for each the options, then what it does.
