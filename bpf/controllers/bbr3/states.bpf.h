/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The states (section 5.3), and what takes BBR from one to the next. */
#ifndef BBR3_STATES_BPF_H
#define BBR3_STATES_BPF_H

/* --- states -------------------------------------------------------------------------------- */

static inline void enter(struct bbr3 *b, u8 state, u16 pacing_gain, u16 cwnd_gain)
{
	b->state = state;
	b->pacing_gain = pacing_gain;
	b->cwnd_gain = cwnd_gain;
}

static inline void enter_startup(struct bbr3 *b)
{
	enter(b, STARTUP, 277, 200);
}

static inline bool in_probe_bw(const struct bbr3 *b)
{
	return b->state >= PROBE_BW_DOWN && b->state <= PROBE_BW_UP;
}

static inline void start_cruise(struct bbr3 *b)
{
	enter(b, PROBE_BW_CRUISE, 100, 200);
}

static inline void start_down(struct bbr3 *b, struct path *p, const struct tcp_sock *tp)
{
	u32 random = bpf_get_prandom_u32();

	reset_congestion_signals(b);
	p->probe_up_acked_per_inc = NONE;
	b->rounds_since_probe_up = random & 1; /* BBRPickProbeWait(): 0 or 1 rounds, 2 to 3 s */
	p->bw_probe_wait_ms = 2000 + (random >> 1) % 1001;
	b->cycle_ms = now_ms(tp);
	b->ack_phase = ACKS_PROBE_STOPPING;
	start_round(b, tp);
	enter(b, PROBE_BW_DOWN, 90, 200);
}

static inline void start_refill(struct bbr3 *b, struct path *p, const struct tcp_sock *tp)
{
	reset_short_term(b);
	b->bw_probe_up_rounds = 0;
	p->bw_probe_up_acked = 0;
	b->prev_probe_precautionary = false;
	b->ack_phase = ACKS_REFILLING;
	start_round(b, tp);
	enter(b, PROBE_BW_REFILL, 100, 200);
}

/* BBRRaiseInflightLongtermSlope(): 1, 2, 4, ... packets more a round. */
static inline void raise_slope(struct bbr3 *b, struct path *p, const struct tcp_sock *tp)
{
	p->probe_up_acked_per_inc = max(tp->snd_cwnd >> min(b->bw_probe_up_rounds, 30), 1);
	b->bw_probe_up_rounds = min(b->bw_probe_up_rounds + 1, 30);
}

static inline void start_up(struct bbr3 *b, struct path *p, const struct tcp_sock *tp, const struct sample *s)
{
	COUNT(probes);
	b->is_bw_probe_sample = true;
	b->ack_phase = ACKS_PROBE_STARTING;
	start_round(b, tp);
	reset_full_bw(b, s->bw);
	enter(b, PROBE_BW_UP, 125, 225);
	raise_slope(b, p, tp);
}

/* --- windows that come back ------------------------------------------------------------------ */

static inline void save_cwnd(struct bbr3 *b, const struct tcp_sock *tp)
{
	if (in_recovery((const struct inet_connection_sock *)tp) || b->state == PROBE_RTT)
		b->prior_cwnd = max(b->prior_cwnd, tp->snd_cwnd);
	else
		b->prior_cwnd = tp->snd_cwnd;
}

static inline void restore_cwnd(const struct bbr3 *b, struct tcp_sock *tp)
{
	u32 cwnd = min(max(tp->snd_cwnd, b->prior_cwnd), window_limit(tp));

	if (cwnd > tp->snd_cwnd)
		tp->snd_cwnd = cwnd;
}

/* --- loss (5.5.10) ------------------------------------------------------------------------------ */

/* BBRHandleInflightTooHigh() */
static inline void
on_too_high(struct bbr3 *b, struct path *p, const struct tcp_sock *tp, const struct sample *s, u32 at)
{
	COUNT(too_high);
	b->prev_probe_too_high = true;
	b->is_bw_probe_sample = false;
	if (!s->is_app_limited) /* 2^20 * 70 */
		b->inflight_longterm = max(at, target_inflight(b, p, tp) * BETA_PERCENT / 100);
	if (b->state == PROBE_BW_UP) {
		b->undo_state = PROBE_BW_UP;
		start_down(b, p, tp);
	}
}

