// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A controller's own source on a small model of the kernel's TCP sender.
 *
 * Built with -DCONTROLLER='"fast.bpf.c"' -DOPS=fast; the private state is `struct OPS`, which has
 * a `struct sender s`; its other visible members stand in FIELDS.
 *
 *   NAME                   reads a command a line, `name key=value ...`, and answers each with one line of JSON
 *   NAME judge             the same, and ends at the first that breaks a rule (rules.h)
 *   NAME lines FILE        the commands that an input of the fuzzer stands for (stream.h)
 *   NAME [parameter=value ...] [-option=value ...] [FOLDER ...]   libFuzzer; parameters named here stay as they are
 *
 * A key that names a member of the model ("ca.x": of the private state) sets it first.
 *
 *   reset                         every parameter to its default, every counter to 0
 *   set     NAME=value            a parameter, within its bounds
 *   params                        {name: [value, default, min, max]}
 *   new     [key=value]           a fresh connection: init, then the first flight
 *   ack     n= sack= rtt= ece= slow=
 *                                 n packets acknowledged, sack more selectively; rtt in us, -1: none; slow=1: not on the fast path
 *   loss    n= sack= timer=       n packets at the head found lost: fast retransmit, by an ACK or by RACK's timer
 *   cwr                           ECN or local congestion
 *   rto     undo                  timeout; the last reduction was spurious
 *   restart cwnd=                 idle for longer than an RTO: the stack cuts the window to cwnd,
 *                                 unless the controller has cong_control
 *   send    event id=  poke       let the application send; raw cwnd_event; set members only
 *   release                       another controller follows
 *   state                         everything
 * and, of a controller that has its own TCP options, those of wire.h.
 *
 * Two members matter most: now= (the clock, us) and app= (packets that the application keeps in
 * flight at most; without it the window is the limit). Order and conditions of the calls are the
 * kernel's: tcp_ack(), tcp_fastretrans_alert(), tcp_enter_loss(), tcp_write_xmit().
 * The queue of sent packets is simplified to [lost][selectively acknowledged][in flight].
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
#define pace pace_of_the_kernel
#include "declare.bpf.h"
#include "sender.bpf.h"
#undef mul_div
#undef pace

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

/* What the model prints is its own: checks of it take most of the time. */
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

#define NO_SSTHRESH 0x7fffffffu /* TCP_INFINITE_SSTHRESH */
#define SND_WND (1u << 30)      /* the largest window a peer can offer */

static struct sock sock, *sk = &sock;
static struct tcp_sock *tp = &sock.tp;
#define ICSK ((struct inet_connection_sock *)&sock)

/* What the kernel keeps but no controller reads. Windows and counts in packets. */
static struct {
	u32 seg;         /* sequence numbers a packet takes */
	u32 app;         /* what the application keeps in flight at most */
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
	u8 timestamps;   /* a retransmitted packet gives an RTT sample too */
	u8 saw_tstamp, usec_ts; /* of tcp_sock, where they are single bits */
} k;

