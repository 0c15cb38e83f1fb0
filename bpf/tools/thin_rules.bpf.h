/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which ACKs pass: the rules of `asymcc thin`, at the receiver's socket (thin.bpf.c) and on a router (thin_router.bpf.c).
 *
 * The sender needs some ACKs in each RTT, to keep its clock and its samples: `acks_per_rtt` of them pass. More pass where `reverse_kbit`
 * has room for them. Without a rate the sender's timestamps tell whether ACKs wait on their way: only then are they dropped.
 *
 * The receiver believes that a dropped ACK was sent, and no timer of its sends it again. So an ACK is only dropped where a later one
 * is sure to follow: data still comes, in order, at a known rate.
 */
#ifndef THIN_RULES_BPF_H
#define THIN_RULES_BPF_H

#include "../declare.bpf.h"
#include "../packet.bpf.h"

TUNABLE(u8, thins, 1, 0, 1, "-", "0: every ACK passes");
TUNABLE(u32, acks_per_rtt, 16, 2, 1000, "ACKs", "ACKs that a sender gets in each RTT at least ...");
TUNABLE(u32, least_per_rtt, 2, 1, 1000, "ACKs", "... and where `reverse_kbit` is given, and has no room for more");
TUNABLE(u8, waits_only, 1, 0, 1, "-", "1: without `reverse_kbit` drops ACKs only while they wait, as timestamps tell");
TUNABLE(u32, max_packets, 16, 2, 256, "packets", "packets that an ACK covers at most");
TUNABLE(u32, reverse_kbit, 0, 0, 10000000, "kbit/s",
	"rate for the ACKs of all connections; drops only those that it has no room for. 0: not known");

TUNABLE(s32, overhead, 0, -64, 256, "bytes", "that an ACK takes at the bottleneck beside its IP packet");
TUNABLE(s32, mpu, 0, 0, 256, "bytes", "that an ACK takes there at least, with `overhead`");
TUNABLE(u8, atm, 0, 0, 1, "-", "1: there it takes whole cells of 53 bytes, of which 48 are its own");

COUNTER(acks_suppressed, "pure ACKs that were dropped");
COUNTER(acks_sent, "pure ACKs that passed, each for one of these reasons:");
COUNTER(sent_start, "in the first 64 kB, or in those after a pause, a loss or a stall");
COUNTER(sent_silence, "the first for a while: 20 ms, or a share of the RTT");
COUNTER(sent_share, "it covers as many packets as an ACK may");
COUNTER(sent_room, "the uplink has room for it: by `reverse_kbit`, or as no ACK waits");
COUNTER(sent_train, "one in 2 ms while the sender's window doubles");
COUNTER(sent_tail, "the end of what the application sends, a FIN, or asked for by the sender");
COUNTER(sent_window, "the sender knows of a small window, or of one that is no more");
COUNTER(sent_sack, "a gap, its end, or a duplicate");
COUNTER(sent_again, "its number was said before: a window update, an answer, a probe");
COUNTER(sent_ecn, "marks: a change of the ECN bits, DCTCP, a counter that could wrap");
COUNTER(sent_option, "an option that a later ACK does not repeat, such as MPTCP's");
COUNTER(acks_over, "ACKs that passed as the senders need more than `reverse_kbit`");
COUNTER(acks_beside, "ACKs that passed as this machine sends data beside them");
COUNTER(stalls, "times that a sender waited for an ACK that was dropped");

