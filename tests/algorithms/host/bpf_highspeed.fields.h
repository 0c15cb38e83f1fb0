/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Members of `struct bpf_highspeed` that tests read and set. */
FIELD(row)
