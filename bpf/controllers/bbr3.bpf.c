// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * BBRv3: a model of the path, its rate and its delay, and probes of both.
 *
 *   [D] N. Cardwell, I. Swett, J. Beshay, "BBR Congestion Control", draft-ietf-ccwg-bbr-06, July 2026, and the working group's
 *       text of 3 August 2026, which changes words only. Functions and variables have the draft's names; numbers are its sections.
 *
 * The rate is the largest delivery rate of two probing cycles, the delay the smallest RTT of 10 s. Their product is the BDP. It
 * paces at gain * rate and lets gain * BDP be in flight. The states, by pacing gain and window gain:
 *     Startup 2.77, 2 -> Drain 0.5, 2 -> ProbeBW: DOWN 0.9, 2 -> CRUISE 1, 2 -> REFILL 1, 2 -> UP 1.25, 2.25 -> DOWN ...
 *     ProbeRTT 1, 0.5, for 200 ms, if no smaller RTT was seen for 5 s
 * A probe that loses more than 2 % of a flight sets inflight_longterm to that flight. Outside of probes a round with a loss
 * leaves what was delivered, 0.7 of the former bounds at least: bw_shortterm and inflight_shortterm, until the next probe.
 *
 * Good on long paths, with losses that are not congestion, and where a short queue matters. Beside a CUBIC flow it takes two
 * thirds to three quarters of a link, whether the queue is short or long.
 *
 * Our differences from the draft, and our choices:
 *  - Volumes are in packets, as the kernel counts them, and not in bytes (2: MAY). The pacing rate counts payload (2.2).
 *  - P.tx_in_flight and P.lost (4.1.2): no kernel keeps them. The controller remembers each ACK (bbr3/sample.bpf.h).
 *  - HandleLostPacket(P) (5.5.10.2): no kernel tells which packet is lost. P is the packet sent last of those that the same ACK
 *    tells of, and the packets newly lost are one burst. Losses that a timer finds count at the next ACK.
 *  - Startup's six lost ranges (5.3.1.3) are six ACKs of a round that find losses. A round that begins without a rate is not judged (5.3.1.2).
 *  - Undo (5.5.11.1) goes back to where the recovery began, as the text says; the pseudocode saves anew in each round with a loss.
 *  - C.inflight that reaches inflight_longterm (5.3.3.6) is what was in flight before the ACK: the window lets
 *    no more be there, and after an ACK it is less.
 *  - lost_prefix (5.5.10.2) lies between none and all of P. With a measured 0 the RTT is 1 us.
 *  - MarkConnectionAppLimited() in ProbeRTT (5.3.4.3) is our own mark: before 6.6 the kernel's may not be written.
 *  - The first max_bw slot with no sample stays: a cycle without a sample is none (5.5.6). At its end max_bw falls at once.
 *  - Times are in ms: a state that begins by time may begin one ACK later (5.3.3.9, 5.3.4.3). After idle times extra_acked counts from 0 (5.4.1).
 *  - Send quantum (5.6.3): the kernel's own, which has 1 ms of the pacing rate, and more at RTTs below a millisecond.
 *  - Marks (ECN, 3.7): the draft asks for a response and gives none. A mark counts as a loss in its round; it ends a probe as
 *    too high, and Startup at the end of its round. Classic ECN repeats a mark for a round: the response is once a round.
 *  - ssthresh (RFC 5681) has no meaning: it stays as it is.
 */
#include "declare.bpf.h"
#include "rates.bpf.h"
#include "sender.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

PARAM(u32, loss_thresh_percent, 2, 1, 50, "%", "loss of a flight that ends a probe as too high (BBR.LossThresh)");
PARAM(u32, headroom_percent, 15, 0, 50, "%", "of inflight_longterm, left to others when cruising (BBR.Headroom)");
PARAM(u32, probe_rtt_interval_s, 5, 1, 3600, "s",
      "after so long without a smaller RTT a flow drains the path; the RTT is of twice that time");
PARAM(u32, budget_added, 0, 0, 1, "-",
      "1: the window has room for three bursts besides, as in version 1, where the draft has the larger; for slow ACKs");
PARAM(u32, init_cwnd, 0, 0, 1024, "packets", "first window; 0: leave the stack's");

PRESET(radio, "loss_thresh_percent=10",
       "a path of one's own with 2 % or more of random loss: 3.7 times the goodput at 3 %; a CUBIC flow beside it has less than half");

