/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reno by the kernel's own functions, with one thing changed by each sender of this folder. */
#ifndef RENO_H
#define RENO_H

#include "vmlinux.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

static __always_inline struct tcp_sock *tcp_of(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

/* A number that each connection has for itself. */
static __always_inline __u32 *own(struct sock *sk)
{
	return (__u32 *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

SEC("struct_ops/undo")
__u32 BPF_PROG(undo, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

#define AVOID \
	SEC("struct_ops/avoid") \
	void BPF_PROG(avoid, struct sock *sk, __u32 ack, __u32 acked) \
	{ \
		tcp_reno_cong_avoid(sk, ack, acked); \
	}

#define HALVES \
	SEC("struct_ops/ssthresh") \
	__u32 BPF_PROG(ssthresh, struct sock *sk) \
	{ \
		return tcp_reno_ssthresh(sk); \
	}

#define SENDER(NAME, ...) \
	SEC(".struct_ops") \
	struct tcp_congestion_ops NAME = { \
		.ssthresh = (void *)ssthresh, \
		.undo_cwnd = (void *)undo, \
		.name = #NAME, \
		__VA_ARGS__ \
	};

#endif
