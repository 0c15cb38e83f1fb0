// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ACC+SA: ACK congestion control and sender adaptation.
 *
 *   [B] Balakrishnan, Padmanabhan, Katz, "The Effects of Asymmetry on TCP Performance", MobiCom 1997.
 *   [R] RFC 3449, 5.2.1 and 5.3.
 *   [N] The authors' own simulation of it: Agent/TCPSink/Asym and Agent/TCP/Reno/Asym in ns-2.
 *
 * In short. The receiver sends one ACK for each dk data packets, and its ACKs can be marked (ECT). A RED
 * queue on the reverse path marks them (CE) when it fills. The sender tells the receiver on its data:
 *     told of a mark             dk <- 2 dk, once a round trip                              (1)
 *     a round trip without       dk <- dk - 1, not below 1                                  (2)
 *     at most                    dk <= cwnd / 2                                             (3)
 * The receiver answers at once what is out of order, and what the sender has nothing to send after. The sender's
 * window grows by the packets acknowledged, not by the ACKs, as Linux's Reno does; what an ACK lets go
 * leaves paced, not as a burst. All else is Reno.
 *
 * Good where RED marks on the ACK path. Without marks it is a paced Reno and its receiver answers each
 * packet: a reverse queue that only drops is not relieved. Both ends must run it.
 *
 * One object, four hooks:
 *   sender, law         struct_ops: cong_control.
 *   sender, wire        sockops: writes the option; cgroup_skb/ingress: sees marks of ACKs, which the stack ignores.
 *   receiver, wire      sockops: reads the option, does (1) to (3); struct_ops in_ack_event: makes the kernel answer at
 *                       once; struct_ops flags: its pure ACKs are ECT.
 *   receiver, thinning  cgroup_skb/egress: drops the kernel's other pure ACKs.
 *
 * Our choices where the sources are silent or differ, and our differences from them:
 *  - dk starts from 1, and is at most dk_max: [N], maxdelack_. [R] has neither. Without a bound dk runs beyond what (3) lets
 *    wait, and then takes as many round trips to come back.
 *  - Packets leave at 5/4 of cwnd / srtt (pace_percent): at 1, as in [N], a packet that leaves late is time lost.
 *  - [N] echoes a mark once; a lost packet would lose it. Here each packet carries the number of marks so far.
 *  - A round trip, at the receiver: until the sender has an ACK that was sent after it began. [N] tells it by timestamps,
 *    here the option has the sender's snd_una.
 *  - (2) takes a whole round trip without a mark, after the one that a doubling needs to show. [N] takes one off with the
 *    first packet after that; then dk goes 1, 2, 1, 2 where there is a mark in each round trip, and ACKs are dropped.
 *  - Data and its repetitions are ECT, so ECN is agreed on with the SYN and a mark on data is a loss to Reno (RFC 3168).
 *    To a SYN with hello a host agrees whatever its tcp_ecn: the SYN of a sender is ECT itself, which others
 *    refuse. Ingress sees it and leaves a note, since where ECN is agreed on no option can be read. Without ECN, or if the
 *    peer does not know the option, the connection goes on as the kernel's Reno.
 */
#include "declare.bpf.h"
#include "sender.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

PARAM(u32, dk_max, 25, 1, 65535, "packets", "bound of dk; 25 in the scripts of [N] (tcl/ex/asym), 5 in its class");
PARAM(u32, pace_percent, 125, 100, 400, "%", "packets leave at so much of cwnd / srtt; 100 [N]");
PARAM(u32, delay_us, 100000, 1000, 1000000, "us", "an ACK that is later than this is sent with the next packet [N]");
PARAM(u32, init_cwnd, 0, 0, 1024, "packets", "first window; 0: the stack's");

COUNTER(flows, "connections started, receivers' too");
COUNTER(peers, "connections whose other end said that it counts by dk");
COUNTER(fallbacks, "connections that went on as the kernel's Reno: without ECN, or the peer does not know the option");
COUNTER(losses, "reductions by loss: fast retransmit, ECN or RTO");
COUNTER(timeouts, "retransmission timeouts");
COUNTER(undos, "reductions found spurious and taken back");
COUNTER(idle_restarts, "windows that an idle time has shrunk");
COUNTER(marks, "ACKs that came marked");
COUNTER(options_sent, "data options written");
COUNTER(options_seen, "data options read");
COUNTER(options_bad, "options of ours with a wrong length");
COUNTER(doublings, "dk doubled");
COUNTER(decrements, "dk less one");
COUNTER(acks_sent, "pure ACKs let pass, of connections with an ACC+SA sender");
COUNTER(acks_suppressed, "pure ACKs dropped");
COUNTER(dk_sum, "of acks_sent: dk, summed");

