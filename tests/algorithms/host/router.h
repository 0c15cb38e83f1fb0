/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The packets of a router's device, and the helpers as net/core/filter.c and kernel/bpf/hashtab.c have them. */
#ifndef ROUTER_H
#define ROUTER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kernel.bpf.h>

static u64 now_ns;

static unsigned long long bpf_ktime_get_ns(void)
{
	return now_ns;
}

static struct {
	u8 *bytes; /* no more of them than the packet has: what is read beyond is seen */
	u32 len;
} packet;

static long bpf_skb_load_bytes_(const struct __sk_buff *skb, u32 offset, void *to, u32 len)
{
	if (offset > packet.len || len > packet.len - offset)
		return -14;
	memcpy(to, packet.bytes + offset, len);
	return 0;
}
#define bpf_skb_load_bytes bpf_skb_load_bytes_

enum { ENTRIES = 256, KEY_MAX = 64, VALUE_MAX = 704 };

static struct {
	u8 key[KEY_MAX];
	_Alignas(8) u8 value[VALUE_MAX];
	u64 used; /* 0: never */
} entries[ENTRIES];
static u64 uses;

static void *lookup(const void *key, u32 size)
{
	for (int i = 0; i < ENTRIES; i++)
		if (entries[i].used && !memcmp(entries[i].key, key, size)) {
			entries[i].used = ++uses;
			return entries[i].value;
		}
	return NULL;
}

static long update(const void *key, u32 key_size, const void *value, u32 size)
{
	int oldest = 0;

	if (!lookup(key, key_size)) {
		for (int i = 0; i < ENTRIES; i++)
			if (entries[i].used < entries[oldest].used)
				oldest = i;
		memcpy(entries[oldest].key, key, key_size);
		entries[oldest].used = ++uses;
	}
	memcpy(lookup(key, key_size), value, size);
	return 0;
}

#define bpf_map_lookup_elem(map, at) ((__typeof__((map)->value))lookup(at, sizeof(*(map)->key)))
#define bpf_map_update_elem(map, at, to, flags)                                         \
	({                                                                              \
		_Static_assert(sizeof(*(map)->value) <= VALUE_MAX, "no room for it");   \
		update(at, sizeof(*(map)->key), to, sizeof(*(map)->value));             \
	})
#define bpf_skc_to_tcp_sock(sk) NULL
#define bpf_sk_fullsock(sk) (sk)

#include <declare.bpf.h>
#undef PARAM /* not constant: here nobody sets them before the program is loaded */
#define PARAM(type, name, value, min, max, unit, doc) volatile type name = value

static struct bpf_sock own_socket;

struct record {
	u64 time;
	u16 tag, gso;
	u8 own;
	u16 len;
} __attribute__((packed));

static bool input(void *to, size_t size)
{
	return fread(to, 1, size, stdin) == size;
}

/* The packet of a record; its end is that of the memory. */
static struct __sk_buff take_packet(void)
{
	struct __sk_buff skb = {};
	struct record r;

	if (!input(&r, sizeof(r)))
		exit(2);
	free(packet.bytes);
	packet.bytes = malloc(r.len);
	packet.len = r.len;
	if (!input(packet.bytes, r.len))
		exit(2);
	now_ns = r.time * 1000;
	skb.len = r.len;
	skb.gso_size = r.gso;
	skb.vlan_present = r.tag != 0xffff;
	skb.vlan_tci = skb.vlan_present ? r.tag : 0;
	skb.sk = r.own ? &own_socket : NULL;
	return skb;
}

#endif
