// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * CUBIC as RFC 9438 has it, with the slow start of choice: Linux's own has HyStart, and takes no other.
 *
 *   [C] L. Xu, S. Ha, I. Rhee, V. Goel, L. Eggert, "CUBIC for Fast and Long-Distance Networks", RFC 9438, 2023.
 *
 * Time since the epoch began, t; window where it would be without the last loss, W_max:
 *     W_cubic(t) = C (t - K)^3 + W_max,  C = 0.4 packets/s^3                            (1)
 *     K = cubic root of ((W_max - cwnd_epoch) / C)                                      (2)
 * target = W_cubic(t + RTT), at least cwnd and at most 1.5 cwnd ([C] 4.2). Per ACK:
 *     W_est += alpha segments_acked / cwnd                                              (4)
 *     W_cubic(t) < W_est:  cwnd = W_est                                                 ([C] 4.3)
 *     else:                cwnd += (target - cwnd) / cwnd for each packet               ([C] 4.4, 4.5)
 * alpha is 3 (1 - beta) / (1 + beta), and 1 from the window before the loss on. A loss leaves beta, 0.7 ([C] 4.6);
 * below the last W_max, W_max is (1 + beta) / 2 of the window (fast convergence, 4.7).
 *
 * Our choices, and our differences from it:
 *  - A loss leaves beta of cwnd, not of what is in flight: growth ends where the application limits.
 *  - t counts from the first ACK of congestion avoidance, in ms. No growth, no time ([C] 5.8): after an ACK that the window
 *    did not limit a new epoch begins, and a gap of more than an RTT is no part of t.
 *  - RTT is the smoothed one.
 *  - An undo gives W_max and the epoch back ([C] 4.9.2).
 */
#include "declare.bpf.h"
#include "sender.bpf.h"
#include "slowstart.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

PARAM(u32, fast_convergence, 1, 0, 1, "-",
      "1: a window lost below W_max lowers W_max further, to leave room for new flows");

COUNTER(flows, "connections started");
COUNTER(friendly_acks, "ACKs after which the window is W_est, Reno's");
COUNTER(limited_acks, "ACKs whose growth the application's lack of data withheld");
COUNTER(losses, "reductions: fast retransmit, ECN or RTO");
COUNTER(timeouts, "retransmission timeouts");
COUNTER(undos, "reductions found spurious and taken back");
COUNTER(reloads, "windows taken over from the stack: recovery, RTO, idle");

#define BETA 70 /* % */
#define CUBE_PARTS 2384 /* ms^3 in a packet << 20: 10^9 / (0.4 * 2^20), too small by 8 in 10^5 */
#define MS_MAX (1u << 18) /* 262 s: its cube is 2^54, which is 2^43 in packets << 20 */

/* An undo gives it back. */
struct epoch {
	u64 wmax_q20;  /* W_max, packets << 20; 0: no loss yet */
	u64 prior_q20; /* cwnd_prior: from here on alpha is 1 */
	u64 est_q20;   /* W_est */
	u64 stamp;     /* when the epoch began, us; 0: with the next ACK */
};

/* One connection. */
struct cubic9438 {
	struct sender s;
	u64 w_q20;     /* the window, packets << 20, at most 2^40; snd_cwnd is its integer part */
	struct epoch now;
	u64 saved_wmax_q20;
	u32 k_ms;      /* K of (2) */
};
STATE(struct cubic9438);

/* Cubic root of n < 2^54, rounded down, bit by bit. */
static inline u32 cubic_root(u64 n)
{
	u64 x = 0;

	for (int bit = 17; bit >= 0; bit--) {
		u64 y = x | 1ull << bit;

		if (y * y * y <= n)
			x = y;
	}
	return x;
}

/* (1), packets << 20; t in ms. Above 0, for the window of an epoch is. */
static inline u64 cubic(const struct cubic9438 *c, u64 t)
{
	u64 far = min(t > c->k_ms ? t - c->k_ms : c->k_ms - t, MS_MAX), part = far * far * far / CUBE_PARTS;

	if (t >= c->k_ms)
		return c->now.wmax_q20 + part; /* 2^40 + 2^43 */
	return c->now.wmax_q20 > part ? c->now.wmax_q20 - part : 0;
}

/* (2); cwnd_epoch is the window of this ACK. After a slow start without a loss there is no way back to a W_max. */
static inline void begin_epoch(struct cubic9438 *c, const struct tcp_sock *tp)
{
	c->now.stamp = tp->tcp_mstamp;
	c->now.est_q20 = c->w_q20;
	if (c->now.wmax_q20 <= c->w_q20)
		c->now.wmax_q20 = c->w_q20;
	/* 2^40 * 2384 < 2^52 */
	c->k_ms = cubic_root((c->now.wmax_q20 - c->w_q20) * CUBE_PARTS);
}

