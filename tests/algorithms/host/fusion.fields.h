/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Members of `struct fusion` that tests read and set. */
FIELD(w_q20)
FIELD(reno_q20)
FIELD(reno_ssthresh)
FIELD(rtt_q4)
FIELD(b_q8)
FIELD(b_last_q8)
FIELD(delivered)
FIELD(diff_q8)
FIELD(alpha_q8)
FIELD(b_rounds)
FIELD(phase)
FIELD(limited)
