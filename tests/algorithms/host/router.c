// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * thin_router.bpf.c, with the helpers as net/core/filter.c and kernel/bpf/hashtab.c have them.
 *
 * Reads records and answers each with a byte, 1: it passed.
 *     'E' or 'I'   a packet leaves, or comes: u64 time in us, u16 tag (VLAN; 0xffff: none), u16 gso_size, u8 own socket, u16 length, bytes
 *     'S'          a parameter: u64 value, u16 length, name
 *     'C'          the counters, as a line of JSON before the byte
 *     'N'          forget all
 *     'F'          what was answered so far goes out
 */
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

enum { ENTRIES = 64, KEY_MAX = 64, VALUE_MAX = 512 };

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
#define bpf_map_update_elem(map, at, to, flags) update(at, sizeof(*(map)->key), to, sizeof(*(map)->value))
#define bpf_skc_to_tcp_sock(sk) NULL
#define bpf_sk_fullsock(sk) (sk)

#include <declare.bpf.h>
#undef PARAM /* not constant: here nobody sets them before the program is loaded */
#define PARAM(type, name, value, min, max, unit, doc) volatile type name = value

#include <tools/thin_router.bpf.c>

_Static_assert(sizeof(struct tuple) <= KEY_MAX && sizeof(struct connection) <= VALUE_MAX, "the model's map is too small");

#define SET(name) \
	if (!strcmp(text, #name)) \
		*(__typeof__(name) *)&name = value

static void set(const char *text, u64 value)
{
	SET(thins);
	SET(acks_per_rtt);
	SET(least_per_rtt);
	SET(waits_only);
	SET(max_packets);
	SET(reverse_kbit);
	SET(overhead);
	SET(mpu);
	SET(atm);
	SET(ethernet);
}

static void forget(void)
{
	memset(entries, 0, sizeof(entries));
	memset(&load, 0, sizeof(load));
	through_ns = needed_ns = 0;
	overloaded = false;
	acks_sent = acks_suppressed = acks_over = acks_beside = stalls = 0;
	sent_start = sent_silence = sent_share = sent_room = sent_train = sent_tail = sent_window = sent_sack = 0;
	sent_again = sent_ecn = sent_option = 0;
}

#define TELL(name) printf("%s\"%s\":%llu", comma, #name, name), comma = ","

static void tell(void)
{
	const char *comma = "{";

	TELL(acks_suppressed);
	TELL(acks_sent);
	TELL(sent_start);
	TELL(sent_silence);
	TELL(sent_share);
	TELL(sent_room);
	TELL(sent_train);
	TELL(sent_tail);
	TELL(sent_window);
	TELL(sent_sack);
	TELL(sent_again);
	TELL(sent_ecn);
	TELL(sent_option);
	TELL(acks_over);
	TELL(acks_beside);
	TELL(stalls);
	printf("}\n");
}

struct record {
	u64 time;
	u16 tag, gso;
	u8 own;
	u16 len;
} __attribute__((packed));

static bool take(void *to, size_t size)
{
	return fread(to, 1, size, stdin) == size;
}

static int forward(char way)
{
	struct bpf_sock own;
	struct __sk_buff skb = {};
	struct record r;
	int verdict;

	if (!take(&r, sizeof(r)))
		exit(2);
	packet.bytes = malloc(r.len);
	packet.len = r.len;
	if (!take(packet.bytes, r.len))
		exit(2);
	now_ns = r.time * 1000;
	skb.len = r.len;
	skb.gso_size = r.gso;
	skb.vlan_present = r.tag != 0xffff;
	skb.vlan_tci = skb.vlan_present ? r.tag : 0;
	skb.sk = r.own ? &own : NULL;
	verdict = way == 'E' ? thin_egress(&skb) : thin_ingress(&skb);
	free(packet.bytes);
	if (verdict != NEXT && !(verdict == DROP && way == 'E'))
		abort();
	return verdict == NEXT;
}

int main(void)
{
	char way, name[64];
	u64 value;
	u16 len;

	while (take(&way, 1)) {
		int answer = 1;

		if (way == 'S') {
			if (!take(&value, 8) || !take(&len, 2) || len >= sizeof(name) || !take(name, len))
				exit(2);
			name[len] = 0;
			set(name, value);
		} else if (way == 'C') {
			tell();
		} else if (way == 'N') {
			forget();
		} else if (way != 'F') {
			answer = forward(way);
		}
		putchar('0' + answer);
		if (way != 'E' && way != 'I')
			fflush(stdout);
	}
	return 0;
}
