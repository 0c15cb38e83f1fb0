// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Record what TCP does, at the least cost per packet: two tracepoints that every kernel has,
 * no wakeups, and no state but the open bins. The records are described in trace.h.
 */
#include "compat.bpf.h"
#include "declare.bpf.h"
#include "trace.h"

#include <bpf/bpf_endian.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

PARAM(u32, port_lo, 0, 0, 65535, "-", "lowest port of the sockets to trace");
PARAM(u32, port_hi, 65535, 0, 65535, "-", "highest port of the sockets to trace");
PARAM(u32, nr_ends, 0, 0, 4294967295, "-", "ends in the map, one of which a connection must have; 0: any");
PARAM(u32, nr_links, 0, 0, 4294967295, "-", "devices in the map");
PARAM(u32, with_state, 0, 0, 1, "-", "1: with each ACK the private state of its sender");
PARAM(u64, every_ns, 0, 0, 1000000000, "ns", "least time between two ACK records of a connection; 0: each has one");
PARAM(u64, bin_ns, 100000000, 1000000, 3600000000000, "ns", "width of a bin");

struct trace_counts counts;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, TRACE_RING_BYTES);
} ring SEC(".maps");

struct { /* by socket cookie */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TRACE_MAX_SOCKS);
	__type(key, u64);
	__type(value, struct trace_sock);
} socks SEC(".maps");

struct { /* by socket cookie, of senders; only with every_ns. The one that was silent for the longest makes room */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TRACE_MAX_SOCKS);
	__type(key, u64);
	__type(value, struct trace_sender);
} senders SEC(".maps");

struct { /* filled by the loader; no hash of names: most traces have a few */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TRACE_MAX_LINKS);
	__type(key, u32);
	__type(value, struct trace_dev);
} devs SEC(".maps");

struct { /* the loader makes room for as many as it puts in */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct trace_flow_end);
	__type(value, u8);
} ends SEC(".maps");

/* Views of kernel structures; ___trace keeps those apart that kernel.bpf.h has already. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	u8 bytes[16];
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	u16 skc_num;
	__be16 skc_dport;
	u16 skc_family;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
};

struct inet_connection_sock___trace {
	u8 icsk_ca_state:5;
};

struct tcp_sack_block {
	u32 start_seq;
	u32 end_seq;
};

struct tcp_sock___trace {
	struct tcp_sack_block selective_acks[4]; /* what waits behind gaps */
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 app_limited;
	u32 total_retrans;
	u32 delivered;
	u32 lost;
	struct tcp_rack rack;
};

struct net_device {
	char name[TRACE_NAME_LEN];
};

struct netdev_queue {
	struct net_device *dev;
};

struct qdisc_skb_head {
	u32 qlen;
};

struct gnet_stats_queue {
	u32 drops;
};

struct Qdisc {
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
};

struct sk_buff {
	char cb[48];
	u32 len;
	__be16 protocol;
	u16 network_header;
	unsigned char *head;
};

#pragma clang attribute pop

#define FLAG_FIN 0x01
#define FLAG_SYN 0x02
#define FLAG_RST 0x04
#define FLAG_ECE 0x40

#define AF_INET6 10
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86DD
#define IPPROTO_TCP 6

/* An ACK and its state are one record: neither is kept without the other. */
struct ack_and_state {
	struct trace_ack ack;
	struct trace_state state[2];
};

static inline void state_record(struct trace_state *r, u16 part, const struct trace_ack *ack, const struct tcp_sock *tp)
{
	const struct inet_connection_sock *icsk = (const void *)tp;
	u32 from = part * TRACE_STATE_BYTES;

	r->type = TRACE_STATE;
	r->lport = ack->lport;
	r->rport = ack->rport;
	r->part = part;
	__builtin_memset(r->bytes, 0, sizeof(r->bytes));
	bpf_probe_read_kernel(
		r->bytes, min(CA_PRIV_BYTES - from, TRACE_STATE_BYTES), (const u8 *)icsk->icsk_ca_priv + from);
}

