// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * `asymcc uplink`: how long what leaves by the device waits in the queue of a modem behind it.
 *
 * It is the filter of a packet socket. Such a socket sees a packet as it leaves the device's qdisc, where tc's programs see it before.
 * No packet is copied to the socket.
 *
 * An answer's TSval says when the far end has had what it answers. That less the time at which this left is the way, by two clocks. The
 * least of a connection's ways is its base, and the rest is queue. The far end answers data by an ACK of its last byte, and an ACK by
 * data that echoes the ACK's TSval.
 *
 * That by which the answer came is known likewise: it is the time at which it is here, less TSval. So the queue of what arrives is known
 * ahead of a shaper on this machine, as the socket sees what arrives before tc's programs do.
 *
 * ICMP's timestamps tell the same where no TCP does: `asymcc uplink --probe` asks for them.
 *
 * A stranger makes no entry: what leaves alone does. An answer counts if it repeats a number that left, and tells of no longer queue than
 * its RTT. No way is longer than its RTT, and so no two ways differ by more: a clock that says so tells nothing any more.
 */
#include "router_packet.bpf.h"
#include "uplink.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

PARAM(s32, overhead, 0, -64, 256, "bytes", "that a packet takes of the uplink beside its IP packet");
PARAM(s32, mpu, 0, 0, 256, "bytes", "that a packet takes there at least, with `overhead`");
PARAM(u32, reflector, 0, 0, 0xffffffff, "-", "IPv4 address of a host that answers ICMP's timestamps; 0: none is asked");
PARAM(u8, down, 0, 0, 1, "-", "1: the queue of what arrives is measured, too");

enum {
	CONNECTIONS = 8192,
	SLOTS = 16, /* packets of a connection whose answers are awaited */
	DRIFT = 20000, /* two clocks part by a 20,000th of the time (50 ppm) at most */
	TICK_NS = 1000000,
	LOOK_BACK = 25, /* bins: half a second */
	ENTRY_NS = 1000000, /* from one new entry to the next: it stays for seconds, whoever else wants its room */
	ICMP = 1,
	TIMESTAMP = 13, /* a request, and ... */
	TIMESTAMP_REPLY = 14,
	OUTGOING = 4, /* of skb->pkt_type; 0: it is for this host */
};

#define BIT_NS 8000000000ULL /* of a byte at 1 bit/s; less than 2^31 bytes leave in half a second */
#define PATIENCE_NS 4000000000ULL /* an answer that takes longer does not come */

/* Packets that left, in their order. */
struct ring {
	u64 ns[SLOTS];
	u32 key[SLOTS]; /* end of the data, or TSval */
	u32 bytes[SLOTS]; /* of all packets that had left by then */
	u32 head, tail;
};

/* The ways of a connection's packets in one direction, by two clocks. */
struct ways {
	u64 base_at_ns;
	s64 base; /* the least way, at that time; it grows by the clocks' drift */
	u64 rebase_ns; /* what is in it of told's */
	u64 began_ns; /* this machine's time at the first way; 0: there is none yet */
	u64 first_rtt_ns;
	u32 began; /* TSval then: ways are counted from there on */
};

struct connection {
	struct ring data, acks;
	struct ways ways[UPLINK_WAYS];
	u64 rtt_ns; /* of the last answer */
	u32 snd_nxt; /* end of what has left */
	u32 skipped; /* bytes below it that have not: the qdisc has dropped them */
	u32 stamp; /* the last TSval that left in an ACK ... */
	u32 echo; /* ... and the last TSecr that came with data */
	bool sends; /* `snd_nxt` is known */
	bool odd; /* its far clock does not count milliseconds, or jumps: its answers tell nothing */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CONNECTIONS);
	__type(key, struct tuple);
	__type(value, struct connection);
} connections SEC(".maps");

const volatile struct connection unknown = {};

struct uplink_seen seen[UPLINK_WAYS];
struct uplink_told told[UPLINK_WAYS] SEC(".data") = {}; /* a map of its own: the loader writes it as a whole */

static __always_inline struct uplink_bin *bin_at(enum uplink_way way, u64 ns)
{
	return &seen[way].bins[ns / UPLINK_BIN_NS % UPLINK_BINS];
}

