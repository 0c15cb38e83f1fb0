// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "kernel/hook.h"

const struct kind kinds[NR_KINDS] = {
	{ BPF_PROG_TYPE_SOCK_OPS, BPF_CGROUP_SOCK_OPS },
	{ BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_EGRESS },
	{ BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_INGRESS },
};

const struct kind *kind_of(const struct bpf_program *p)
{
	for (int i = 0; i < NR_KINDS && bpf_program__autoload(p); i++)
		if (bpf_program__type(p) == kinds[i].type && bpf_program__expected_attach_type(p) == kinds[i].attach)
			return &kinds[i];
	return NULL;
}