static inline void
ack_record(struct sock *sk, const struct tcp_sock *tp, u16 lport, u16 rport, u64 now, u32 acked, u32 payload,
	   u32 tcp_flags)
{
	const struct tcp_sock___trace *tt = (const void *)tp;
	const struct inet_connection_sock___trace *icsk = (const void *)tp;
	u32 size = with_state ? sizeof(struct ack_and_state) : sizeof(struct trace_ack);
	struct ack_and_state *all = bpf_ringbuf_reserve(&ring, size, 0);
	struct trace_ack *r = &all->ack;

	if (!all) {
		__sync_fetch_and_add(&counts.lost, size / sizeof(*r));
		return;
	}
	r->type = TRACE_ACK;
	r->lport = lport;
	r->rport = rport;
	r->ca_state = BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
	r->flags = (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) ? TRACE_CWND_LIMITED : 0) |
		   (tcp_flags & FLAG_ECE ? TRACE_ECE : 0) | (payload ? TRACE_PAYLOAD : 0) |
		   (tt->app_limited ? TRACE_APP_LIMITED : 0);
	r->t_ns = now;
	r->cwnd = tp->snd_cwnd;
	r->ssthresh = tp->snd_ssthresh;
	r->srtt_us = tp->srtt_us >> 3;
	r->rtt_us = rack_rtt_us(tt);
	r->in_flight = tt->packets_out - tt->sacked_out - tt->lost_out + tt->retrans_out;
	r->acked = acked;
	r->pacing_rate = sk->sk_pacing_rate;
	r->total_retrans = tt->total_retrans;
	r->delivered = tt->delivered;
	r->lost = tt->lost;
	r->mss = tp->mss_cache;
	if (with_state) {
		state_record(&all->state[0], 0, r, tp);
		state_record(&all->state[1], 1, r, tp);
	}
	bpf_ringbuf_submit(all, BPF_RB_NO_WAKEUP);
}

/*
 * Whether an ACK has a record, with every_ns: the first of each interval has, and tells what those before it
 * acknowledged. An interval is a second at most, so 32 bits hold it up to 34 Gbit/s.
 */
static inline bool has_record(struct sock *sk, u64 now, u32 *acked)
{
	struct trace_sender new = { .next_ns = now - now % every_ns + every_ns }, *s;
	u64 cookie = bpf_get_socket_cookie(sk);

	s = bpf_map_lookup_elem(&senders, &cookie);
	if (!s) {
		bpf_map_update_elem(&senders, &cookie, &new, BPF_NOEXIST);
		return true;
	}
	if (now < s->next_ns) {
		s->acked += *acked;
		return false;
	}
	*acked += s->acked;
	*s = new;
	return true;
}

static inline void emit(void *record)
{
	if (bpf_ringbuf_output(&ring, record, 64, BPF_RB_NO_WAKEUP))
		COUNT(counts.lost);
}

static inline struct trace_sock *new_sock(u64 cookie, u16 lport, u16 rport, u32 rcv_nxt)
{
	struct trace_sock s = {
		.bin = { .type = TRACE_GOODPUT, .lport = lport, .rport = rport, .cookie = cookie },
		.nxt = rcv_nxt,
	};

	if (bpf_map_update_elem(&socks, &cookie, &s, BPF_NOEXIST))
		COUNT(counts.lost);
	return bpf_map_lookup_elem(&socks, &cookie);
}

/* The rcv_nxt after a segment: beyond what waits behind it, if it closes the only gap. */
static inline u32 expected(const struct tcp_sock *tp, u32 rcv_nxt, u32 seq, u32 end)
{
	const struct tcp_sock___trace *tt = (const void *)tp;

	if (before(rcv_nxt, seq) || !before(rcv_nxt, end))
		return rcv_nxt;
	if (tp->rx_opt.num_sacks == 1 && !before(end, tt->selective_acks[0].start_seq) &&
	    before(end, tt->selective_acks[0].end_seq))
		return tt->selective_acks[0].end_seq;
	return end;
}

/*
 * We run before the segment is processed: how far it takes rcv_nxt is known for certain when the
 * next one comes, and belongs to the bin that is open till then.
 */
