// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * BIC as Linux has it, for kernels without the module tcp_bic: the same window after each ACK.
 *
 *   [B] L. Xu, K. Harfoush, I. Rhee, "Binary Increase Congestion Control (BIC) for Fast
 *       Long-Distance Networks", IEEE INFOCOM 2004.
 *
 * Wmax is the window of the last loss, or less where that was below the one before it (fast
 * convergence). Per round trip, in congestion avoidance and above low_window, the window grows by
 *     (Wmax - w) / 4,  at most max_increment                      below Wmax: the binary search
 *     4 / smooth_part                                             less than 8 below it, or 4 above
 *     (w - Wmax) / 3,  at most max_increment                      further above: search for a new Wmax
 * and falls to beta w at a loss. Up to low_window it is Reno. The law is kept as the count of packets
 * acknowledged per step of one packet; with no Wmax yet, after the start or an RTO, at most 20.
 *
 * Linux divides the count by the packets that an ACK covers on average, though what it is compared with
 * counts packets already: with delayed ACKs it grows twice as fast as [B]. It begins at 2, and so
 * does growth when each packet is acknowledged. At low_window and below it is left out. The count stays as
 * it is for 1/32 s while the window is the same.
 *
 * Widths are the module's: windows above 2^21 packets wrap. Not the module's: it takes a
 * max_increment of 0 or an initial_ssthresh of 1, and dies or starts from it.
 */
#include "declare.bpf.h"
#include "sender.bpf.h"
#include <rivals/reno.bpf.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

PARAM(u32, beta, 819, 1, 1023, "1/1024", "what a loss leaves of the window; 819 = 0.8");
PARAM(u32, max_increment, 16, 1, 65536, "packets", "most that the window grows in a round trip");
PARAM(u32, low_window, 14, 0, 65536, "packets", "up to this window Reno");
PARAM(u32, smooth_part, 20, 1, 1024, "RTT", "round trips for the last 4 packets up to Wmax, and the first 4 beyond");
PARAM(u32, fast_convergence, 1, 0, 1, "-",
      "1: a window lost below Wmax lowers Wmax further, to leave room for new flows");
PARAM(u32, initial_ssthresh, 0, 0, 1048576, "packets", "end of the first slow start; 0: the stack's, none");

COUNTER(flows, "connections started");
COUNTER(losses, "reductions by beta: fast retransmit, ECN or RTO");
COUNTER(resets, "times that Wmax was forgotten: RTO");

#define Q4 4
#define PARTS 4        /* of the way to Wmax, one is taken in a round trip */
#define COUNT_BLIND 20 /* packets a step at most while Wmax is unknown */
#define HOLDS_A_SECOND 32

/* One connection. */
struct bpf_bic {
	struct sender s;   /* unused: the module has no rounds */
	u32 count;         /* packets acknowledged per step of the window */
	u32 count_cwnd;    /* the window and ... */
	u32 count_tick;    /* ... the time that it belongs to, ticks */
	u32 wmax;          /* packets; 0: unknown */
	u32 per_ack_q4;    /* packets an ACK covers on average, << 4; 15 at least, for 15 >> 4 is 0 */
};
STATE(struct bpf_bic);

static inline void forget(struct bpf_bic *b)
{
	__builtin_memset(b, 0, sizeof(*b));
	b->per_ack_q4 = 2 << Q4;
}

/* Before the average of ACKs; cwnd > low_window. */
static inline u32 packets_a_step(u32 cwnd, u32 wmax)
{
	u32 part, beyond, count;

	if (cwnd < wmax) {
		part = (wmax - cwnd) / PARTS;
		if (part > max_increment)
			return cwnd / max_increment;
		return part > 1 ? cwnd / part : cwnd * smooth_part / PARTS;
	}
	beyond = cwnd - wmax;
	if (beyond < PARTS)
		count = cwnd * smooth_part / PARTS;
	else if (beyond < max_increment * (PARTS - 1))
		count = cwnd * (PARTS - 1) / beyond;
	else
		count = cwnd / max_increment;
	return wmax ? count : min(count, COUNT_BLIND);
}

static inline void find_count(struct bpf_bic *b, const struct sock *sk, u32 cwnd)
{
	u32 now = ticks_now();

	if (cwnd == b->count_cwnd && (s32)(now - b->count_tick) <= (s32)(ticks_a_second(sk) / HOLDS_A_SECOND))
		return;
	b->count_cwnd = cwnd;
	b->count_tick = now;
	if (cwnd <= low_window)
		b->count = cwnd;
	else
		b->count = max((packets_a_step(cwnd, b->wmax) << Q4) / (u32)max(b->per_ack_q4, 1), 1);
}

SEC("struct_ops/bpf_bic_init")
void BPF_PROG(bpf_bic_init, struct sock *sk)
{
	forget(inet_csk_ca(sk));
	if (initial_ssthresh)
		tcp_sk(sk)->snd_ssthresh = max(initial_ssthresh, 2);
	COUNT(flows);
}

SEC("struct_ops/bpf_bic_pkts_acked")
void BPF_PROG(bpf_bic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct bpf_bic *b = inet_csk_ca(sk);

	if (read_bits(inet_csk(sk), icsk_ca_state) == TCP_CA_Open) /* 15/16 of it, 1/16 of this */
		b->per_ack_q4 += sample->pkts_acked - (b->per_ack_q4 >> Q4);
}

SEC("struct_ops/bpf_bic_cong_avoid")
void BPF_PROG(bpf_bic_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_bic *b = inet_csk_ca(sk);

	if (!may_grow(tp))
		return;
	if (tp->snd_cwnd < tp->snd_ssthresh) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	find_count(b, sk, tp->snd_cwnd);
	tcp_cong_avoid_ai(tp, b->count, acked);
}

SEC("struct_ops/bpf_bic_ssthresh")
u32 BPF_PROG(bpf_bic_ssthresh, struct sock *sk)
{
	struct bpf_bic *b = inet_csk_ca(sk);
	u32 cwnd = tcp_sk(sk)->snd_cwnd;

	COUNT(losses);
	b->wmax = cwnd < b->wmax && fast_convergence ? cwnd * (1024 + beta) / 2048 : cwnd;
	return max(cwnd <= low_window ? cwnd >> 1 : cwnd * beta / 1024, 2);
}

SEC("struct_ops/bpf_bic_set_state")
void BPF_PROG(bpf_bic_set_state, struct sock *sk, u8 new_state)
{
	if (new_state != TCP_CA_Loss)
		return;
	COUNT(resets);
	forget(inet_csk_ca(sk));
}

SEC("struct_ops/bpf_bic_undo_cwnd")
u32 BPF_PROG(bpf_bic_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops bpf_bic = {
	.init = (void *)bpf_bic_init,
	.pkts_acked = (void *)bpf_bic_pkts_acked,
	.cong_avoid = (void *)bpf_bic_cong_avoid,
	.ssthresh = (void *)bpf_bic_ssthresh,
	.set_state = (void *)bpf_bic_set_state,
	.undo_cwnd = (void *)bpf_bic_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bpf_bic",
};