enum {
	START_BYTES = 64 * 1024, /* at first, after idle and after a stall each ACK passes */
	SILENCE_NS = 20000000,   /* an ACK passes after so long, or its share of an RTT, without one */
	SILENCE_MAX_NS = 500000000, /* an ACK passes after so long, whatever RTT a peer pretends (RFC 9293) */
	DUPS = 3,                /* as many tell the sender of a loss */
	INITIAL_PACKETS = 10,    /* the packets that a sender begins with, and again after idle (RFC 6928) */
	EDGE_PACKETS = 4,        /* room in the window that the sender knows of: less is told at once */
	WORDS_PLAIN = 5,         /* length of a header without options, in words of 4 bytes */
	WORDS_STAMP = 8,         /* the same with timestamps alone, as Linux writes them */
	WORDS_BLOCK = 2, /* the same of a SACK block */
	WORDS_ACCECN = 3,        /* AccECN's option with all three counters (RFC 9768), and a byte to fill */
	LENGTH_ACCECN = 11,
	TCPOPT_ACCECN0 = 172,
	TCPOPT_ACCECN1 = 174,
	ACE_PACKETS = 4,         /* three bits count marked packets: of more than 7 a sender may take 8 for marked */
	COUNTED_BYTES = 1 << 22, /* the other counters have 24 bits */
	STAMP_WORD = 0x0101080a,
	LONGEST_RTT_US = 1 << 25,    /* 33 s */
	SPACING_NS = 1900000,    /* between ACKs while a window doubles: HyStart's train ends at a gap of 2 ms */
	LOAD_NS = 1000000000,    /* the data and ACKs that leave are counted over so long */
	BACKLOG_MAX_NS = 500000000,
	OVERLOAD_NS = 800000000, /* so far ahead, what senders need has no room */
	TURNS_NS = 1000000000, /* connections are counted over so long */
	TURNS_MAX = 1 << 16,
	HALVINGS_MAX = 8,
	BLOCKS_SHOWN = 3, /* SACK blocks that fit beside timestamps: of more only the newest are told */
	CELL_DATA = 48, /* bytes that an ATM cell holds */
	CELL = 53,      /* bytes that an ATM cell takes */
	OPTIONS_MAX = 16, /* options of a segment that are looked at */
	TCPOPT_EXPERIMENT = 254,
	TARR_LENGTH = 5,  /* bytes of a TCP ACK Rate Request with a rate (draft-ietf-tcpm-ack-rate-request) */
	TARR_ID = 0x00ac, /* its identifier; one byte follows, the rate above a bit that is reserved */
	TICKS_MIN_MS = 100, /* the time in which the peer's timestamps show whether they count ms */
	PROBE_MS = 8000,    /* the time in which the space between ACKs would fall to none at its present pace */
	QUEUE_MS = 4,       /* or a sixteenth of the RTT: a shorter queue of ACKs is none */
	LONG_QUEUE = 4,     /* shortest RTTs: a queue that is shorter does less harm than fewer ACKs */
	STANDS = 8,         /* RTTs in a row that a queue drops none */
	FUTILE = 4,         /* times in a row that no space between ACKs would help */
	NONE = -1,
};

#define CALM_NS 60000000000ULL
#define FUTILE_NS 60000000000ULL
#define DRIFT_NS 8000000000ULL /* the time in which two clocks part by 1 ms (125 ppm) at most */
#define NEEDED_MAX_NS 4000000000ULL

