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

#include "thin_segment.bpf.h"
#include "thin_room.bpf.h"

enum {
	SILENCE_MAX_NS = 500000000, /* an ACK passes after so long, whatever RTT a peer pretends (RFC 9293) */
	DUPS = 3,                   /* as many tell the sender of a loss */
	EDGE_PACKETS = 4,           /* room in the window that the sender knows of: less is told at once */
	WORDS_BLOCK = 2,            /* length of a SACK block, in words of 4 bytes */
	WORDS_ACCECN = 3,           /* AccECN's option with all three counters (RFC 9768), and a byte to fill */
	LENGTH_ACCECN = 11,
	TCPOPT_ACCECN0 = 172,
	TCPOPT_ACCECN1 = 174,
	ACE_PACKETS = 4,         /* three bits count marked packets: of more than 7 a sender may take 8 for marked */
	COUNTED_BYTES = 1 << 22, /* the other counters have 24 bits */
	SPACING_NS = 1900000,    /* between ACKs while a window doubles: HyStart's train ends at a gap of 2 ms */
	HALVINGS_MAX = 8,
	BLOCKS_SHOWN = 3, /* SACK blocks that fit beside timestamps: of more only the newest are told */
};

#define CALM_NS 60000000000ULL

/* An ACK passes for one of these: for each there is a counter. */
enum reason {
	DROPPED,
	FOR_START,
	FOR_SILENCE,
	FOR_SHARE,
	FOR_ROOM,
	FOR_TRAIN,
	FOR_TAIL,
	FOR_WINDOW,
	FOR_SACK,
	FOR_AGAIN,
	FOR_ECN,
	FOR_OPTION,
	FOR_OVER,
	FOR_BESIDE,
};

#define COUNTS(reason, counter) \
	case reason: \
		COUNT(counter); \
		break

static __always_inline void count(enum reason reason)
{
	if (reason == DROPPED) {
		COUNT(acks_suppressed);
		return;
	}
	COUNT(acks_sent);
	switch (reason) {
		COUNTS(FOR_START, sent_start);
		COUNTS(FOR_SILENCE, sent_silence);
		COUNTS(FOR_SHARE, sent_share);
		COUNTS(FOR_ROOM, sent_room);
		COUNTS(FOR_TRAIN, sent_train);
		COUNTS(FOR_TAIL, sent_tail);
		COUNTS(FOR_WINDOW, sent_window);
		COUNTS(FOR_SACK, sent_sack);
		COUNTS(FOR_AGAIN, sent_again);
		COUNTS(FOR_ECN, sent_ecn);
		COUNTS(FOR_OPTION, sent_option);
		COUNTS(FOR_OVER, acks_over);
	default:
		COUNT(acks_beside);
	}
}

/* --- the ACK at hand ---------------------------------------------------------------------------- */

/* A pure ACK of the receiver. */
struct pure {
	struct tcp_header h;
	u32 at;         /* of the TCP header in the packet */
	u32 len;        /* bytes from the IP header on */
	u32 right;      /* right edge of its window */
	bool accecn;    /* its ECN bits count marks (RFC 9768) */
	bool each_mark; /* ECE tells of each byte whether it was marked, as DCTCP's: what an ACK covers must be marked alike */

	/* read_pure() fills these */
	u32 ack;
	u16 flags; /* AccECN has one bit more than the others */
	bool stamped, plain, counts; /* has timestamps; nothing beside them; AccECN's counters beside them */
	bool duplicate; /* it reports one */
	u8 blocks; /* of SACK, without that of a duplicate */
	u32 edge; /* left edge of the newest block */
	__be32 stamps[3];
};

/* AccECN's three counters count from the start: a later ACK says what this one does, if it has them as well. */
static inline bool has_counters(const u8 option[LENGTH_ACCECN + 1])
{
	bool filled = option[LENGTH_ACCECN] <= 1; /* what fills the word: the end, or nothing */

	return (option[0] == TCPOPT_ACCECN0 || option[0] == TCPOPT_ACCECN1) && option[1] == LENGTH_ACCECN && filled;
}

/* A header with an option that is not known has no block here, and is not plain: it passes. */
static __always_inline void read_pure(struct __sk_buff *skb, struct pure *a)
{
	u32 words = a->h.offset >> 4, first, at;
	u8 o[LENGTH_ACCECN + 1];
	__be32 left;

	a->ack = bpf_ntohl(a->h.ack);
	a->flags = (a->h.offset & 15) << 8 | a->h.flags;
	a->stamped = timestamps(skb, a->at, &a->h, a->stamps);
	a->blocks = a->duplicate = a->counts = a->edge = 0;
	first = a->stamped ? WORDS_STAMP : WORDS_PLAIN;
	at = a->at + 4 * first;
	a->plain = words == first;
	if (words <= first || !((words - first) & 1) || bpf_skb_load_bytes(skb, at, o, 4 * WORDS_ACCECN))
		return;
	a->counts = words == first + WORDS_ACCECN && has_counters(o);
	if (o[0] != 1 || o[1] != 1 || o[2] != TCPOPT_SACK || o[3] != 4 * (words - first) - 2)
		return;
	a->duplicate = reports_duplicate(skb, &a->h, a->at, a->ack);
	a->blocks = (words - first) / WORDS_BLOCK - a->duplicate;
	if (a->blocks && !bpf_skb_load_bytes(skb, at + 4 + 4 * WORDS_BLOCK * a->duplicate, &left, 4))
		a->edge = bpf_ntohl(left);
}

