/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The path as BBR knows it (section 5.5): rates in packets/s << 8, volumes in packets, times in us or ms. */
#ifndef BBR3_MODEL_BPF_H
#define BBR3_MODEL_BPF_H

static inline u32 now_ms(const struct tcp_sock *tp)
{
	return tp->tcp_mstamp / 1000;
}

/* bw * us, packets << 8, at most 2^28: 2^36 * 2^26 = 2^62. */
static inline u64 volume_q8(u64 bw, u64 us)
{
	return min(mul_div(min(bw, BW_MAX), min(us, RTT_MAX_US), SECOND), (u64)W_MAX << BW_BITS);
}

/* BBRBDPMultiple (5.6.4.2), gain in %, rounded up: 2^28 * 2^8. */
static inline u32 bdp_multiple(const struct bbr3 *b, const struct path *p, u64 bw, u32 gain)
{
	if (b->min_rtt_us == NONE)
		return p->initial_cwnd;
	return min((volume_q8(bw, b->min_rtt_us) * gain + (100 << BW_BITS) - 1) / (100 << BW_BITS), W_MAX);
}

/* 3 * send_quantum (5.5.8, 5.6.3): the kernel's bursts have 1 ms of the pacing rate, 2 packets at least. */
static inline u32 offload_budget(const struct path *p, const struct tcp_sock *tp)
{
	return 3 * max(min(p->pacing_rate / 1000, 65536) / max(tp->mss_cache, 1), 2);
}

/* BBRQuantizationBudget (5.6.4.2): at most 2 * W_MAX + 3 * 2^16. */
static inline u32
quantization_budget(const struct bbr3 *b, const struct path *p, const struct tcp_sock *tp, u32 packets)
{
	u32 budget = offload_budget(p, tp);

	packets = max(budget_added ? packets + budget : max(packets, budget), MIN_PIPE);
	return b->state == PROBE_BW_UP ? packets + 2 : packets;
}

/* BBRInflight(bw, 1.0) */
static inline u32 inflight(const struct bbr3 *b, const struct path *p, const struct tcp_sock *tp, u64 bw)
{
	return quantization_budget(b, p, tp, bdp_multiple(b, p, bw, 100));
}

/* BBRTargetInflight() */
static inline u32 target_inflight(const struct bbr3 *b, const struct path *p, const struct tcp_sock *tp)
{
	return min(bdp_multiple(b, p, b->bw, 100), tp->snd_cwnd);
}

/* inflight_longterm with room for others: 2^20 * 100. */
static inline u32 inflight_with_headroom(const struct bbr3 *b)
{
	u32 headroom = max((u64)b->inflight_longterm * headroom_percent / 100, 1);

	if (b->inflight_longterm == NONE)
		return NONE;
	return max(b->inflight_longterm > headroom ? b->inflight_longterm - headroom : 0, MIN_PIPE);
}

/* --- rounds and signals (5.5.1, 5.5.10.3) --------------------------------------------------- */

static inline void start_round(struct bbr3 *b, const struct tcp_sock *tp)
{
	b->next_round_delivered = tp->delivered;
}

static inline void update_round(struct bbr3 *b, const struct tcp_sock *tp, const struct sample *s)
{
	b->round_start = s->has_data && !before(s->prior_delivered, b->next_round_delivered);
	if (!b->round_start)
		return;
	start_round(b, tp);
	b->round_count++;
	if (b->rounds_since_probe_up < 255)
		b->rounds_since_probe_up++;
}

static inline void update_latest_signals(struct bbr3 *b, const struct tcp_sock *tp, const struct sample *s)
{
	b->loss_round_start = false;
	if (!s->has_data)
		return;
	b->bw_latest = max(b->bw_latest, s->bw);
	b->inflight_latest = max(b->inflight_latest, s->delivered);
	if (!before(s->prior_delivered, b->loss_round_delivered)) {
		b->loss_round_delivered = tp->delivered;
		b->loss_round_start = true;
	}
}

static inline void advance_latest_signals(struct bbr3 *b, const struct sample *s)
{
	if (b->loss_round_start) {
		b->bw_latest = s->bw;
		b->inflight_latest = s->delivered;
	}
}

static inline void reset_congestion_signals(struct bbr3 *b)
{
	b->is_loss_in_round = false;
	b->bw_latest = 0;
	b->inflight_latest = 0;
}

static inline void reset_short_term(struct bbr3 *b)
{
	b->bw_shortterm = BW_NONE;
	b->inflight_shortterm = NONE;
}

static inline bool is_probing(const struct bbr3 *b)
{
	return b->state == STARTUP || b->state == PROBE_BW_REFILL || b->state == PROBE_BW_UP;
}

/* Once a round trip with a loss: 2^36 * 100, 2^20 * 100. */
static inline void adapt_lower_bounds(struct bbr3 *b, const struct tcp_sock *tp)
{
	if (is_probing(b) || !b->is_loss_in_round)
		return;
	if (b->bw_shortterm == BW_NONE)
		b->bw_shortterm = b->max_bw;
	if (b->inflight_shortterm == NONE)
		b->inflight_shortterm = min(tp->snd_cwnd, W_MAX);
	b->bw_shortterm = max(b->bw_latest, b->bw_shortterm * BETA_PERCENT / 100);
	b->inflight_shortterm = max(b->inflight_latest, b->inflight_shortterm * BETA_PERCENT / 100);
}

/* --- filters ----------------------------------------------------------------------------------- */

