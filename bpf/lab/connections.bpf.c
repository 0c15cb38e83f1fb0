// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The packets of each connection at the lab's queues, in bins: how many, their bytes, and how long they waited.
 *
 * Real programs open connections of their own, by TCP or by what the kernel knows nothing of. Both pass the queues.
 */
#include "kernel.bpf.h"

#include <bpf/bpf_endian.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define ETHERNET 14
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86DD
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define MAX 65536 /* bins of connections, and packets that wait. Allocated at once: a burst finds room */
#define NAME_BYTES 16

struct device {
	u32 number; /* in the job's order */
	u32 pad;
	u64 bin_ns;
};

/* One direction of a connection at one queue, in one bin. An IPv4 address has its mapped form, ::ffff:a.b.c.d. */
struct way {
	u8 src[16], dst[16];
	u16 src_port, dst_port; /* 0 where a packet has none */
	u8 protocol, device;
	u16 pad;
	u32 bin; /* of CLOCK_MONOTONIC */
};

struct packets {
	u64 first_ns, last_ns; /* when one left the queue */
	u64 bytes;             /* of IP packets */
	u64 payload;           /* of TCP and UDP */
	u64 delay_ns, delay_max_ns;
	u32 count;
	u32 pad;
};

struct { /* the guest fills it in */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, char[NAME_BYTES]);
	__type(value, struct device);
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_ZERO_SEED);
	__uint(max_entries, MAX);
	__type(key, struct way);
	__type(value, struct packets);
} ways SEC(".maps");

struct
{ /* by the packet's address: since when it waits. One that is dropped leaves its own to the next at that place */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_ZERO_SEED);
	__uint(max_entries, MAX);
	__type(key, u64);
	__type(value, u64);
} waiting SEC(".maps");

struct { /* packets that found a map full */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} lost SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct net_device {
	char name[NAME_BYTES];
};

struct netdev_queue {
	struct net_device *dev;
};

struct sk_buff {
	u32 len;
	__be16 protocol;
	u16 network_header;
	unsigned char *head;
};

#pragma clang attribute pop

struct ipv4 {
	u8 ihl, tos;
	u8 to_protocol[7], protocol;
	__be16 check;
	u8 src[4], dst[4];
};

struct ipv6 {
	u8 to_next[6], next, limit;
	u8 src[16], dst[16];
};

struct ports {
	__be16 src, dst;
	u8 to_offset[8], offset; /* of TCP alone */
};

static void count_lost(void)
{
	u32 zero = 0;
	u64 *count = bpf_map_lookup_elem(&lost, &zero);

	if (count)
		(*count)++;
}

static struct device *device_of(const struct netdev_queue *txq)
{
	char name[NAME_BYTES] = {};

	bpf_probe_read_kernel_str(name, sizeof(name), txq->dev->name);
	return bpf_map_lookup_elem(&devices, name);
}

/* Fills in addresses, protocol and ports. Returns the bytes of the headers. */
static u32 headers_of(const struct sk_buff *skb, struct way *w)
{
	const u8 *at = skb->head + skb->network_header;
	struct ports p = {};
	u32 length;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct ipv4 ip = {};

		bpf_probe_read_kernel(&ip, sizeof(ip), at);
		length = (ip.ihl & 15) * 4;
		w->protocol = ip.protocol;
		w->src[10] = w->src[11] = w->dst[10] = w->dst[11] = 0xff;
		__builtin_memcpy(w->src + 12, ip.src, 4);
		__builtin_memcpy(w->dst + 12, ip.dst, 4);
	} else {
		struct ipv6 ip = {};

		bpf_probe_read_kernel(&ip, sizeof(ip), at);
		length = sizeof(ip);
		w->protocol = ip.next;
		__builtin_memcpy(w->src, ip.src, 16);
		__builtin_memcpy(w->dst, ip.dst, 16);
	}
	if (w->protocol != IPPROTO_TCP && w->protocol != IPPROTO_UDP)
		return length;
	bpf_probe_read_kernel(&p, sizeof(p), at + length);
	w->src_port = bpf_ntohs(p.src);
	w->dst_port = bpf_ntohs(p.dst);
	return length + (w->protocol == IPPROTO_UDP ? 8 : (p.offset >> 4) * 4);
}

SEC("tp_btf/qdisc_enqueue")
int BPF_PROG(on_enqueue, void *q, const struct netdev_queue *txq, struct sk_buff *skb)
{
	u64 key = (u64)skb, now = bpf_ktime_get_ns();

	if (device_of(txq) && bpf_map_update_elem(&waiting, &key, &now, BPF_ANY))
		count_lost();
	return 0;
}

SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(on_dequeue, void *q, const struct netdev_queue *txq, int packets, struct sk_buff *skb)
{
	u64 key = (u64)skb, now = bpf_ktime_get_ns(), delay = 0, *since;
	struct packets fresh = {}, *p;
	struct device *d;
	struct way w = {};
	u32 headers, bytes;

	if (!skb)
		return 0;
	d = device_of(txq);
	if (!d || !d->bin_ns || (skb->protocol != bpf_htons(ETH_P_IP) && skb->protocol != bpf_htons(ETH_P_IPV6)))
		return 0;
	since = bpf_map_lookup_elem(&waiting, &key);
	if (since) {
		delay = now - *since;
		bpf_map_delete_elem(&waiting, &key);
	}
	headers = headers_of(skb, &w);
	bytes = skb->len - ETHERNET;
	w.device = d->number;
	w.bin = now / d->bin_ns;
	p = bpf_map_lookup_elem(&ways, &w);
	if (!p) {
		fresh.first_ns = now;
		bpf_map_update_elem(&ways, &w, &fresh, BPF_NOEXIST);
		p = bpf_map_lookup_elem(&ways, &w);
		if (!p) {
			count_lost();
			return 0;
		}
	}
	p->last_ns = now;
	p->bytes += bytes;
	p->payload += bytes > headers ? bytes - headers : 0;
	p->delay_ns += delay;
	if (delay > p->delay_max_ns)
		p->delay_max_ns = delay;
	p->count++;
	return 0;
}