COUNTER(flows, "connections started");
COUNTER(startups, "startups ended");
COUNTER(startup_losses, "of those, by losses or marks");
COUNTER(probes, "bandwidth probes (ProbeBW_UP)");
COUNTER(too_high, "probes that lost too much, or were marked");
COUNTER(probe_rtts, "drains to measure the RTT (ProbeRTT)");
COUNTER(losses, "recoveries, RTOs and reductions of the stack that began");
COUNTER(marked_acks, "ACKs that told of a mark (ECN)");
COUNTER(timeouts, "retransmission timeouts");
COUNTER(undos, "recoveries found spurious and taken back");
COUNTER(idle_restarts, "packets that ended an idle time");

#define NONE (~0u)       /* infinity, of volumes and times */
#define BW_NONE (~0ull)  /* and of rates */
#define BW_BITS 8        /* rates are packets/s << 8 ... */
#define BW_MAX (1ull << 36) /* ... at most: 3 Tbit/s in packets of 1448 bytes */
#define SECOND 1000000u  /* us */
#define MIN_PIPE 4       /* packets: BBR.MinPipeCwnd */
#define BETA_PERCENT 70
#define FULL_BW_ROUNDS 3
#define FULL_LOSSES 6    /* BBRStartupFullLossCnt */
#define PROBE_RTT_MS 200
#define EXTRA_ROUNDS 10  /* BBR.ExtraAckedFilterLen */
#define EXTRA_ROOM 16    /* a power of two from there */

enum { STARTUP, DRAIN, PROBE_BW_DOWN, PROBE_BW_CRUISE, PROBE_BW_REFILL, PROBE_BW_UP, PROBE_RTT, NO_STATE };
enum { ACKS_INIT, ACKS_REFILLING, ACKS_PROBE_STARTING, ACKS_PROBE_FEEDBACK, ACKS_PROBE_STOPPING };

/* One connection: what decides. Rates in packets/s << 8, volumes in packets. */
struct bbr3 {
	u64 bw;                  /* min(max_bw, bw_shortterm) */
	u64 max_bw;
	u64 bw_shortterm;        /* BW_NONE: no bound */
	u64 bw_latest;           /* largest of the round */
	u64 full_bw;             /* the rate from which growth counts */
	u32 w;                   /* BBR.max_inflight */
	u32 min_rtt_us;          /* NONE: no sample yet */
	u32 inflight_longterm;   /* NONE: no bound */
	u32 inflight_shortterm;  /* NONE: no bound */
	u32 inflight_latest;     /* largest of the round */
	u32 extra_acked;
	u32 prior_cwnd;          /* before recovery or ProbeRTT */
	u32 round_count;
	u32 next_round_delivered; /* of tcp_sock.delivered: a packet that left then ends the round ... */
	u32 loss_round_delivered; /* ... and the round of losses */
	u32 cycle_ms;            /* when this cycle began */
	u16 pacing_gain;         /* % */
	u16 cwnd_gain;           /* % */
	u8 state, ack_phase, undo_state;
	u8 full_bw_count, bw_probe_up_rounds, rounds_since_probe_up;
	u8 loss_events;          /* ACKs of this round that found losses */
	bool full_bw_reached, full_bw_now, round_start, loss_round_start, is_loss_in_round, is_bw_probe_sample;
	bool prev_probe_too_high, prev_probe_precautionary, idle_restart;
};
STATE(struct bbr3);

#include "bbr3/sample.bpf.h"

/* The rest, in storage of the socket. */
struct path {
	u64 bw_now, bw_before;   /* BBR.max_bw_filter: largest of this cycle, and of the last one */
	u64 undo_bw_shortterm;
	u64 extra_acked_start;   /* us */
	u64 pacing_rate;         /* bytes/s */
	u32 initial_cwnd;        /* packets */
	u32 first_delivered;     /* tcp_sock.delivered at init ... */
	u32 lost;                /* ... and .lost and .delivered_ce of the last ACK */
	u32 delivered_ce;
	u32 extra_acked_delivered;
	u32 extra_of_round[EXTRA_ROOM];
	u32 probe_rtt_min_us, probe_rtt_min_ms, min_rtt_ms;
	u32 probe_rtt_done_ms;   /* 0: not yet down to the window of ProbeRTT */
	u32 bw_probe_wait_ms;
	u32 bw_probe_up_acked, probe_up_acked_per_inc;
	u32 undo_inflight_shortterm, undo_inflight_longterm;
	u32 drain_start_round;
	u32 limited_from, limited_until; /* packets with such a `delivered` left in ProbeRTT */
	bool limited, probe_rtt_expired, probe_rtt_round_done, mark_in_round, has_rtt;
	struct sample sample; /* not on the stack, where the verifier would follow each of its values */
	struct memories memories;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct path);
} paths SEC(".maps");

#include "bbr3/model.bpf.h"
#include "bbr3/states.bpf.h"

/* --- what the stack is told (5.6) ------------------------------------------------------------------------ */

