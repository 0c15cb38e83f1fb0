/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which processes have something open. */
#ifndef HOLDER_H
#define HOLDER_H

#include <sys/types.h>

#include <linux/types.h>

/* A socket's inode, and the first process that has it. */
struct holder {
	__u32 inode;
	pid_t pid;      /* 0: none that we may see */
	char name[64];  /* fit to be printed */
};
void holders_find(struct holder *h, size_t nr);

#endif
