/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every network namespace that can be reached, and who uses which congestion control there. */
#ifndef USERS_H
#define USERS_H

#include "kernel/netns.h"
#include "kernel/registry.h"
#include "kernel/route.h"

struct cc_use {
	char name[CC_NAME_LEN];
	unsigned int sockets;
};

struct cc_route {
	char name[CC_NAME_LEN];
	char text[ROUTE_TEXT];
};

struct netns {
	char name[280];
	const char *unread;           /* why routes and sockets, or some of them, are not known; NULL: they are */
	bool own, first;              /* the thread's; that of the machine's first process */
	char initial[CC_NAME_LEN];    /* its default: net.ipv4.tcp_congestion_control */
	char given[CC_NAME_LEN];      /* the default that `use` gave it, "": none */
	struct cc_use *use;
	struct cc_route *route;       /* that name a controller */
	struct cc_route *orphan;      /* that `use` made, and that name none */
	struct cc_route *lost;        /* to which `use` gave one that they have no more, or that are gone */
	int nr_use, nr_route, nr_orphan, nr_lost;
};

struct users {
	struct netns *ns;
	int nr;
	bool records_unread; /* some of the records that `use` made are not known; a line on stderr names the file */
};

/* One that cannot be read is in the list, as such. Without the right to enter others, our own alone. -1 with a message. */
int users_read(struct users *l);
/* A line on stderr for each that could not be read; -1 if there is one, or if records are not known. */
int users_warn(const struct users *l);
void users_free(struct users *l);
unsigned int netns_sockets(const struct netns *ns, const char *cc);
unsigned int netns_routes(const struct netns *ns, const char *cc);
/* Did `use` make it the default, and is it that no more? */
bool lost_default(const struct netns *ns, const char *cc);
/* Defaults and routes that lost it. */
unsigned int users_lost(const struct users *l, const char *cc);
/*
 * Uses of a controller that the kernel counts, and that no namespace has which was looked into; none of one that is
 * unloaded. It looks again for those that came or went between two looks. -1 with a message.
 */
int users_hidden(const struct users *l, const struct registry *r, const struct registered *reg);
#define HIDDEN_USES(nr) \
	"%d use%s of %s cannot be seen from here: sockets that are not connected, or other network namespaces", (nr), \
		(nr) == 1 ? "" : "s"
/* A line on stderr for each controller that has some, and one if namespaces could not be looked into. -1: not known. */
int users_warn_hidden(const struct users *l, const struct registry *r);

#endif
