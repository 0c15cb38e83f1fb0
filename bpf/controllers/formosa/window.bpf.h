/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Formosa's sender: what it knows of a connection, its rounds and its W. */
#ifndef FORMOSA_WINDOW_BPF_H
#define FORMOSA_WINDOW_BPF_H

#include "options.bpf.h"

#define W_BITS 16 /* behind the point of W: with the 20 before it 2^36 */

/* One connection. Windows in packets. */
struct formosa {
	struct sender s;      /* its round is Formosa's */
	u32 w;                /* packets a round: the whole ones of W ... */
	u16 w_part;           /* ... and its part of a packet, 2^-16 */
	u16 w_part_saved;     /* before the last reduction */
	u32 w_last;           /* of the round before */
	u32 ssthresh;         /* of w: the stack's is for show */
	u32 w_saved;          /* before the last reduction, for undo */
	u32 ssthresh_saved;
	u32 srtt_us;          /* smoothed RTT of the newest packet covered; 0: none */
	u32 rounds;           /* begun so far */
	u32 delivered_round;  /* tp->delivered when this round began */
	u32 delivered;        /* tp->delivered at the last ACK */
	u32 peer_queue_us;    /* forward queueing delay as the receiver sees it */
	u32 peer_signals;     /* signals believed */
	u8 hold;              /* rounds in which no signal is */
	bool cwnd_limited;    /* fallback: the window was the limit in this round */
};
STATE(struct formosa);

static inline void begin_round(struct formosa *f, const struct tcp_sock *tp, struct wire *w)
{
	round_start(&f->s, tp);
	f->rounds++;
	f->delivered_round = tp->delivered;
	f->cwnd_limited = false;
	if (w) {
		w->round++;
		w->segs = tp->data_segs_out;
		w->budget = f->w;
		w->srtt_us = f->srtt_us;
		w->heard = false;
	}
}

/* W, packets << 16: at most 2^36. */
static inline u64 w_q16(const struct formosa *f)
{
	return (u64)f->w << W_BITS | f->w_part;
}

/* W becomes this, packets << 16. */
static inline void write_w(struct formosa *f, u64 w_q16)
{
	f->w = w_q16 >> W_BITS;
	f->w_part = w_q16;
}

/* (2): W after a signal, and slow start is over. `queue`: packets of ours that wait, as far as known, below 2^32. */
static inline u64 after_signal(struct formosa *f, u64 queue)
{
	u64 w = w_q16(f), cut = w * delta_q8 >> 8; /* 2^36 * 2^7 = 2^43 */

	if (cut_mode && f->w >= f->ssthresh)
		cut = min(cut, (queue + 1) << W_BITS); /* 2^48 */
	cut = max(cut, min((u64)cut_least << W_BITS, w / 2));
	w = max(w - cut, W_MIN << W_BITS); /* cut is at most half of w */
	f->hold = f->w < f->ssthresh ? 0 : signal_hold;
	f->ssthresh = w >> W_BITS;
	f->peer_signals++;
	COUNT(signals);
	return w;
}

/* (1): W after `acked` packets, up to ssthresh. */
static inline u64 after_start(const struct formosa *f, u32 acked)
{
	return min((u64)f->w + acked, f->ssthresh) << W_BITS | f->w_part;
}

#endif
