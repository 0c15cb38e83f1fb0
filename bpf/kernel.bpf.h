/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CO-RE views of the kernel's TCP structures, and its constants. Differences between kernels stand in
 * compat.bpf.h.
 *
 * The views name only the members that a controller uses. libbpf finds each at load time in
 * the running kernel by name, so one object serves every kernel and the build needs no BTF.
 */
#ifndef KERNEL_BPF_H
#define KERNEL_BPF_H

typedef unsigned char __u8;
typedef signed short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __s32 s32;
typedef __u32 u32;
typedef __s64 s64;
typedef __u64 u64;
typedef _Bool bool;
#define true 1
#define false 0

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

enum tcp_ca_state {
	TCP_CA_Open,
	TCP_CA_Disorder, /* duplicate ACKs or SACKs, nothing held for lost yet */
	TCP_CA_CWR,      /* reducing after ECN or local congestion */
	TCP_CA_Recovery, /* fast retransmit */
	TCP_CA_Loss,     /* RTO */
};

enum { SK_PACING_NONE, SK_PACING_NEEDED, SK_PACING_FQ };

#define CA_PRIV_BYTES 104 /* room of inet_connection_sock.icsk_ca_priv on every kernel */

#define ICSK_ACK_NOW 16 /* send the next ACK at once */

#define TCP_CONG_NON_RESTRICTED 0x1 /* any namespace and any user may choose the controller */
#define TCP_CONG_NEEDS_ECN 0x2      /* SYNs ask for ECN, and every segment may be marked, pure ACKs too */

/* From 7.0 on; a kernel before refuses a controller that has one of them. */
#define TCP_CONG_NEEDS_ACCECN 0x4        /* SYNs ask for AccECN, and its listeners accept it, whatever tcp_ecn says */
#define TCP_CONG_ECT_1_NEGOTIATION 0x8   /* SYN and SYN-ACK leave as ECT(1) */
#define TCP_CONG_NO_FALLBACK_RFC3168 0x10 /* no ECN with a peer that has the classic one only */

#define TCP_ECN_OK 1           /* in ecn_flags: both ends have agreed on it */
#define TCP_ECN_MODE_ACCECN 16 /* ... and this on Accurate ECN (from 6.18 on), whose ECE is a counter's bit */

#define TCP_ECN_MODE_ANY (TCP_ECN_OK | TCP_ECN_MODE_ACCECN)

#define CA_ACK_ECE 4 /* of in_ack_event: the peer tells of a mark (CE) */

#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

/*
 * A bit field, which is part of one byte wherever a controller reads one. BPF_CORE_READ_BITFIELD() is for fields of any size, and
 * takes twice as many instructions.
 */
#ifdef __bpf__
#define read_bits(p, field) \
	((u64)((const u8 *)(p))[__CORE_RELO(p, field, BYTE_OFFSET)] << __CORE_RELO(p, field, LSHIFT_U64) >> \
	 __CORE_RELO(p, field, RSHIFT_U64))
#else
#define read_bits(p, field) ((p)->field)
#endif

struct sock;

struct tcp_congestion_ops___flags {
	u32 flags; /* TCP_CONG_* */
};

struct inet_connection_sock {
	const struct tcp_congestion_ops___flags *icsk_ca_ops;
	u8 icsk_ca_state:5; /* enum tcp_ca_state */
	u8 icsk_ca_setsockopt:1; /* the controller was chosen for this very socket, or its listener */
	u8 icsk_retransmits; /* timeouts in a row */
	struct {
		u8 pending;  /* ICSK_ACK_NOW and others: an ACK is due */
		u16 rcv_mss; /* bytes of payload a segment of the peer */
	} icsk_ack;
	u64 icsk_ca_priv[CA_PRIV_BYTES / sizeof(u64)];
};

struct tcp_options_received {
	u32 rcv_tsval;    /* of the last segment: the peer's clock ... */
	u32 rcv_tsecr;    /* ... and the stamp of ours that it echoes */
	u8 saw_tstamp:1;
	u8 num_sacks;     /* blocks that wait behind gaps */
};

struct tcp_sock {
	u32 rcv_nxt;          /* next byte expected */
	u32 rcv_wup;          /* rcv_nxt when the last window was offered ... */
	u32 rcv_wnd;          /* ... and its size, bytes */
	u32 write_seq;        /* end of what the application has written */
	struct tcp_options_received rx_opt;
	u32 snd_wnd;          /* the peer's window, bytes */
	u32 snd_una;          /* first byte not acknowledged */
	u32 snd_nxt;          /* next byte to be sent */
	u32 snd_cwnd;         /* packets */
	u32 snd_ssthresh;     /* packets */
	u32 snd_cwnd_clamp;   /* packets */
	u32 prior_cwnd;       /* snd_cwnd before the last reduction */
	u32 packets_out;      /* sent and not acknowledged */
	u32 sacked_out;       /* of those: selectively acknowledged */
	u32 lost_out;         /* held for lost */
	u32 retrans_out;      /* sent again */
	u32 max_packets_out;  /* largest packets_out of the last window */
	u32 delivered;        /* packets acknowledged so far, selectively too */
	u32 mss_cache;        /* bytes of payload a segment */
	u32 data_segs_out;    /* segments with payload sent so far */
	u32 srtt_us;          /* smoothed RTT, us << 3 */
	u64 bytes_received;   /* in order, so far */
	u64 tcp_mstamp;       /* clock of the packet being processed, us */
	u8 is_cwnd_limited:1; /* the last flight filled cwnd */
	u8 tcp_usec_ts:1;     /* timestamps in us, not ms: has_usec_timestamps() */
	u8 ecn_flags;         /* TCP_ECN_* */
};

struct sock___pacing {
	unsigned long sk_pacing_rate; /* bytes/s */
	unsigned long sk_max_pacing_rate; /* the application's limit: SO_MAX_PACING_RATE */
	u32 sk_pacing_status;         /* SK_PACING_* */
};

struct net {
	struct {
		u8 sysctl_tcp_min_tso_segs;
	} ipv4;
};

struct sock___net {
	struct {
		struct {
			struct net *net;
		} skc_net;
	} __sk_common;
};

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us; /* -1: no valid sample */
	u32 in_flight;
};

#ifdef __bpf__
#pragma clang attribute pop
#endif

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct inet_connection_sock *inet_csk(struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

static __always_inline void *inet_csk_ca(struct sock *sk)
{
	return &inet_csk(sk)->icsk_ca_priv[0]; /* not the array: libbpf refuses a load from one that has another size */
}

/* Packets sent that are neither known to have arrived nor held for lost. */
static __always_inline u32 packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

/* Sequence numbers wrap: a is before b when the signed distance is negative. */
static __always_inline bool before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

/* The smaller of two unsigned numbers. Any width fits 64 bits. */
static __always_inline u64 min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static __always_inline u64 max(u64 a, u64 b)
{
	return a > b ? a : b;
}

#endif
