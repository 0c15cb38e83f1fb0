/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Members of `struct areno` that tests read and set. */
FIELD(base_q20)
FIELD(probe_q20)
FIELD(probe_saved)
FIELD(rtt_cong_saved)
FIELD(rtt_cong)
FIELD(rtt_max)
FIELD(rtt_q4)
FIELD(b_q8)
FIELD(delivered)
FIELD(c_q16)
FIELD(limited)
