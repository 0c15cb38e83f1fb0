/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which processes have something open. */
#ifndef PROCESS_H
#define PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include <linux/types.h>

/* A socket's inode, and the first process that has it. */
struct socket_process {
	__u32 inode;
	pid_t pid;      /* 0: none that we may see */
	char name[64];  /* fit to be printed */
};
void socket_processes_find(struct socket_process *h, size_t nr);

/* Is an open file a BPF link, by what its /proc/PID/fd/N leads to? */
bool is_link(const char *what);
/* "NAME (pid 123)": the first other process that has a BPF link, "" if none is seen. */
void process_of_link(__u32 link_id, char *text, size_t size);

/* When a process began, in clock ticks since boot; 0: it is gone. */
unsigned long long process_start(pid_t pid);

#endif
