/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The law beside flows that fill the queue, with `fair`: the forward delay that the receiver tells says whose the queue is. While
 * the flow competes no signal is believed, and a loss leaves CUT_PERCENT. What a look drained comes back after it, which is no signal.
 */
#ifndef FORMOSA_BESIDE_BPF_H
#define FORMOSA_BESIDE_BPF_H

#include "fair.bpf.h"

/* With `fair`, at the end of a round: does the law rest, as a look sets W? */
static inline bool rests(struct formosa *f, struct fair *mode, const struct wire *w, u32 carried)
{
	u32 window;

	if (!mode || !f->s.rtt_min || (mode->step == WAIT && f->w < f->ssthresh))
		return false;
	window = w->heard ? fair_turn(mode, &f->s, f->w, carried, w->queue_us) : mode->step == WAIT ? 0 : mode->window;
	if (!window)
		return false;
	f->w = window;
	f->ssthresh = min(f->ssthresh, f->w); /* no slow start follows */
	f->hold = TOLD;
	return true;
}

/* What a loss leaves of W, packets << 16. It ends a look: then as much of the W before it, but not more than the look has. */
static inline u64 left_by_loss(const struct formosa *f, struct fair *mode)
{
	u64 w = w_q16(f), whole = w;
	u32 keeps = loss_beta_q8;

	if (mode && mode->step != WAIT)
		whole = (u64)mode->before << W_BITS;
	if (mode && mode->competes)
		keeps = CUT_PERCENT * 256 / 100;
	end_look(mode);
	return min(whole * keeps >> 8, w); /* 2^36 * 2^8 = 2^44 */
}

#endif
