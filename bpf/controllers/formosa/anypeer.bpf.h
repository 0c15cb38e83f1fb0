/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The law toward any peer: ACK clocking, delay by timestamps. */
#ifndef FORMOSA_ANYPEER_BPF_H
#define FORMOSA_ANYPEER_BPF_H

#include "window.bpf.h"

/* At the end of a round: is there a signal? A change within a tick is none. */
static inline bool
timestamp_round(struct timestamps *t, const struct formosa *f, const struct tcp_sock *tp, u32 carried)
{
	s64 change = t->x_min - t->x_held, tick = max(t->tick_us, 1000);

	if (!t->first_us || !t->tick_us)
		return false;
	if (change > tick || change < -tick)
		t->x_held = t->x_min;
	t->x_min = t->x_us;
	estimate_sample(&t->out, t->x_held, carried, tp->tcp_mstamp);
	return estimate_round(&t->out, f->srtt_us);
}

static inline void
law_by_acks(struct formosa *f, const struct tcp_sock *tp, const struct inet_connection_sock *icsk, struct wire *w)
{
	u32 acked = tp->delivered - f->delivered, carried = tp->delivered - f->delivered_round;
	bool starting = f->w < f->ssthresh;

	if (w)
		timestamp_sample(&w->stamps, tp);
	if (read_bits(icsk, icsk_ca_state) == TCP_CA_CWR || read_bits(icsk, icsk_ca_state) == TCP_CA_Recovery)
		return;
	if (is_cwnd_limited(tp))
		f->cwnd_limited = true;
	if (starting && (is_cwnd_limited(tp) || f->w < 2 * tp->max_packets_out))
		write_w(f, after_start(f, acked));
	if (!round_over(&f->s, tp))
		return;
	COUNT(rounds);
	f->w_last = f->w;
	if (w && timestamp_round(&w->stamps, f, tp, carried))
		write_w(f, after_signal(f, W_MAX));
	else if (!starting && f->cwnd_limited)
		f->w++;
	else if (!starting)
		COUNT(limited_rounds);
	begin_round(f, tp, w);
}

static inline u32 window_by_acks(const struct formosa *f, const struct tcp_sock *tp)
{
	if (tp->lost_out && !tp->retrans_out)
		return max(f->w, (u64)packets_in_flight(tp) + 1);
	return f->w;
}

#endif