/* That of this time; it has been another's. */
static __always_inline struct uplink_bin *bin_of_now(enum uplink_way way, u64 now)
{
	struct uplink_bin *b = bin_at(way, now);

	if (b->number != now / UPLINK_BIN_NS) {
		b->number = now / UPLINK_BIN_NS;
		b->bytes = b->data = b->lost = 0;
		b->answers = 0;
	}
	return b;
}

/* --- what left, and its answers --------------------------------------------------------------------------------- */

/* One in a 12th of an RTT, so that those of a whole RTT have room. */
static inline void put(struct ring *r, u32 key, u64 rtt_ns, u64 now, u32 bytes)
{
	if (r->head != r->tail && now - r->ns[(r->head - 1) % SLOTS] < rtt_ns / 12)
		return;
	if (r->head - r->tail >= SLOTS) {
		if (now - r->ns[r->tail % SLOTS] < PATIENCE_NS)
			return;
		r->tail = r->head;
	}
	r->ns[r->head % SLOTS] = now;
	r->key[r->head % SLOTS] = key;
	r->bytes[r->head % SLOTS] = bytes;
	r->head++;
}

/* When it left to which this is the answer, and forgets those before; 0: not known. */
static inline u64 take(struct ring *r, u32 key, u32 *bytes)
{
	for (int i = 0; i < SLOTS && r->tail != r->head; i++) {
		u32 at = r->tail % SLOTS;

		if (before(key, r->key[at]))
			break;
		r->tail++;
		if (r->key[at] == key) {
			*bytes = r->bytes[at];
			return r->ns[at];
		}
	}
	return 0;
}

/* The queue that others found at that time; or last before, with what has come to it since, and without what has left it. */
static __always_inline u64 known_queue(enum uplink_way way, u64 at_ns, u32 bytes)
{
	u64 capacity = told[way].capacity;

	for (u64 i = 0; i < LOOK_BACK; i++) {
		const struct uplink_bin *b = bin_at(way, at_ns - i * UPLINK_BIN_NS);
		u64 then_ns, more_ns;

		if (!b->answers || b->number != at_ns / UPLINK_BIN_NS - i)
			continue;
		then_ns = way == UPLINK_DOWN ? b->at_ns + b->queue_ns : b->at_ns;
		if (!capacity || then_ns >= at_ns)
			return b->queue_ns;
		more_ns = b->queue_ns + (u32)(bytes - b->at_bytes) * BIT_NS / capacity;
		return min(more_ns - min(more_ns, at_ns - then_ns), b->queue_ns);
	}
	return 0;
}

static __always_inline void begin(struct ways *w, enum uplink_way way, u32 tsval, u64 at_ns, u64 rtt_ns, u32 bytes)
{
	u64 queue_ns = min(known_queue(way, at_ns, bytes), rtt_ns);

	w->began = tsval;
	w->began_ns = w->base_at_ns = at_ns;
	w->base = -(s64)queue_ns;
	w->first_rtt_ns = rtt_ns;
	w->rebase_ns = told[way].rebase_ns;
}

/* The part of the packet's way that is queue; 0 as well if `odd`. `at_ns`: when it left, or arrived. */
static __always_inline u64
queue_of(struct connection *c, enum uplink_way way, u32 tsval, u64 at_ns, u64 rtt_ns, u32 bytes)
{
	struct ways *w = &c->ways[way];
	s64 length, base, longest, drift;

	if (!w->began_ns)
		begin(w, way, tsval, at_ns, rtt_ns, bytes);
	w->base += told[way].rebase_ns - w->rebase_ns;
	w->rebase_ns = told[way].rebase_ns;
	length = (s64)(s32)(tsval - w->began) * TICK_NS - (s64)(at_ns - w->began_ns);
	if (way == UPLINK_DOWN)
		length = -length;
	drift = at_ns > w->began_ns ? (at_ns - w->began_ns) / DRIFT : 0;
	longest = max(rtt_ns, w->first_rtt_ns) + 2 * TICK_NS + drift;
	if (length > longest || length < -longest) {
		c->odd = true;
		return 0;
	}
	base = w->base + (at_ns > w->base_at_ns ? (at_ns - w->base_at_ns) / DRIFT : 0);
	if (length < base) {
		w->base = base = length;
		w->base_at_ns = at_ns;
	}
	return min((u64)(length - base), rtt_ns);
}