/* The registered name, written by the loader: what a receiver's controller is switched to. */
const volatile char asymcc_name[16] = "accsa";

/* --- on the wire ------------------------------------------------------------------------- */

/*
 * Experimental TCP options (RFC 6994), 16-bit ExIDs, not registered:
 *   hello   4 bytes, SYN and SYN-ACK: "I count by dk"
 *   data   12 bytes, each data segment of the sender
 */
#define HELLO_EXID bpf_htons(0xF0A3)
#define DATA_EXID bpf_htons(0xF0A4)

#define DATA_T \
	0x80 /* answer at once: no full segment follows, for want of data or of the peer's window; or a probe beyond cwnd */

struct data_option {
	u8 kind, len;
	__be16 exid;
	u8 flags;
	u8 marks; /* marked ACKs so far, mod 256 */
	__be16 cwnd; /* packets */
	__be32 una; /* the sender's snd_una */
};

struct wire {
	/* both */
	bool peer; /* the other end said hello, and ECN is agreed on */
	bool ours; /* our controller runs on this socket */

	/* sender */
	u32 marks;
	u32 noted; /* marked ACKs that the stack has not accepted yet ... */
	u32 noted_ack; /* ... and the newest of their numbers */

	/* receiver */
	bool receiving; /* data options come */
	bool thin; /* and the kernel answers when told to: other pure ACKs are dropped */
	bool due; /* the next ACK passes */
	bool optioned; /* a data option came since the kernel's last ACK */
	bool doubled; /* this round trip began with a doubling */
	u8 marks_seen;
	u32 dk;
	u32 waiting; /* packets since the last ACK */
	u32 round; /* rcv_nxt when this round trip began */
	u32 end; /* end of the data that came with an option */
	u32 last_ack; /* the kernel's last ACK, passed or not: its number ... */
	u32 last_right; /* ... and the right edge of its window */
	u32 passed_right; /* of the last that passed */
	u64 passed_ns; /* and when it did */
};

#include "wire.bpf.h"

/* The port that the SYN came from which this CPU takes in, if it says hello. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} greeting SEC(".maps");

/* --- sender's law --------------------------------------------------------------------------- */

/* One connection. Windows in packets. */
struct accsa {
	struct sender s;
	u32 w;
	u32 count; /* packets acknowledged since w grew: of w the next is due */
	u32 delivered; /* tp->delivered ... */
	u32 una; /* ... and tp->snd_una at the last ACK */
	u32 srtt_us; /* smoothed RTT of the newest packet covered; 0: none */
};
STATE(struct accsa);

static inline void take_window(struct accsa *a, const struct tcp_sock *tp)
{
	a->w = stack_window(tp);
	a->count = 0;
	a->s.cwnd = tp->snd_cwnd;
}

/* Reno's, by packets, as Linux has it. */
static inline void grow(struct accsa *a, const struct tcp_sock *tp, u32 acked)
{
	u32 was = a->w;

	acked = min(acked, W_MAX);
	if (a->w < tp->snd_ssthresh) {
		a->w = min((u64)a->w + acked, tp->snd_ssthresh);
		acked -= a->w - was;
	}
	a->count += acked; /* below w before, 2^20 each */
	if (a->count >= a->w) {
		u32 more = a->count / a->w;

		a->count -= more * a->w;
		a->w += more;
	}
	a->w = min(a->w, max(window_limit(tp), 1));
	a->count = min(a->count, a->w - 1);
}

/* While the stack repairs or reduces: ssthresh, but the first repair waits for nothing. */
static inline void reduced(struct sock *sk, struct accsa *a)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 cwnd = max(tp->snd_ssthresh, W_MIN);

	a->w = min(cwnd, W_MAX);
	a->count = 0;
	cwnd_write(&a->s, tp, first_repair(tp, cwnd));
}

static inline bool reducing(struct sock *sk)
{
	u8 state = read_bits(inet_csk(sk), icsk_ca_state);

	return state == TCP_CA_CWR || state == TCP_CA_Recovery;
}

SEC("struct_ops/accsa_init")
void BPF_PROG(accsa_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct accsa *a = inet_csk_ca(sk);
	struct wire *w = bpf_sk_storage_get(&wires, sk, NULL, 0);
	char reno[] = "reno";

	__builtin_memset(a, 0, sizeof(*a));
	COUNT(flows);
	if (!w || !w->peer) {
		COUNT(fallbacks);
		bpf_setsockopt(sk, IPPROTO_TCP_, TCP_CONGESTION_, reno, sizeof(reno));
		return;
	}
	w->ours = true;
	if (!w->receiving) /* to receive changes no window */
		first_window(tp, init_cwnd);
	take_window(a, tp);
	a->delivered = tp->delivered;
	a->una = tp->snd_una;
}