struct flow {
	u64 rtt_ns; /* RTT, smoothed; 0: no sample yet */
	u64 shortest_ns; /* the shortest sample of the RTT */
	u64 stamp_ns;     /* when the ACK that is timed left; 0: none is */
	u64 epoch_ns; /* when this epoch began: the bytes of an RTT are counted from here on */
	u64 came_ns;      /* the last ACK of new data that the kernel sent */
	u64 due_ns; /* when the last ACK passed that was due, or that there was room for */
	u64 stalled_ns;   /* the last stall, or halving taken back */
	u64 space_ns; /* the least time between two ACKs, as they wait in a queue; 0: they do not wait */
	u64 room_ns; /* when there is room for the next ACK: the mean space counts */
	u64 turn_ns; /* when its ACKs are through at its part of `reverse_kbit` */
	u64 counted_ns; /* when the period began in which it was counted */
	u64 ticks_ns; /* when the peer's first timestamp came; 0: none has */
	u64 least_ns;     /* when `least` was last set, or raised by the clocks' drift */
	u64 futile_ns; /* until then fewer ACKs do not help */
	u64 last_push_ns; /* when the last segment with PSH came */
	u32 ticks; /* the peer's first timestamp, which came at `ticks_ns` */
	u32 least; /* TSval less TSecr in ms, the least: the way of an ACK without a queue, by clocks that differ */
	u32 least_now; /* the least since `epoch_ns` */
	u32 queue_ms; /* how long ACKs waited in a queue in the epoch before */
	u32 acks; /* number of timestamps of the kernel's ACKs since `epoch_ns` */
	u32 acks_last; /* the newest of them */
	u32 heard; /* number of timestamps since `epoch_ns` that the sender echoed */
	u32 heard_last; /* the newest of them */
	u32 changed; /* the newest timestamp when `space_ns` was set */
	u32 stamp; /* the timestamp in the ACK that left at `stamp_ns` */
	u32 epoch_ack; /* the ACK's number at `epoch_ns`: bytes are counted from there */
	u32 rtt_bytes; /* the bytes that came in the last RTT; 0: not known yet */
	u32 due_ack; /* the number of the ACK that left at `due_ns` */
	u32 thin_from; /* below this number each ACK passes */
	u32 last_ack; /* number of the kernel's last ACK, passed or not */
	u32 last_right; /* the right edge of its window */
	u32 passed_ack; /* number of the last ACK that passed */
	u32 passed_right; /* the right edge of its window */
	u32 pushed; /* end of what the application sends now */
	u32 last_push; /* end of the last segment with PSH */
	u32 edge; /* left edge of the newest block of SACK in the last ACK of this gap */
	u16 flags; /* flags of the last ACK that passed */
	u8 push; /* is `pushed` waited for? */
	u8 halvings; /* how often stalls have halved what an ACK covers */
	u8 asked; /* packets that an ACK covers at most, as the sender asked; 0: it did not */
	u8 dups; /* ACKs of this gap, up to DUPS */
	u8 blocks; /* blocks of SACK in the last ACK of this gap */
	u8 gap_share; /* packets that an ACK of this gap covers */
	u8 gap_dropped; /* ACKs of this gap that were dropped since one passed */
	u8 stands; /* RTTs in which ACKs had a queue and none was lost, up to STANDS */
	u8 futile; /* times that no space helped, up to FUTILE */
	bool doubles; /* in the last RTT a quarter more came than in that before */
	bool counts; /* the kernel's last ACK had AccECN's counters */
	bool in_ms; /* the peer's timestamps count ms */
	bool spaces; /* space between the ACKs helps */
	bool timed; /* `least_now` is one of this epoch */
	bool settles; /* what comes in this epoch does not tell of `space_ns` yet */
};

/* What is known of the receiver of the data: by its socket, or by its packets. */
struct receiver {
	u64 handshake_ns; /* the handshake's RTT; 0: not known */
	u64 behind_ns; /* what an RTT that is timed here lacks: the way to the receiver and back */
	u32 rcv_nxt; /* next byte that it expects ... */
	u32 rcv_wnd; /* ... and how many it takes */
	u32 snd_una; /* of its own data the first byte that is not acknowledged ... */
	u32 snd_nxt; /* ... and the end of what it has sent */
	u32 mss; /* bytes of payload in a segment that comes; 0: none has */
};

/* A pure ACK of its. */
struct pure {
	struct tcp_header h;
	u32 at; /* of the TCP header in the packet */
	u32 len; /* bytes from the IP header on */
	u32 right; /* right edge of its window */
	bool stamped;
	__be32 stamps[3];
	u8 blocks; /* of SACK, without that of a duplicate */
	bool duplicate; /* it reports one */
	u32 edge; /* left edge of the newest block */
	bool accecn; /* its ECN bits count marks (RFC 9768) */
	bool each_mark; /* ECE tells of each byte whether it was marked, as DCTCP's: what an ACK covers must be marked alike */
};

/* What leaves. CPUs count at once: one may miss what another adds. */
struct load {
	u64 since_ns;
	u64 data; /* bytes of all but ACKs, of late */
	u64 acks; /* bytes of ACKs, also those that are dropped */
};

/* When the ACKs that have passed are through at `reverse_kbit`. */
u64 through_ns;
/* When they would be through, if only the ACKs had passed that the senders need. */
u64 needed_ns;
/* The senders need more than `reverse_kbit` carries: `needed_ns` is far ahead. All ACKs pass, and the queue chooses. */
bool overloaded;

/* Connections that have ACKs in this period, and in that before. CPUs count at once: one may miss what another adds. */
struct {
	u64 since_ns;
	u32 now, last;
} turns;

