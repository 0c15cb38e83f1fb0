/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What every controller shares: CO-RE views of the kernel's TCP structures, parameter and
 * counter declarations that the loader reads from BTF, and small helpers.
 *
 * The views name only the members that a controller uses. libbpf finds each at load time in
 * the running kernel by name, so one object serves every kernel and the build needs no BTF.
 */
#ifndef ASYMCC_BPF_H
#define ASYMCC_BPF_H

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

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/*
 * PARAM(type, name, default, min, max, unit, doc): a constant of the program. `asymcc load
 * --set name=value` changes it before the verifier sees it; the tag is what `asymcc show` prints.
 * COUNTER(name, doc): a u64 over all flows, read by `asymcc show`.
 */
#ifdef __bpf__
#define ASYMCC_TAG(text) __attribute__((btf_decl_tag(text)))
#else
#define ASYMCC_TAG(text)
#endif
#define PARAM(type, name, value, min, max, unit, doc) \
	const volatile type name ASYMCC_TAG("param|" #min "|" #max "|" unit "|" doc) = value
#define COUNTER(name, doc) u64 name ASYMCC_TAG("counter|" doc)
#define COUNT(name) __sync_fetch_and_add(&(name), 1)

#define CA_PRIV_BYTES 104 /* room of inet_connection_sock.icsk_ca_priv on every kernel */

enum tcp_ca_event {
	CA_EVENT_TX_START,     /* first packet after idle; from 7.1 a member of its own */
	CA_EVENT_CWND_RESTART, /* the stack cut cwnd after an idle RTO */
	CA_EVENT_COMPLETE_CWR,
	CA_EVENT_LOSS,         /* RTO */
};

#define TCP_CONG_NON_RESTRICTED 0x1 /* any namespace and any user may choose the controller */

#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct sock;

struct inet_connection_sock {
	u64 icsk_ca_priv[CA_PRIV_BYTES / sizeof(u64)];
};

struct tcp_sock {
	u32 snd_una;          /* first byte not acknowledged */
	u32 snd_nxt;          /* next byte to be sent */
	u32 snd_cwnd;         /* packets */
	u32 snd_ssthresh;     /* packets */
	u32 snd_cwnd_clamp;   /* packets */
	u32 prior_cwnd;       /* snd_cwnd before the last reduction */
	u32 mss_cache;        /* bytes of payload a segment */
	u32 data_segs_out;    /* segments with payload sent so far */
	u32 srtt_us;          /* smoothed RTT, us << 3 */
	u64 tcp_mstamp;       /* clock of the packet being processed, us */
	u8 is_cwnd_limited:1; /* the last flight filled cwnd */
};

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us; /* -1: no valid sample */
	u32 in_flight;
};

/* Members that a controller may fill in; libbpf matches them by name with the kernel's. */
struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
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

static inline __attribute__((always_inline)) struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static inline __attribute__((always_inline)) void *inet_csk_ca(struct sock *sk)
{
	return ((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

/* Sequence numbers wrap: a is before b when the signed distance is negative. */
static inline __attribute__((always_inline)) bool before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

static inline __attribute__((always_inline)) u64 min_u64(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline __attribute__((always_inline)) u64 max_u64(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* Did the window, and not the application, limit the last flight? */
static inline __attribute__((always_inline)) bool is_cwnd_limited(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
}

#endif