/* gain in %, a margin of 1 % with it: 2^52 >> 8 = 2^44 bytes/s, * 277 * 99 < 2^59. */
static inline u64 rate_of(const struct tcp_sock *tp, u64 bw, u32 percent_of_percent)
{
	return mul_div(min(bw, BW_MAX) * min(tp->mss_cache, 65535) >> BW_BITS, percent_of_percent, 10000);
}

static inline void set_pacing_rate(struct sock *sk, const struct bbr3 *b, struct path *p, u32 gain)
{
	u64 rate = rate_of(tcp_sk(sk), b->bw, gain * 99);

	if (!b->full_bw_reached && rate <= p->pacing_rate)
		return;
	p->pacing_rate = rate;
	pace(sk, rate);
}

/* BBRInitPacingRate(), and again at the first RTT: the handshake may have had none. 2^20 * 2^28 */
static inline void init_pacing_rate(struct sock *sk, struct path *p)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 srtt = tp->srtt_us >> 3;

	p->has_rtt = srtt;
	p->pacing_rate = rate_of(tp, mul_div(p->initial_cwnd, (u64)SECOND << BW_BITS, srtt ? srtt : 1000), 277 * 100);
	pace(sk, p->pacing_rate);
}

/* BBRBoundCwndForModel() */
static inline u32 cap_of_model(const struct bbr3 *b)
{
	u32 cap = NONE;

	if (b->state == PROBE_RTT || b->state == PROBE_BW_CRUISE)
		cap = inflight_with_headroom(b);
	else if (in_probe_bw(b))
		cap = b->inflight_longterm;
	return max(min(cap, b->inflight_shortterm), MIN_PIPE);
}

/* BBRSetCwnd() */
static inline void set_cwnd(struct bbr3 *b, const struct path *p, struct tcp_sock *tp, const struct sample *s)
{
	u64 cwnd = tp->snd_cwnd;

	b->w = min(quantization_budget(b, p, tp, bdp_multiple(b, p, b->bw, b->cwnd_gain) + b->extra_acked), W_MAX);
	if (b->full_bw_reached)
		cwnd = min(cwnd + s->newly_acked, b->w);
	else if (cwnd < b->w || tp->delivered - p->first_delivered < p->initial_cwnd)
		cwnd += s->newly_acked;
	cwnd = max(cwnd, MIN_PIPE);
	if (b->state == PROBE_RTT)
		cwnd = min(cwnd, probe_rtt_cwnd(b, p));
	cwnd = min(min(cwnd, cap_of_model(b)), window_limit(tp));
	if (cwnd != tp->snd_cwnd)
		tp->snd_cwnd = max(cwnd, 1);
}

/* --- hooks -------------------------------------------------------------------------------------------------- */

/* Sets what does not begin as 0. */
static inline void init_path(struct sock *sk, struct bbr3 *b, struct path *p)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	p->initial_cwnd = stack_window(tp);
	p->first_delivered = tp->delivered;
	p->lost = rates_of(tp)->lost;
	p->delivered_ce = rates_of(tp)->delivered_ce;
	p->extra_acked_start = tp->tcp_mstamp;
	p->probe_rtt_min_us = b->min_rtt_us;
	p->probe_rtt_min_ms = p->min_rtt_ms = now_ms(tp);
	p->probe_up_acked_per_inc = NONE;
	remember(&p->memories, tp);
	init_pacing_rate(sk, p);
}

