// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reno that stops for good at its first loss: what `asymlab explore` must find. It paces at a byte a second from there on. */
#include "declare.bpf.h"
#include "sender.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";


PARAM(u32, init_cwnd, 0, 0, 1024, "packets", "first window; 0: leave the stack's");
COUNTER(flows, "connections started");

struct frozen {
	u8 lost;
};
STATE(struct frozen);

SEC("struct_ops/frozen_init")
void BPF_PROG(frozen_init, struct sock *sk)
{
	((struct frozen *)inet_csk_ca(sk))->lost = 0;
	COUNT(flows);
}

SEC("struct_ops/frozen_cong_control")
void BPF_PROG(frozen_cong_control, struct sock *sk)
{
	struct frozen *f = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!f->lost)
		tp->snd_cwnd = min(tp->snd_cwnd + 1, 1000);
	else
		pace(sk, 1);
}

SEC("struct_ops/frozen_ssthresh")
u32 BPF_PROG(frozen_ssthresh, struct sock *sk)
{
	((struct frozen *)inet_csk_ca(sk))->lost = 1;
	return half_window(tcp_sk(sk));
}

SEC("struct_ops/frozen_undo_cwnd")
u32 BPF_PROG(frozen_undo_cwnd, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

SEC(".struct_ops")
struct tcp_congestion_ops frozen = {
	.init = (void *)frozen_init,
	.cong_control = (void *)frozen_cong_control,
	.ssthresh = (void *)frozen_ssthresh,
	.undo_cwnd = (void *)frozen_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "frozen",
};
