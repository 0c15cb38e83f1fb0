// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "kernel/hook.h"

const struct hook cgroup_hooks[NR_CGROUP_HOOKS] = {
	{ BPF_PROG_TYPE_SOCK_OPS, BPF_CGROUP_SOCK_OPS },
	{ BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_EGRESS },
	{ BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_INGRESS },
};

const struct hook *hook_of(const struct bpf_program *p)
{
	for (int i = 0; i < NR_CGROUP_HOOKS && bpf_program__autoload(p); i++)
		if (bpf_program__type(p) == cgroup_hooks[i].type &&
		    bpf_program__expected_attach_type(p) == cgroup_hooks[i].attach)
			return &cgroup_hooks[i];
	return NULL;
}