static inline u64 ahead_ns(u64 through, u64 now, u64 most)
{
	return through > now ? min(through - now, most) : 0;
}

/*
 * Do more than half as many bytes of data leave as of ACKs? Then data fills the uplink. A dropped ACK makes room for more data in its
 * queue, and the next ACKs wait behind that.
 */
static inline bool data_leaves(struct load *l, bool ack, u32 len, u64 now)
{
	if (now - l->since_ns > LOAD_NS) {
		u32 halvings = min((now - l->since_ns) / LOAD_NS, 63);

		l->data >>= halvings;
		l->acks >>= halvings;
		l->since_ns = now;
	}
	if (ack)
		l->acks += len;
	else
		l->data += len;
	return 2 * l->data > l->acks;
}

/*
 * Timestamps tell it; without them the handshake's RTT stands. Both are no longer than the sender's window takes, so that an ACK
 * covers no more than its share of that.
 */
static inline u64 rtt_of(const struct flow *f, const struct receiver *r)
{
	return f->rtt_ns ? f->rtt_ns : r->handshake_ns;
}

/* The RTT of the path without queues, as far as it is known: the handshake's, or a shorter one since. */
static inline u64 shortest_rtt(const struct flow *f, const struct receiver *r)
{
	return f->shortest_ns && (!r->handshake_ns || f->shortest_ns < r->handshake_ns)
		       ? f->shortest_ns
		       : r->handshake_ns;
}

/* TSval and TSecr of a header whose options begin with timestamps, as Linux writes them. */
static inline bool timestamps(struct __sk_buff *skb, u32 at, const struct tcp_header *h, __be32 stamps[3])
{
	return h->offset >> 4 >= WORDS_STAMP && !bpf_skb_load_bytes(skb, at + sizeof(*h), stamps, 12) &&
	       stamps[0] == bpf_htonl(STAMP_WORD);
}

/*
 * Its timestamps and blocks of SACK, where its header and place are known. A header with anything else has no block here, and is not
 * plain: it passes.
 */
static __always_inline void read_pure(struct __sk_buff *skb, struct pure *a)
{
	u32 words = a->h.offset >> 4, first, at;
	__be32 left;
	u8 o[4];

	a->stamped = timestamps(skb, a->at, &a->h, a->stamps);
	a->blocks = a->duplicate = a->edge = 0;
	first = a->stamped ? WORDS_STAMP : WORDS_PLAIN;
	at = a->at + 4 * first;
	if (words <= first || !((words - first) & 1) || bpf_skb_load_bytes(skb, at, o, 4) || o[0] != 1 || o[1] != 1 ||
	    o[2] != TCPOPT_SACK || o[3] != 4 * (words - first) - 2)
		return;
	a->duplicate = reports_duplicate(skb, &a->h, a->at, bpf_ntohl(a->h.ack));
	a->blocks = (words - first) / WORDS_BLOCK - a->duplicate;
	if (a->blocks && !bpf_skb_load_bytes(skb, at + 4 + 4 * WORDS_BLOCK * a->duplicate, &left, 4))
		a->edge = bpf_ntohl(left);
}

#include "thin_heard.bpf.h"
#include "thin_wait.bpf.h"

/* --- what has come ---------------------------------------------------------------------------- */

/* A segment of the sender. */
struct heard {
	struct tcp_header h;
	u32 at; /* of the TCP header in the packet */
	u32 payload; /* bytes */
	int packets; /* as of rate_request() */
	bool stamped;
	__be32 stamps[3];
};

/* What it says, where its header and payload are known. */
static __always_inline void read_heard(struct __sk_buff *skb, struct heard *s)
{
	s->stamped = timestamps(skb, s->at, &s->h, s->stamps);
	s->packets =
		s->h.offset >> 4 == (s->stamped ? WORDS_STAMP : WORDS_PLAIN) ? NONE : rate_request(skb, s->at, &s->h);
}

