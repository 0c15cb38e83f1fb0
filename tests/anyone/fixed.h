/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Controllers as others write them, with the kernel's own types, and a trait each. */
#ifndef FIXED_H
#define FIXED_H

#include "vmlinux.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

/* Its window is always WINDOW packets: so a run tells which one was loaded, and with what. */
#define FIXED(NAME, SECTION, WINDOW) \
	SEC("struct_ops/" #NAME "_ssthresh") \
	__u32 BPF_PROG(NAME##_ssthresh, struct sock *sk) \
	{ \
		return 2; \
	} \
	SEC("struct_ops/" #NAME "_undo") \
	__u32 BPF_PROG(NAME##_undo, struct sock *sk) \
	{ \
		return ((struct tcp_sock *)sk)->snd_cwnd; \
	} \
	SEC("struct_ops/" #NAME "_main") \
	void BPF_PROG(NAME##_main, struct sock *sk, const struct rate_sample *rs) \
	{ \
		((struct tcp_sock *)sk)->snd_cwnd = (WINDOW); \
	} \
	SEC(SECTION) \
	struct tcp_congestion_ops NAME = { \
		.ssthresh = (void *)NAME##_ssthresh, \
		.undo_cwnd = (void *)NAME##_undo, \
		.cong_control = (void *)NAME##_main, \
		.name = #NAME, \
	};

#endif
