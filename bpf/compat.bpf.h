/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What differs between kernels, each with the version and the commit that brought it. Nothing else of bpf/ and of the
 * programs of loader/ depends on the kernel that runs.
 */
#ifndef COMPAT_BPF_H
#define COMPAT_BPF_H

#include "kernel.bpf.h"

enum tcp_ca_event {
	CA_EVENT_TX_START,     /* first packet after idle; from 7.1 a member of its own */
	CA_EVENT_CWND_RESTART, /* the stack cut cwnd after an idle RTO */
	CA_EVENT_COMPLETE_CWR,
	CA_EVENT_LOSS,         /* RTO */
};

#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

/* Members that a controller may fill in; libbpf matches them by name with the kernel's. */
struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*cong_control)(struct sock *sk); /* the rest of its arguments differs between kernels */
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	void (*in_ack_event)(struct sock *sk, u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	u32 flags;
	char name[16];
};

#ifdef __bpf__
#pragma clang attribute pop
#endif

/* From 6.7: 614e8316aa4c ("tcp: add support for usec resolution in TCP TS values"). Before, they count ms. */
#define has_usec_timestamps(tp) \
	(bpf_core_field_exists((tp)->tcp_usec_ts) && BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts))

#endif
