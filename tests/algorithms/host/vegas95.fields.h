/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Members of `struct vegas95` that tests read and set. */
FIELD(w_q20)
FIELD(rtt_sum)
FIELD(rtt_count)
FIELD(rtt_mean)
FIELD(diff_q8)
FIELD(phase)
FIELD(over)
FIELD(timed_out)