static __always_inline void hear(struct flow *f, const struct receiver *r, const struct heard *s, u64 now)
{
	u32 seq = bpf_ntohl(s->h.seq), end = seq + s->payload;
	bool accepted = takes_ack(r, &s->h);

	if (before(seq, r->rcv_nxt) || seq - r->rcv_nxt > r->rcv_wnd) /* old, or not of this connection */
		return;
	if (accepted && s->packets != NONE)
		note_request(f, r, s->packets, end);
	if (accepted && s->stamped)
		sample_rtt(f, r, bpf_ntohl(s->stamps[2]), now);
	if (accepted && s->stamped && s->payload)
		note_way(f, bpf_ntohl(s->stamps[1]), bpf_ntohl(s->stamps[2]), now);
	if (s->h.flags & (PSH | FIN))
		note_end(f, r, end, s->payload, s->h.flags, accepted, now);
}

/* --- which ACKs pass ---------------------------------------------------------------------------- */

/* Has no ACK passed for so long that the next one must? */
static inline bool silent(const struct flow *f, u64 ns, u64 now)
{
	return now - f->due_ns > min(max(ns, SILENCE_NS), SILENCE_MAX_NS);
}

/* Is it known how many ACKs the uplink takes? Then a sender gets `least_per_rtt`, and what there is room for. */
static inline bool paced(const struct flow *f)
{
	return reverse_kbit || f->in_ms;
}

/* An ACK covers the bytes of so many to an RTT. */
static inline u32 per_rtt(const struct flow *f)
{
	return max(paced(f) ? least_per_rtt : acks_per_rtt, 1);
}

/* Bytes that an ACK covers. */
static inline u32 share(const struct flow *f, u32 mss)
{
	u64 bytes = (f->rtt_bytes ? f->rtt_bytes : INITIAL_PACKETS * mss) / per_rtt(f);

	if (!paced(f))
		bytes = min(bytes, max_packets * mss);
	bytes >>= min(f->halvings, HALVINGS_MAX);
	return f->asked ? min(bytes, f->asked * mss) : bytes;
}

/* A loss: the sender will halve its window. Until then each packet has an ACK. */
static inline void gap_begins(struct flow *f, u32 mss)
{
	f->gap_share = min(share(f, mss) / max(mss, 1), 255);
	f->gap_dropped = 0;
	f->rtt_bytes /= 2;
}

/*
 * A gap: each ACK reports all that lies beyond it, or its last three blocks, so that a later one says what this one does. The first
 * ones and those with a new block pass, and as many of the others as passed before the gap; where the reverse rate is known to be
 * small, one in each RTT, and what there is room for. A queue that they fill keeps the oldest, and drops those with the news.
 */
static inline bool gap_passes(const struct pure *a, struct flow *f, u64 rtt_ns, u64 now)
{
	bool hides = a->blocks >= BLOCKS_SHOWN && a->edge != f->edge;
	bool passes = f->dups < DUPS || a->blocks != f->blocks || hides || a->duplicate;

	if (paced(f))
		passes = passes || silent(f, rtt_ns, now);
	else
		passes = passes || f->push || f->gap_dropped + 1 >= f->gap_share || silent(f, rtt_ns / per_rtt(f), now);
	f->gap_dropped = passes ? 0 : f->gap_dropped + 1;
	f->dups = min(f->dups + 1, DUPS);
	f->blocks = a->blocks;
	f->edge = a->edge;
	return passes;
}

/* The kernel repeats an ACK that the sender has not heard: it was dropped, or lost. */
static inline void stalled(struct flow *f, u32 ack, u64 now)
{
	COUNT(stalls);
	if (f->halvings < HALVINGS_MAX)
		f->halvings++;
	f->stalled_ns = now;
	f->thin_from = ack + START_BYTES;
}

/* A long time without one takes a halving back. */
static inline void recover(struct flow *f, u64 now)
{
	if (!f->halvings || now - f->stalled_ns < CALM_NS)
		return;
	f->halvings--;
	f->stalled_ns = now;
}

