/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Members of `struct bpf_bic` that tests read and set. */
FIELD(count)
FIELD(count_cwnd)
FIELD(count_tick)
FIELD(wmax)
FIELD(per_ack_q4)
