// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Give sockets that exist another controller: a TCP iterator, which has the socket's lock, so that bpf_setsockopt() does
 * what setsockopt() of its own process would do. No data are lost: what is under way belongs to TCP, not to its
 * controller.
 */
#include "kernel.bpf.h"
#include "move_rule.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define IPPROTO_TCP 6
#define TCP_CONGESTION 13
#define TCP_LISTEN 10
#define CGROUP_DEPTH 64

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct move_rule);
} move_rules SEC(".maps");

/* The sockets that a rule with MOVE_LISTED means, by cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MOVE_LIST_LEN);
	__type(key, u64);
	__type(value, u8);
} listed SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
	u8 skc_state;
};

struct kernfs_node {
	u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct sock___move {
	struct {
		struct cgroup *cgroup;
	} sk_cgrp_data;
};

struct inet_connection_sock___move {
	const void *icsk_ca_ops;
};

struct bpf_iter__tcp {
	struct sock_common *sk_common;
};

#pragma clang attribute pop

static __always_inline bool is_in_cgroup(u64 id, struct sock *sk)
{
	struct cgroup *cg = BPF_CORE_READ((struct sock___move *)sk, sk_cgrp_data.cgroup);

	for (int i = 0; i < CGROUP_DEPTH && cg; i++) {
		struct cgroup_subsys_state *parent;

		if (BPF_CORE_READ(cg, kn, id) == id)
			return true;
		parent = BPF_CORE_READ(cg, self.parent);
		cg = parent ? BPF_CORE_READ(parent, cgroup) : NULL;
	}
	return false;
}

static __always_inline bool is_listed(struct sock_common *common)
{
	u64 cookie = bpf_get_socket_cookie(common);

	return bpf_map_lookup_elem(&listed, &cookie);
}

static __always_inline bool same(const char *a, const char *b)
{
	for (int i = 0; i < MOVE_NAME_LEN; i++) {
		if (a[i] != b[i])
			return false;
		if (!a[i])
			break;
	}
	return true;
}

/* Two instances with one name are two controllers. */
static __always_inline const void *controller(struct tcp_sock *tp)
{
	return BPF_CORE_READ((struct inet_connection_sock___move *)tp, icsk_ca_ops);
}

static __always_inline bool is_meant(const struct move_rule *r, struct sock_common *common, struct tcp_sock *tp)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tp;
	bool chosen = BPF_CORE_READ_BITFIELD_PROBED(icsk, icsk_ca_setsockopt);
	char now[MOVE_NAME_LEN] = {};

	if (!(r->what & (common->skc_state == TCP_LISTEN ? MOVE_LISTENERS : MOVE_CONNECTIONS)))
		return false;
	if (bpf_getsockopt(tp, IPPROTO_TCP, TCP_CONGESTION, now, sizeof(now)))
		return false;
	if ((r->what & MOVE_CHOSEN && !chosen) || (r->what & MOVE_UNCHOSEN && chosen && !same(now, r->or_from)))
		return false;
	if (*r->from && (!same(now, r->from) || same(now, r->to)))
		return false;
	if (r->cgroup && !is_in_cgroup(r->cgroup, (struct sock *)tp))
		return false;
	return !(r->what & MOVE_LISTED) || is_listed(common);
}

SEC("iter/tcp")
int asymcc_move(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	const void *before;
	struct move_rule *r;
	struct tcp_sock *tp;
	u32 zero = 0;

	if (!common)
		return 0;
	r = bpf_map_lookup_elem(&move_rules, &zero);
	tp = bpf_skc_to_tcp_sock(common);
	if (!r || !tp || !is_meant(r, common, tp))
		return 0;
	before = controller(tp);
	if (bpf_setsockopt(tp, IPPROTO_TCP, TCP_CONGESTION, r->to, sizeof(r->to)))
		r->refused++;
	else
		r->moved += controller(tp) != before;
	return 0;
}