static __always_inline void
note_queue(struct connection *c, enum uplink_way way, u32 tsval, u64 at_ns, u64 rtt_ns, u32 bytes)
{
	u64 queue_ns = queue_of(c, way, tsval, at_ns, rtt_ns, bytes);
	struct uplink_bin *b = bin_at(way, at_ns);

	if (c->odd || b->number != at_ns / UPLINK_BIN_NS)
		return;
	if (!b->answers || queue_ns < b->queue_ns) {
		b->queue_ns = queue_ns;
		b->at_ns = way == UPLINK_DOWN ? at_ns - queue_ns : at_ns;
		b->at_bytes = bytes;
	}
	b->answers++;
}

/* A later one answers nothing: a far end may have been silent for an hour. Nor does one before, by another CPU's clock. */
static __always_inline bool in_time(u64 left_ns, u64 now)
{
	return left_ns && now - left_ns < PATIENCE_NS;
}

static __always_inline void note_answer(struct connection *c, u32 tsval, u64 left_ns, u32 bytes, u64 now)
{
	u64 rtt_ns = now - left_ns;

	c->rtt_ns = rtt_ns;
	seen[UPLINK_UP].rtt_ns = seen[UPLINK_UP].rtt_ns ? (7 * seen[UPLINK_UP].rtt_ns + rtt_ns) / 8 : rtt_ns;
	note_queue(c, UPLINK_UP, tsval, left_ns, rtt_ns, bytes);
	if (down)
		note_queue(c, UPLINK_DOWN, tsval, now, rtt_ns, seen[UPLINK_DOWN].bytes);
}

/* --- packets ---------------------------------------------------------------------------------------------------- */

/* Data that the qdisc dropped leaves a gap, and fills it later. Other data that leaves again was lost behind the device. */
static inline void note_data(struct connection *c, const struct packet *p, struct uplink_bin *b, u64 now, u32 bytes)
{
	u32 seq = bpf_ntohl(p->h.seq), end = seq + p->payload;

	if (!c->sends || before(c->snd_nxt, end)) {
		c->skipped += c->sends && before(c->snd_nxt, seq) ? seq - c->snd_nxt : 0;
		c->snd_nxt = end;
		c->sends = true;
		put(&c->data, end, c->rtt_ns, now, bytes);
	} else {
		if (c->skipped >= p->payload)
			c->skipped -= p->payload;
		else
			__sync_fetch_and_add(&b->lost, p->payload);
		c->data.tail = c->data.head; /* the answer may be to either */
	}
	__sync_fetch_and_add(&b->data, p->payload);
	if (!seen[UPLINK_UP].waits_ns)
		seen[UPLINK_UP].waits_ns = now;
}

static __always_inline void
leaves(struct __sk_buff *skb, const struct packet *p, struct uplink_bin *b, u64 now, u32 bytes)
{
	struct connection *c = bpf_map_lookup_elem(&connections, &p->of);
	__be32 stamps[3];
	u32 tsval;

	if (p->h.flags & RST || !timestamps(skb, p->at, &p->h, stamps))
		return;
	if (!c || p->h.flags & SYN) {
		if (!c && now - seen[UPLINK_UP].entry_ns < ENTRY_NS)
			return;
		seen[UPLINK_UP].entry_ns = now;
		bpf_map_update_elem(&connections, &p->of, (const void *)&unknown, BPF_ANY);
		c = bpf_map_lookup_elem(&connections, &p->of);
		if (!c)
			return;
	}
	if (p->payload) {
		note_data(c, p, b, now, bytes);
		return;
	}
	tsval = bpf_ntohl(stamps[1]);
	if (!c->stamp || before(c->stamp, tsval)) {
		c->stamp = tsval;
		put(&c->acks, tsval, c->rtt_ns, now, bytes);
	}
}

static __always_inline void comes(struct __sk_buff *skb, const struct packet *p, u64 now)
{
	struct connection *c = bpf_map_lookup_elem(&connections, &p->of);
	__be32 stamps[3];
	u32 echo, bytes = 0;
	u64 left_ns = 0;
	bool newer;

	if (!c || !(p->h.flags & ACK) || p->h.flags & (SYN | RST) || !timestamps(skb, p->at, &p->h, stamps))
		return;
	echo = bpf_ntohl(stamps[2]);
	newer = echo != c->echo;
	c->echo = echo;
	if (newer ||
	    !p->payload) /* this end's packets get there, also those behind a gap, and those that are sent again */
		seen[UPLINK_UP].waits_ns = 0;
	if (!p->payload)
		left_ns = take(&c->data, bpf_ntohl(p->h.ack), &bytes);
	else if (newer)
		left_ns = take(&c->acks, echo, &bytes);
	if (!in_time(left_ns, now))
		return;
	seen[UPLINK_UP].heard_ns = now;
	note_answer(c, bpf_ntohl(stamps[1]), left_ns, bytes, now);
}

