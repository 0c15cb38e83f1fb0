/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Routes that name a congestion control (RTAX_CC_ALGO; `congctl` of ip-route), in the namespace the thread is in. */
#ifndef ROUTE_H
#define ROUTE_H

#include <linux/rtnetlink.h>

#include "args.h"
#include "view/text.h"

/* Marks the routes that `use --route` made: `unuse` deletes them. Listed nowhere as taken by another program. */
#define RTPROT_ASYMCC 171

#define ROUTE_TEXT 96

struct route {
	char cc[CC_NAME_LEN];     /* "": none */
	char text[ROUTE_TEXT]; /* "198.51.100.0/24", with table, metric and tos where they are not the usual */
	struct nlmsghdr *message; /* as the kernel tells it */
	bool alone; /* no other has its prefix, tos and metric: of several the first is replaced */
};

struct routes {
	struct route *route;
	int nr;
};

/*
 * `only` NULL: all that name a controller, or that are ours; else those to just this prefix, of any table. -errno.
 * A controller that is not registered is not told by the kernel, though the route keeps it.
 */
int routes_get(struct routes *r, const struct prefix *only);
/* It is routes_get(); -1 with a message. */
int routes_read(struct routes *r, const struct prefix *only);
/* Keep the first `nr`, or those of one table. */
void routes_cut(struct routes *r, int nr);
void routes_keep_table(struct routes *r, __u32 table);
void routes_free(struct routes *r);

/* The same route with another controller; `cc` NULL: with none. -errno; -EMLINK: others have its prefix and metric. */
int route_set(const struct route *r, const char *cc);
/* The same where others have its prefix and metric: out, and in again, unless one of those is what it would be. -errno. */
int route_renew(const struct route *r, const char *cc);
int route_delete(const struct route *r);
bool route_is_ours(const struct route *r);
/* A router's advertisements keep it as it is. */
bool route_is_advertised(const struct route *r);
/* Fills in the rest from its message. */
void route_read(struct route *r);
/* The address of its prefix; NULL: that of all. */
const void *route_dst(const struct nlmsghdr *h);
/* Is the route that has this text to just this prefix? */
bool route_text_is_to(const char *text, const struct prefix *p);
/* Is it to just this prefix? */
bool route_is_to(const struct route *r, const struct prefix *p);
__u32 route_table(const struct route *r);

/* Make one to the prefix that is like this, in the same table. -errno. */
int route_make(const struct prefix *p, const struct route *like, const char *cc);

#endif