/* --- what an ACK covers ------------------------------------------------------------------------- */

/* Is it known how many ACKs the uplink takes? Then a sender gets `least_per_rtt`, and what there is room for. */
static inline bool paced(const struct flow *f)
{
	return reverse_kbit || f->clock.in_ms;
}

/* An ACK covers the bytes of so many to an RTT. */
static inline u32 per_rtt(const struct flow *f)
{
	return max(paced(f) ? least_per_rtt : acks_per_rtt, 1);
}

/* Bytes that an ACK covers. */
static inline u32 share(const struct flow *f, u32 mss)
{
	u64 bytes = (f->round.bytes ? f->round.bytes : INITIAL_PACKETS * mss) / per_rtt(f);

	if (!paced(f))
		bytes = min(bytes, max_packets * mss);
	bytes >>= min(f->stall.halvings, HALVINGS_MAX);
	return f->asked ? min(bytes, f->asked * mss) : bytes;
}

/* Has no ACK passed for so long that the next one must? */
static inline bool silent(const struct flow *f, u64 ns, u64 now)
{
	return now - f->due.ns > min(max(ns, SILENCE_NS), SILENCE_MAX_NS);
}

/* The kernel repeats an ACK that the sender has not heard: it was dropped, or lost. */
static inline void note_stall(struct flow *f, u32 ack, u64 now)
{
	COUNT(stalls);
	if (f->stall.halvings < HALVINGS_MAX)
		f->stall.halvings++;
	f->stall.ns = now;
	f->thin_from = ack + START_BYTES;
}

/* A long time without one takes a halving back. */
static inline void recover(struct stall *s, u64 now)
{
	if (!s->halvings || now - s->ns < CALM_NS)
		return;
	s->halvings--;
	s->ns = now;
}

/* --- the decision ------------------------------------------------------------------------------- */

/*
 * A gap: each ACK reports all that lies beyond it, or its last three blocks, so that a later one says what this one does. The first
 * ones and those with a new block pass, and as many of the others as passed before the gap; where the reverse rate is known to be
 * small, one in each RTT, and what there is room for. A queue that they fill keeps the oldest, and drops those with the news.
 */
static inline bool gap_passes(const struct flow *f, const struct pure *a, u64 rtt_ns, u64 now)
{
	const struct gap *g = &f->gap;
	bool hides = a->blocks >= BLOCKS_SHOWN && a->edge != g->edge;

	if (g->acks < DUPS || a->blocks != g->blocks || hides || a->duplicate)
		return true;
	if (paced(f))
		return silent(f, rtt_ns, now);
	return f->tail.due || g->dropped + 1 >= g->share || silent(f, rtt_ns / per_rtt(f), now);
}

/* Does it reach the end that is waited for? A receiver that is `far` may send ACKs first that say less. */
static inline bool ends(const struct flow *f, u32 ack, bool far)
{
	return f->tail.due && !(far && before(ack, f->tail.end));
}

/* New data came, in order. `since_ns`: the last such ACK is so long ago. */
static __always_inline enum reason
reason_by_data(const struct flow *f, const struct receiver *r, const struct pure *a, u64 rtt_ns, u64 since_ns, u64 now)
{
	u32 room = f->passed.right - a->ack, half = (a->right - a->ack) / 2, edge = EDGE_PACKETS * r->mss;

	if (!a->plain && !(a->counts && f->counts)) /* MPTCP, a controller's own option are news */
		return FOR_OPTION;
	if (f->gap.blocks) /* the first after a gap says that it is closed */
		return FOR_SACK;
	if (since_ns > rtt_ns / 2)
		return FOR_SILENCE;
	if (ends(f, a->ack, r->behind_ns))
		return FOR_TAIL;
	if (before(a->ack, f->thin_from) && !paced(f))
		return FOR_START;
	if (silent(f, rtt_ns / per_rtt(f), now))
		return FOR_SILENCE;
	if ((s32)room < 0 || room < max(edge, half))
		return FOR_WINDOW;
	/* A train of ACKs ends if the next one comes too late. */
	if (f->round.doubles && !paced(f) && now - f->due.ns + since_ns > SPACING_NS && since_ns < SPACING_NS)
		return FOR_TRAIN;
	return a->ack - f->due.ack >= share(f, r->mss) ? FOR_SHARE : DROPPED;
}

