/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Members of `struct pseudorate` that tests read and set. */
FIELD(base)
FIELD(offset)
FIELD(offset_bound)
FIELD(bound_q4)
FIELD(delivered)
FIELD(cycle_rtt)
FIELD(base_saved)
FIELD(offset_saved)
FIELD(bound_saved_q4)
FIELD(spoilt)
