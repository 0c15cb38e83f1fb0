/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A controller's source is compiled with this: the views, its parameters and counters as plain variables, the socket,
 * and the arguments of a command.
 */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/bpf.h>
#include <sanitizer/asan_interface.h>

/*
 * A pointer to a socket is cast to either view. In the kernel a tcp_sock begins with the
 * inet_connection_sock: here the view of the one begins with room for that of the other.
 */
#define ROOM 256
#define rcv_nxt room_[ROOM / sizeof(u32)], rcv_nxt /* the view's first member */
#include "kernel.bpf.h"
#undef rcv_nxt
#define mul_div mul_div_of_the_kernel
#define default_tso_segs default_tso_segs_of_the_kernel
#define rates_of rates_of_the_kernel
static inline void set_pace(struct sock *of, u64 rate);
#include "declare.bpf.h"
#include "rates.bpf.h"
#include "sender.bpf.h"
#undef mul_div
#undef default_tso_segs
#undef rates_of

_Static_assert(offsetof(struct tcp_sock, room_) == 0, "the room is not in front");
_Static_assert(sizeof(struct inet_connection_sock) <= ROOM, "no room");

/* Unsigned products wrap silently; here one beyond 64 bits ends the process as a sanitizer does. */
static inline u64 mul_div(u64 a, u64 b, u64 c)
{
	u64 product;

	if (__builtin_mul_overflow(a, b, &product)) {
		fprintf(stderr, "mul_div: %llu * %llu does not fit 64 bits\n", a, b);
		__sanitizer_print_stack_trace();
		abort();
	}
	return mul_div_of_the_kernel(a, b, c);
}

/* The model's own output needs no checks, which take most of the time. */
const char *__asan_default_options(void)
{
	return "check_printf=0:intercept_strlen=0:intercept_strstr=0";
}

struct sock {
	struct tcp_sock tp;
};

struct entry {
	const char *name;
	volatile void *at;
	unsigned int size;
	long long initial, min, max;
	bool tunable; /* may change while a connection runs */
};

static struct entry params[64], counters[64];
static int n_params, n_counters;

#define WITH_TYPE_OF(e, use)                 \
	switch ((e)->size) {                 \
	case 1: { typedef u8 type; use; }    \
	case 2: { typedef u16 type; use; }   \
	case 4: { typedef u32 type; use; }   \
	default: { typedef u64 type; use; }  \
	}

static void put(const struct entry *e, long long value)
{
	WITH_TYPE_OF(e, *(type *)e->at = value; return);
}

static u64 get(const struct entry *e)
{
	WITH_TYPE_OF(e, return *(type *)e->at);
}