SEC("struct_ops/accsa_release")
void BPF_PROG(accsa_release, struct sock *sk)
{
	struct wire *w = bpf_sk_storage_get(&wires, sk, NULL, 0);

	if (w) /* another controller follows: it forces no ACKs */
		w->ours = w->thin = false;
}

/* The RTT of an ACK's newest packet: the others have waited for it. */
SEC("struct_ops/accsa_pkts_acked")
void BPF_PROG(accsa_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct accsa *a = inet_csk_ca(sk);

	if (!rtt_sample(&a->s, tcp_sk(sk), sample, 0))
		return;
	a->srtt_us = a->srtt_us ? ((u64)7 * a->srtt_us + a->s.rtt_last) / 8 : a->s.rtt_last;
}

SEC("struct_ops/accsa_cong_control")
void BPF_PROG(accsa_cong_control, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct accsa *a = inet_csk_ca(sk);
	u32 acked = tp->delivered - a->delivered;
	bool advanced = tp->snd_una != a->una;

	a->s.ack_stamp = tp->tcp_mstamp;
	a->delivered = tp->delivered;
	a->una = tp->snd_una;
	if (reducing(sk)) {
		reduced(sk, a);
	} else {
		if (cwnd_changed(&a->s, tp)) /* by an RTO, or an undo */
			take_window(a, tp);
		if (advanced && may_grow(tp)) /* not by duplicate ACKs, of which the third is a loss */
			grow(a, tp, acked);
		cwnd_write(&a->s, tp, a->w);
	}
	if (a->srtt_us) /* 2^20 * 2^16 * 10^4 * 2^9 < 2^59 */
		pace(sk, mul_div((u64)a->w * min(tp->mss_cache, 65535) * 10000, pace_percent, a->srtt_us));
}

SEC("struct_ops/accsa_ssthresh")
u32 BPF_PROG(accsa_ssthresh, struct sock *sk)
{
	COUNT(losses);
	return half_window(tcp_sk(sk));
}

SEC("struct_ops/accsa_set_state")
void BPF_PROG(accsa_set_state, struct sock *sk, u8 state)
{
	if (state == TCP_CA_Loss)
		COUNT(timeouts);
	else if (state == TCP_CA_CWR || state == TCP_CA_Recovery) /* by a timer, too: no ACK need follow */
		reduced(sk, inet_csk_ca(sk));
}

SEC("struct_ops/accsa_undo_cwnd")
u32 BPF_PROG(accsa_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct accsa *a = inet_csk_ca(sk);

	COUNT(undos);
	look_anew(&a->s); /* the window is taken anew, also if the first repair's is the same */
	return undone_window(tp);
}

SEC("struct_ops/accsa_min_tso_segs")
u32 BPF_PROG(accsa_min_tso_segs, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct accsa *a = inet_csk_ca(sk);

	if (shrunk_by_idle(&a->s, tp)) {
		COUNT(idle_restarts);
		take_window(a, tp);
	}
	return default_tso_segs(sk);
}

/* The stack has accepted an ACK, una: marks noted with its number count, those of ACKs that it has not are dropped. */
static inline void commit_marks(struct wire *w, u32 una)
{
	u32 noted;

	if (!w->noted || before(una, w->noted_ack)) /* those wait for a socket that is in use */
		return;
	noted = __sync_lock_test_and_set(&w->noted, 0);
	if (una != w->noted_ack)
		return;
	w->marks += noted;
	__sync_fetch_and_add(&marks, noted);
}

/*
 * Runs for the segment that PARSE_HDR_OPT_CB, or ingress, has just noted, before its data is queued. The kernel
 * then sends an ACK once it is: with this segment covered.
 */
SEC("struct_ops/accsa_in_ack_event")
void BPF_PROG(accsa_in_ack_event, struct sock *sk, u32 flags)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct wire *w = bpf_sk_storage_get(&wires, sk, NULL, 0);

	if (!w)
		return;
	commit_marks(w, tcp_sk(sk)->snd_una);
	if (!w->receiving)
		return;
	w->thin = true;
	if (w->due)
		icsk->icsk_ack.pending |= ICSK_ACK_NOW;
}

/* --- options ----------------------------------------------------------------------------------- */

