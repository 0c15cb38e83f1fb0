// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * thin_router.bpf.c on a device.
 *
 * Reads records and answers each with a byte, 1: it passed.
 *     'E' or 'I'   a packet leaves, or comes: u64 time in us, u16 tag (VLAN; 0xffff: none), u16 gso_size, u8 own socket, u16 length, bytes
 *     'S'          a parameter: u64 value, u16 length, name
 *     'C'          the counters, as a line of JSON before the byte
 *     'N'          forget all
 *     'F'          what was answered so far goes out
 */
#include "router.h"

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

static int forward(char way)
{
	struct __sk_buff skb = take_packet();
	int verdict = way == 'E' ? thin_egress(&skb) : thin_ingress(&skb);

	if (verdict != NEXT && !(verdict == DROP && way == 'E'))
		abort();
	return verdict == NEXT;
}

int main(void)
{
	char way, name[64];
	u64 value;
	u16 len;

	while (input(&way, 1)) {
		int answer = 1;

		if (way == 'S') {
			if (!input(&value, 8) || !input(&len, 2) || len >= sizeof(name) || !input(name, len))
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
