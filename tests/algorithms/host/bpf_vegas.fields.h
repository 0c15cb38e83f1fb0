/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Members of `struct bpf_vegas` that tests read and set. */
FIELD(round_rtt)
FIELD(samples)
FIELD(on)
