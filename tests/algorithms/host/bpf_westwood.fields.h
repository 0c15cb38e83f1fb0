/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Members of `struct bpf_westwood` that tests read and set. */
FIELD(filtered)
FIELD(estimate)
FIELD(sample_start)
FIELD(sample_bytes)
FIELD(snd_una)
FIELD(counted)
FIELD(started)
FIELD(forget_min)
