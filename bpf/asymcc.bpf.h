/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What every controller shares: CO-RE views of the kernel's TCP structures, parameter and
 * counter declarations that the loader reads from BTF, and what a sender does whatever its law:
 * rounds, RTT samples, taking over a window that the stack changed, limits, fixed point.
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

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/*
 * PARAM(type, name, default, min, max, unit, doc): a constant of the program. `asymcc load
 * --set name=value` changes it before the verifier sees it; the tag is what `asymcc show` prints.
 * TUNABLE(...): the same for what `asymcc set` may change while flows run: it may be another value
 * at each reading, so nothing may rely on two readings being alike.
 * COUNTER(name, doc): a u64 over all flows, read by `asymcc show`.
 * STATE(type): the private state of one connection. The pointer, never set, keeps the type's members
 * in the BTF, by which a trace of the state is decoded.
 */
#ifdef __bpf__
#define ASYMCC_TAG(text) __attribute__((btf_decl_tag(text)))
#else
#define ASYMCC_TAG(text)
#endif
#define PARAM(type, name, value, min, max, unit, doc) \
	const volatile type name ASYMCC_TAG("param|" #min "|" #max "|" unit "|" doc) = value
#define TUNABLE(type, name, value, min, max, unit, doc) \
	volatile type name SEC(".data") ASYMCC_TAG("tunable|" #min "|" #max "|" unit "|" doc) = value
#define COUNTER(name, doc) u64 name ASYMCC_TAG("counter|" doc)
#define COUNT(name) __sync_fetch_and_add(&(name), 1)

#define CA_PRIV_BYTES 104 /* room of inet_connection_sock.icsk_ca_priv on every kernel */
#define STATE(type) \
	_Static_assert(sizeof(type) <= CA_PRIV_BYTES, "private state does not fit the socket"); \
	type *asymcc_state ASYMCC_TAG("state")

enum tcp_ca_event {
	CA_EVENT_TX_START,     /* first packet after idle; from 7.1 a member of its own */
	CA_EVENT_CWND_RESTART, /* the stack cut cwnd after an idle RTO */
	CA_EVENT_COMPLETE_CWR,
	CA_EVENT_LOSS,         /* RTO */
};

enum tcp_ca_state {
	TCP_CA_Open,
	TCP_CA_Disorder, /* duplicate ACKs or SACKs, nothing held for lost yet */
	TCP_CA_CWR,      /* reducing after ECN or local congestion */
	TCP_CA_Recovery, /* fast retransmit */
	TCP_CA_Loss,     /* RTO */
};

enum { SK_PACING_NONE, SK_PACING_NEEDED, SK_PACING_FQ };

#define ICSK_ACK_NOW 16 /* send the next ACK at once */

#define TCP_CONG_NON_RESTRICTED 0x1 /* any namespace and any user may choose the controller */
#define TCP_CONG_NEEDS_ECN 0x2      /* SYNs ask for ECN, and every segment may be marked, pure ACKs too */

#define TCP_ECN_OK 1 /* in ecn_flags: both ends have agreed on it */

#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct sock;

struct inet_connection_sock {
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
	u64 tcp_mstamp;       /* clock of the packet being processed, us */
	u8 is_cwnd_limited:1; /* the last flight filled cwnd */
	u8 tcp_usec_ts:1;     /* timestamps in us, not ms; from 6.7 */
	u8 ecn_flags;         /* TCP_ECN_* */
};

struct sock___pacing {
	unsigned long sk_pacing_rate; /* bytes/s */
	unsigned long sk_max_pacing_rate; /* the application's limit: SO_MAX_PACING_RATE */
	u32 sk_pacing_status;         /* SK_PACING_* */
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
	return inet_csk(sk)->icsk_ca_priv;
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

static __always_inline u64 min_u64(u64 a, u64 b)
{
	return a < b ? a : b;
}

static __always_inline u64 max_u64(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* For a law that paces, in bytes/s: by fq if the device has it, else by the stack's own timer. */
static __always_inline void pace(struct sock *sk, u64 rate)
{
	struct sock___pacing *p = (struct sock___pacing *)sk;

	if (p->sk_pacing_status == SK_PACING_NONE)
		p->sk_pacing_status = SK_PACING_NEEDED;
	p->sk_pacing_rate = min_u64(rate, p->sk_max_pacing_rate);
}

/* Did the window, and not the application, limit the last flight? */
static __always_inline bool is_cwnd_limited(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
}

/*
 * For laws that have Reno's slow start: in it a window that is less than twice what was in flight
 * may grow too, as in the stack's tcp_is_cwnd_limited().
 */
static __always_inline bool may_grow(const struct tcp_sock *tp)
{
	return is_cwnd_limited(tp) ||
	       (tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out);
}

/* Is the stack repairing losses, or reducing? Then what was measured is not the path at work. */
static __always_inline bool in_recovery(const struct inet_connection_sock *icsk)
{
	return BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state) >= TCP_CA_CWR;
}

/* Did somebody choose the socket's controller: the application, or `asymcc use --cgroup`? Else it is a route's, or the default. */
static __always_inline bool is_chosen(const struct inet_connection_sock *icsk)
{
	return BPF_CORE_READ_BITFIELD(icsk, icsk_ca_setsockopt);
}

/* --- fixed point ---------------------------------------------------------------------- */

#define Q20 20 /* windows in packets << 20: one ACK's growth shows up to the largest window */

#define W_MAX (1u << 20)      /* packets; in Q20 2^40 */
#define W_MIN 2u              /* packets; only an RTO goes below */
#define RTT_MAX_US (1u << 26) /* 67 s; a longer sample counts as this */

/* a * b / c; the caller sees to it that a * b < 2^64. A zero c counts as 1: x/0 is 0 in BPF. */
static __always_inline u64 mul_div(u64 a, u64 b, u64 c)
{
	return a * b / max_u64(c, 1);
}

/* Reno's growth, one packet a window: `acked` packets' share of window w, packets in Q20 both. */
static __always_inline u64 reno_growth(u64 w_q20, u32 acked)
{
	/* 2^20 packets << 40 = 2^60 */
	return (min_u64(acked, W_MAX) << (2 * Q20)) / max_u64(w_q20, 1u << Q20);
}

/* --- what a sender does whatever its law ------------------------------------------------ */

/* Stands first in a controller's private state. Times in us of tcp_mstamp. */
struct sender {
	u64 round_stamp; /* when this round began */
	u64 ack_stamp;   /* when the last ACK came */
	u32 round_end;   /* snd_nxt when this round began */
	u32 cwnd;        /* snd_cwnd as we left it: another value means the stack changed it */
	u32 rtt_last;    /* latest RTT sample, us; 0: none yet */
	u32 rtt_min;     /* smallest, us; 0: none yet */
	u32 rtt_young;   /* smallest since young_s, us: the next rtt_min when that has aged */
	u32 young_s;     /* seconds */
};

/*
 * A round begins with an ACK and ends with the ACK of what that one let go: one RTT. The first ACK
 * of a flight is the first of its round, so that the gap before it belongs to no round. After an
 * RTO snd_nxt stays beyond a flight that counts as lost: hence no further than what is in flight.
 */
static __always_inline void round_start(struct sender *s, const struct tcp_sock *tp)
{
	u32 end = tp->snd_una + min_u64((u64)packets_in_flight(tp) * tp->mss_cache, 1u << 30);

	s->round_end = before(end, tp->snd_nxt) ? end : tp->snd_nxt;
	s->round_stamp = tp->tcp_mstamp;
}

static __always_inline bool round_over(const struct sender *s, const struct tcp_sock *tp)
{
	return before(s->round_end, tp->snd_una);
}

/*
 * Take an RTT sample. False if the ACK gave none (of a retransmitted packet, say). rtt_min is the
 * minimum of the connection or, with age_s, of at least the last age_s / 2 and at most age_s
 * seconds.
 */
static __always_inline bool
rtt_sample(struct sender *s, const struct tcp_sock *tp, const struct ack_sample *sample, u32 age_s)
{
	u32 rtt, now_s;

	if (sample->rtt_us <= 0)
		return false;
	rtt = min_u64(sample->rtt_us, RTT_MAX_US);
	s->rtt_last = rtt;
	if (!s->rtt_min || rtt < s->rtt_min)
		s->rtt_min = rtt;
	if (!age_s)
		return true;
	now_s = tp->tcp_mstamp / 1000000;
	if (!s->rtt_young || rtt < s->rtt_young)
		s->rtt_young = rtt;
	if (!s->young_s)
		s->young_s = now_s;
	if (2 * (u64)(now_s - s->young_s) >= age_s) {
		s->rtt_min = now_s - s->young_s < age_s ? s->rtt_young : rtt;
		s->rtt_young = rtt;
		s->young_s = now_s;
	}
	return true;
}

/*
 * Idle: an RTT without an ACK, nothing in flight. TX_START alone comes with every packet into an
 * empty network. What was being measured then measures the application. Before the first ACK
 * there is nothing to forget: the first round begins with the first packet.
 */
static __always_inline bool
idle_ended(struct sender *s, const struct tcp_sock *tp, enum tcp_ca_event ev)
{
	if (ev == CA_EVENT_TX_START && !s->ack_stamp)
		s->round_stamp = tp->tcp_mstamp;
	return s->ack_stamp &&
	       (ev == CA_EVENT_CWND_RESTART ||
		(ev == CA_EVENT_TX_START && tp->snd_una == tp->snd_nxt &&
		 tp->tcp_mstamp - s->ack_stamp > tp->srtt_us >> 3));
}

/*
 * First window of a connection; 0: leave the stack's. Not of a connection under way that changes
 * its controller, nor above the 1 that a lost SYN leaves.
 */
static __always_inline void first_window(struct tcp_sock *tp, u32 packets)
{
	if (packets && !tp->data_segs_out && tp->snd_cwnd > 1)
		tp->snd_cwnd = min_u64(packets, tp->snd_cwnd_clamp);
}

/* The largest window that a law may ask for, packets. */
static __always_inline u32 window_limit(const struct tcp_sock *tp)
{
	return min_u64(tp->snd_cwnd_clamp, W_MAX);
}

/* The stack changed cwnd since we wrote it (recovery, RTO, undo, idle), or we asked to look anew. */
static __always_inline bool cwnd_changed(const struct sender *s, const struct tcp_sock *tp)
{
	return tp->snd_cwnd != s->cwnd;
}

static __always_inline void cwnd_write(struct sender *s, struct tcp_sock *tp, u32 packets)
{
	s->cwnd = max_u64(min_u64(packets, window_limit(tp)), 1);
	if (tp->snd_cwnd != s->cwnd)
		tp->snd_cwnd = s->cwnd;
}

#endif
