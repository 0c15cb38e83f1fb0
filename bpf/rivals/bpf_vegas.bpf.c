// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Vegas as Linux has it, for kernels without the module tcp_vegas: the same window after each ACK.
 *
 *   [V] L. Brakmo, L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global
 *       Internet", IEEE JSAC 13(8), 1995.
 *
 * Once a round trip, with the round's smallest RTT and BaseRTT, the smallest of all:
 *     Diff = cwnd (RTT - BaseRTT) / BaseRTT          packets in queues                    (1)
 *     in slow start:  Diff > gamma:  cwnd = cwnd BaseRTT / RTT + 1, at most cwnd, and no more slow start
 *     beyond:         Diff > beta:   cwnd - 1        Diff < alpha:  cwnd + 1              (2)
 *
 * Linux is not [V]: slow start doubles each round trip, not each other one; a round of less than
 * three RTT samples is Reno's; so is growth from the first duplicate ACK on until the end of a
 * recovery; a loss is Reno's half. Diff of [V] counts against the RTT, (1) against BaseRTT. BaseRTT is
 * forgotten whenever a packet leaves into an empty network, so at the end of each idle time and
 * at an RTO's retransmission. The window of (2) grows whether or not it was used.
 *
 * Widths are the module's too: (1) wraps where the product exceeds 2^32, at 1000 packets after 4.3 s
 * in queues. Two things are not the module's: under a clamp of one packet (2) stays there, and no ssthresh is 1.
 */
#include "declare.bpf.h"
#include "sender.bpf.h"
#include <rivals/reno.bpf.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

PARAM(u32, alpha, 2, 0, 65536, "packets", "fewer than this in queues: grow");
PARAM(u32, beta, 4, 0, 65536, "packets", "more than this in queues: shrink");
PARAM(u32, gamma, 1, 0, 65536, "packets", "more than this in queues: end of slow start");

COUNTER(flows, "connections started");
COUNTER(rounds, "round trips judged by (1)");
COUNTER(reno_rounds, "round trips with too few RTT samples for it");
COUNTER(raises, "of the rounds judged: one packet more");
COUNTER(cuts, "of the rounds judged: one packet less");
COUNTER(slow_start_exits, "of the rounds judged: end of slow start");
COUNTER(restarts, "times that BaseRTT was forgotten: a packet into an empty network, idle");

#define NO_RTT 0x7fffffffu /* us; larger than any sample */
#define MIN_SAMPLES 3      /* fewer might all be of delayed ACKs */

/* One connection. RTTs in us, plus 1: never 0. */
struct bpf_vegas {
	struct sender s; /* of it only round_end and rtt_min, which is BaseRTT */
	u32 round_rtt;   /* smallest of this round */
	u32 samples;     /* of this round */
	bool on;         /* not while the stack repairs or reorders: then Reno */
};
STATE(struct bpf_vegas);

static inline void begin_round(struct bpf_vegas *v, const struct tcp_sock *tp)
{
	v->s.round_end = tp->snd_nxt;
	v->round_rtt = NO_RTT;
	v->samples = 0;
}

static inline void start_over(struct bpf_vegas *v, const struct tcp_sock *tp)
{
	v->s.rtt_min = NO_RTT;
	v->on = true;
	begin_round(v, tp);
}

/* The law, from a round with samples: so BaseRTT <= round_rtt < NO_RTT. */
static inline void judge(const struct bpf_vegas *v, struct tcp_sock *tp, u32 acked)
{
	u32 cwnd = tp->snd_cwnd, rtt = v->round_rtt, base = v->s.rtt_min;
	u32 diff = cwnd * (rtt - base) / base;
	bool slow_start = cwnd < tp->snd_ssthresh;

	COUNT(rounds);
	if (slow_start && diff > gamma) {
		COUNT(slow_start_exits);
		/* 2^32 * 2^31 */
		cwnd = min(cwnd, mul_div(cwnd, base, rtt) + 1);
		tp->snd_ssthresh = min(tp->snd_ssthresh, cwnd);
	} else if (slow_start) {
		tcp_slow_start(tp, acked);
		cwnd = tp->snd_cwnd;
	} else if (diff > beta) {
		COUNT(cuts);
		cwnd--;
		tp->snd_ssthresh = min(tp->snd_ssthresh, cwnd);
	} else if (diff < alpha) {
		COUNT(raises);
		cwnd++;
	}
	cwnd = min(max(cwnd, 2), tp->snd_cwnd_clamp);
	tp->snd_cwnd = cwnd;
	/* Not far below the window: slow start is over for good. */
	tp->snd_ssthresh = max(max(tp->snd_ssthresh, (cwnd >> 1) + (cwnd >> 2)), 2);
}

SEC("struct_ops/bpf_vegas_init")
void BPF_PROG(bpf_vegas_init, struct sock *sk)
{
	struct bpf_vegas *v = inet_csk_ca(sk);

	__builtin_memset(v, 0, sizeof(*v));
	start_over(v, tcp_sk(sk));
	COUNT(flows);
}

SEC("struct_ops/bpf_vegas_pkts_acked")
void BPF_PROG(bpf_vegas_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct bpf_vegas *v = inet_csk_ca(sk);
	u32 rtt;

	if (sample->rtt_us < 0)
		return;
	rtt = sample->rtt_us + 1u;
	v->s.rtt_min = min(v->s.rtt_min, rtt);
	v->round_rtt = min(v->round_rtt, rtt);
	v->samples++;
}

SEC("struct_ops/bpf_vegas_cong_avoid")
void BPF_PROG(bpf_vegas_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_vegas *v = inet_csk_ca(sk);

	if (!v->on) {
		tcp_reno_cong_avoid(sk, ack, acked);
	} else if (before(v->s.round_end, ack)) {
		if (v->samples >= MIN_SAMPLES) {
			judge(v, tp, acked);
		} else {
			COUNT(reno_rounds);
			tcp_reno_cong_avoid(sk, ack, acked);
		}
		begin_round(v, tp);
	} else if (tp->snd_cwnd < tp->snd_ssthresh) {
		tcp_slow_start(tp, acked);
	}
}

SEC("struct_ops/bpf_vegas_set_state")
void BPF_PROG(bpf_vegas_set_state, struct sock *sk, u8 new_state)
{
	struct bpf_vegas *v = inet_csk_ca(sk);

	v->on = new_state == TCP_CA_Open;
	if (v->on)
		begin_round(v, tcp_sk(sk));
}

SEC("struct_ops/bpf_vegas_cwnd_event")
void BPF_PROG(bpf_vegas_cwnd_event, struct sock *sk, enum tcp_ca_event ev)
{
	if (ev != CA_EVENT_TX_START && ev != CA_EVENT_CWND_RESTART)
		return;
	COUNT(restarts);
	start_over(inet_csk_ca(sk), tcp_sk(sk));
}

SEC("struct_ops/bpf_vegas_ssthresh")
u32 BPF_PROG(bpf_vegas_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops/bpf_vegas_undo_cwnd")
u32 BPF_PROG(bpf_vegas_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops bpf_vegas = {
	.init = (void *)bpf_vegas_init,
	.pkts_acked = (void *)bpf_vegas_pkts_acked,
	.cong_avoid = (void *)bpf_vegas_cong_avoid,
	.set_state = (void *)bpf_vegas_set_state,
	.cwnd_event = (void *)bpf_vegas_cwnd_event,
	.ssthresh = (void *)bpf_vegas_ssthresh,
	.undo_cwnd = (void *)bpf_vegas_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bpf_vegas",
};
