/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Members of thinning's `struct flow` that tests read. */
STORED(rtt_bytes)
STORED(thin_from)
STORED(last_ack)
STORED(passed_ack)
STORED(halvings)
STORED(asked)
STORED(push)
STORED(pushed)
STORED(rtt_ns)
STORED(stamp_ns)
