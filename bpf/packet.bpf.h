/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* TCP in a packet that a cgroup_skb program sees: from the IP header on. */
#ifndef PACKET_BPF_H
#define PACKET_BPF_H

#include "kernel.bpf.h"

#include <bpf/bpf_endian.h>

enum {
	IPPROTO_HOPOPTS_ = 0,
	IPPROTO_TCP_ = 6,
	SOCK_STREAM_ = 1,
	TCPOPT_SACK = 5,
	FIN = 1,
	SYN = 2,
	RST = 4,
	PSH = 8,
	ACK = 16,
	ECE = 64,
	CE = 3,
	WORDS_PLAIN = 5, /* length of a header without options, in words of 4 bytes */
	WORDS_STAMP = 8, /* the same with timestamps alone, as Linux writes them */
	STAMP_WORD = 0x0101080a,
};

#define HEADERS_MAX (40 + 60) /* longest IP and TCP headers without extensions */

struct tcp_header {
	__be16 source, dest;
	__be32 seq, ack;
	u8 offset, flags; /* header length in words << 4 */
	__be16 window;
	u16 check, urgent;
};

/*
 * The TCP socket of a packet, or NULL. A raw socket may have TCP's protocol, too, and so has the kernel's own, which answers for
 * TIME_WAIT and with resets. The helper takes them for TCP sockets, which are larger: what it finds there is whatever lies behind them.
 */
static inline struct tcp_sock *tcp_sock_of(struct bpf_sock *sk)
{
	sk = sk ? bpf_sk_fullsock(sk) : NULL;
	return sk && sk->type == SOCK_STREAM_ ? bpf_skc_to_tcp_sock(sk) : NULL;
}

/* The hash of a packet's source address: the high bits of its product with 2^32 / golden ratio. */
static inline u32 source_hash(struct __sk_buff *skb)
{
	__be32 from[4] = {};
	u8 version;

	if (bpf_skb_load_bytes(skb, 0, &version, 1))
		return 0;
	if (version >> 4 == 4)
		bpf_skb_load_bytes(skb, 12, from, 4);
	else
		bpf_skb_load_bytes(skb, 8, from, sizeof(from));
	return (from[0] ^ from[1] ^ from[2] ^ from[3]) * 2654435761u;
}

/*
 * Reads the TCP header, and returns where it begins; 0: there is none, or the IP header has extensions. A BIG TCP packet of IPv6
 * may have one, of 8 bytes: its true length.
 */
static inline u32 tcp_header_at(struct __sk_buff *skb, struct tcp_header *h, u8 *ecn)
{
	u8 ip[10], next[2];
	u32 at;

	if (bpf_skb_load_bytes(skb, 0, ip, sizeof(ip)))
		return 0;
	if (ip[0] >> 4 == 4 && ip[9] == IPPROTO_TCP_) {
		at = (ip[0] & 15) * 4;
		*ecn = ip[1] & CE;
	} else if (ip[0] >> 4 == 6 && ip[6] == IPPROTO_TCP_) {
		at = 40;
		*ecn = ip[1] >> 4 & CE;
	} else if (ip[0] >> 4 == 6 && ip[6] == IPPROTO_HOPOPTS_ && !bpf_skb_load_bytes(skb, 40, next, sizeof(next)) &&
		   next[0] == IPPROTO_TCP_ && !next[1]) {
		at = 48;
		*ecn = ip[1] >> 4 & CE;
	} else {
		return 0;
	}
	return bpf_skb_load_bytes(skb, at, h, sizeof(*h)) ? 0 : at;
}

/* TSval and TSecr of a header whose options begin with timestamps, as Linux writes them. */
static inline bool timestamps(struct __sk_buff *skb, u32 at, const struct tcp_header *h, __be32 stamps[3])
{
	return h->offset >> 4 >= WORDS_STAMP && !bpf_skb_load_bytes(skb, at + sizeof(*h), stamps, 12) &&
	       stamps[0] == bpf_htonl(STAMP_WORD);
}

/* Reads the header of a segment without data, as tcp_header_at() does. */
static inline u32 bare_segment(struct __sk_buff *skb, struct tcp_header *h, u8 *ecn)
{
	u32 at = skb->len > HEADERS_MAX ? 0 : tcp_header_at(skb, h, ecn);

	return at && skb->len == at + (h->offset >> 4) * 4 ? at : 0;
}

/* The same of a pure ACK. */
static inline u32 pure_ack(struct __sk_buff *skb, struct tcp_header *h)
{
	u8 ecn;
	u32 at = bare_segment(skb, h, &ecn);

	return at && !(h->flags & (SYN | FIN | RST)) ? at : 0;
}

/*
 * Data came that is here already: its sender has not heard our ACK. Then the first SACK block lies below the ACK, or within the
 * second one (RFC 2883). Its TCP header begins at `at`. The kernel writes SACK first, or behind the timestamps.
 */
static inline bool reports_duplicate(struct __sk_buff *skb, const struct tcp_header *h, u32 at, u32 ack)
{
	u32 left, right;
	u8 option[2]; /* kind, length */
	__be32 edge[4];

	at += sizeof(*h);
	for (int i = 0; i < 2; i++, at += 12) {
		if (bpf_skb_load_bytes(skb, at + 2, option, sizeof(option)))
			return false;
		if (option[0] != TCPOPT_SACK || bpf_skb_load_bytes(skb, at + 4, edge, 8))
			continue;
		left = bpf_ntohl(edge[0]);
		right = bpf_ntohl(edge[1]);
		if (before(left, ack))
			return true;
		return option[1] >= 2 + 16 && !bpf_skb_load_bytes(skb, at + 12, edge + 2, 8) &&
		       !before(left, bpf_ntohl(edge[2])) && !before(bpf_ntohl(edge[3]), right);
	}
	return false;
}

#endif
