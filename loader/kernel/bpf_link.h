/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* BPF links by which others register a controller. */
#ifndef BPF_LINK_H
#define BPF_LINK_H

#include <limits.h>

#include <linux/types.h>

/* The holders of a link; "": none that is seen here. */
struct link_holders {
	char pin[PATH_MAX];           /* the first file of a bpffs that it is pinned as */
	char process[100];            /* the first process: "NAME (pid 123)" */
};
/* Finds those of the link of a struct_ops map. */
void link_find(__u32 map_id, struct link_holders *h);

#endif
