// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A controller with one fault, or none: what a search at random has to find. */
#include "declare.bpf.h"
#include "sender.bpf.h"

enum { NONE, GROWS_UNUSED, NO_CLAMP, NO_WINDOW, SHARED, BY_ZERO, BEYOND, TOO_LARGE, IN_RECOVERY, SSTHRESH_1, RAISES, LOWERS };
PARAM(u32, fault, NONE, NONE, LOWERS, "-", "which");
PARAM(u32, by_w, 0, 0, 1, "-", "1: governs a W of its own, in cong_control");

struct broken {
	struct sender s;
	u32 w;
	u32 rtts[2];
	u32 n;
};
STATE(struct broken);

static u32 connections;

SEC("struct_ops/broken_cong_control")
void BPF_PROG(broken_cong_control, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct broken *b = inet_csk_ca(sk);

	if (!in_recovery(inet_csk(sk)) && (is_cwnd_limited(tp) || fault == GROWS_UNUSED) &&
	    (fault != SHARED || connections % 2 == 0))
		b->w++;
	if (fault == NO_CLAMP)
		tp->snd_cwnd = b->w;
	else
		cwnd_write(&b->s, tp, b->w = min(b->w, window_limit(tp)));
	if (fault == NO_WINDOW && tp->snd_cwnd == 20)
		tp->snd_cwnd = 0;
}

extern struct tcp_congestion_ops broken;

SEC("struct_ops/broken_init")
void BPF_PROG(broken_init, struct sock *sk)
{
	struct broken *b = inet_csk_ca(sk);

	connections++;
	b->w = stack_window(tcp_sk(sk));
	broken.cong_control = by_w ? (void *)broken_cong_control : NULL;
}

SEC("struct_ops/broken_pkts_acked")
void BPF_PROG(broken_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct broken *b = inet_csk_ca(sk);

	if (!rtt_sample(&b->s, tp, sample, 0))
		return;
	if (fault == BY_ZERO)
		b->n = b->s.rtt_last / (b->s.rtt_last - b->s.rtt_min);
	if (fault == BEYOND)
		b->rtts[b->n++] = b->s.rtt_last;
	if (fault == TOO_LARGE)
		b->n = mul_div((u64)b->s.rtt_last << 20, tp->snd_cwnd, b->s.rtt_min);
	if (fault == IN_RECOVERY && in_recovery(inet_csk(sk)) && tp->snd_cwnd < tp->snd_cwnd_clamp)
		b->w = ++tp->snd_cwnd;
}

SEC("struct_ops/broken_cong_avoid")
void BPF_PROG(broken_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct broken *b = inet_csk_ca(sk);
	u32 more = is_cwnd_limited(tp) || fault == GROWS_UNUSED;

	if (fault == SHARED && connections & 1)
		more = 0;
	if (fault == NO_CLAMP)
		tp->snd_cwnd += more;
	else
		cwnd_write(&b->s, tp, tp->snd_cwnd + more);
	if (fault == NO_WINDOW && tp->snd_cwnd == 20)
		tp->snd_cwnd = 0;
}

SEC("struct_ops/broken_ssthresh")
u32 BPF_PROG(broken_ssthresh, struct sock *sk)
{
	struct broken *b = inet_csk_ca(sk);
	u32 cwnd = by_w ? b->w : tcp_sk(sk)->snd_cwnd;

	b->w = max(cwnd / 2, W_MIN);
	if (fault == RAISES)
		return max(cwnd, 1000);
	return fault == SSTHRESH_1 ? max(cwnd / 2, 1) : max(cwnd / 2, W_MIN);
}

SEC("struct_ops/broken_undo_cwnd")
u32 BPF_PROG(broken_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct broken *b = inet_csk_ca(sk);

	b->w = max(b->w, tp->prior_cwnd);
	return fault == LOWERS ? tp->prior_cwnd : max(tp->snd_cwnd, tp->prior_cwnd);
}

SEC(".struct_ops")
struct tcp_congestion_ops broken = {
	.init = (void *)broken_init,
	.pkts_acked = (void *)broken_pkts_acked,
	.cong_avoid = (void *)broken_cong_avoid,
	.ssthresh = (void *)broken_ssthresh,
	.undo_cwnd = (void *)broken_undo_cwnd,
	.name = "broken",
};
