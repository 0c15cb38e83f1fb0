// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reno's growth, and a backoff to 0.7 of the window. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

char LICENSE[] SEC("license") = "GPL";

const volatile __u32 beta_percent = 70;

static struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

SEC("struct_ops")
__u32 BPF_PROG(mine_ssthresh, struct sock *sk)
{
	__u32 cwnd = tcp_sk(sk)->snd_cwnd * beta_percent / 100; /* 2^20 packets at most: no overflow */

	return cwnd > 2 ? cwnd : 2;
}

SEC("struct_ops")
void BPF_PROG(mine_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(mine_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops mine = {
	.ssthresh = (void *)mine_ssthresh,
	.cong_avoid = (void *)mine_cong_avoid,
	.undo_cwnd = (void *)mine_undo_cwnd,
	.name = "mine",
};
