/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every network namespace that can be reached, and who uses which congestion control there. */
#ifndef NETNS_H
#define NETNS_H

#include <sys/types.h>

#include "view/text.h"
#include "kernel/route.h"

#define DEFAULT_CC "/proc/sys/net/ipv4/tcp_congestion_control"

struct netns_id {
	dev_t dev;
	ino_t ino;
	char name[280];               /* "host", "netns r1" or "pid 123"; it has no control characters */
	bool own;                     /* the thread's */
	bool first;                   /* that of the machine's first process */
	bool foreign; /* of another user namespace, that is anybody's: what it does shall hinder nothing */
};

/*
 * Calls `look` in each namespace; then the thread is back in its own. -1 if any call told so: it was made in all,
 * nevertheless. The time in foreign ones is limited.
 */
int netns_each(int (*look)(const struct netns_id *id, void *ctx), void *ctx);

/* The default of the namespace that the thread is in, "" if it has none. -1 with a message. */
int netns_default(char name[CC_NAME_LEN]);

/* Does the kernel list that controller in it? -1 with a message: not known. */
int controller_available(const char *cc);
/* Could the namespace of the thread have it as its default once more, after another? */
bool controller_may_return(const char *cc);
/* The first that every namespace may have, but for that one. */
bool controller_allowed(const char *but, char name[CC_NAME_LEN]);
#define MAY_NOT_HAVE \
	"this network namespace may not have it: add it to net.ipv4.tcp_allowed_congestion_control of the first one"

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

struct netns_list {
	struct netns *ns;
	int nr;
	bool records_unread; /* some of the records that `use` made are not known; a line on stderr names the file */
};

/* One that cannot be read is in the list, as such. Without the right to enter others, our own alone. -1 with a message. */
int netns_read(struct netns_list *l);
/* A line on stderr for each that could not be read; -1 if there is one, or if records are not known. */
int netns_warn(const struct netns_list *l);
void netns_free(struct netns_list *l);
unsigned int netns_sockets(const struct netns *ns, const char *cc);
unsigned int netns_routes(const struct netns *ns, const char *cc);
/* Did `use` make it the default, and is it that no more? */
bool netns_lost_default(const struct netns *ns, const char *cc);
/* Defaults and routes that lost it. */
unsigned int count_lost(const struct netns_list *l, const char *cc);

#endif
