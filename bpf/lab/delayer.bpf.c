// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A way of the lab whose delay and losses change, as those of a satellite do.
 *
 * It is a classifier at a root qdisc `prio`, whose lock it runs under, at a device behind a link's queue: what it delays
 * waits in no queue that anything measures. It gives each packet the time at which it has come across, and `fq`, the only
 * class, sends it then. No packet overtakes the one before it.
 *
 * A packet is lost by a draw of its own (xorshift64: Marsaglia, Journal of Statistical Software 8(14), 2003), whose first
 * state the guest has of the run's seed. Each packet takes a draw, lost or not.
 */
#include "kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define NS_PER_MS 1000000ULL
#define NS_PER_US 1000ULL
#define SEARCH_STEPS 23 /* 2^23 entries: an hour has 3600001 of them at most */

enum { PASS = 0, DROP = 2 }; /* TC_ACT_OK, TC_ACT_SHOT */

struct part { /* of the time */
	u32 at_ms;    /* when it begins; the first at 0, each later than the one before */
	u32 delay_us;
	u64 lost;     /* of 2^32 packets */
};

struct delayer {       /* the guest fills it in */
	s64 zero_ns;   /* CLOCK_MONOTONIC: when the first part begins */
	u64 period_ns; /* then it begins anew; 0: packets pass at once */
	u64 random;    /* state of the draws, not 0 */
	u64 last_ns;   /* when the last packet comes across */
	u32 entries, unused;
};

struct { /* the guest makes room */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct part);
} parts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct delayer);
} delayers SEC(".maps");

/* The last part that has begun by then, ns from the first. */
static const struct part *part_at(const struct delayer *d, u64 since)
{
	const struct part *found, *middle;
	u32 low = 0, high = d->entries, at;

	found = bpf_map_lookup_elem(&parts, &low);
	for (u32 i = 0; i < SEARCH_STEPS && high - low > 1; i++) {
		at = low + (high - low) / 2;
		middle = bpf_map_lookup_elem(&parts, &at);
		if (middle && middle->at_ms * NS_PER_MS <= since) {
			low = at;
			found = middle;
		} else {
			high = at;
		}
	}
	return found;
}

static u32 draw(struct delayer *d)
{
	d->random ^= d->random << 13;
	d->random ^= d->random >> 7;
	d->random ^= d->random << 17;
	return d->random >> 32;
}

SEC("tc")
int on_packet(struct __sk_buff *skb)
{
	u64 now = bpf_ktime_get_ns(), since;
	const struct part *part;
	struct delayer *d;
	u32 zero = 0;

	d = bpf_map_lookup_elem(&delayers, &zero);
	if (!d)
		return DROP;
	if (!d->period_ns)
		return PASS;
	since = (s64)now > d->zero_ns ? (now - d->zero_ns) % d->period_ns : 0; /* before its begin it is as then */
	part = part_at(d, since);
	if (!part || draw(d) < part->lost)
		return DROP;
	now += part->delay_us * NS_PER_US;
	if (now > d->last_ns)
		d->last_ns = now;
	return bpf_skb_set_tstamp(skb, d->last_ns, BPF_SKB_TSTAMP_DELIVERY_MONO) ? DROP : PASS;
}
