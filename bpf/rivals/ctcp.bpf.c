// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Compound TCP: Reno, and a second window beside it that grows while the queue is short.
 *
 *   [C] K. Tan, J. Song, Q. Zhang, M. Sridharan, "A Compound TCP Approach for High-speed and Long
 *       Distance Networks", IEEE INFOCOM 2006.
 *   [D] draft-sridharan-tcpm-ctcp-02, 2008, of the same authors.
 *
 * The window:              win = cwnd + dwnd                                              (1)
 * Per acknowledged packet: cwnd += 1/win                                                  (2)
 * Once a round trip, with diff = win (1 - RTTmin/RTT), the packets of its own in the queue:
 *     diff < gamma:   dwnd += max(win^0.75 / 8 - 1, 0)                                    (3)
 *     diff >= gamma:  dwnd = max(dwnd - diff, 0)                                          (4)
 * On loss:            cwnd = cwnd/2,  dwnd = max(win/2 - cwnd/2, 0)                       (5)
 * Slow start is Reno's, with dwnd = 0; so it begins again after a timeout. Up to 38 packets CTCP is
 * Reno.
 *
 * Good on long fat paths whose queue holds more than gamma packets a flow; with less (3) goes on to
 * the loss. Never less than Reno.
 *
 * Our choices where the sources disagree or are silent, and our differences from them:
 *  - [D] has dwnd^0.75 in (3), which never leaves 0, and (1 - 1/2) dwnd in (5), which is the same as
 *    [C]'s for the cut of one half. [C]'s are taken; so are they in public ports for Linux and ns-3.
 *  - RTT is the smoothed one, as [D] says. It asks to measure RTTmin anew after a timeout: so done,
 *    but for a timeout found spurious.
 *  - "Up to 38": [D] calls this the same response function as Reno's. Only (3) is off there. To set
 *    dwnd to 0 would turn the cut of a window of 60 to 30 into one to 15, and Reno does not do that.
 *  - gamma stays what it is, as in [C] and in the papers that compare with CTCP. [D] begins with 30 and
 *    tunes it at each loss, toward 3/4 of what Reno's share of the window has in the queue, from 5 to 30.
 *  - Not limited by cwnd: no growth, and none of dwnd in a round trip in which that happened. No RTT
 *    sample yet: Reno.
 */
#include "declare.bpf.h"
#include "sender.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

PARAM(u32, alpha_q8, 32, 0, 256, "1/256", "share of win^0.75 that (3) adds; 32 = 1/8");
PARAM(u32, zeta, 1, 0, 16, "diff", "so many diff (4) takes away");
PARAM(u32, gamma, 30, 1, 65535, "packets", "in the queue: from here on dwnd retreats (4)");
PARAM(u32, low_window, 38, 0, 65535, "packets", "dwnd grows in larger windows only");
PARAM(u32, init_cwnd, 0, 0, 1024, "packets", "first window; 0: leave the stack's");

COUNTER(flows, "connections started");
COUNTER(increases, "round trips with diff < gamma in which dwnd could grow (3)");
COUNTER(retreats, "round trips with diff >= gamma (4)");
COUNTER(limited_acks, "ACKs whose growth the application's lack of data withheld");
COUNTER(losses, "reductions by (5): fast retransmit, ECN or RTO");
COUNTER(timeouts, "retransmission timeouts");
COUNTER(undos, "reductions found spurious and taken back");
COUNTER(reloads, "windows taken over from the stack: recovery, RTO, idle");

/* One connection. Windows in packets << 20 ("q20"); their sum at most 2^40. */
struct ctcp {
	struct sender s;
	u64 cwnd_q20;    /* Reno's window, not snd_cwnd: that is the integer part of both together */
	u64 dwnd_q20;    /* the delay window */
	u64 dwnd_saved;  /* before the last reduction, for undo */
	u32 base_saved;  /* RTTmin before the last timeout, for undo; 0: none */
	u32 diff_q8;     /* at the last round's end, packets << 8, at most 2^28 */
	bool limited;    /* the application limited this round */
};
STATE(struct ctcp);

static inline u64 sum(const struct ctcp *c)
{
	return c->cwnd_q20 + c->dwnd_q20;
}

static inline void begin_round(struct ctcp *c, const struct tcp_sock *tp)
{
	round_start(&c->s, tp);
	c->limited = false;
}

/* Take over a window that we did not set: what is not dwnd's is cwnd's, two packets at least. */
static inline void reload(struct ctcp *c, const struct tcp_sock *tp)
{
	u64 w = stack_window(tp) << Q20;

	if (w >> Q20 < tp->snd_ssthresh)
		c->dwnd_q20 = 0;
	c->dwnd_q20 = min(c->dwnd_q20, w - min(w, W_MIN << Q20));
	c->cwnd_q20 = w - c->dwnd_q20;
	begin_round(c, tp);
}

/* w^0.75, w from 1 to W_MAX packets: packets << 15, at most 2^30. */
static inline u64 power_3_4(u64 w)
{
	u64 root_q20 = square_root(w << (2 * Q20)); /* 2^60, its root 2^30 */

	return square_root(w * root_q20 << 10); /* w^1.5 << 30: 2^60 */
}

