/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The law beside flows that fill the queue, with `fair`: the forward delay that the receiver tells says whose the queue is. While
 * the flow competes no signal is believed, and a loss leaves CUT_PERCENT. The queue that a look drained comes back after it, which is no signal.
 */
#ifndef FORMOSA_BESIDE_BPF_H
#define FORMOSA_BESIDE_BPF_H

#include "fair.bpf.h"
#include "window.bpf.h"

/* With `fair`, at the end of a round: the window that a look sets; 0: the law does. */
static inline u32 look_window(struct formosa *f, struct fair *mode, const struct wire *w, u32 carried)
{
	if (!mode || !f->s.rtt_min || (mode->step == WAIT && f->w < f->ssthresh))
		return 0;
	if (w->heard)
		return fair_turn(mode, &f->s, f->w, carried, w->queue_us);
	return mode->step == WAIT ? 0 : mode->window;
}

/* W after a loss, packets << 16. A loss ends a look: then it leaves as much of the W before the look, but not more than the look has. */
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
