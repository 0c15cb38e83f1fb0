/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The input of move.bpf.c, and its output. */
#ifndef MOVE_RULE_H
#define MOVE_RULE_H

#ifndef __bpf__
#include <linux/types.h>
#endif

#define MOVE_NAME_LEN 16    /* CC_NAME_LEN of view/text.h */
#define MOVE_LIST_LEN 16384 /* sockets that are listed at once */

enum {
	MOVE_CONNECTIONS = 1,
	MOVE_LISTENERS = 2,
	MOVE_CHOSEN = 4,   /* only sockets for which the controller was chosen: by setsockopt(), or for a cgroup */
	MOVE_UNCHOSEN = 8, /* only others; and those that have `or_from` */
	MOVE_LISTED = 16,  /* only those that are listed by cookie */
};

struct move_rule {
	char from[MOVE_NAME_LEN]; /* "": any */
	char or_from[MOVE_NAME_LEN];
	char to[MOVE_NAME_LEN];
	__u32 what;               /* MOVE_... */
	__u64 cgroup;             /* of this cgroup, by its inode, and those below it; 0: of any */
	/* by the program */
	__u32 moved, refused;
};

#endif
