/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Members of `struct nreno` that tests read and set. */
FIELD(w_q20)
