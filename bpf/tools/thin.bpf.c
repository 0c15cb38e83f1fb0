// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * `asymcc thin`: ACK thinning for any sender. It runs at the receiver of the data, and the peer need not know of it.
 *
 * The kernel sends its ACKs as ever. A cgroup_skb/egress program drops the pure ones that tell the sender nothing which it has to
 * know now: thin_rules.bpf.h. Here is what its socket tells.
 */
#include "thin_rules.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile char asymcc_name[16] = "thin"; /* by which asymcc finds the programs again */

enum { ADDRESS_BITS = 6 };

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

/* The traffic that leaves by each address of this machine, by a hash of that: two that fall together count as one. */
struct load loads[1 << ADDRESS_BITS];

static inline void know(struct receiver *r, const struct tcp_sock *tp)
{
	r->handshake_ns = 1000 * min(tp->srtt_us >> 3, LONGEST_RTT_US);
	r->behind_ns = 0;
	r->rcv_nxt = tp->rcv_nxt;
	r->rcv_wnd = tp->rcv_wnd;
	r->snd_una = tp->snd_una;
	r->snd_nxt = tp->snd_nxt;
	r->mss = ((const struct inet_connection_sock *)tp)->icsk_ack.rcv_mss;
}

SEC("cgroup_skb/ingress")
int thin_ingress(struct __sk_buff *skb)
{
	struct segment s;
	struct receiver r;
	struct tcp_sock *tp;
	struct flow *f;
	u8 ecn;

	tp = tcp_sock_of(skb->sk);
	s.at = tp ? tcp_header_at(skb, &s.h, &ecn) : 0;
	if (!s.at)
		return 1;
	s.payload = skb->len - s.at -
		    (s.h.offset >> 4) * 4; /* the kernel has refused headers that are longer than their packet */
	read_segment(skb, &s);
	f = bpf_sk_storage_get(&flows, tp, NULL, s.packets == NONE ? 0 : BPF_SK_STORAGE_GET_F_CREATE);
	if (!f)
		return 1;
	know(&r, tp);
	hear(f, &r, &s, bpf_ktime_get_ns());
	return 1;
}

/* DCTCP's. */
static inline bool echoes_each_mark(const struct tcp_sock *tp)
{
	return tp->ecn_flags & TCP_ECN_OK &&
	       ((const struct inet_connection_sock *)tp)->icsk_ca_ops->flags & TCP_CONG_NEEDS_ECN;
}

SEC("cgroup_skb/egress")
int thin_egress(struct __sk_buff *skb)
{
	struct load *load;
	bool is_ack, uploads;
	struct pure a;
	struct receiver r;
	struct tcp_sock *tp;
	struct flow *f;
	u64 now;

	if (!thins)
		return 1;
	now = bpf_ktime_get_ns();
	a.at = pure_ack(skb, &a.h);
	is_ack = a.at;
	load = &loads[source_hash(skb) >> (32 - ADDRESS_BITS)];
	uploads = data_leaves(load, is_ack, skb->len, now);
	tp = is_ack ? tcp_sock_of(skb->sk) : NULL;
	if (!tp || tp->bytes_received < START_BYTES)
		return 1;
	f = bpf_sk_storage_get(&flows, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!f)
		return 1;
	know(&r, tp);
	a.len = skb->len;
	a.right = tp->rcv_wup + tp->rcv_wnd;
	a.accecn = tp->ecn_flags & TCP_ECN_MODE_ACCECN;
	read_pure(skb, &a);
	a.each_mark = echoes_each_mark(tp);
	return ack_passes(f, &r, &a, uploads, now);
}