/* 5.5.5: the largest of this ProbeBW cycle and the one before. */
static inline void update_max_bw(struct bbr3 *b, struct path *p, const struct sample *s)
{
	if (!s->bw || (s->is_app_limited && s->bw < b->max_bw))
		return;
	p->bw_now = max(p->bw_now, s->bw);
	b->max_bw = max(p->bw_now, p->bw_before);
}

/* 5.5.6. A cycle without a sample is none. */
static inline void advance_max_bw(struct bbr3 *b, struct path *p)
{
	if (!p->bw_now)
		return;
	p->bw_before = p->bw_now;
	p->bw_now = 0;
	b->max_bw = p->bw_before;
}

/* The largest extra_acked of the last rounds, of which one begins. */
static inline void begin_extra_round(struct bbr3 *b, struct path *p)
{
	b->extra_acked = 0;
	p->extra_of_round[b->round_count & (EXTRA_ROOM - 1)] = 0;
	for (u32 i = 1; i < EXTRA_ROUNDS; i++) {
		u32 *past = &p->extra_of_round[(b->round_count - i) & (EXTRA_ROOM - 1)];

		if (!b->full_bw_reached)
			*past = 0; /* in Startup one round counts */
		b->extra_acked = max(b->extra_acked, *past);
	}
}

/* 5.5.9 */
static inline void
update_ack_aggregation(struct bbr3 *b, struct path *p, const struct tcp_sock *tp, const struct sample *s)
{
	u32 *of_round = &p->extra_of_round[b->round_count & (EXTRA_ROOM - 1)];
	u32 expected = volume_q8(b->bw, tp->tcp_mstamp - p->extra_acked_start) >> BW_BITS, extra;

	if (b->round_start)
		begin_extra_round(b, p);
	if (!s->newly_acked)
		return;
	if (p->extra_acked_delivered <= expected) {
		p->extra_acked_delivered = 0;
		p->extra_acked_start = tp->tcp_mstamp;
		expected = 0;
	}
	p->extra_acked_delivered = min((u64)p->extra_acked_delivered + s->newly_acked, 2 * W_MAX);
	extra = min(min(p->extra_acked_delivered - expected, tp->snd_cwnd), W_MAX);
	*of_round = max(*of_round, extra);
	b->extra_acked = max(b->extra_acked, extra);
}

/* 5.3.4.3, BBRUpdateMinRTT() */
static inline void update_min_rtt(struct bbr3 *b, struct path *p, const struct tcp_sock *tp, const struct sample *s)
{
	u32 now = now_ms(tp);

	p->probe_rtt_expired = now - p->probe_rtt_min_ms > 1000 * probe_rtt_interval_s;
	if (s->rtt_us >= 0 && ((u32)s->rtt_us < p->probe_rtt_min_us || p->probe_rtt_expired)) {
		p->probe_rtt_min_us = s->rtt_us;
		p->probe_rtt_min_ms = now;
	}
	if (p->probe_rtt_min_us < b->min_rtt_us || now - p->min_rtt_ms > 2000 * probe_rtt_interval_s) {
		b->min_rtt_us = p->probe_rtt_min_us;
		p->min_rtt_ms = p->probe_rtt_min_ms;
	}
}

/* --- full pipe (5.3.1.2) ------------------------------------------------------------------------ */

static inline void reset_full_bw(struct bbr3 *b, u64 bw)
{
	b->full_bw = bw;
	b->full_bw_count = 0;
	b->full_bw_now = false;
}

static inline void check_full_bw(struct bbr3 *b, const struct sample *s)
{
	if (b->full_bw_now || !b->round_start || s->is_app_limited || !s->bw)
		return;
	if (s->bw * 4 >= b->full_bw * 5) {
		reset_full_bw(b, s->bw);
		return;
	}
	if (++b->full_bw_count < FULL_BW_ROUNDS)
		return;
	b->full_bw_now = true;
	b->full_bw_reached = true;
}

/* --- loss and marks (5.5.10) ---------------------------------------------------------------------- */

static inline bool has_sack(const struct tcp_sock *tp)
{
	return read_bits(rates_of(tp), rx_opt.sack_ok);
}

/* 2^20 * 100 */
static inline bool is_inflight_too_high(const struct tcp_sock *tp, const struct sample *s)
{
	if (s->lost && !has_sack(tp))
		return true;
	return s->lost * 100 > s->tx_in_flight * loss_thresh_percent;
}

/*
 * BBRInflightAtLoss(): at what inflight did the losses cross the threshold? The packets newly lost are taken for the burst P:
 *     lost_prefix = (thresh inflight_prev - lost_prev) / (1 - thresh), between 0 and the burst; 2^20 * 100
 */
static inline u32 inflight_at_loss(const struct sample *s)
{
	u32 size = min(s->newly_lost, min(s->tx_in_flight, s->lost));
	u32 before_p = s->tx_in_flight - size, lost_before = s->lost - size;
	u32 budget = before_p * loss_thresh_percent, spent = lost_before * 100;

	if (budget <= spent)
		return before_p;
	return before_p + min((budget - spent) / (100 - loss_thresh_percent), size);
}

/* BBRNoteLoss(). ssthresh() saves what undo restores, as the episode begins there. */
static inline void note_loss(struct bbr3 *b, const struct tcp_sock *tp)
{
	if (!b->is_loss_in_round)
		b->loss_round_delivered = tp->delivered;
	b->is_loss_in_round = true;
}

#endif