/* (3) and (4), at the end of a round. */
static inline void update_dwnd(struct ctcp *c, const struct tcp_sock *tp, bool grow)
{
	u32 rtt = min(tp->srtt_us >> 3, RTT_MAX_US), base = min(c->s.rtt_min, rtt);
	u64 diff, up;

	if (!base)
		return;
	/* 2^36 * 2^26 = 2^62 */
	diff = mul_div(sum(c) >> 4, rtt - base, rtt) << 4;
	c->diff_q8 = diff >> (Q20 - 8);
	if (diff >= (u64)gamma << Q20) {
		COUNT(retreats);
		c->dwnd_q20 -= min(zeta * diff, c->dwnd_q20); /* 16 * 2^40 */
	} else if (grow && sum(c) > (u64)low_window << Q20) {
		COUNT(increases);
		/* 2^30 * 2^8, << 5 and >> 8 to q20 */
		up = power_3_4(sum(c) >> Q20) * alpha_q8 >> 3;
		c->dwnd_q20 += up - min(up, 1u << Q20);
	}
}

SEC("struct_ops/ctcp_init")
void BPF_PROG(ctcp_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ctcp *c = inet_csk_ca(sk);

	__builtin_memset(c, 0, sizeof(*c));
	first_window(tp, init_cwnd);
	reload(c, tp);
	c->s.cwnd = tp->snd_cwnd;
	COUNT(flows);
}

SEC("struct_ops/ctcp_pkts_acked")
void BPF_PROG(ctcp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct ctcp *c = inet_csk_ca(sk);

	if (idle_ended(&c->s, tcp_sk(sk), sample))
		look_anew(&c->s); /* RTTmin still holds; the open round measures nothing */
	rtt_sample(&c->s, tcp_sk(sk), sample, 0);
}

SEC("struct_ops/ctcp_cong_avoid")
void BPF_PROG(ctcp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ctcp *c = inet_csk_ca(sk);
	u64 limit = (u64)window_limit(tp) << Q20;
	bool grow = may_grow(tp);
	u32 w, n;

	if (cwnd_changed(&c->s, tp)) {
		COUNT(reloads);
		reload(c, tp);
	}
	if (!grow) {
		COUNT(limited_acks);
		c->limited = true;
	}
	w = sum(c) >> Q20;
	if (round_over(&c->s, tp)) {
		if (w >= tp->snd_ssthresh) {
			update_dwnd(c, tp, !c->limited);
			w = sum(c) >> Q20;
			if (w < tp->snd_ssthresh) /* a retreat is no reason for slow start */
				tp->snd_ssthresh = max(w, W_MIN);
		}
		begin_round(c, tp);
	}
	if (grow && w < tp->snd_ssthresh) {
		n = min(acked, tp->snd_ssthresh - w);
		c->cwnd_q20 += (u64)n << Q20;
		acked -= n;
	}
	if (grow && acked && sum(c) >> Q20 >= tp->snd_ssthresh)
		c->cwnd_q20 += reno_growth(sum(c), acked);
	c->cwnd_q20 = min(c->cwnd_q20, limit);
	c->dwnd_q20 = min(c->dwnd_q20, limit - c->cwnd_q20);
	cwnd_write(&c->s, tp, sum(c) >> Q20);
}

/* (5). The same after a timeout, but for the event that follows. */
SEC("struct_ops/ctcp_ssthresh")
u32 BPF_PROG(ctcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ctcp *c = inet_csk_ca(sk);

	COUNT(losses);
	c->dwnd_saved = c->dwnd_q20;
	c->base_saved = 0;
	c->dwnd_q20 /= 2; /* as win is cwnd + dwnd */
	look_anew(&c->s);
	return half_window(tp);
}

SEC("struct_ops/ctcp_undo_cwnd")
u32 BPF_PROG(ctcp_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ctcp *c = inet_csk_ca(sk);

	COUNT(undos);
	c->dwnd_q20 = c->dwnd_saved;
	if (c->base_saved)
		c->s.rtt_min = c->s.rtt_min ? min(c->s.rtt_min, c->base_saved) : c->base_saved;
	look_anew(&c->s);
	return undone_window(tp);
}

SEC("struct_ops/ctcp_cwnd_event")
void BPF_PROG(ctcp_cwnd_event, struct sock *sk, enum tcp_ca_event ev)
{
	struct ctcp *c = inet_csk_ca(sk);

	if (ev == CA_EVENT_LOSS) {
		COUNT(timeouts);
		c->dwnd_q20 = 0;
		c->base_saved = c->s.rtt_min;
		c->s.rtt_min = 0;
	}
}

SEC(".struct_ops")
struct tcp_congestion_ops ctcp = {
	.init = (void *)ctcp_init,
	.pkts_acked = (void *)ctcp_pkts_acked,
	.cong_avoid = (void *)ctcp_cong_avoid,
	.ssthresh = (void *)ctcp_ssthresh,
	.undo_cwnd = (void *)ctcp_undo_cwnd,
	.cwnd_event = (void *)ctcp_cwnd_event,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "ctcp",
};
