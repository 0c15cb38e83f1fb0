/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The members that a controller reads if it measures delivery rates; rate_sample_arg() of compat.bpf.h gives it the sample of an ACK. */
#ifndef RATES_BPF_H
#define RATES_BPF_H

#include "compat.bpf.h"

#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

/* P is the packet sent last of those that the ACK tells of. */
struct rate_sample {
	u32 prior_delivered; /* tcp_sock.delivered when P left */
	s32 delivered; /* packets since then; -1: the ACK tells of none */
	long interval_us; /* in this time; -1: no valid sample */
	long rtt_us; /* of P; -1: none */
	u32 acked_sacked; /* packets that this ACK tells of */
	u32 prior_in_flight; /* packets in flight before this ACK */
	u32 last_end_seq; /* where P ends */
	bool is_app_limited; /* the application lacked data when P left */
	bool is_retrans; /* P was sent again */
};

struct tcp_sock___rates {
	u32 delivered_ce; /* of tcp_sock.delivered: told to be marked (CE) */
	u32 delivered_ecn_bytes[3]; /* from 7.0 on, of payload, by AccECN: what came as ... */
	u32 lost; /* held for lost so far, those sent again too */
	u32 app_limited; /* delivered when the application's lack of data shows no longer; 0: it does not lack */
	struct {
		u8 sack_ok:1; /* both ends have agreed on SACK */
	} rx_opt;
};

enum { ECT_1, ECT_0 }; /* ... of delivered_ecn_bytes */

#ifdef __bpf__
#pragma clang attribute pop
#endif

static __always_inline const struct tcp_sock___rates *rates_of(const struct tcp_sock *tp)
{
	return (const struct tcp_sock___rates *)tp;
}

#endif
