/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who uses which congestion control, in every network namespace that can be reached. */
#ifndef NETNS_H
#define NETNS_H

#include <sys/types.h>

#include "asymcc.h"

struct cc_use {
	char name[CC_NAME_LEN];
	unsigned int sockets;
};

struct netns {
	dev_t dev;
	ino_t ino;
	char name[280];               /* "host", "netns r1" or "pid 123" */
	char initial[CC_NAME_LEN];    /* its default: net.ipv4.tcp_congestion_control */
	struct cc_use *use;
	int nr_use;
};

struct netns_list {
	struct netns *ns;
	int nr;
};

int netns_read(struct netns_list *l);
void netns_free(struct netns_list *l);
unsigned int netns_sockets(const struct netns *ns, const char *cc);

#endif
