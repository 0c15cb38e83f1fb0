// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A link of the lab that plays a trace: it may deliver so many bytes at each time of a list, as a radio does.
 *
 * It is a classifier at a root qdisc `prio`, whose lock it runs under. It gives each packet the time at which the link
 * will have sent its last byte. `fq`, the only class, sends it then. A later packet never delays one that is in the queue:
 * so that time is known as a packet comes in.
 *
 * The accounting is Mahimahi's: an opportunity carries OPPORTUNITY_BYTES of one packet or of several, a packet takes as many
 * as it needs, and what is left of one when its time is over is lost.
 */
#include "kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define OPPORTUNITY_BYTES 1500 /* of IP packets */
#define ETHERNET 14
#define NS_PER_MS 1000000ULL
#define TAKES_MAX 8          /* opportunities of one packet: 9000 bytes take 6, and the rest of one before */
#define SEARCH_STEPS 23      /* 2^23 entries: an hour has 3600001 of them at most */
#define FARTHEST_NS (4000ULL * 1000000000) /* fq keeps a packet for at most so long */

enum { PASS = 0, DROP = 2 }; /* TC_ACT_OK, TC_ACT_SHOT */

struct opportunities {
	u32 at_ms; /* from the trace's begin; each is larger than the one before */
	u32 count; /* of opportunities at that time, at least 1 */
};

/* The guest fills in the first part and zeroes the second. */
struct player {
	u64 zero_ns;   /* CLOCK_MONOTONIC: when the trace begins */
	u64 period_ns; /* its last time; then it begins anew */
	u32 entries;   /* of the trace */
	u32 queue;     /* packets that wait at most */

	u64 turn_ns;   /* when this round of the trace began */
	u32 at, used;  /* entry of the next opportunity, and how many of that entry are used up */
	u32 left;      /* bytes of that opportunity */
	u32 head;      /* place of the next packet in `leaves` */
};

struct { /* the guest makes room */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct opportunities);
} trace SEC(".maps");

struct { /* of the last `queue` packets: when each leaves */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} leaves SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct player);
} players SEC(".maps");

/* The time of an entry in this round, ns; 0: there is none. */
static u64 time_of(const struct player *p, u32 at)
{
	const struct opportunities *o = bpf_map_lookup_elem(&trace, &at);

	return o ? p->turn_ns + o->at_ms * NS_PER_MS : 0;
}

/* To the first opportunity that is not over. */
static void seek(struct player *p, u64 now)
{
	u64 since = now - p->zero_ns, turns = since / p->period_ns; /* period_ns is not 0: on_packet() */
	u32 low = 0, high = p->entries;

	if (turns && turns * p->period_ns == since) /* a round's last time is the next one's first */
		turns--;
	p->turn_ns = p->zero_ns + turns * p->period_ns;
	for (u32 i = 0; i < SEARCH_STEPS && low < high; i++) {
		u32 middle = low + (high - low) / 2;

		if (time_of(p, middle) < now)
			low = middle + 1;
		else
			high = middle;
	}
	p->at = low;
	p->used = 0;
	p->left = OPPORTUNITY_BYTES;
}

/* When the link has sent so many bytes more; 0: never. */
static u64 send(struct player *p, u32 bytes)
{
	for (u32 i = 0; i < TAKES_MAX; i++) {
		u32 at = p->at;
		const struct opportunities *o = bpf_map_lookup_elem(&trace, &at);

		if (!o)
			return 0;
		if (bytes <= p->left) {
			p->left -= bytes;
			return p->turn_ns + o->at_ms * NS_PER_MS;
		}
		bytes -= p->left;
		p->left = OPPORTUNITY_BYTES;
		if (++p->used < o->count)
			continue;
		p->used = 0;
		if (++p->at < p->entries)
			continue;
		p->at = 0;
		p->turn_ns += p->period_ns;
	}
	return 0;
}

SEC("tc")
int on_packet(struct __sk_buff *skb)
{
	u64 now = bpf_ktime_get_ns(), *leaving, at;
	struct player *p;
	u32 zero = 0, head;

	p = bpf_map_lookup_elem(&players, &zero);
	if (!p || !p->period_ns)
		return DROP;
	head = p->head;
	leaving = bpf_map_lookup_elem(&leaves, &head);
	if (!leaving || *leaving > now) /* the queue is full: the packet so many before this one still waits */
		return DROP;
	if (time_of(p, p->at) < now)
		seek(p, now);
	at = send(p, skb->len - ETHERNET);
	if (!at || at > now + FARTHEST_NS)
		return DROP;
	*leaving = at;
	p->head = head + 1 < p->queue ? head + 1 : 0;
	return bpf_skb_set_tstamp(skb, at, BPF_SKB_TSTAMP_DELIVERY_MONO) ? DROP : PASS;
}