static inline void
goodput(struct sock *sk, const struct tcp_sock *tp, u16 lport, u16 rport, u64 now, u32 seq, u32 payload, u32 fin)
{
	u64 cookie = bpf_get_socket_cookie(sk);
	struct trace_sock *s = bpf_map_lookup_elem(&socks, &cookie);
	u32 rcv_nxt = tp->rcv_nxt;

	if (!s) {
		if (!payload)
			return;
		s = new_sock(cookie, lport, rport, rcv_nxt);
		if (!s)
			return;
	}
	s->bin.bytes += rcv_nxt - s->nxt;
	if (now >= s->end_ns) {
		if (s->bin.bytes | s->bin.segments)
			emit(&s->bin);
		s->bin.t_ns = now - now % bin_ns;
		s->end_ns = s->bin.t_ns + bin_ns;
		s->bin.bytes = 0;
		s->bin.segments = 0;
		s->bin.not_next = 0;
	}
	s->nxt = rcv_nxt;
	s->expect = expected(tp, rcv_nxt, seq, seq + payload);
	if (payload) {
		s->bin.segments++;
		if (seq != rcv_nxt)
			s->bin.not_next++;
	}
	if (fin) {
		s->fin = true;
		s->fin_seq = seq + payload;
	}
	if (s->fin && !before(s->expect, s->fin_seq)) { /* nothing can follow */
		s->bin.bytes += s->fin_seq - rcv_nxt;
		if (s->bin.bytes | s->bin.segments)
			emit(&s->bin);
		bpf_map_delete_elem(&socks, &cookie);
	}
}

static inline bool is_end(const struct in6_addr *v6, __be32 v4, u16 port)
{
	struct trace_flow_end end = { .port = port };

	if (v6)
		bpf_probe_read_kernel(end.address, sizeof(end.address), v6);
	else
		trace_map_v4(&end, v4);
	return bpf_map_lookup_elem(&ends, &end);
}

/* A socket of IPv6 that talks IPv4 has mapped addresses. */
static inline bool has_end(const struct sock *sk, u16 lport, u16 rport)
{
	const struct sock_common *c = &sk->__sk_common;
	bool v6 = c->skc_family == AF_INET6 && bpf_core_field_exists(c->skc_v6_daddr);

	return is_end(v6 ? &c->skc_v6_daddr : NULL, c->skc_daddr, rport) ||
	       is_end(v6 ? &c->skc_v6_rcv_saddr : NULL, c->skc_rcv_saddr, lport);
}

static inline int segment(struct sock *sk, const struct sk_buff *skb)
{
	const struct tcp_skb_cb *cb;
	u32 acked, payload, flags, fin;
	const struct tcp_sock *tp;
	u16 lport, rport;
	u64 now;

	lport = sk->__sk_common.skc_num;
	rport = bpf_ntohs(sk->__sk_common.skc_dport);
	if ((lport < port_lo || lport > port_hi) && (rport < port_lo || rport > port_hi))
		return 0;
	if (nr_ends && !has_end(sk, lport, rport))
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	now = bpf_ktime_get_ns();
	cb = (const void *)skb->cb;
	flags = cb->tcp_flags;
	fin = flags & FLAG_FIN;
	payload = cb->end_seq - cb->seq - fin;
	if (flags & FLAG_SYN) /* a late SYN: the kernel answers and drops it */
		return 0;
	acked = cb->ack_seq - tp->snd_una;
	if ((s32)acked < 0)
		acked = 0;
	if ((acked || !(payload | fin)) && (!every_ns || has_record(sk, now, &acked)))
		ack_record(sk, tp, lport, rport, now, acked, payload, flags);
	if (payload | fin)
		goodput(sk, tp, lport, rport, now, cb->seq, payload, fin);
	return 0;
}

/*
 * A process that works off its backlog can be interrupted by a softirq that receives for another
 * socket. The kernel lets no program run within itself: the second one then stands in.
 */
