/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Members of `struct fast` that tests read and set. */
FIELD(rtt_avg_q16)
FIELD(update_stamp)
FIELD(w_q8)
FIELD(step_from_q8)
FIELD(step_to_q8)
FIELD(w_round_q8)
FIELD(rounds)
FIELD(w_saved_q8)
FIELD(rtt_round)
FIELD(started)
FIELD(cwnd_limited)