static inline bool greets(struct bpf_sock_ops *ops)
{
	return is_ours(ops);
}

/* Without ECN there are no marks to count by. */
static inline void established(struct bpf_sock_ops *ops)
{
	struct tcp_sock *tp = tcp_of(ops);

	if (tp && tp->ecn_flags & TCP_ECN_OK)
		speak(ops);
}

static inline bool sends_options(const struct wire *w)
{
	return w && w->ours && w->peer;
}

static inline void reserve(struct bpf_sock_ops *ops)
{
	if (reserved_hello(ops))
		return;
	if ((ops->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS || ops->skb_len) && sends_options(wire_of(ops, 0)))
		bpf_reserve_hdr_opt(ops, sizeof(struct data_option), 0);
}

static inline void write(struct bpf_sock_ops *ops)
{
	struct hello_option greet = HELLO;
	struct data_option o = { .kind = OPTION_KIND, .len = sizeof(o), .exid = DATA_EXID };
	struct tcp_header h;
	struct tcp_sock *tp;
	struct wire *w;
	u32 payload, end;

	if (wrote_hello(ops, &greet))
		return;
	w = wire_of(ops, 0);
	tp = tcp_of(ops);
	if (!sends_options(w) || !tp || !header(ops, &h, &payload) || !payload)
		return;
	w->waiting = 0; /* it acknowledges, too */
	end = bpf_ntohl(h.seq) + payload;
	if (is_last(tp, end) || packets_in_flight(tp) >= tp->snd_cwnd)
		o.flags = DATA_T;
	o.marks = w->marks;
	o.cwnd = bpf_htons(min(tp->snd_cwnd, 65535));
	o.una = bpf_htonl(tp->snd_una);
	if (!bpf_store_hdr_opt(ops, &o, sizeof(o), 0))
		COUNT(options_sent);
}

/* The first data option. False where this controller cannot be the socket's. */
static inline bool start_receiving(struct bpf_sock_ops *ops, struct wire *w, const struct data_option *o)
{
	w->receiving = true; /* the controller's init looks at it */
	if (!w->ours)
		w->receiving = take_socket(ops);
	w->dk = 1;
	w->marks_seen = o->marks;
	w->end = w->last_ack = w->round = ops->rcv_nxt;
	return w->receiving;
}

/* (1) and (2). Marks that come within the round trip after a doubling are from ACKs before it. */
static inline void adapt(struct bpf_sock_ops *ops, struct wire *w, const struct data_option *o)
{
	bool over = before(w->round, bpf_ntohl(o->una));
	u8 marks = o->marks - w->marks_seen;

	if (marks >= 128) /* overtaken by a packet that told of more */
		return;
	w->marks_seen = o->marks;
	if (marks && (over || !w->doubled)) {
		w->dk = min(2 * w->dk, dk_max);
		w->doubled = true;
		COUNT(doublings);
	} else if (over) {
		if (w->dk > 1 && !w->doubled) {
			w->dk--;
			COUNT(decrements);
		}
		w->doubled = false;
	} else {
		return;
	}
	w->round = ops->rcv_nxt;
}

/* The receiver counts a packet, and decides whether it is to be answered at once. */
static inline void
received(struct bpf_sock_ops *ops, struct wire *w, const struct data_option *o, const struct tcp_header *h, u32 payload)
{
	u32 seq = bpf_ntohl(h->seq), end = seq + payload;
	u32 most = max(bpf_ntohs(o->cwnd) / 2, 1), mss = 0; /* (3) */
	struct tcp_sock *tp = tcp_of(ops);

	COUNT(options_seen);
	if (!w->receiving && !start_receiving(ops, w, o))
		return;
	w->optioned = true;
	adapt(ops, w, o);
	if (tp)
		mss = ((struct inet_connection_sock *)tp)->icsk_ack.rcv_mss;
	w->waiting += divide(payload + mss - 1, mss); /* many, where GRO has made one of them */
	if (seq != ops->rcv_nxt || before(ops->rcv_nxt, w->end) || o->flags & DATA_T || h->flags & FIN ||
	    w->waiting >= min(w->dk, most) || bpf_ktime_get_ns() - w->passed_ns > 1000ULL * delay_us)
		w->due = true;
	if (before(w->end, end))
		w->end = end;
}

static inline void parse(struct bpf_sock_ops *ops)
{
	struct wire *w = wire_of(ops, 0);
	struct data_option data;
	struct tcp_header h;
	u32 payload;
	int len;

	if (!w || !w->peer || !header(ops, &h, &payload) || !payload || !acceptable(ops, &h))
		return;
	len = find_option(ops, &data, sizeof(data), DATA_EXID, 0);
	if (len == sizeof(data))
		received(ops, w, &data, &h, payload);
	else if (is_bad(len))
		COUNT(options_bad);
}

