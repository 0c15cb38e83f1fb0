/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kinds of programs that asymcc attaches to cgroups. */
#ifndef HOOK_H
#define HOOK_H

#include <bpf/libbpf.h>

/* Sections "sockops", "cgroup_skb/egress" and "cgroup_skb/ingress". */
struct hook {
	enum bpf_prog_type type;
	enum bpf_attach_type attach;
};

#define NR_CGROUP_HOOKS 3
extern const struct hook cgroup_hooks[NR_CGROUP_HOOKS];

/* NULL: it is not for a cgroup, or left out of its object. */
const struct hook *hook_of(const struct bpf_program *p);

#endif
