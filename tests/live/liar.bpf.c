// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A path that does to TCP what paths and peers may do: one classifier per fault, for
 * `tc filter add dev DEV ingress bpf direct-action obj liar.bpf.o sec FAULT`.
 * They change options of kind 253 (see bpf/controllers/formosa.bpf.c), mark packets, or lose them.
 */
#include "kernel.bpf.h"

#include <bpf/bpf_endian.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum { PASS = 0, DROP = 2 }; /* TC_ACT_OK, TC_ACT_SHOT */
enum { SYN = 2, ACK = 16 };
enum { HELLO = 0xF0A0, DATA, ANSWER };

struct segment {
	u32 at;      /* of the TCP header in the packet */
	u32 header;  /* its length */
	u32 payload;
	u8 flags;
};

/* IPv4 without options, behind Ethernet: what the tests send. */
static __always_inline bool segment(struct __sk_buff *skb, struct segment *s)
{
	u8 b[14];

	s->at = 14 + 20;
	if (skb->protocol != bpf_htons(0x0800) || bpf_skb_load_bytes(skb, s->at, b, sizeof(b)))
		return false;
	s->header = (b[12] >> 4) * 4;
	s->flags = b[13];
	s->payload = skb->len - s->at - s->header;
	return bpf_skb_load_bytes(skb, 14 + 9, b, 1) == 0 && b[0] == 6;
}

/* Overwrite two bytes at an even offset; the checksum stays right. */
static __always_inline void put(struct __sk_buff *skb, const struct segment *s, u32 at, u16 value)
{
	u16 old;

	if (bpf_skb_load_bytes(skb, at, &old, 2))
		return;
	bpf_l4_csum_replace(skb, s->at + 16, old, value, 2);
	bpf_skb_store_bytes(skb, at, &value, 2, 0);
}

/* The place at which an option of ours begins, its length and ExID; 0: none. The stack aligns it to 4 bytes. */
static __always_inline u32 find(struct __sk_buff *skb, const struct segment *s, u32 from, u8 *len, u16 *exid)
{
	u32 at = from;

	for (int i = 0; i < 20; i++) {
		u8 b[4];

		if (at + 2 > s->at + s->header || bpf_skb_load_bytes(skb, at, b, 2) || b[0] == 0)
			return 0;
		if (b[0] == 1) {
			at++;
			continue;
		}
		if (b[0] == 253 && !bpf_skb_load_bytes(skb, at, b, 4)) {
			*len = b[1];
			*exid = b[2] << 8 | b[3];
			return at;
		}
		if (b[1] < 2)
			return 0;
		at += b[1];
	}
	return 0;
}

enum fault {
	STRIP, STRIP_DATA, STRIP_ANSWER, WILD_SRTT, WILD_STAMP, WILD_ROUND, NO_ROUND, SIGNALS, ECHOES, WRONG_LENGTH, GARBAGE,
};

static __always_inline int lie(struct __sk_buff *skb, enum fault fault)
{
	struct segment s;
	u32 at, random;
	u16 exid;
	u8 len;

	if (!segment(skb, &s))
		return PASS;
	at = s.at + 20;
	for (int i = 0; i < 2; i++) { /* an answer and a data option may be there */
		at = find(skb, &s, at, &len, &exid);
		if (!at)
			return PASS;
		random = bpf_get_prandom_u32();
		if (fault == STRIP || (fault == STRIP_DATA && exid == DATA) || (fault == STRIP_ANSWER && exid == ANSWER)) {
			for (u32 k = 0; k < 12; k += 2)
				if (k < len)
					put(skb, &s, at + k, 0x0101);
		} else if (fault == WRONG_LENGTH && exid != HELLO) {
			put(skb, &s, at, bpf_htons(253 << 8 | (4 + random % 12)));
		} else if (fault == GARBAGE && exid != HELLO) {
			for (u32 k = 4; k < 12; k += 2)
				if (k < len)
					put(skb, &s, at + k, bpf_get_prandom_u32());
		} else if (exid == DATA && fault == WILD_SRTT) {
			put(skb, &s, at + 6, random & 1 ? random >> 16 : 0);
		} else if (exid == DATA && fault == WILD_STAMP) {
			put(skb, &s, at + 8, random);
			put(skb, &s, at + 10, random >> 16);
		} else if (exid == DATA && (fault == WILD_ROUND || fault == NO_ROUND)) {
			put(skb, &s, at + 4, fault == NO_ROUND ? 0 : random);
		} else if (exid == ANSWER && (fault == SIGNALS || fault == ECHOES)) {
			put(skb, &s, at + 4, fault == ECHOES ? random << 8 : random);
		}
		at += len < 4 ? 4 : len;
	}
	return PASS;
}

#define FAULT(name, number) \
	SEC(#name) int on_##name(struct __sk_buff *skb) { return lie(skb, number); }

FAULT(strip, STRIP)                 /* a middlebox that takes unknown options out, everywhere */
FAULT(strip_data, STRIP_DATA)       /* or on data segments only */
FAULT(strip_answer, STRIP_ANSWER)   /* or on ACKs only */
FAULT(wild_srtt, WILD_SRTT)
FAULT(wild_stamp, WILD_STAMP)
FAULT(wild_round, WILD_ROUND)       /* each packet flagged, or none, of any round */
FAULT(no_round, NO_ROUND)           /* no packet asks for an ACK */
FAULT(signals, SIGNALS)             /* each ACK another signal */
FAULT(echoes, ECHOES)               /* each ACK names another round */
FAULT(wrong_length, WRONG_LENGTH)
FAULT(garbage, GARBAGE)

/* Each packet is marked, if it may be. */
SEC("mark")
int on_mark(struct __sk_buff *skb)
{
	bpf_skb_ecn_set_ce(skb);
	return PASS;
}

/* And one of fifty is lost. */
SEC("mark_and_lose")
int on_mark_and_lose(struct __sk_buff *skb)
{
	bpf_skb_ecn_set_ce(skb);
	return bpf_get_prandom_u32() % 50 ? PASS : DROP;
}

/* Three of ten pure ACKs are lost. */
SEC("lose_acks")
int on_lose_acks(struct __sk_buff *skb)
{
	struct segment s;

	if (!segment(skb, &s) || s.payload || (s.flags & (SYN | 1)))
		return PASS;
	return bpf_get_prandom_u32() % 10 < 3 ? DROP : PASS;
}

/* One of a hundred data segments is lost. */
SEC("lose_data")
int on_lose_data(struct __sk_buff *skb)
{
	struct segment s;

	if (!segment(skb, &s) || !s.payload)
		return PASS;
	return bpf_get_prandom_u32() % 100 ? PASS : DROP;
}