/* A parameter is an ordinary variable here, known by its name. So is a counter. */
#undef PARAM
#undef COUNTER
#define PARAM_OF(type, name, value, min, max, tunable)                                            \
	static volatile type name;                                                                \
	static void __attribute__((constructor)) param_##name(void)                               \
	{                                                                                         \
		params[n_params++] =                                                              \
			(struct entry){ #name, &name, sizeof(name), value, min, max, tunable };   \
	}                                                                                         \
	static volatile type name = value
#define PARAM(type, name, value, min, max, unit, doc) PARAM_OF(type, name, value, min, max, false)
#undef TUNABLE
#define TUNABLE(type, name, value, min, max, unit, doc) PARAM_OF(type, name, value, min, max, true)
#define COUNTER(name, doc)                                                                        \
	static u64 name;                                                                          \
	static void __attribute__((constructor)) counter_##name(void)                             \
	{                                                                                         \
		counters[n_counters++] = (struct entry){ #name, &name, sizeof(name) };            \
	}                                                                                         \
	static u64 name

enum { OPEN, DISORDER, CWR, RECOVERY, LOSS }; /* enum tcp_ca_state */

#define CA_ACK_SLOWPATH 1
#define NO_SSTHRESH 0x7fffffffu /* TCP_INFINITE_SSTHRESH */
#define SND_WND (1u << 30)      /* the largest window a peer can offer */

static struct sock sock, *sk = &sock;
static struct tcp_sock *tp = &sock.tp;
#define ICSK ((struct inet_connection_sock *)&sock)

/* The kernel keeps these, but no controller reads them. Windows and counts in packets. */
static struct {
	u32 seg;         /* sequence numbers a packet takes */
	u32 app;         /* what the application keeps in flight at most */
	u32 burst;       /* packets that pacing lets leave with one command at most */
	u32 stack_cwnd;  /* the last window that was not the controller's own doing */
	u32 high_seq;    /* recovery ends here */
	u32 prior_ssthresh;
	u32 prr_delivered, prr_out;
	u32 retransmits; /* timeouts since snd_una moved */
	u32 usage_seq;   /* cwnd_usage_seq */
	u64 pacing_rate; /* bytes/s */
	u8 state;
	u8 undo_marker;
	u8 tx_start;     /* cwnd_event carries CA_EVENT_TX_START: kernels before 7.1 */
	u8 shut;         /* the peer's window is closed */
	u8 ect0;         /* data arrive as ECT(0), not as ECT(1) */
	u8 timestamps;   /* a retransmitted packet gives an RTT sample too */
	u8 saw_tstamp, usec_ts, sack_ok; /* of tcp_sock, where they are single bits */
} k;

static struct tcp_congestion_ops___flags ca_ops; /* what the socket's controller says of itself */

static inline void set_pace(struct sock *of, u64 rate)
{
	k.pacing_rate = rate;
}

#define TSO_SEGS 2

static inline u32 default_tso_segs(struct sock *of)
{
	return TSO_SEGS;
}

static struct tcp_sock___rates rates;
static struct rate_sample rate; /* of this ACK */
#define rates_of(tp) ((const struct tcp_sock___rates *)&rates)
#define rate_sample_arg(context) ((const struct rate_sample *)&rate)

static u32 random_state;

static inline u32 bpf_get_prandom_u32(void)
{
	random_state = random_state * 1664525 + 1013904223;
	return random_state >> 7;
}

static unsigned long long bpf_ktime_get_ns(void)
{
	return tp->tcp_mstamp * 1000;
}

/* A command and its arguments. */
struct line {
	const struct command *command;
	int n;
	struct arg {
		const char *key;
		const char *text; /* bytes in hexadecimal; NULL or else a number */
		long long value;
		const struct entry *member; /* that the key names */
		bool taken;
	} args[64];
};

/* Functions that only serve the model need no sanitizer: a run takes half the time. */
#define UNWATCHED_BEGIN \
	_Pragma("clang attribute push(__attribute__((no_sanitize(\"address\", \"undefined\", \"coverage\"))), apply_to = function)")
#define UNWATCHED_END _Pragma("clang attribute pop")

UNWATCHED_BEGIN

static struct line *served;

static char extra[1 << 18]; /* what its answer tells beside the window */

static bool same(const char *a, const char *b)
{
	if (a == b)
		return true;
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static struct arg *take_arg(const char *key)
{
	for (int i = 0; i < served->n; i++) {
		struct arg *arg = &served->args[i];

		if (!arg->taken && same(arg->key, key)) {
			arg->taken = true;
			return arg;
		}
	}
	return NULL;
}

static const char *take_text(const char *key)
{
	struct arg *arg = take_arg(key);

	return arg ? arg->text : NULL;
}

static long long take(const char *key, long long otherwise)
{
	struct arg *arg = take_arg(key);

	return arg ? arg->value : otherwise;
}

UNWATCHED_END

#ifdef STORE
#include "storage.h"
#endif
#ifdef WIRE
#include "wire.h"
#else
static struct {
	u8 other; /* another controller runs */
} skops;

static inline long bpf_setsockopt(void *of, int level, int name, void *value, int len)
{
	skops.other = true;
	sprintf(extra, ",\"controller\":\"%.*s\"", len, (char *)value);
	return 0;
}
#endif
#if defined(STORE) && !defined(WIRE)
static void *storage_of(void *of, void *init, u64 flags)
{
	if (of != &sock || init)
		wrong("storage of what is no socket");
	return storage_made(flags);
}
#endif
#include CONTROLLER
#define ACCURATE (OPS.flags & TCP_CONG_NEEDS_ACCECN) /* then its peers have AccECN */

#define MEMBER(s, m) { #m, &(s).m, sizeof((s).m) }
static const struct entry members[] = {
	MEMBER(sock.tp, snd_una), MEMBER(sock.tp, snd_nxt), MEMBER(sock.tp, snd_cwnd),
	MEMBER(sock.tp, snd_ssthresh), MEMBER(sock.tp, snd_cwnd_clamp), MEMBER(sock.tp, prior_cwnd),
	MEMBER(sock.tp, max_packets_out), MEMBER(sock.tp, mss_cache), MEMBER(sock.tp, srtt_us), MEMBER(sock.tp, data_segs_out),
	MEMBER(sock.tp, tcp_mstamp), MEMBER(k, seg), MEMBER(sock.tp, packets_out), MEMBER(sock.tp, sacked_out),
	MEMBER(sock.tp, lost_out), MEMBER(sock.tp, retrans_out), MEMBER(sock.tp, delivered), MEMBER(k, app), MEMBER(k, high_seq),
	MEMBER(k, stack_cwnd), MEMBER(k, prior_ssthresh), MEMBER(k, retransmits), MEMBER(k, usage_seq), MEMBER(k, state),
	MEMBER(k, undo_marker), MEMBER(k, tx_start), MEMBER(k, shut), MEMBER(k, timestamps), MEMBER(k, ect0),
	MEMBER(sock.tp, rcv_nxt), MEMBER(sock.tp, rcv_wup), MEMBER(sock.tp, rcv_wnd), MEMBER(sock.tp, write_seq), MEMBER(sock.tp, snd_wnd),
	MEMBER(sock.tp, bytes_received), MEMBER(sock.tp.rx_opt, num_sacks),
	MEMBER(sock.tp.rx_opt, rcv_tsval), MEMBER(sock.tp.rx_opt, rcv_tsecr), MEMBER(k, saw_tstamp), MEMBER(k, usec_ts),
	MEMBER(ICSK->icsk_ack, pending), MEMBER(ICSK->icsk_ack, rcv_mss), MEMBER(*ICSK, icsk_retransmits), MEMBER(sock.tp, ecn_flags), { "ca_flags", &ca_ops.flags, sizeof(u32) },
	MEMBER(k, pacing_rate), MEMBER(k, burst), MEMBER(k, sack_ok), MEMBER(rates, delivered_ce), MEMBER(rates, lost), MEMBER(rates, app_limited),
#ifdef WIRE
	MEMBER(skops, cb_flags), MEMBER(skops, keeps_syn), MEMBER(skops, remote_port), MEMBER(skops, chosen), MEMBER(skops, locked), MEMBER(skops, other),
#endif
#ifdef STORE
	MEMBER(storage, exists), MEMBER(storage, fails),
#endif
	{ "now", &sock.tp.tcp_mstamp, sizeof(u64) },
};

#define AT(of, type, m) (of) + offsetof(type, m), sizeof(((type *)0)->m)
#define PRIVATE ((char *)ICSK->icsk_ca_priv)
#define FIELD(m) { "ca." #m, AT(PRIVATE, struct OPS, m) },
#define SENDER(m) { "ca." #m, AT(PRIVATE, struct OPS, s.m) },
#define STORED(m) { STORED_AS "." #m, AT((char *)storage.bytes, __typeof__(*STORE.value), m) },
static const struct entry fields[] = {
#include FIELDS /* a line for each number, which driver.py takes from the object's BTF */
	{ 0 },
};

#ifdef STORE
_Static_assert(sizeof(*STORE.value) <= sizeof(storage.bytes), "no room for the storage");
#endif

UNWATCHED_BEGIN

static const struct entry *find(const struct entry *e, int n, const char *name)
{
	for (; n-- > 0 && e->name; e++)
		if (same(e->name, name))
			return e;
	return NULL;
}

#define COUNT_OF(a) (int)(sizeof(a) / sizeof((a)[0]))

static const struct entry *member(const char *name)
{
	return find(members, COUNT_OF(members), name) ?: find(fields, COUNT_OF(fields), name);
}

/* Members first: the clock must be right when the controller runs. */
static void set_members(void)
{
	for (int i = 0; i < served->n; i++) {
		struct arg *arg = &served->args[i];

		if (arg->member) {
			put(arg->member, arg->value);
			arg->taken = true;
		}
	}
	tp->rx_opt.saw_tstamp = k.saw_tstamp;
	tp->tcp_usec_ts = k.usec_ts;
	rates.rx_opt.sack_ok = k.sack_ok;
}

static const char *error; /* of the line being served */

static void set_params(void)
{
	for (int i = 0; i < served->n; i++) {
		struct arg *arg = &served->args[i];
		const struct entry *e = find(params, n_params, arg->key);

		if (arg->member)
			continue;
		if (!e)
			error = "no such parameter";
		else if (arg->value < e->min || arg->value > e->max)
			error = "out of bounds";
		else
			put(e, arg->value);
		arg->taken = true;
	}
}

UNWATCHED_END