SEC("tp_btf/tcp_probe")
int BPF_PROG(on_segment, struct sock *sk, const struct sk_buff *skb)
{
	u8 *busy = &counts.busy[bpf_get_smp_processor_id() & (TRACE_MAX_CPUS - 1)];

	*busy = true;
	segment(sk, skb);
	*busy = false;
	return 0;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(on_segment_within, struct sock *sk, const struct sk_buff *skb)
{
	if (!counts.busy[bpf_get_smp_processor_id() & (TRACE_MAX_CPUS - 1)])
		return 0;
	COUNT(counts.within);
	return segment(sk, skb);
}

struct headers {
	union {
		struct { /* without options; with them, it is not recognised as a pure ACK */
			u8 ihl, tos;
			__be16 len;
			u8 to_protocol[5], protocol;
			u8 to_offset[22], offset, flags;
		} v4;
		struct {
			u8 to_len[4];
			__be16 len;
			u8 protocol;
			u8 to_offset[45], offset, flags;
		} v6;
	};
};

/* Ethernet, IP and TCP headers together are at most this long: more has a payload. */
#define PURE_ACK_MAX (14 + 60 + 60)

static inline bool is_pure_ack(const struct sk_buff *skb)
{
	u16 protocol = bpf_ntohs(skb->protocol);
	struct headers h;

	if (bpf_probe_read_kernel(&h, sizeof(h), skb->head + skb->network_header))
		return false;
	if (protocol == ETH_P_IP)
		return h.v4.ihl == 0x45 && h.v4.protocol == IPPROTO_TCP &&
		       !(h.v4.flags & (FLAG_SYN | FLAG_FIN | FLAG_RST)) &&
		       bpf_ntohs(h.v4.len) == 20 + (h.v4.offset >> 4) * 4;
	return protocol == ETH_P_IPV6 && h.v6.protocol == IPPROTO_TCP &&
	       !(h.v6.flags & (FLAG_SYN | FLAG_FIN | FLAG_RST)) && bpf_ntohs(h.v6.len) == (h.v6.offset >> 4) * 4;
}

#define LOW_BITS 0x0101010101010101ULL

/* Which bytes of eight are before the first NUL: a mask, all ones without a NUL. Borrows reach only bytes behind it. */
static inline u64 before_nul(u64 word)
{
	u64 nul = (word - LOW_BITS) & ~word & LOW_BITS << 7;

	return ((nul & -nul) >> 7) - 1;
}

/* By its name. Bytes behind the NUL may be left from a former one; a helper that copies up to it takes 190 instructions. */
static inline struct trace_dev *traced(const struct net_device *dev)
{
	const u64 *name = (const void *)dev->name, *wanted;
	u64 mask = before_nul(name[0]), low = name[0] & mask;
	u64 high = mask + 1 ? 0 : name[1] & before_nul(name[1]);
	struct trace_dev *d;

	for (u32 i = 0; i < nr_links && i < TRACE_MAX_LINKS; i++) {
		u32 key = i;

		d = bpf_map_lookup_elem(&devs, &key);
		if (!d)
			break;
		wanted = (const void *)d->bin.name;
		if (wanted[0] == low && wanted[1] == high)
			return d;
	}
	return NULL;
}

SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(on_dequeue, struct Qdisc *q, const struct netdev_queue *txq, int packets, struct sk_buff *skb)
{
	struct trace_dev *d;
	u32 len, qlen;
	u64 now;

	len = length_if_any(skb);
	if (!len)
		return 0;
	d = traced(txq->dev);
	if (!d)
		return 0;
	now = bpf_ktime_get_ns();
	if (now >= d->end_ns) {
		if (d->bin.packets)
			emit(&d->bin);
		d->bin.t_ns = now - now % bin_ns;
		d->end_ns = d->bin.t_ns + bin_ns;
		d->bin.packets = 0;
		d->bin.bytes = 0;
		d->bin.pure_acks = 0;
		d->bin.qlen_max = 0;
		d->bin.qlen_sum = 0;
		d->bin.unseen = 0;
	}
	d->bin.packets += packets;
	d->bin.unseen += packets - 1;
	d->bin.bytes += len;
	if (len <= PURE_ACK_MAX && is_pure_ack(skb))
		d->bin.pure_acks++;
	qlen = q->q.qlen;
	d->bin.qlen_sum += qlen;
	if (qlen + packets > d->bin.qlen_max)
		d->bin.qlen_max = qlen + packets;
	d->bin.drops = q->qstats.drops;
	return 0;
}
