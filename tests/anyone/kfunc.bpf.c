// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Functions of the kernel do the work: Reno's. */
#include "vmlinux.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

SEC("struct_ops/kfunc_ssthresh")
__u32 BPF_PROG(kfunc_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops/kfunc_undo")
__u32 BPF_PROG(kfunc_undo, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops/kfunc_avoid")
void BPF_PROG(kfunc_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC(".struct_ops")
struct tcp_congestion_ops by_kfunc = {
	.ssthresh = (void *)kfunc_ssthresh,
	.undo_cwnd = (void *)kfunc_undo,
	.cong_avoid = (void *)kfunc_avoid,
	.name = "by_kfunc",
};