/* Counts the packets that this ACK shows to be lost or marked. An ACK without data leaves them to the next that has some. */
static inline void update_losses(struct bbr3 *b, struct path *p, const struct tcp_sock *tp, struct sample *s)
{
	u32 lost = rates_of(tp)->lost - p->lost;

	s->is_marked = rates_of(tp)->delivered_ce != p->delivered_ce;
	p->delivered_ce = rates_of(tp)->delivered_ce;
	if (s->is_marked) {
		COUNT(marked_acks);
		p->mark_in_round = true;
	}
	if (lost || s->is_marked)
		note_loss(b, tp);
	if (!s->has_data)
		return;
	s->newly_lost = min(lost, W_MAX);
	p->lost = rates_of(tp)->lost;
	if (s->newly_lost && b->loss_events < 255)
		b->loss_events++;
	if (!b->is_bw_probe_sample)
		return;
	if (s->newly_lost && is_inflight_too_high(tp, s))
		on_too_high(b, p, tp, s, inflight_at_loss(s));
	else if (s->is_marked)
		on_too_high(b, p, tp, s, s->tx_in_flight);
}

/* BBRUpdateCongestionSignals() */
static inline void
update_congestion_signals(struct bbr3 *b, struct path *p, const struct tcp_sock *tp, const struct sample *s)
{
	update_round(b, tp, s);
	update_max_bw(b, p, s);
	if (!b->loss_round_start)
		return;
	adapt_lower_bounds(b, tp);
	b->is_loss_in_round = false;
}

/* --- Startup and Drain (5.3.1, 5.3.2) ---------------------------------------------------------------- */

static inline bool
startup_loses(const struct bbr3 *b, const struct path *p, const struct tcp_sock *tp, const struct sample *s)
{
	bool repairs = read_bits((const struct inet_connection_sock *)tp, icsk_ca_state) == TCP_CA_Recovery;

	if (!has_sack(tp) && s->newly_lost && repairs)
		return true;
	if (!b->loss_round_start)
		return false;
	return p->mark_in_round || (repairs && b->loss_events >= FULL_LOSSES && is_inflight_too_high(tp, s));
}

/* BBRCheckStartupDone() */
static inline void check_startup(struct bbr3 *b, struct path *p, const struct tcp_sock *tp, const struct sample *s)
{
	if (!b->full_bw_reached && startup_loses(b, p, tp, s)) {
		COUNT(startup_losses);
		b->undo_state = STARTUP;
		b->full_bw_now = b->full_bw_reached = true;
		b->inflight_longterm = max(bdp_multiple(b, p, b->bw, 100), b->inflight_latest);
	}
	if (b->loss_round_start) {
		b->loss_events = 0;
		p->mark_in_round = false;
	}
	if (b->state == STARTUP && b->full_bw_reached) {
		COUNT(startups);
		p->drain_start_round = b->round_count;
		enter(b, DRAIN, 50, 200);
	}
}

static inline void check_drain(struct bbr3 *b, struct path *p, const struct tcp_sock *tp)
{
	if (b->state != DRAIN)
		return;
	if (packets_in_flight(tp) <= inflight(b, p, tp, b->bw) || b->round_count - p->drain_start_round > 3)
		start_down(b, p, tp);
}

/* --- ProbeBW (5.3.3) ----------------------------------------------------------------------------------- */

static inline bool is_time_to_probe(const struct bbr3 *b, const struct path *p, const struct tcp_sock *tp)
{
	return now_ms(tp) - b->cycle_ms > p->bw_probe_wait_ms ||
	       b->rounds_since_probe_up >= min(target_inflight(b, p, tp), 63);
}

static inline bool is_time_to_cruise(const struct bbr3 *b, const struct path *p, const struct tcp_sock *tp)
{
	u32 flight = packets_in_flight(tp);

	return flight <= inflight_with_headroom(b) && flight <= inflight(b, p, tp, b->max_bw);
}

static inline bool is_time_to_go_down(struct bbr3 *b, const struct tcp_sock *tp, const struct sample *s)
{
	if (b->prev_probe_too_high && s->prior_in_flight >= b->inflight_longterm) {
		b->prev_probe_precautionary = true;
		return true;
	}
	if (!is_cwnd_limited(tp) || tp->snd_cwnd < b->inflight_longterm)
		return b->full_bw_now;
	reset_full_bw(b, s->bw); /* inflight_longterm limits the rate */
	return false;
}

/* BBRProbeInflightLongtermUpward() */
static inline void probe_upward(struct bbr3 *b, struct path *p, const struct tcp_sock *tp, const struct sample *s)
{
	u32 delta;

	if (!is_cwnd_limited(tp) || tp->snd_cwnd < b->inflight_longterm)
		return;
	p->bw_probe_up_acked += s->newly_acked; /* below probe_up_acked_per_inc before: 2^31 + 2^20 */
	delta = p->bw_probe_up_acked / max(p->probe_up_acked_per_inc, 1);
	p->bw_probe_up_acked -= delta * p->probe_up_acked_per_inc;
	b->inflight_longterm = min((u64)b->inflight_longterm + delta, W_MAX);
	if (b->round_start)
		raise_slope(b, p, tp);
}