/* Why this ACK must pass, as the counter of such; NULL: it need not. From a `far` receiver ACKs come that say less than the awaited one. */
static __always_inline u64 *
must_pass(struct flow *f, u32 mss, u32 ack, u32 right, u64 rtt_ns, u64 since, bool far, u64 now)
{
	u32 known = f->passed_right - ack, half = (right - ack) / 2, edge = EDGE_PACKETS * mss;
	bool starts = before(ack, f->thin_from);

	if (!starts) /* it goes along: numbers wrap */
		f->thin_from = ack;
	if (f->push && !(far && before(ack, f->pushed))) {
		f->push = before(ack, f->pushed);
		return &sent_tail;
	}
	if (starts && !paced(f))
		return &sent_start;
	if (silent(f, rtt_ns / per_rtt(f), now))
		return &sent_silence;
	if ((s32)known < 0 || known < max(edge, half))
		return &sent_window;
	/* A train of ACKs ends if the next one comes too late. */
	if (f->doubles && !paced(f) && now - f->due_ns + since > SPACING_NS && since < SPACING_NS)
		return &sent_train;
	return ack - f->due_ack >= share(f, mss) ? &sent_share : NULL;
}

/* Bytes that an IP packet of so many takes at the bottleneck, as CAKE counts them. */
static inline u32 on_link(u32 len)
{
	s32 bytes = len + overhead, least = mpu;
	u32 taken = bytes > least ? bytes : least;

	return atm ? (taken + CELL_DATA - 1) / CELL_DATA * CELL : taken;
}

/* Among how many connections is the rate divided? */
static inline u32 count_turns(struct flow *f, u64 now)
{
	if (now - turns.since_ns > TURNS_NS) {
		turns.last = turns.now;
		turns.now = 0;
		turns.since_ns = now;
	}
	if (f->counted_ns != turns.since_ns) {
		f->counted_ns = turns.since_ns;
		turns.now++;
	}
	return min(max(turns.last, turns.now), TURNS_MAX);
}

/*
 * Takes the time of an ACK of so many bytes, if the reverse rate has room for it, or it passes anyhow. Data comes in bursts, and ACKs
 * leave so: a quarter of an RTT of them may wait. With none that waits a burst would have one ACK, and its answer is a larger burst.
 *
 * A connection that has had its part of the rate has room only where nothing waits. Else those whose ACKs come at once take all, and
 * the others, with two ACKs in an RTT, send bursts that queues do not hold. A cost is 2^40 ns at most, and so its product fits 2^64.
 */
static inline bool has_room(struct flow *f, u32 len, bool passes, u64 shortest_ns, u64 now)
{
	u32 kbit = reverse_kbit;
	u64 cost = (u64)len * 8 * 1000000, backlog, needed, turn;

	if (!kbit)
		return f->in_ms && now >= f->room_ns;
	cost /= kbit;
	backlog = ahead_ns(through_ns, now, BACKLOG_MAX_NS);
	needed = ahead_ns(needed_ns, now, NEEDED_MAX_NS);
	turn = ahead_ns(f->turn_ns, now, BACKLOG_MAX_NS);
	overloaded = needed > (overloaded ? 0 : OVERLOAD_NS);
	if (passes)
		needed_ns = now + needed + cost;
	else if (backlog > (turn > shortest_ns / 4 ? 0 : shortest_ns / 4))
		return false;
	/* By a sixteenth less than the rate, so that what waits drains: a queue that stands stops senders that look at the delay. */
	through_ns = now + backlog + cost + (backlog > cost && !passes ? cost / 16 : 0);
	f->turn_ns = now + turn + cost * count_turns(f, now);
	return true;
}

/* Dropping this ACK would not help the sender: it passes for this reason. */
static inline u64 *would_not_help(bool uploads)
{
	if (reverse_kbit)
		return overloaded ? &acks_over : NULL;
	return uploads ? &acks_beside : NULL;
}

/*
 * Are AccECN's counters all that the header has beside timestamps? They count from the start: a later ACK says what this one does, if
 * it has them as well.
 */
static inline bool has_counters(struct __sk_buff *skb, const struct pure *a, u32 first)
{
	u32 words = a->h.offset >> 4;
	u8 option[LENGTH_ACCECN + 1]; /* kind, length, the counters, and what fills the word: the end, or nothing */

	return words == first + WORDS_ACCECN && !bpf_skb_load_bytes(skb, a->at + 4 * first, option, sizeof(option)) &&
	       (option[0] == TCPOPT_ACCECN0 || option[0] == TCPOPT_ACCECN1) && option[1] == LENGTH_ACCECN &&
	       option[LENGTH_ACCECN] <= 1;
}

