/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `asymcc thin`: the room that the uplink has for ACKs, by `reverse_kbit`, and what else leaves by it. */
#ifndef THIN_ROOM_BPF_H
#define THIN_ROOM_BPF_H

#include "thin_flow.bpf.h"

enum {
	LOAD_NS = 1000000000, /* the data and ACKs that leave are counted over so long */
	BACKLOG_MAX_NS = 500000000,
	OVERLOAD_NS = 800000000, /* so far ahead, what senders need has no room */
	TURNS_NS = 1000000000,   /* connections are counted over so long */
	TURNS_MAX = 1 << 16,
	CELL_DATA = 48, /* bytes that an ATM cell holds */
	CELL = 53,      /* bytes that an ATM cell takes */
};

#define NEEDED_MAX_NS 4000000000ULL

/* Traffic that leaves. CPUs count at once: one may miss what another adds. */
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

/* Bytes that an IP packet of so many takes at the bottleneck, as CAKE counts them. */
static inline u32 on_link(u32 len)
{
	s32 bytes = len + overhead, least = mpu;
	u32 taken = bytes > least ? bytes : least;

	return atm ? (taken + CELL_DATA - 1) / CELL_DATA * CELL : taken;
}

/* The time that this takes at a rate above 0: 2^40 ns at most. */
static inline u64 cost_ns(u32 len, u32 kbit)
{
	return (u64)on_link(len) * 8 * 1000000 / kbit;
}

static inline u64 ahead_ns(u64 through, u64 now, u64 most)
{
	return through > now ? min(through - now, most) : 0;
}

/* Among how many connections is the rate divided? */
static inline u32 count_turns(struct turn *t, u64 now)
{
	if (now - turns.since_ns > TURNS_NS) {
		turns.last = turns.now;
		turns.now = 0;
		turns.since_ns = now;
	}
	if (t->counted_ns != turns.since_ns) {
		t->counted_ns = turns.since_ns;
		turns.now++;
	}
	return min(max(turns.last, turns.now), TURNS_MAX);
}

/* The ACKs that wait: the time that they take at `reverse_kbit`. */
struct backlog {
	u64 all_ns;    /* all that passed */
	u64 needed_ns; /* those that the senders need */
	u64 turn_ns;   /* this connection's, at its part of the rate */
};

static inline struct backlog backlog_of(const struct flow *f, u64 now)
{
	struct backlog b = {
		.all_ns = ahead_ns(through_ns, now, BACKLOG_MAX_NS),
		.needed_ns = ahead_ns(needed_ns, now, NEEDED_MAX_NS),
		.turn_ns = ahead_ns(f->turn.through_ns, now, BACKLOG_MAX_NS),
	};

	return b;
}

/* An overload begins with much that the senders need and has no room, and ends when that is worked off. */
static inline void update_overload(const struct backlog *b)
{
	overloaded = b->needed_ns > (overloaded ? 0 : OVERLOAD_NS);
}

/*
 * Data comes in bursts, and ACKs leave so: a quarter of an RTT of them may wait. With none that waits a burst would have one ACK, and
 * its answer is a larger burst.
 *
 * A connection that has had its part of the rate has room only where nothing waits. Else those whose ACKs come at once take all, and
 * the others, with two ACKs in an RTT, send bursts that queues do not hold.
 */
static inline bool has_room(const struct backlog *b, u64 shortest_ns)
{
	u64 burst_ns = shortest_ns / 4;
	bool had_its_turn = b->turn_ns > burst_ns;

	return b->all_ns <= (had_its_turn ? 0 : burst_ns);
}

/*
 * An ACK passes. One that the sender does not need takes a sixteenth more than its time, so that what waits drains: a queue that stands
 * stops senders that look at the delay. A cost of 2^40 ns, for 2^16 connections, fits 2^64.
 */
static inline void book_time(struct turn *t, const struct backlog *b, u64 cost, bool needed, u64 now)
{
	if (needed)
		needed_ns = now + b->needed_ns + cost;
	through_ns = now + b->all_ns + cost + (b->all_ns > cost && !needed ? cost / 16 : 0);
	t->through_ns = now + b->turn_ns + cost * count_turns(t, now);
}

#endif