/* BBRAdaptLongTermModel(). True if it has gone to another state. */
static inline bool adapt_long_term(struct bbr3 *b, struct path *p, const struct tcp_sock *tp, const struct sample *s)
{
	if (b->ack_phase == ACKS_PROBE_STARTING && b->round_start)
		b->ack_phase = ACKS_PROBE_FEEDBACK;
	if (b->ack_phase == ACKS_PROBE_STOPPING && b->round_start) {
		b->is_bw_probe_sample = false;
		b->ack_phase = ACKS_INIT;
		if (in_probe_bw(b) && !s->is_app_limited)
			advance_max_bw(b, p);
		if (in_probe_bw(b) && b->prev_probe_precautionary && !b->prev_probe_too_high) {
			start_refill(b, p, tp);
			return true;
		}
	}
	if (!s->has_data || is_inflight_too_high(tp, s) || b->inflight_longterm == NONE)
		return false;
	b->inflight_longterm = max(b->inflight_longterm, s->tx_in_flight);
	if (b->state == PROBE_BW_UP)
		probe_upward(b, p, tp, s);
	return false;
}

/* BBRUpdateProbeBWCyclePhase() */
static inline void update_cycle(struct bbr3 *b, struct path *p, const struct tcp_sock *tp, const struct sample *s)
{
	if (!b->full_bw_reached || adapt_long_term(b, p, tp, s))
		return;
	switch (b->state) {
	case PROBE_BW_DOWN:
	case PROBE_BW_CRUISE:
		if (is_time_to_probe(b, p, tp))
			start_refill(b, p, tp);
		else if (b->state == PROBE_BW_DOWN && is_time_to_cruise(b, p, tp))
			start_cruise(b);
		break;
	case PROBE_BW_REFILL:
		if (b->round_start)
			start_up(b, p, tp, s);
		break;
	case PROBE_BW_UP:
		if (is_time_to_go_down(b, tp, s)) {
			b->prev_probe_too_high = false; /* no loss so far */
			start_down(b, p, tp);
		}
	}
}

/* --- ProbeRTT (5.3.4) --------------------------------------------------------------------------------- */

/* BBRProbeRTTCwnd() */
static inline u32 probe_rtt_cwnd(const struct bbr3 *b, const struct path *p)
{
	return max(bdp_multiple(b, p, b->bw, 50), MIN_PIPE);
}

/* BBRCheckProbeRTTDone(), BBRExitProbeRTT() */
static inline void check_probe_rtt_done(struct bbr3 *b, struct path *p, struct tcp_sock *tp)
{
	if (!p->probe_rtt_done_ms || (s32)(now_ms(tp) - p->probe_rtt_done_ms) <= 0)
		return;
	p->probe_rtt_min_ms = now_ms(tp);
	restore_cwnd(b, tp);
	reset_short_term(b);
	if (b->full_bw_reached) {
		start_down(b, p, tp);
		start_cruise(b);
	} else {
		enter_startup(b);
	}
}

/* MarkConnectionAppLimited(): packets that leave from now on until those in flight are delivered. */
static inline void mark_limited(struct path *p, const struct tcp_sock *tp)
{
	if (!p->limited)
		p->limited_from = tp->delivered;
	p->limited = true;
	p->limited_until = tp->delivered + packets_in_flight(tp);
}

/* Did P leave so? The last mark ends when no packet of that time can be in flight any more. */
static inline bool left_limited(struct path *p, const struct sample *s)
{
	if (!p->limited || !s->has_data)
		return false;
	if (before(p->limited_until, s->prior_delivered))
		p->limited = false;
	return p->limited && !before(s->prior_delivered, p->limited_from);
}

static inline void check_probe_rtt(struct bbr3 *b, struct path *p, struct tcp_sock *tp, const struct sample *s)
{
	if (b->state != PROBE_RTT && p->probe_rtt_expired && !b->idle_restart) {
		COUNT(probe_rtts);
		enter(b, PROBE_RTT, 100, 50);
		save_cwnd(b, tp);
		p->probe_rtt_done_ms = 0;
		b->ack_phase = ACKS_PROBE_STOPPING;
		start_round(b, tp);
	}
	if (b->state == PROBE_RTT) {
		mark_limited(p, tp);
		if (p->probe_rtt_done_ms) {
			p->probe_rtt_round_done |= b->round_start;
			if (p->probe_rtt_round_done)
				check_probe_rtt_done(b, p, tp);
		} else if (packets_in_flight(tp) <= probe_rtt_cwnd(b, p)) {
			p->probe_rtt_done_ms = max(now_ms(tp) + PROBE_RTT_MS, 1);
			p->probe_rtt_round_done = false;
			start_round(b, tp);
		}
	}
	if (s->delivered)
		b->idle_restart = false;
}

#endif
