// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ECT(1) for controllers that ask for it (TCP_CONG_ECT_1_NEGOTIATION), as a filter of the device that packets leave by:
 *
 *     tc qdisc add dev eth0 clsact
 *     tc filter add dev eth0 egress bpf direct-action object-file ect1.bpf.o section tc
 *
 * RFC 9331, 4.1: an L4S sender marks its packets so. Linux (looked at up to 7.3) marks those of the handshake so, and later ones ECT(0),
 * whatever the controller. No program of a controller can change that; here the packet has its socket, and the socket its controller,
 * so another controller's packets stay as they are from the moment that it takes over.
 */
#include "packet.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum { ETHERNET = 14, IPV4_CHECKSUM = 10, NEXT_FILTER = -1, ECT0 = 2, FLIP = 3 }; /* ECT(0) is 10, ECT(1) 01 */

/* The first bytes of an IP header. */
struct ip_start {
	u8 version, tos; /* of IPv6 the traffic class lies across both */
	u16 rest;
	u32 more[2]; /* of IPv4 the checksum is the last half */
};

/* Is it at that place of the packet? */
static inline bool is_at(struct __sk_buff *skb, u32 at, const struct ip_start *ip)
{
	struct ip_start start;

	return !bpf_skb_load_bytes(skb, at, &start, sizeof(start)) && start.version == ip->version &&
	       start.tos == ip->tos && start.rest == ip->rest && start.more[0] == ip->more[0] &&
	       start.more[1] == ip->more[1];
}

SEC("tc")
int ect1_egress(struct __sk_buff *skb)
{
	struct tcp_sock *tp = tcp_sock_of(skb->sk);
	struct ip_start ip;
	u32 at;
	u8 is;

	if (!tp || !(((struct inet_connection_sock *)tp)->icsk_ca_ops->flags & TCP_CONG_ECT_1_NEGOTIATION) ||
	    bpf_skb_load_bytes_relative(skb, 0, &ip, sizeof(ip), BPF_HDR_START_NET))
		return NEXT_FILTER;
	if (ip.version >> 4 == 4)
		is = (ip.tos & CE) == ECT0 ? ip.tos ^ FLIP : ip.tos;
	else
		is = (ip.tos >> 4 & CE) == ECT0 ? ip.tos ^ FLIP << 4 : ip.tos;
	at = is_at(skb, ETHERNET, &ip) ? ETHERNET : 0;
	if (is == ip.tos || !is_at(skb, at, &ip))
		return NEXT_FILTER;
	if (ip.version >> 4 == 4)
		bpf_l3_csum_replace(skb, at + IPV4_CHECKSUM, bpf_htons(ip.tos), bpf_htons(is), 2);
	bpf_skb_store_bytes(skb, at + 1, &is, 1, 0);
	return NEXT_FILTER;
}
