/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Members of `struct ctcp` that tests read and set. */
FIELD(cwnd_q20)
FIELD(dwnd_q20)
FIELD(dwnd_saved)
FIELD(base_saved)
FIELD(diff_q8)
FIELD(limited)