/* The storage of a connection; NULL: no memory for it so far. */
static inline struct path *path_of(struct sock *sk, struct bbr3 *b)
{
	struct path *p = bpf_sk_storage_get(&paths, sk, NULL, 0);

	if (p)
		return p;
	p = bpf_sk_storage_get(&paths, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (p)
		init_path(sk, b, p);
	return p;
}

SEC("struct_ops/bbr3_init")
void BPF_PROG(bbr3_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *b = inet_csk_ca(sk);

	__builtin_memset(b, 0, sizeof(*b));
	first_window(tp, init_cwnd);
	b->min_rtt_us = tp->srtt_us >> 3 ? min(tp->srtt_us >> 3, RTT_MAX_US) : NONE;
	b->inflight_longterm = NONE;
	b->undo_state = NO_STATE;
	b->w = b->prior_cwnd = stack_window(tp);
	b->next_round_delivered = b->loss_round_delivered = tp->delivered;
	reset_short_term(b);
	enter_startup(b);
	bpf_sk_storage_delete(&paths, sk); /* of an earlier time with this controller */
	path_of(sk, b);
	COUNT(flows);
}

SEC("struct_ops/bbr3_cong_control")
void BPF_PROG(bbr3_cong_control, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *b = inet_csk_ca(sk);
	struct path *p = b->w ? path_of(sk, b) : NULL;
	struct sample *s;

	if (!p) /* before init: the ACK of our SYN, where a route names the controller; or no memory: the window rests */
		return;
	s = &p->sample;
	take_sample(s, &p->memories, tp, rate_sample_arg(ctx));
	s->is_app_limited |= left_limited(p, s);
	if (!p->has_rtt && tp->srtt_us)
		init_pacing_rate(sk, p);
	update_losses(b, p, tp, s);
	update_latest_signals(b, tp, s);
	update_congestion_signals(b, p, tp, s);
	update_ack_aggregation(b, p, tp, s);
	check_full_bw(b, s);
	check_startup(b, p, tp, s);
	check_drain(b, p, tp);
	update_cycle(b, p, tp, s);
	update_min_rtt(b, p, tp, s);
	check_probe_rtt(b, p, tp, s);
	advance_latest_signals(b, s);
	b->bw = min(b->max_bw, b->bw_shortterm);
	set_pacing_rate(sk, b, p, b->pacing_gain);
	set_cwnd(b, p, tp, s);
	remember(&p->memories, tp);
}

/* A recovery, an RTO or a reduction for a mark begins: BBRSaveStateUponLoss(). */
SEC("struct_ops/bbr3_ssthresh")
u32 BPF_PROG(bbr3_ssthresh, struct sock *sk)
{
	struct path *p = bpf_sk_storage_get(&paths, sk, NULL, 0);
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *b = inet_csk_ca(sk);

	COUNT(losses);
	save_cwnd(b, tp);
	b->undo_state = NO_STATE;
	if (p) {
		p->undo_bw_shortterm = b->bw_shortterm;
		p->undo_inflight_shortterm = b->inflight_shortterm;
		p->undo_inflight_longterm = b->inflight_longterm;
	}
	return max(tp->snd_ssthresh, W_MIN);
}

/* BBRHandleSpuriousLossDetection() */
SEC("struct_ops/bbr3_undo_cwnd")
u32 BPF_PROG(bbr3_undo_cwnd, struct sock *sk)
{
	struct path *p = bpf_sk_storage_get(&paths, sk, NULL, 0);
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *b = inet_csk_ca(sk);

	COUNT(undos);
	b->is_loss_in_round = false;
	reset_full_bw(b, 0);
	if (p) {
		b->bw_shortterm = max(b->bw_shortterm, p->undo_bw_shortterm);
		b->inflight_shortterm = max(b->inflight_shortterm, p->undo_inflight_shortterm);
		b->inflight_longterm = max(b->inflight_longterm, p->undo_inflight_longterm);
		if (b->undo_state == STARTUP && b->state != STARTUP) {
			b->full_bw_reached = false;
			if (b->state != PROBE_RTT)
				enter_startup(b);
		} else if (b->undo_state == PROBE_BW_UP && b->state != PROBE_BW_UP && b->state != PROBE_RTT) {
			start_refill(b, p, tp);
		}
	}
	b->undo_state = NO_STATE;
	return max(undone_window(tp), min(b->prior_cwnd, window_limit(tp)));
}

SEC("struct_ops/bbr3_set_state")
void BPF_PROG(bbr3_set_state, struct sock *sk, u8 state)
{
	struct bbr3 *b = inet_csk_ca(sk);

	if (state == TCP_CA_Loss)
		COUNT(timeouts);
	else if (state < TCP_CA_CWR && in_recovery(inet_csk(sk)))
		restore_cwnd(b, tcp_sk(sk));
}

/* BBRHandleRestartFromIdle() (5.4.1). It comes before packets leave, and also if the peer's window holds them back. */
SEC("struct_ops/bbr3_min_tso_segs")
u32 BPF_PROG(bbr3_min_tso_segs, struct sock *sk)
{
	struct path *p = bpf_sk_storage_get(&paths, sk, NULL, 0);
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *b = inet_csk_ca(sk);

	if (p && b->w && !tp->packets_out && (rates_of(tp)->app_limited || p->limited) &&
	    tp->delivered != p->first_delivered) {
		if (!b->idle_restart)
			COUNT(idle_restarts);
		b->idle_restart = true;
		p->extra_acked_start = tp->tcp_mstamp;
		p->extra_acked_delivered = 0;
		if (in_probe_bw(b))
			set_pacing_rate(sk, b, p, 100);
		else if (b->state == PROBE_RTT)
			check_probe_rtt_done(b, p, tp);
	}
	return default_tso_segs(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops bbr3 = {
	.init = (void *)bbr3_init,
	.cong_control = (void *)bbr3_cong_control,
	.ssthresh = (void *)bbr3_ssthresh,
	.undo_cwnd = (void *)bbr3_undo_cwnd,
	.set_state = (void *)bbr3_set_state,
	.min_tso_segs = (void *)bbr3_min_tso_segs,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bbr3",
};