/* The first reason counts. */
static inline u64 *first(u64 *why, bool holds, u64 *reason)
{
	return why || !holds ? why : reason;
}

/* The kernel acknowledges new data. */
static inline void note_ack(struct flow *f, u32 tsval)
{
	f->blocks = f->dups = 0;
	f->acks += tsval != f->acks_last;
	f->acks_last = tsval;
}

static inline void time_ack(struct flow *f, u32 tsval, u64 now)
{
	f->stamp = tsval;
	f->stamp_ns = now;
}

/* One passes as it has to, or as there is room. */
static inline void take_room(struct flow *f, u32 ack, u64 now)
{
	f->due_ns = now;
	f->due_ack = ack;
	f->room_ns = min(max(f->room_ns, now - f->space_ns), now) + f->space_ns;
}

/* Does it pass? Every pure ACK is asked about, in its order. */
static __always_inline bool
ack_passes(struct __sk_buff *skb, struct flow *f, const struct receiver *r, const struct pure *a, bool uploads, u64 now)
{
	u32 ack = bpf_ntohl(a->h.ack), right = a->right, mss = r->mss, words;
	u64 rtt_ns = rtt_of(f, r), since = now - f->came_ns, *why, *must;
	u16 flags = (a->h.offset & 15) << 8 | a->h.flags; /* AccECN has one more bit */
	bool pass, counts, plain;

	words = a->stamped ? WORDS_STAMP : WORDS_PLAIN;
	counts = has_counters(skb, a, words);
	plain = a->h.offset >> 4 == words ||
		(counts && f->counts); /* SACK, MPTCP, a controller's own option are news */
	why = first(NULL, flags != f->flags || a->each_mark, &sent_ecn);
	why = first(why, a->accecn && ack - f->passed_ack >= (counts ? COUNTED_BYTES : ACE_PACKETS * mss), &sent_ecn);
	why = first(why, before(bpf_ntohl(a->h.seq), r->snd_una), &sent_again);
	why = first(why, before(right, f->passed_right), &sent_window);
	if (a->blocks) {
		if (!f->blocks)
			gap_begins(f, mss);
		f->thin_from = ack + START_BYTES;
		pass = gap_passes(a, f, rtt_ns, now);
		pass |= since > shortest_rtt(f, r) * 3 / 4; /* the sender may wait for it: no more is on its way */
		why = first(why, pass || a->accecn, &sent_sack); /* SACK leaves AccECN no room for all counters */
		f->came_ns = now;
	} else if (ack == f->last_ack) { /* somebody asked, sent what is here already, or the window grows */
		if (ack != f->passed_ack && right == f->last_right)
			stalled(f, ack, now);
		why = first(why, true, &sent_again);
	} else {
		why = first(why, !plain, &sent_option);
		why = first(why, f->blocks, &sent_sack); /* the first after a gap says that it is closed */
		recover(f, now);
		note_ack(f, a->stamped ? bpf_ntohl(a->stamps[1]) : f->acks_last);
		measure(f, ack, mss, shortest_rtt(f, r), rtt_ns, now);
		why = first(why, since > rtt_ns / 2, &sent_silence);
		f->came_ns = now;
		must = must_pass(f, mss, ack, right, rtt_ns, since, r->behind_ns, now);
		why = first(why, must, must);
	}
	why = first(why, has_room(f, on_link(a->len), why, shortest_rtt(f, r), now), &sent_room);
	if (why)
		take_room(f, ack, now);
	else
		why = would_not_help(uploads);
	f->counts = counts;
	f->last_ack = ack;
	f->last_right = right;
	if (!why) {
		COUNT(acks_suppressed);
		return false;
	}
	COUNT(acks_sent);
	COUNT(*why);
	f->passed_ack = ack;
	f->passed_right = right;
	f->flags = flags;
	if (a->stamped && !f->stamp_ns)
		time_ack(f, bpf_ntohl(a->stamps[1]), now);
	return true;
}

#endif
