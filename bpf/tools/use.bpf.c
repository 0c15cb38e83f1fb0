// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* `asymcc use NAME --cgroup PATH`: every connection that the cgroup opens or accepts takes the controller. */
#include "kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define NAME_LEN 16 /* CC_NAME_LEN of say.h */
#define IPPROTO_TCP 6
#define TCP_CONGESTION 13

/* written by the loader */
const volatile char asymcc_used[NAME_LEN] = "";
const volatile char asymcc_before[NAME_LEN] = ""; /* `try`: what gives way to it, which its end brings back */

SEC("sockops")
int asymcc_use(struct bpf_sock_ops *ops)
{
	char name[NAME_LEN];

	/* before the SYN, which may carry a controller's option; then against what a route says, before the controller starts */
	if (ops->op != BPF_SOCK_OPS_TCP_CONNECT_CB && ops->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB &&
	    ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	for (int i = 0; i < NAME_LEN; i++)
		name[i] = asymcc_used[i];
	/* one that is unloaded: the connection keeps what it has */
	bpf_setsockopt(ops, IPPROTO_TCP, TCP_CONGESTION, name, sizeof(name));
	return 1;
}