/* Why must this ACK pass? The first reason counts. `news`: gap_passes() says so. */
static __always_inline enum reason
must_pass(const struct flow *f, const struct receiver *r, const struct pure *a, bool news, u64 rtt_ns, u64 since_ns,
	  u64 now)
{
	if (a->flags != f->flags || a->each_mark)
		return FOR_ECN;
	if (a->accecn && a->ack - f->passed.number >= (a->counts ? COUNTED_BYTES : ACE_PACKETS * r->mss))
		return FOR_ECN;
	if (before(bpf_ntohl(a->h.seq), r->snd_una))
		return FOR_AGAIN;
	if (before(a->right, f->passed.right))
		return FOR_WINDOW;
	if (a->blocks) { /* SACK leaves AccECN no room for all counters */
		if (a->accecn || news)
			return FOR_SACK;
		/* the sender may wait for it: no more is on its way */
		return since_ns > shortest_rtt(f, r) * 3 / 4 ? FOR_SACK : DROPPED;
	}
	if (a->ack == f->last.number) /* somebody asked, sent what is here already, or the window grows */
		return FOR_AGAIN;
	return reason_by_data(f, r, a, rtt_ns, since_ns, now);
}

/* An ACK that need not pass may have room. Each that passes takes its room, unless dropping it would not help. */
static __always_inline enum reason
take_room(struct flow *f, const struct receiver *r, const struct pure *a, enum reason reason, bool uploads, u64 now)
{
	bool needed = reason != DROPPED, room = f->clock.in_ms && now >= f->pace.room_ns;
	u32 kbit = reverse_kbit;
	struct backlog b = {};

	if (kbit) {
		b = backlog_of(f, now);
		update_overload(&b);
		room = has_room(&b, shortest_rtt(f, r));
	}
	if (!needed && !room && kbit)
		return overloaded ? FOR_OVER : DROPPED;
	if (!needed && !room)
		return uploads ? FOR_BESIDE : DROPPED;
	if (kbit)
		book_time(&f->turn, &b, cost_ns(a->len, kbit), needed, now);
	f->pace.room_ns = min(max(f->pace.room_ns, now - f->pace.space_ns), now) + f->pace.space_ns;
	f->due.ns = now;
	f->due.ack = a->ack;
	return needed ? reason : FOR_ROOM;
}

/* --- what is noted ------------------------------------------------------------------------------ */

/* An ACK of new data, before the decision. */
static __always_inline void
measure_ack(struct flow *f, const struct receiver *r, const struct pure *a, u64 rtt_ns, u64 since_ns, u64 now)
{
	u32 tsval = a->stamped ? bpf_ntohl(a->stamps[1]) : f->stamps.sent_last;

	recover(&f->stall, now);
	f->stamps.sent += tsval != f->stamps.sent_last;
	f->stamps.sent_last = tsval;
	measure(f, a->ack, r->mss, shortest_rtt(f, r), rtt_ns, since_ns, now);
}

/* The same, after it. */
static inline void note_data(struct flow *f, u32 ack, bool far, u64 now)
{
	f->gap.blocks = f->gap.acks = 0;
	f->came_ns = now;
	if (!before(ack, f->thin_from)) /* it goes along: numbers wrap */
		f->thin_from = ack;
	if (ends(f, ack, far))
		f->tail.due = before(ack, f->tail.end);
}

/* An ACK in a gap. At the first: the sender will halve its window, and until then each packet has an ACK. */
static inline void note_gap(struct flow *f, const struct pure *a, u32 mss, bool news, u64 now)
{
	struct gap *g = &f->gap;

	if (!g->blocks) {
		g->share = min(share(f, mss) / max(mss, 1), 255);
		f->round.bytes /= 2;
	}
	g->dropped = news ? 0 : g->dropped + 1;
	g->acks = min(g->acks + 1, DUPS);
	g->blocks = a->blocks;
	g->edge = a->edge;
	f->thin_from = a->ack + START_BYTES;
	f->came_ns = now;
}

static inline void note_passed(struct flow *f, const struct pure *a, u64 now)
{
	f->passed = f->last;
	f->flags = a->flags;
	if (a->stamped && !f->rtt.stamp_ns) {
		f->rtt.stamp = bpf_ntohl(a->stamps[1]);
		f->rtt.stamp_ns = now;
	}
}

/* Does it pass? Every pure ACK is asked about, in its order. */
static __always_inline bool
ack_passes(struct flow *f, const struct receiver *r, const struct pure *a, bool uploads, u64 now)
{
	u64 rtt_ns = rtt_of(f, r), since_ns = now - f->came_ns;
	bool repeats = a->ack == f->last.number, news = a->blocks && gap_passes(f, a, rtt_ns, now);
	enum reason reason;

	if (!a->blocks && !repeats)
		measure_ack(f, r, a, rtt_ns, since_ns, now);
	reason = must_pass(f, r, a, news, rtt_ns, since_ns, now);
	reason = take_room(f, r, a, reason, uploads, now);
	if (a->blocks)
		note_gap(f, a, r->mss, news, now);
	else if (!repeats)
		note_data(f, a->ack, r->behind_ns, now);
	else if (a->ack != f->passed.number && a->right == f->last.right)
		note_stall(f, a->ack, now);
	f->counts = a->counts;
	f->last.number = a->ack;
	f->last.right = a->right;
	if (reason != DROPPED)
		note_passed(f, a, now);
	count(reason);
	return reason != DROPPED;
}

#endif
