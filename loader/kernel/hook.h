/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kinds of programs that asymcc attaches to cgroups. */
#ifndef HOOK_H
#define HOOK_H

#include <bpf/libbpf.h>

/* Sections "sockops", "cgroup_skb/egress" and "cgroup_skb/ingress". */
struct kind {
	enum bpf_prog_type type;
	enum bpf_attach_type attach;
};

#define NR_KINDS 3
extern const struct kind kinds[NR_KINDS];

/* NULL: it is not for a cgroup, or left out of its object. */
const struct kind *kind_of(const struct bpf_program *p);

#endif
