/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every network namespace that a process or a mount leads to, and its default. */
#ifndef NETNS_H
#define NETNS_H

#include <sys/types.h>

#include "view/text.h"

#define DEFAULT_CC "/proc/sys/net/ipv4/tcp_congestion_control"

struct netns_id {
	dev_t dev;
	ino_t ino;
	ino_t devices;                /* of its /proc/net/dev */
	char name[280];               /* "host", "netns r1", "pid 123" or "/a/mount"; it has no control characters */
	bool own;                     /* the thread's */
	bool first;                   /* that of the machine's first process */
	bool foreign; /* of another user namespace, that is anybody's: what it does shall hinder nothing */
};

/*
 * Calls `look` in each namespace; then the thread is back in its own. -1 if any call told so: it was made in all,
 * nevertheless. The time in foreign ones is limited.
 */
int netns_each(int (*look)(const struct netns_id *id, void *ctx), void *ctx);

/* Why the last netns_each() may have missed some; NULL: each that a process or a mount here leads to was seen. */
const char *netns_unseen(void);
#define NETNS_UNSEEN "other network namespaces cannot be seen from here (%s)"
/* A line on stderr, if there is a reason. */
void netns_warn_unseen(void);

/* Before a command that shall act in that namespace: "ip netns exec r1 "; till the next call. */
const char *netns_prefix(const char *name, bool own);

/* Do we lack it ourselves? Then a namespace was not looked into that is there, and may be of interest. */
bool netns_is_lack(int err);
/* Said once: each one that follows lacks the same. */
int netns_fail_lack(int err);

/* The default of the namespace that the thread is in, "" if it has none. -1 with a message. */
int netns_default(char name[CC_NAME_LEN]);

/* Does the kernel list that controller in it? -1 with a message: not known. */
int controller_available(const char *cc);
/* May the namespace of the thread make it its default? */
bool controller_may_be_default(const char *cc);
/* The first that every namespace may have, but for that one. */
bool controller_allowed(const char *but, char name[CC_NAME_LEN]);
#define MAY_NOT_HAVE \
	"this network namespace may not have it: add it to net.ipv4.tcp_allowed_congestion_control of the first one"

#endif