static inline void pace(struct sock *of, u64 rate)
{
	k.pacing_rate = rate;
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

/* What only serves the model needs no watching: a run takes half the time. */
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

#ifdef WIRE
#include "wire.h"
#endif
#include CONTROLLER

#define MEMBER(s, m) { #m, &(s).m, sizeof((s).m) }
static const struct entry members[] = {
	MEMBER(sock.tp, snd_una), MEMBER(sock.tp, snd_nxt), MEMBER(sock.tp, snd_cwnd),
	MEMBER(sock.tp, snd_ssthresh), MEMBER(sock.tp, snd_cwnd_clamp), MEMBER(sock.tp, prior_cwnd),
	MEMBER(sock.tp, max_packets_out), MEMBER(sock.tp, mss_cache), MEMBER(sock.tp, srtt_us), MEMBER(sock.tp, data_segs_out),
	MEMBER(sock.tp, tcp_mstamp), MEMBER(k, seg), MEMBER(sock.tp, packets_out), MEMBER(sock.tp, sacked_out),
	MEMBER(sock.tp, lost_out), MEMBER(sock.tp, retrans_out), MEMBER(sock.tp, delivered), MEMBER(k, app), MEMBER(k, high_seq),
	MEMBER(k, stack_cwnd), MEMBER(k, prior_ssthresh), MEMBER(k, retransmits), MEMBER(k, usage_seq), MEMBER(k, state),
	MEMBER(k, undo_marker), MEMBER(k, tx_start), MEMBER(k, timestamps),
	MEMBER(sock.tp, rcv_nxt), MEMBER(sock.tp, rcv_wup), MEMBER(sock.tp, rcv_wnd), MEMBER(sock.tp, write_seq), MEMBER(sock.tp, snd_wnd),
	MEMBER(sock.tp.rx_opt, rcv_tsval), MEMBER(sock.tp.rx_opt, rcv_tsecr), MEMBER(k, saw_tstamp), MEMBER(k, usec_ts),
	MEMBER(ICSK->icsk_ack, pending), MEMBER(ICSK->icsk_ack, rcv_mss), MEMBER(*ICSK, icsk_retransmits), MEMBER(sock.tp, ecn_flags),
	MEMBER(k, pacing_rate),
#ifdef WIRE
	MEMBER(skops, cb_flags), MEMBER(skops, keeps_syn), MEMBER(skops, remote_port), MEMBER(skops, chosen), MEMBER(skops, locked), MEMBER(skops, other), MEMBER(storage, exists), MEMBER(storage, fails),
#endif
	{ "now", &sock.tp.tcp_mstamp, sizeof(u64) },
};

#define AT(of, type, m) (of) + offsetof(type, m), sizeof(((type *)0)->m)
#define PRIVATE ((char *)ICSK->icsk_ca_priv)
#define FIELD(m) { "ca." #m, AT(PRIVATE, struct OPS, m) },
#define SENDER(m) { "ca." #m, AT(PRIVATE, struct OPS, s.m) },
#define STORED(m) { "wire." #m, AT((char *)storage.bytes, __typeof__(*wires.value), m) },
static const struct entry fields[] = {
	SENDER(round_stamp) SENDER(ack_stamp) SENDER(round_end) SENDER(cwnd)
	SENDER(rtt_last) SENDER(rtt_min) SENDER(rtt_young) SENDER(young_s)
#ifdef FIELDS
#include FIELDS
#endif
	{ 0 },
};

#ifdef WIRE
_Static_assert(sizeof(*wires.value) <= sizeof(storage.bytes), "no room for the storage");
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

static u32 in_flight(void)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

static void event(enum tcp_ca_event ev)
{
	if (OPS.cwnd_event)
		OPS.cwnd_event(sk, ev);
}

static void stack_sets_cwnd(u32 cwnd)
{
	tp->snd_cwnd = k.stack_cwnd = cwnd;
}

static void set_state(u8 state)
{
	if (OPS.set_state)
		OPS.set_state(sk, state);
	k.state = ICSK->icsk_ca_state = state;
}

static bool in_reduction(void)
{
	return k.state == CWR || k.state == RECOVERY;
}

static u32 current_ssthresh(void)
{
	u32 cwnd = tp->snd_cwnd;

	return in_reduction() ? tp->snd_ssthresh : max(tp->snd_ssthresh, (cwnd >> 1) + (cwnd >> 2));
}

static void cwnd_validate(bool limited)
{
	if (!before(tp->snd_una, k.usage_seq) || limited ||
	    (!tp->is_cwnd_limited && tp->packets_out > tp->max_packets_out)) {
		tp->is_cwnd_limited = limited;
		tp->max_packets_out = tp->packets_out;
		k.usage_seq = tp->snd_nxt;
	}
}

/* What window, application and peer allow: lost packets first. */
static void allowed(u32 data, u32 *fresh, u32 *again)
{
	u32 flight = in_flight(), room = tp->snd_cwnd > flight ? tp->snd_cwnd - flight : 0;

	*again = min(room, tp->lost_out - tp->retrans_out);
	*fresh = min(room - *again, data);
}

static void transmit(u32 *fresh, u32 *again)
{
	u32 limit = min(k.app, SND_WND / k.seg);
	u32 data = limit > tp->packets_out ? limit - tp->packets_out : 0;
	bool full;

#ifdef WIRE
	if (skops.other)
		return;
#endif
	allowed(data, fresh, again);
	tp->write_seq = tp->snd_nxt + data * k.seg;
	for (u32 i = 0; i < *fresh + *again; i++) {
#ifdef WIRE
		send_options(i < *again ? tp->snd_una + (tp->retrans_out + i) * k.seg
					: tp->snd_nxt + (i - *again) * k.seg);
		if (i >= WRITTEN || (i && !(skops.cb_flags & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG)))
#else
		if (i)
#endif
		{
			tp->data_segs_out += *fresh + *again - i;
			break;
		}
		/*
		 * Not only after idle: every packet that leaves into an empty network. Its options are
		 * written by then, and it does not count yet.
		 */
		if (!i && !in_flight() && k.tx_start) {
			event(CA_EVENT_TX_START);
			allowed(data, fresh, again);
		}
		tp->data_segs_out++;
	}
	tp->retrans_out += *again;
	tp->packets_out += *fresh;
	tp->snd_nxt += *fresh * k.seg;
	if (in_reduction())
		k.prr_out += *fresh + *again;
	full = in_flight() >= tp->snd_cwnd;
	if (data && (*fresh || full))
		cwnd_validate(full);
}

static void init_reduction(void)
{
	k.high_seq = tp->snd_nxt;
	k.prr_delivered = k.prr_out = 0;
	tp->prior_cwnd = tp->snd_cwnd;
	tp->snd_ssthresh = OPS.ssthresh(sk);
}

/* Proportional rate reduction, RFC 6937. */
static void prr(u32 delivered, bool advanced)
{
	int delta = (int)(tp->snd_ssthresh - in_flight()), count;

	if (!delivered)
		return;
	k.prr_delivered += delivered;
	if (delta < 0) {
		u64 share = (u64)tp->snd_ssthresh * k.prr_delivered + tp->prior_cwnd - 1;

		count = (int)(share / tp->prior_cwnd) - (int)k.prr_out;
	} else {
		count = (int)(k.prr_delivered - k.prr_out);
		if (count < (int)delivered)
			count = delivered;
		count += advanced;
		if (count > delta)
			count = delta;
	}
	if (count < !k.prr_out)
		count = !k.prr_out;
	stack_sets_cwnd(in_flight() + count);
}

/* tcp_cong_control() */
static void control(u32 delivered, bool advanced)
{
	if (OPS.cong_control)
		OPS.cong_control(sk); /* in every state: there is no PRR */
	else if (in_reduction())
		prr(delivered, advanced);
	else if (advanced)
		OPS.cong_avoid(sk, tp->snd_una, delivered);
}

static void end_reduction(void)
{
	if (OPS.cong_control)
		return;
	if (tp->snd_ssthresh < NO_SSTHRESH && (k.state == CWR || k.undo_marker))
		stack_sets_cwnd(tp->snd_ssthresh);
	event(CA_EVENT_COMPLETE_CWR);
}

static void leave_recovery(void)
{
	tp->lost_out = tp->retrans_out = 0; /* all of it lay before high_seq */
	if (k.state == CWR) {
		end_reduction();
		set_state(OPEN);
	} else {
		bool reduced = k.state == RECOVERY;

		set_state(OPEN);
		if (reduced)
			end_reduction();
	}
}

static void average_rtt(long long rtt)
{
	if (rtt > 0)
		tp->srtt_us = tp->srtt_us ? tp->srtt_us - (tp->srtt_us >> 3) + rtt : rtt << 3;
}

static void ack_event(u32 flags)
{
#ifdef WIRE
	if (skops.other)
		return;
#endif
	if (OPS.in_ack_event)
		OPS.in_ack_event(sk, flags);
}

static void ack(void)
{
	u32 n = min(take("n", 1), tp->packets_out), lost = min(n, tp->lost_out);
	u32 sacked = min(n - lost, tp->sacked_out);
	u32 free = tp->packets_out - n - (tp->lost_out - lost) - (tp->sacked_out - sacked);
	u32 more = min(take("sack", 0), free), delivered = n - sacked + more;
	long long rtt = take("rtt", -1);
	struct ack_sample sample = { .pkts_acked = n, .in_flight = take("in_flight", in_flight()) };
	u32 flags = take("ece", 0) ? 5 : take("slow", 0); /* CA_ACK_SLOWPATH 1, CA_ACK_ECE 4 */

	if (!tp->packets_out) { /* tcp_ack(): no_queue */
		ack_event(flags);
		return;
	}
	if (lost && tp->retrans_out && !k.timestamps)
		rtt = -1;
	sample.rtt_us = n || more ? rtt : -1;

	tp->snd_una += n * k.seg;
	tp->delivered += delivered;
	tp->packets_out -= n;
	tp->lost_out -= lost;
	tp->retrans_out -= min(lost, tp->retrans_out);
	tp->sacked_out += more - sacked;
	if (n)
		k.retransmits = 0;
	average_rtt(sample.rtt_us);

	ack_event(flags);
	if (OPS.pkts_acked)
		OPS.pkts_acked(sk, &sample);
	if (k.state >= CWR && !before(tp->snd_una, k.high_seq) &&
	    (k.state != CWR || tp->snd_una != k.high_seq))
		leave_recovery();
	control(delivered, n > 0);
}

static void fast_retransmit(void)
{
	u32 n = take("n", 1), timer = take("timer", 0), sack = take("sack", !timer);

	if (tp->packets_out == 0 || k.state == LOSS)
		return;
	n = min(n, tp->packets_out - tp->sacked_out - tp->lost_out);
	tp->lost_out += n;
	sack = min(sack, tp->packets_out - tp->sacked_out - tp->lost_out);
	tp->sacked_out += sack;
	if (k.state != RECOVERY) {
		k.prior_ssthresh = 0;
		k.undo_marker = 1;
		if (!in_reduction()) {
			k.prior_ssthresh = current_ssthresh();
			init_reduction();
		}
		set_state(RECOVERY);
	}
	if (!timer)
		control(sack, false);
	else if (!OPS.cong_control)
		prr(1, false);
}

static void enter_cwr(void)
{
	k.prior_ssthresh = 0;
	if (k.state < CWR) {
		k.undo_marker = 0;
		init_reduction();
		set_state(CWR);
	}
}

static void timeout(void)
{
	if (!tp->packets_out)
		return;
	tp->lost_out = tp->packets_out - tp->sacked_out;
	tp->retrans_out = 0;
	if (k.state <= DISORDER || !before(tp->snd_una, k.high_seq) ||
	    (k.state == LOSS && !k.retransmits)) {
		k.prior_ssthresh = current_ssthresh();
		tp->prior_cwnd = tp->snd_cwnd;
		tp->snd_ssthresh = OPS.ssthresh(sk);
		event(CA_EVENT_LOSS);
		k.undo_marker = 1;
	}
	stack_sets_cwnd(in_flight() + 1);
	set_state(LOSS);
	k.high_seq = tp->snd_nxt; /* snd_nxt itself is not taken back */
	k.retransmits++;
}

static void undo(void)
{
	if (!k.undo_marker)
		return;
	tp->lost_out = tp->retrans_out = 0;
	if (k.prior_ssthresh) {
		stack_sets_cwnd(OPS.undo_cwnd(sk));
		tp->snd_ssthresh = max(tp->snd_ssthresh, k.prior_ssthresh);
	}
	k.undo_marker = 0;
	if (k.state != OPEN)
		set_state(OPEN);
}

static void restart(void)
{
	u32 cwnd = take("cwnd", 10);

	if (tp->packets_out || OPS.cong_control)
		return;
	event(CA_EVENT_CWND_RESTART);
	tp->snd_ssthresh = current_ssthresh();
	stack_sets_cwnd(min(tp->snd_cwnd, cwnd));
}

static void fresh_socket(void)
{
	ASAN_UNPOISON_MEMORY_REGION(sk, sizeof(*sk));
	memset(sk, 0, sizeof(*sk));
	ASAN_POISON_MEMORY_REGION(ICSK + 1, ROOM - sizeof(*ICSK)); /* what overruns the private state */
	memset(&k, 0, sizeof(k));
	tp->snd_cwnd = 10;
	tp->snd_ssthresh = NO_SSTHRESH;
	tp->snd_cwnd_clamp = ~0u;
	tp->snd_wnd = SND_WND;
	tp->mss_cache = 960;
	tp->snd_una = tp->snd_nxt = 1;
	tp->tcp_mstamp = 1000000;
	k.seg = 960;
	k.app = ~0u;
	k.tx_start = 1;
	tp->rcv_nxt = tp->rcv_wup = 1;
	tp->rcv_wnd = 1 << 20;
	ICSK->icsk_ack.rcv_mss = 960;
#ifdef WIRE
	fresh_wire();
#endif
	set_members();
	stack_sets_cwnd(min(tp->snd_cwnd, tp->snd_cwnd_clamp));
	k.usage_seq = tp->snd_nxt;
	ICSK->icsk_ca_state = k.state;
#ifdef WIRE
	handshake();
	if (skops.other)
		return;
#endif
	if (OPS.init)
		OPS.init(sk);
}

/* Those whose name has the prefix. */
static void print_entries(const char *name, const struct entry *e, int n, const char *prefix)
{
	const char *comma = "";

	printf("\"%s\":{", name);
	for (; n-- > 0 && e->name; e++) {
		if (strncmp(e->name, prefix, strlen(prefix)))
			continue;
		printf("%s\"%s\":%llu", comma, e->name + strlen(prefix), get(e));
		comma = ",";
	}
	printf("}");
}

static void print_state(void)
{
	printf("{");
	print_entries("tp", members, COUNT_OF(members), "");
	printf(",");
	print_entries("ca", fields, COUNT_OF(fields), "ca.");
	printf(",");
	print_entries("wire", fields, COUNT_OF(fields), "wire.");
	printf(",");
	print_entries("counters", counters, n_counters, "");
	printf(",\"cwnd_limited\":%d,\"cong_control\":%d}\n", tp->is_cwnd_limited, !!OPS.cong_control);
}

static void print_params(void)
{
	printf("{");
	for (int i = 0; i < n_params; i++)
		printf("%s\"%s\":[%llu,%lld,%lld,%lld]", i ? "," : "", params[i].name, get(&params[i]),
		       params[i].initial, params[i].min, params[i].max);
	printf("}\n");
}

static void raw_event(void)
{
	event(take("id", 0));
}

static void release(void)
{
	if (OPS.release)
		OPS.release(sk);
#ifdef WIRE
	skops.other = true;
#endif
}

static void nothing(void)
{
}

static void reset(void)
{
	for (int i = 0; i < n_params; i++)
		put(&params[i], params[i].initial);
	for (int i = 0; i < n_counters; i++)
		put(&counters[i], 0);
}

static const struct command {
	const char *name;
	void (*run)(void);
	bool sends; /* then packets may leave */
} commands[] = {
	{ "reset", reset, false },     { "set", set_params, false },	 { "new", fresh_socket, true },
	{ "ack", ack, true },	       { "loss", fast_retransmit, true }, { "cwr", enter_cwr, true },
	{ "rto", timeout, true },      { "undo", undo, true },		 { "restart", restart, true },
	{ "send", nothing, true },     { "event", raw_event, false },	 { "poke", nothing, false },
	{ "release", release, false },
#ifdef WIRE
	{ "call", call, false },       { "read", read_options, false },	 { "write", write_options, false },
	{ "egress", egress, false },   { "ingress", ingress, false },
#endif
};

UNWATCHED_BEGIN

static const struct command *command(const char *name)
{
	for (int i = 0; i < COUNT_OF(commands); i++)
		if (same(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static struct {
	u32 fresh, again; /* packets that left */
} sent;

/* Executes a line; `error` tells what is wrong with it. */
static void play(struct line *line)
{
	const struct command *c = line->command;

	served = line;
	error = NULL;
	extra[0] = 0;
	sent.fresh = sent.again = 0;
	for (int i = 0; i < line->n; i++)
		line->args[i].taken = false;
	if (c->run != fresh_socket)
		set_members();
#ifdef WIRE
	if (skops.other && c->run != fresh_socket && (c->sends || c->run == raw_event))
		return; /* another controller's connection, which sends nothing */
#endif
	c->run();
	for (int i = 0; i < line->n && !error; i++)
		if (!line->args[i].taken)
			error = "no such key";
	if (c->sends && !error)
		transmit(&sent.fresh, &sent.again);
}

/* Of a line of text, which it changes. */
static void parse_line(char *text, struct line *line)
{
	char *word = strtok(text, " \n");

	error = NULL;
	line->n = 0;
	line->command = word ? command(word) : NULL;
	if (!line->command)
		error = "no such command";
	while ((word = strtok(NULL, " \n")) && !error) {
		char *eq = strchr(word, '=');

		if (!eq || line->n == COUNT_OF(line->args)) {
			error = "not key=value, or too many";
			return;
		}
		*eq = 0;
		line->args[line->n++] =
			(struct arg){ word, eq + 1, strtoll(eq + 1, NULL, 0), member(word), false };
	}
}

static void print_answer(void)
{
	if (error)
		printf("{\"error\":\"%s\"}\n", error);
	else
		printf("{\"cwnd\":%u,\"sent\":%u,\"again\":%u%s}\n", tp->snd_cwnd, sent.fresh, sent.again, extra);
}

#include "rules.h"
#include "stream.h"

/* Each command on stdin. */
static void serve_all(void)
{
	static char text[8192];
	static struct line line;

	setvbuf(stdout, NULL, _IOLBF, 1 << 16);
	while (fgets(text, sizeof(text), stdin))
		if (same(text, "state\n")) {
			print_state();
		} else if (same(text, "params\n")) {
			print_params();
		} else {
			parse_line(text, &line);
			if (!error)
				play(&line);
			print_answer();
		}
}

/* The stream on stdin, until it breaks a rule. */
static void judge_all(void)
{
	char *text = NULL;
	size_t room = 0;

	start();
	while (getline(&text, &room, stdin) > 0 && stream.n < MOST) {
		struct line *line = &stream.lines[stream.n++];

		printf("%s", text);
		parse_line(text, line);
		if (!error)
			judge_line(line);
		print_answer();
		if (error)
			exit(2);
		text = NULL; /* the line's own from now on */
	}
	free(text);
	finish();
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	decode(data, size);
	return 0;
}

static void print_input(const char *path)
{
	static u8 data[1 << 16];
	FILE *file = fopen(path, "r");

	if (!file) {
		perror(path);
		exit(2);
	}
	telling = true;
	decode(data, fread(data, 1, sizeof(data), file));
	fclose(file);
}

/* A parameter that stays as it is. */
static bool fix_param(char *word)
{
	char *eq = strchr(word, '=');
	struct entry *e;

	if (!eq)
		return false;
	*eq = 0;
	e = (struct entry *)find(params, n_params, word);
	*eq = '=';
	if (e)
		e->initial = e->min = e->max = strtoll(eq + 1, NULL, 0);
	return e;
}

/* libFuzzer's main() calls this first. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	int n = 1;

	for (int i = 1; i < *argc; i++)
		if (!fix_param((*argv)[i]))
			(*argv)[n++] = (*argv)[i];
	*argc = n;
	(*argv)[n] = NULL;
	if (n > 1 && !same((*argv)[1], "judge") && !same((*argv)[1], "lines"))
		return 0;
	if (n == 1)
		serve_all();
	else if (same((*argv)[1], "judge"))
		judge_all();
	else
		print_input((*argv)[2]);
	exit(0);
}

UNWATCHED_END
