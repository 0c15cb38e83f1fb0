/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Members of `struct taichung` that tests read and set. */
FIELD(w_q20)
FIELD(mark)
FIELD(ecn_mark)
FIELD(mark_delivered)
FIELD(inter_ack_ns)
FIELD(inter_min_ns)
FIELD(ideal_q4)
FIELD(net_q4)
FIELD(fresh)
FIELD(held)
