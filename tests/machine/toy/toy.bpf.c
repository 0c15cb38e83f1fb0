// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * toy, an AIMD of a few lines: a fixed increase, and a half.
 *
 * Per window acknowledged:  cwnd += step                                                  (1)
 * On loss:                  ssthresh = cwnd = max(cwnd/2, 2)                              (2)
 * Below ssthresh:           cwnd += packets acknowledged                                  (3)
 */
#include "declare.bpf.h"
#include "sender.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

TUNABLE(u32, step, 1, 1, 16, "packets", "(1): the increase of a window");

COUNTER(flows, "connections started");
COUNTER(losses, "reductions by (2)");

/* One connection. */
struct toy {
	struct sender s;
	u64 w_q20; /* the window, packets << 20, at most 2^40; snd_cwnd is its integer part */
};
STATE(struct toy);

SEC("struct_ops/toy_init")
void BPF_PROG(toy_init, struct sock *sk)
{
	struct toy *t = inet_csk_ca(sk);

	__builtin_memset(t, 0, sizeof(*t));
	COUNT(flows);
}

SEC("struct_ops/toy_cong_avoid")
void BPF_PROG(toy_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct toy *t = inet_csk_ca(sk);

	if (cwnd_changed(&t->s, tp))
		t->w_q20 = stack_window(tp) << Q20;
	if (may_grow(tp)) {
		if (tp->snd_cwnd < tp->snd_ssthresh)
			t->w_q20 += (u64)min(acked, W_MAX) << Q20;
		else
			t->w_q20 += step * reno_growth(t->w_q20, acked); /* at most 2^4 * 2^40 */
	}
	t->w_q20 = min(t->w_q20, (u64)window_limit(tp) << Q20);
	cwnd_write(&t->s, tp, t->w_q20 >> Q20);
}

SEC("struct_ops/toy_ssthresh")
u32 BPF_PROG(toy_ssthresh, struct sock *sk)
{
	struct toy *t = inet_csk_ca(sk);

	COUNT(losses);
	look_anew(&t->s);
	return half_window(tcp_sk(sk));
}

SEC("struct_ops/toy_undo_cwnd")
u32 BPF_PROG(toy_undo_cwnd, struct sock *sk)
{
	struct toy *t = inet_csk_ca(sk);

	look_anew(&t->s);
	return undone_window(tcp_sk(sk));
}

SEC(".struct_ops")
struct tcp_congestion_ops toy = {
	.init = (void *)toy_init,
	.cong_avoid = (void *)toy_cong_avoid,
	.ssthresh = (void *)toy_ssthresh,
	.undo_cwnd = (void *)toy_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "toy",
};
