/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Differences between kernels, each with the version and the commit that brought it. Nothing else in bpf/, nor in the BPF programs
 * of loader/, depends on the kernel's version.
 */
#ifndef COMPAT_BPF_H
#define COMPAT_BPF_H

#include "kernel.bpf.h"

/* --- what a controller may fill in ---------------------------------------------------------- */

enum tcp_ca_event {
	/*
	 * The first packet into an empty network. Not from 7.1 on: d1e59a469737 ("tcp: add cwnd_event_tx_start to
	 * tcp_congestion_ops") made a member of its own of it. With one that a kernel lacks libbpf 1.1 refuses the object.
	 * min_tso_segs can stand in for it on all kernels: idle_time().
	 */
	CA_EVENT_TX_START,
	CA_EVENT_CWND_RESTART, /* the stack cut cwnd after an idle RTO */
	CA_EVENT_COMPLETE_CWR,
	CA_EVENT_LOSS,         /* RTO */
};

#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

/* libbpf matches the members by name with the kernel's. */
struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	/*
	 * Before 6.10 a rate_sample follows sk, from then on ack, flag and a rate_sample: 57bfc7605ca5 ("tcp: Add new args
	 * for cong_control in tcp_congestion_ops"). One that takes sk alone suits both; else rate_sample_arg().
	 */
	void (*cong_control)(struct sock *sk);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	/*
	 * Before pkts_acked; from 6.15, and in stable series that took it, after: 149dfb31615e ("tcp: reorganize
	 * tcp_in_ack_event() and tcp_count_delivered()"). Rely on neither order.
	 */
	void (*in_ack_event)(struct sock *sk, u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*undo_cwnd)(struct sock *sk);
	u32 (*min_tso_segs)(struct sock *sk); /* asked before packets leave, also if the window holds them back */
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	u32 flags;
	char name[16];
};

/* --- what a controller reads ------------------------------------------------------------------ */

/* From 6.7, else ms: 614e8316aa4c ("tcp: add support for usec resolution in TCP TS values"). */
#define has_usec_timestamps(tp) (bpf_core_field_exists((tp)->tcp_usec_ts) && read_bits(tp, tcp_usec_ts))

/* --- what the tracer reads -------------------------------------------------------------------- */

struct tcp_rack {
	u32 rtt_us; /* RTT of the newest packet delivered. RACK's own business, though no kernel that was tried lacks it */
};

#define rack_rtt_us(tp) (bpf_core_field_exists((tp)->rack.rtt_us) ? (tp)->rack.rtt_us : 0)

struct tcp_skb_cb {
	u32 seq;
	u32 end_seq;
	/* 8 bits before 6.15: 2c2f08d31d2f ("tcp: extend TCP flags to allow AE bit/ACE field"). libbpf adapts the load. */
	u16 tcp_flags;
	u32 ack_seq;
};

/*
 * Length of the packet that qdisc_dequeue tells of; 0: of none. From 6.5 on the verifier takes the test for NULL as needless:
 * 51302c951c8f ("bpf: Teach verifier that trusted PTR_TO_BTF_ID pointers are non-NULL"). From 6.13 on it knows better:
 * 838a10bd2ebf ("bpf: Augment raw_tp arguments with PTR_MAYBE_NULL"). In between, a load through NULL gives 0.
 */
#define length_if_any(skb) ((skb) ? (skb)->len : 0)

#ifdef __bpf__
#pragma clang attribute pop
#endif

/* --- what a controller that measures rates is called with --------------------------------------- */

#ifdef __bpf__
/* From the running kernel. The verifier knows it as a constant, and looks at no branch that it excludes. */
extern int LINUX_KERNEL_VERSION __kconfig;

/*
 * The rate_sample of cong_control, by the context of its BPF_PROG: the second argument, or from 6.10 on the fourth. In
 * assembler: the compiler would make one load of both, at a place that the verifier does not know.
 */
static __always_inline const struct rate_sample *rate_sample_arg(const unsigned long long *ctx)
{
	const struct rate_sample *rs;

	if (LINUX_KERNEL_VERSION >= (6 << 16 | 10 << 8))
		asm volatile("%0 = *(u64 *)(%1 + 24)" : "=r"(rs) : "r"(ctx));
	else
		asm volatile("%0 = *(u64 *)(%1 + 8)" : "=r"(rs) : "r"(ctx));
	return rs;
}
#endif

#endif
