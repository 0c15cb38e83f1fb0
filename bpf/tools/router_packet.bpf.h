/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* TCP in a packet on a router's device: behind Ethernet, VLAN tags and PPPoE, or from the IP header on. */
#ifndef ROUTER_PACKET_BPF_H
#define ROUTER_PACKET_BPF_H

#include "../declare.bpf.h"
#include "../packet.bpf.h"

PARAM(u8, ethernet, 1, 0, 1, "-", "1: a packet of the device begins with an Ethernet header, 0: with that of IP");

enum {
	ETHERNET = 14, /* bytes */
	VLANS_MAX = 2,
	TYPE_IP = 0x0800,
	TYPE_IPV6 = 0x86dd,
	TYPE_VLAN = 0x8100,
	TYPE_QINQ = 0x88a8,
	TYPE_PPPOE = 0x8864,
	PPPOE_PLAIN = 0x1100, /* version, type, and code of data */
	PPP_IP = 0x21,
	PPP_IPV6 = 0x57,
	FRAGMENT = 0x3fff, /* more of them, or an offset */
	NO_HEADER = -1,
};

/* A connection, as it looks on the uplink. */
struct tuple {
	__be32 local[4], remote[4]; /* IPv4 addresses in the first word */
	__be16 local_port, remote_port;
	u32 link; /* VLAN, and session of PPPoE: two networks may have the same addresses */
};

struct packet {
	struct tuple of;
	struct tcp_header h;
	u32 at; /* of the TCP header */
	u32 len; /* bytes from the IP header on */
	u32 payload;
	bool plain; /* the IP header tells nothing that the next one's does not */
};

/* Returns where the IP header begins, or NO_HEADER. `link`: VLANs and session. */
static __always_inline int ip_header_at(struct __sk_buff *skb, u32 *link)
{
	__be16 pppoe[4], tag[2];
	u32 at = ETHERNET;
	__be16 type;

	*link = skb->vlan_present ? skb->vlan_tci & 0xfff : 0;
	if (!ethernet)
		return 0;
	if (bpf_skb_load_bytes(skb, at - 2, &type, 2))
		return NO_HEADER;
	for (int i = 0; i < VLANS_MAX && (type == bpf_htons(TYPE_VLAN) || type == bpf_htons(TYPE_QINQ)); i++, at += 4) {
		if (bpf_skb_load_bytes(skb, at, tag, 4))
			return NO_HEADER;
		*link = *link << 12 | (bpf_ntohs(tag[0]) & 0xfff);
		type = tag[1];
	}
	if (type == bpf_htons(TYPE_PPPOE)) {
		if (bpf_skb_load_bytes(skb, at, pppoe, 8) || pppoe[0] != bpf_htons(PPPOE_PLAIN))
			return NO_HEADER;
		*link = *link << 16 ^ bpf_ntohs(pppoe[1]);
		at += 8;
		return pppoe[3] == bpf_htons(PPP_IP) || pppoe[3] == bpf_htons(PPP_IPV6) ? at : NO_HEADER;
	}
	return type == bpf_htons(TYPE_IP) || type == bpf_htons(TYPE_IPV6) ? at : NO_HEADER;
}

/* Bytes from the IP header on. One that was put together may be longer than `len` can say, and says 0; of others that is none. */
static __always_inline u32 length_of(const struct __sk_buff *skb, u32 net, u32 len)
{
	return len || !skb->gso_size ? len : skb->len - net;
}

static __always_inline bool read_ipv4(struct __sk_buff *skb, struct packet *p, u32 net, bool leaves)
{
	struct {
		u8 version, tos;
		__be16 len, id, fragment;
		u8 ttl, protocol;
		__be16 check;
		__be32 from, to;
	} ip;

	if (bpf_skb_load_bytes(skb, net, &ip, sizeof(ip)) || ip.version >> 4 != 4 || (ip.version & 15) < 5 ||
	    ip.protocol != IPPROTO_TCP_ || ip.fragment & bpf_htons(FRAGMENT))
		return false;
	p->of.local[0] = leaves ? ip.from : ip.to;
	p->of.remote[0] = leaves ? ip.to : ip.from;
	p->at = net + (ip.version & 15) * 4;
	p->len = length_of(skb, net, bpf_ntohs(ip.len));
	p->plain = (ip.version & 15) == 5 && (ip.tos & CE) != CE;
	return true;
}

static __always_inline bool read_ipv6(struct __sk_buff *skb, struct packet *p, u32 net, bool leaves)
{
	struct {
		__be16 head, label, len;
		u8 next, hops;
		__be32 from[4], to[4];
	} ip;
	u8 next[2];

	if (bpf_skb_load_bytes(skb, net, &ip, sizeof(ip)) || bpf_ntohs(ip.head) >> 12 != 6)
		return false;
	p->at = net + sizeof(ip);
	if (ip.next == IPPROTO_HOPOPTS_ && !ip.len) { /* the same of IPv6 has its length there */
		if (bpf_skb_load_bytes(skb, p->at, next, 2) || next[0] != IPPROTO_TCP_ || next[1])
			return false;
		p->at += 8;
	} else if (ip.next != IPPROTO_TCP_) {
		return false;
	}
	for (int i = 0; i < 4; i++) {
		p->of.local[i] = leaves ? ip.from[i] : ip.to[i];
		p->of.remote[i] = leaves ? ip.to[i] : ip.from[i];
	}
	p->len = length_of(skb, net, ip.len ? sizeof(ip) + bpf_ntohs(ip.len) : 0);
	p->plain = p->at == net + sizeof(ip) && (bpf_ntohs(ip.head) >> 4 & CE) != CE;
	return true;
}

/* A TCP segment that is whole; else false. `leaves`: its source is the local end. */
static __always_inline bool read_packet(struct __sk_buff *skb, struct packet *p, bool leaves)
{
	int net = ip_header_at(skb, &p->of.link);
	u32 header;
	u8 version;

	if (net < 0 || bpf_skb_load_bytes(skb, net, &version, 1))
		return false;
	if (version >> 4 == 4 ? !read_ipv4(skb, p, net, leaves) : !read_ipv6(skb, p, net, leaves))
		return false;
	if (bpf_skb_load_bytes(skb, p->at, &p->h, sizeof(p->h)))
		return false;
	header = p->at - net + (p->h.offset >> 4) * 4;
	if (p->h.offset >> 4 < WORDS_PLAIN || p->len > skb->len - net || header > p->len)
		return false;
	p->payload = p->len - header;
	p->of.local_port = leaves ? p->h.source : p->h.dest;
	p->of.remote_port = leaves ? p->h.dest : p->h.source;
	return true;
}

#endif