SEC("sockops")
int accsa_sockops(struct bpf_sock_ops *ops)
{
	u32 *greeted, zero = 0;

	switch (ops->op) {
	case BPF_SOCK_OPS_NEEDS_ECN: /* of a SYN that has come; one that goes asks if its controller is ours */
		greeted = bpf_map_lookup_elem(&greeting, &zero);
		if (!ops->is_fullsock && greeted && *greeted && *greeted == bpf_ntohl(ops->remote_port))
			ops->reply = 1;
		break;
		WIRE_CASES(ops, is_ours, established)
	}
	return 1;
}

/* --- what passes by ------------------------------------------------------------------------------ */

/* Is the hello among the options of this SYN? It stands at a multiple of four, as Linux writes it. */
static inline bool hello_in(struct __sk_buff *skb, const struct tcp_header *h, u32 at)
{
	u32 end = at + (h->offset >> 4) * 4;
	struct hello_option o;

	at += sizeof(*h);
	for (int i = 0; i < 10 && at < end && !bpf_skb_load_bytes(skb, at, &o, sizeof(o)); i++, at += sizeof(o))
		if (o.kind == OPTION_KIND && o.len == sizeof(o) && o.exid == HELLO_EXID)
			return true;
	return false;
}

/* Anybody can send what comes here: is it one that the stack may accept? Its place is in our window, its ACK in the flight. */
static inline bool plausible(const struct tcp_sock *tp, u32 seq, u32 ack)
{
	return !before(seq, tp->rcv_wup) && !before(tp->rcv_wup + tp->rcv_wnd, seq) && !before(ack, tp->snd_una) &&
	       !before(tp->snd_nxt, ack);
}

SEC("cgroup_skb/ingress")
int accsa_ingress(struct __sk_buff *skb)
{
	struct tcp_header h;
	struct tcp_sock *tp;
	u32 ack, at, zero = 0, *greeted;
	struct wire *w;
	u8 ecn;

	at = bare_segment(skb, &h, &ecn);
	if (!at)
		return 1;
	if ((h.flags & (SYN | ACK)) == SYN) {
		greeted = bpf_map_lookup_elem(&greeting, &zero);
		if (greeted)
			*greeted = hello_in(skb, &h, at) ? bpf_ntohs(h.source) : 0;
		return 1;
	}
	if (ecn != CE || (h.flags & (SYN | FIN | RST | ACK)) != ACK)
		return 1;
	tp = tcp_sock_of(skb->sk);
	w = tp ? bpf_sk_storage_get(&wires, tp, NULL, 0) : NULL;
	if (!sends_options(w))
		return 1;
	ack = bpf_ntohl(h.ack);
	if (!plausible(tp, bpf_ntohl(h.seq), ack))
		return 1;
	if (!w->noted || before(w->noted_ack, ack))
		w->noted_ack = ack;
	__sync_fetch_and_add(&w->noted, 1);
	return 1;
}

static inline bool must_pass(struct wire *w, const struct tcp_sock *tp, u32 ack, u32 right, u64 now)
{
	u32 two = 2 * ((const struct inet_connection_sock *)tp)->icsk_ack.rcv_mss;

	if (w->due || ack != w->end || (ack != w->last_ack && !w->optioned)) /* gaps; data without options */
		return true;
	if (ack == w->last_ack && right == w->last_right) /* said before: somebody asked */
		return true;
	if (before(w->passed_right, right) && before(w->passed_right, w->end + two))
		return true; /* the window that the sender knows is used up */
	return now - w->passed_ns > 1000ULL * delay_us;
}

#define ON_PASS(w) __sync_fetch_and_add(&dk_sum, (w)->dk), (w)->due = false, (w)->waiting = 0

#define PROGRAM accsa_egress
#include "ack_filter.bpf.h"

SEC(".struct_ops")
struct tcp_congestion_ops accsa = {
	.init = (void *)accsa_init,
	.release = (void *)accsa_release,
	.pkts_acked = (void *)accsa_pkts_acked,
	.in_ack_event = (void *)accsa_in_ack_event,
	.cong_control = (void *)accsa_cong_control,
	.ssthresh = (void *)accsa_ssthresh,
	.set_state = (void *)accsa_set_state,
	.undo_cwnd = (void *)accsa_undo_cwnd,
	.min_tso_segs = (void *)accsa_min_tso_segs,
	.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN,
	.name = "accsa",
};