/* An ICMP timestamp to the reflector, or from there. */
struct probe {
	u8 type, code;
	__be16 check;
	__be32 number; /* one more each time */
	__be32 left, came, back; /* ms, by their clocks */
};

static __always_inline bool read_probe(struct __sk_buff *skb, struct probe *p, u8 type)
{
	struct {
		u8 version, tos;
		__be16 len, id, fragment;
		u8 ttl, protocol;
		__be16 check;
		__be32 address[2];
	} ip;
	u32 link;
	int net = ip_header_at(skb, &link);

	return net >= 0 && !bpf_skb_load_bytes(skb, net, &ip, sizeof(ip)) && ip.version == 0x45 &&
	       ip.protocol == ICMP && ip.address[type == TIMESTAMP] == bpf_htonl(reflector) &&
	       !bpf_skb_load_bytes(skb, net + sizeof(ip), p, sizeof(*p)) && p->type == type;
}

/* Its ways are kept as a connection's, which no TCP has. A clock that jumps, as each does at midnight, begins anew. */
static __always_inline void note_probe(struct __sk_buff *skb, bool out, u64 now, u32 bytes)
{
	const struct tuple of = { .remote = { bpf_htonl(reflector) } };
	struct connection *c = bpf_map_lookup_elem(&connections, &of);
	struct probe p;
	u64 left_ns;
	u32 then = 0;

	if (!read_probe(skb, &p, out ? TIMESTAMP : TIMESTAMP_REPLY))
		return;
	if (out && (!c || c->odd)) {
		bpf_map_update_elem(&connections, &of, (const void *)&unknown, BPF_ANY);
		c = bpf_map_lookup_elem(&connections, &of);
	}
	if (!c)
		return;
	if (out) {
		put(&c->data, bpf_ntohl(p.number), c->rtt_ns, now, bytes);
		return;
	}
	left_ns = take(&c->data, bpf_ntohl(p.number), &then);
	if (in_time(left_ns, now))
		note_answer(c, bpf_ntohl(p.came), left_ns, then, now);
}

/* Bytes of the uplink that it takes. `overhead` may make it less than nothing. */
static __always_inline u32 cost_of(const struct __sk_buff *skb)
{
	s32 bytes = (s32)skb->len - (ethernet ? ETHERNET : 0) + overhead, least = mpu > 0 ? mpu : 0;

	return bytes > least ? bytes : least;
}

/* Those that the device has put together came one by one. */
static __always_inline u32 headers_of(const struct __sk_buff *skb, const struct packet *p)
{
	u32 more = skb->gso_segs > 1 ? skb->gso_segs - 1 : 0;

	return more * (skb->len - p->payload - (ethernet ? ETHERNET : 0) + overhead);
}

static __always_inline u32 count(struct uplink_seen *s, struct uplink_bin *b, u32 cost)
{
	__sync_fetch_and_add(&b->bytes, cost);
	return cost + __sync_fetch_and_add(&s->bytes, cost);
}

SEC("socket")
int uplink(struct __sk_buff *skb)
{
	u64 now = bpf_ktime_get_ns();
	struct packet p = {};
	struct uplink_bin *b;
	bool tcp;
	u32 sum;

	if (skb->pkt_type == OUTGOING) {
		b = bin_of_now(UPLINK_UP, now);
		sum = count(&seen[UPLINK_UP], b, cost_of(skb));
		if (read_packet(skb, &p, true))
			leaves(skb, &p, b, now, sum);
		else if (reflector)
			note_probe(skb, true, now, sum);
	} else if (!skb->pkt_type) {
		tcp = read_packet(skb, &p, false);
		if (down)
			count(&seen[UPLINK_DOWN], bin_of_now(UPLINK_DOWN, now),
			      cost_of(skb) + (tcp ? headers_of(skb, &p) : 0));
		if (tcp)
			comes(skb, &p, now);
		else if (reflector)
			note_probe(skb, false, now, 0);
	}
	return 0;
}