static inline void avoid_congestion(struct cubic9438 *c, const struct tcp_sock *tp, u32 acked)
{
	u64 w = c->w_q20, reno = reno_growth(w, acked), t, target;

	if (!c->now.stamp)
		begin_epoch(c, tp);
	t = (tp->tcp_mstamp - c->now.stamp) / 1000;
	/* (4): 3 (1 - 0.7) / (1 + 0.7) = 9/17; 2^40 * 9 */
	c->now.est_q20 += c->now.est_q20 < c->now.prior_q20 ? reno * 9 / 17 : reno;
	c->now.est_q20 = min(c->now.est_q20, (u64)W_MAX << Q20);
	if (cubic(c, t) < c->now.est_q20 && c->now.est_q20 >= w) {
		COUNT(friendly_acks);
		c->w_q20 = c->now.est_q20;
		return;
	}
	target = min(max(cubic(c, t + srtt_ms(tp)), w), w + w / 2);
	/* 2^39 * 2^20 = 2^59; never more than the whole way */
	c->w_q20 += min(mul_div(target - w, min(acked, W_MAX), w >> Q20), target - w);
}

SEC("struct_ops/cubic9438_init")
void BPF_PROG(cubic9438_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic9438 *c = inet_csk_ca(sk);

	__builtin_memset(c, 0, sizeof(*c));
	c->w_q20 = stack_window(tp) << Q20;
	c->s.cwnd = tp->snd_cwnd;
	start_init(sk, slow_start);
	COUNT(flows);
}

SEC("struct_ops/cubic9438_pkts_acked")
void BPF_PROG(cubic9438_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic9438 *c = inet_csk_ca(sk);
	u64 last = c->s.ack_stamp;

	if (idle_ended(&c->s, tp, sample)) {
		look_anew(&c->s);
		if (c->now.stamp) /* the gap is no time of growth */
			c->now.stamp += tp->tcp_mstamp - last;
	}
	if (rtt_sample(&c->s, tp, sample, 0))
		start_sample(sk, c->s.rtt_last, slow_start);
}

SEC("struct_ops/cubic9438_cong_avoid")
void BPF_PROG(cubic9438_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic9438 *c = inet_csk_ca(sk);
	u32 w, n;

	if (cwnd_changed(&c->s, tp)) {
		COUNT(reloads);
		c->w_q20 = stack_window(tp) << Q20;
	}
	w = c->w_q20 >> Q20;
	if (is_first_start(tp, slow_start)) {
		c->w_q20 = start_window(sk, c->w_q20, acked, may_grow(tp));
		acked = 0;
	} else if (!may_grow(tp)) {
		COUNT(limited_acks);
		c->now.stamp = 0;
		acked = 0;
	} else if (w < tp->snd_ssthresh) {
		n = min(acked, min(tp->snd_ssthresh, W_MAX) - min(w, W_MAX));
		c->w_q20 += (u64)n << Q20;
		acked -= n;
	}
	if (acked && c->w_q20 >> Q20 >= min(tp->snd_ssthresh, W_MAX))
		avoid_congestion(c, tp, acked);
	c->w_q20 = min(c->w_q20, (u64)window_limit(tp) << Q20);
	cwnd_write(&c->s, tp, c->w_q20 >> Q20);
}

/* [C] 4.6 and 4.7 */
SEC("struct_ops/cubic9438_ssthresh")
u32 BPF_PROG(cubic9438_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic9438 *c = inet_csk_ca(sk);
	u64 w = stack_window(tp) << Q20;

	COUNT(losses);
	c->saved_wmax_q20 = c->now.wmax_q20;
	/* 2^40 * 170 */
	c->now.wmax_q20 = fast_convergence && w < c->now.wmax_q20 ? mul_div(w, 100 + BETA, 200) : w;
	c->now.prior_q20 = w;
	c->now.stamp = 0;
	look_anew(&c->s);
	return max(mul_div(tp->snd_cwnd, BETA, 100), W_MIN);
}

SEC("struct_ops/cubic9438_undo_cwnd")
u32 BPF_PROG(cubic9438_undo_cwnd, struct sock *sk)
{
	struct cubic9438 *c = inet_csk_ca(sk);

	COUNT(undos);
	c->now.wmax_q20 = c->saved_wmax_q20;
	c->now.stamp = 0;
	look_anew(&c->s);
	return undone_window(tcp_sk(sk));
}

SEC("struct_ops/cubic9438_cwnd_event")
void BPF_PROG(cubic9438_cwnd_event, struct sock *sk, enum tcp_ca_event ev)
{
	struct cubic9438 *c = inet_csk_ca(sk);

	if (ev != CA_EVENT_LOSS)
		return;
	COUNT(timeouts);
	c->now.wmax_q20 = 0; /* [C] 4.8: K is 0, and the window of the next epoch its W_max */
}

SEC(".struct_ops")
struct tcp_congestion_ops cubic9438 = {
	.init = (void *)cubic9438_init,
	.pkts_acked = (void *)cubic9438_pkts_acked,
	.cong_avoid = (void *)cubic9438_cong_avoid,
	.ssthresh = (void *)cubic9438_ssthresh,
	.undo_cwnd = (void *)cubic9438_undo_cwnd,
	.cwnd_event = (void *)cubic9438_cwnd_event,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "cubic9438",
};
