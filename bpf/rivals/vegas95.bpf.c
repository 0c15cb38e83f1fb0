// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Vegas as published: keeps a few packets in the queue, and doubles in every other round trip only.
 *
 *   [V] L. S. Brakmo, L. L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global
 *       Internet", IEEE JSAC 13(8), 1995.
 *   [N] ns-2.35, tcp/tcp-vegas.cc (T. Kuo, after USC's NetBSD-Vegas), for what [V] leaves open.
 *
 * Once a round trip:   diff = (cwnd/RTTmin - cwnd/RTT) RTTmin = cwnd (RTT - RTTmin) / RTT      (1)
 * Slow start: a round trip that doubles cwnd and one that holds it take turns. At the end of one
 * that held:           diff > gamma:  cwnd -= cwnd/8, slow start is over                      (2)
 * Then:                diff < alpha:  cwnd += 1 over the next round trip
 *                      diff > beta:   cwnd -= 1                                                (3)
 * On loss:             cwnd = 3/4 cwnd;  after a timeout ssthresh = cwnd/2, cwnd = 2          (4)
 *
 * Linux' vegas doubles in each round trip and grows as Reno does in one with less than three RTT
 * samples; where ACKs are few that is all the time. This one decides by what samples there are, and
 * without any keeps its window. Like all of its kind it yields to loss-based flows, and takes a queue
 * in the ACK path for one in its own.
 *
 * Our choices, and our differences from [V]:
 *  - RTT in (1) is the mean over the round trip, as in [N]; [V] takes one marked segment's.
 *    cwnd in (1) is the window now, where both count what was sent meanwhile; [N] also rounds diff
 *    to whole packets, which moves each bound by half a packet.
 *  - [V] does not tell what leaving slow start costs, nor the cut on loss: (2)'s eighth and (4) are
 *    [N]'s. [N] halves if a segment is lost for the second time; we cannot tell. [V] "only decreases
 *    the congestion window if the retransmitted segment was previously sent after the last decrease":
 *    the stack does so, once a recovery.
 *  - A mark is cut as a loss; [V] is older than marks, [N] halves.
 *  - [V] does not tell the first window. [N] has 1 up to May 2001, and 2 since.
 *  - (4)'s 2 after a timeout: the stack sends one packet; with its ACK the window is 2. No rule
 *    lowers it below 2.
 *  - Vegas' own retransmission timer, and its second look at the two ACKs after a retransmission, are
 *    the stack's business.
 *  - [N] lets a round trip of one packet replace RTTmin: not here.
 *  - Growth is per acknowledged packet. Not limited by cwnd: no growth.
 */
#include "declare.bpf.h"
#include "sender.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

PARAM(u32, alpha, 1, 0, 65535, "packets", "fewer in the queue than this: grow (3)");
PARAM(u32, beta, 3, 0, 65535, "packets", "more than this: shrink (3)");
PARAM(u32, gamma, 1, 0, 65535, "packets", "more than this: slow start is over (2)");
PARAM(u32, loss_q8, 192, 0, 255, "1/256", "what a loss leaves of the window (4); 192 = 3/4");
PARAM(u32, init_cwnd, 1, 0, 1024, "packets", "first window; 0: leave the stack's");

COUNTER(flows, "connections started");
COUNTER(rounds, "round trips that ended with a decision");
COUNTER(blind_rounds,
	"round trips without an RTT sample, the one that the first ACK ends among them: the window is kept");
COUNTER(exits, "slow starts ended by (2)");
COUNTER(increases, "round trips with diff < alpha");
COUNTER(decreases, "round trips with diff > beta");
COUNTER(limited_acks, "ACKs whose growth the application's lack of data withheld");
COUNTER(losses, "reductions by (4): fast retransmit, ECN or RTO");
COUNTER(timeouts, "retransmission timeouts");
COUNTER(undos, "reductions found spurious and taken back");
COUNTER(reloads, "windows taken over from the stack: recovery, RTO, idle");

enum phase { HOLD, DOUBLE, UP }; /* what this round trip does */

/* One connection. */
struct vegas95 {
	struct sender s;
	u64 w_q20;      /* the window, packets << 20, at most 2^40; snd_cwnd is its integer part */
	u64 rtt_sum;    /* of this round's samples, us; at most 2^32 of 2^26 */
	u32 rtt_count;
	u32 rtt_mean;   /* of the round before, us; 0: no sample */
	u32 diff_q8;    /* (1) at the last decision, packets << 8, at most 2^28 */
	u8 phase;       /* enum phase */
	bool over;      /* a round has ended: decide */
	bool timed_out; /* since the window was ours */
};
STATE(struct vegas95);

static inline void begin_round(struct vegas95 *v, const struct tcp_sock *tp)
{
	round_start(&v->s, tp);
	v->rtt_sum = v->rtt_count = 0;
}

/* Take over a window that we did not set. Its first round trip holds. */
static inline void reload(struct vegas95 *v, const struct tcp_sock *tp)
{
	v->w_q20 = max(min(tp->snd_cwnd, W_MAX), v->timed_out ? W_MIN : 1) << Q20;
	v->phase = HOLD;
	v->over = v->timed_out = false;
	begin_round(v, tp);
}

/* By no more than the window. */
static inline void shrink(struct vegas95 *v, struct tcp_sock *tp, u64 by)
{
	v->w_q20 = max(v->w_q20 - by, W_MIN << Q20);
	tp->snd_ssthresh = W_MIN; /* a smaller window is no reason for slow start */
}

/* A round trip is over: what does the next one do? */
static inline void decide(struct vegas95 *v, struct tcp_sock *tp)
{
	u32 rtt = v->rtt_mean, base = min(v->s.rtt_min, rtt);
	bool held = v->phase == HOLD;
	u64 diff;

	v->phase = HOLD;
	if (!rtt) {
		COUNT(blind_rounds);
		return;
	}
	COUNT(rounds);
	/* 2^36 * 2^26 = 2^62 */
	diff = mul_div(v->w_q20 >> 4, rtt - base, rtt) << 4;
	v->diff_q8 = diff >> (Q20 - 8);
	if (v->w_q20 >> Q20 < tp->snd_ssthresh) {
		if (held && diff > (u64)gamma << Q20) {
			COUNT(exits);
			shrink(v, tp, v->w_q20 / 8);
		} else if (held) {
			v->phase = DOUBLE;
		}
	} else if (diff < (u64)alpha << Q20) {
		COUNT(increases);
		v->phase = UP;
	} else if (diff > (u64)beta << Q20) {
		COUNT(decreases);
		shrink(v, tp, 1u << Q20);
	}
}

SEC("struct_ops/vegas95_init")
void BPF_PROG(vegas95_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct vegas95 *v = inet_csk_ca(sk);

	__builtin_memset(v, 0, sizeof(*v));
	first_window(tp, init_cwnd);
	reload(v, tp);
	v->s.cwnd = tp->snd_cwnd;
	COUNT(flows);
}

SEC("struct_ops/vegas95_pkts_acked")
void BPF_PROG(vegas95_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct vegas95 *v = inet_csk_ca(sk);

	if (round_over(&v->s, tp)) { /* this ACK is the first of the next */
		v->rtt_mean = v->rtt_count ? v->rtt_sum / v->rtt_count : 0;
		v->over = true;
		begin_round(v, tp);
	}
	if (rtt_sample(&v->s, tp, sample, 0)) {
		v->rtt_sum += v->s.rtt_last;
		v->rtt_count++;
	}
}

SEC("struct_ops/vegas95_cong_avoid")
void BPF_PROG(vegas95_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct vegas95 *v = inet_csk_ca(sk);
	u32 w;

	if (cwnd_changed(&v->s, tp)) {
		COUNT(reloads);
		reload(v, tp);
	}
	v->s.ack_stamp = tp->tcp_mstamp;
	if (v->over) {
		v->over = false;
		decide(v, tp);
	}
	w = v->w_q20 >> Q20;
	if (v->phase != HOLD && !may_grow(tp))
		COUNT(limited_acks);
	else if (v->phase == DOUBLE && w < tp->snd_ssthresh)
		v->w_q20 += min(acked, tp->snd_ssthresh - w) << Q20;
	else if (v->phase == UP)
		v->w_q20 += min(reno_growth(v->w_q20, acked), 1u << Q20);
	v->w_q20 = min(v->w_q20, (u64)window_limit(tp) << Q20);
	cwnd_write(&v->s, tp, v->w_q20 >> Q20);
}

/* (4). 2^32 * 2^8 */
SEC("struct_ops/vegas95_ssthresh")
u32 BPF_PROG(vegas95_ssthresh, struct sock *sk)
{
	struct vegas95 *v = inet_csk_ca(sk);

	COUNT(losses);
	look_anew(&v->s);
	return max((u64)tcp_sk(sk)->snd_cwnd * loss_q8 >> 8, W_MIN);
}

SEC("struct_ops/vegas95_undo_cwnd")
u32 BPF_PROG(vegas95_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct vegas95 *v = inet_csk_ca(sk);

	COUNT(undos);
	v->timed_out = false;
	look_anew(&v->s);
	return undone_window(tp);
}

SEC("struct_ops/vegas95_cwnd_event")
void BPF_PROG(vegas95_cwnd_event, struct sock *sk, enum tcp_ca_event ev)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct vegas95 *v = inet_csk_ca(sk);

	if (ev == CA_EVENT_LOSS) { /* cwnd is still what it was */
		COUNT(timeouts);
		v->timed_out = true;
		tp->snd_ssthresh = half_window(tp);
	}
}

SEC("struct_ops/vegas95_min_tso_segs")
u32 BPF_PROG(vegas95_min_tso_segs, struct sock *sk)
{
	struct vegas95 *v = inet_csk_ca(sk);

	if (idle_time(&v->s, tcp_sk(sk)))
		look_anew(&v->s); /* RTTmin still holds; the open round measures nothing */
	return default_tso_segs(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops vegas95 = {
	.init = (void *)vegas95_init,
	.pkts_acked = (void *)vegas95_pkts_acked,
	.cong_avoid = (void *)vegas95_cong_avoid,
	.ssthresh = (void *)vegas95_ssthresh,
	.undo_cwnd = (void *)vegas95_undo_cwnd,
	.cwnd_event = (void *)vegas95_cwnd_event,
	.min_tso_segs = (void *)vegas95_min_tso_segs,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "vegas95",
};
