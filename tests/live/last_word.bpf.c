// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Other programs of a cgroup change a connection that begins, as bpftune's and Cilium's do. */
#include "kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define IPPROTO_TCP 6
#define TCP_CONGESTION 13

static bool begins(const struct bpf_sock_ops *ops)
{
	return ops->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || ops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB;
}

/* It chooses the controller. */
SEC("sockops")
int choose(struct bpf_sock_ops *ops)
{
	char reno[] = "reno";

	if (begins(ops))
		bpf_setsockopt(ops, IPPROTO_TCP, TCP_CONGESTION, reno, sizeof(reno));
	return 1;
}

/* It asks for callbacks of its own, and for none of those that others had asked for. */
SEC("sockops")
int ask(struct bpf_sock_ops *ops)
{
	if (begins(ops))
		bpf_sock_ops_cb_flags_set(ops, BPF_SOCK_OPS_RTT_CB_FLAG);
	return 1;
}
