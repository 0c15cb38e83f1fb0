/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Routes that name a congestion control (RTAX_CC_ALGO; `congctl` of ip-route), in the namespace the thread is in. */
#ifndef ROUTE_H
#define ROUTE_H

#include <linux/rtnetlink.h>

#include "args.h"

/* Marks the routes that `use --route` made: `unuse` deletes them. Listed nowhere as taken by another program. */
#define RTPROT_ASYMCC 171

struct route {
	char cc[CC_NAME_LEN];     /* "": none */
	char text[96];            /* "198.51.100.0/24", with table and metric where they are not the usual */
	struct nlmsghdr *message; /* as the kernel tells it */
	bool alone;               /* no other has its prefix, tos and metric: of several the first is replaced */
};

struct routes {
	struct route *route;
	int nr;
};

/*
 * `only` NULL: all that name a controller, or that are ours; else those to just this prefix. -errno.
 * A controller that is not registered is not told by the kernel, though the route keeps it.
 */
int routes_get(struct routes *r, const struct prefix *only);
/* As that; -1 with a message. */
int routes_read(struct routes *r, const struct prefix *only);
/* Keep the first `nr`. */
void routes_cut(struct routes *r, int nr);
void routes_free(struct routes *r);

/* The same route with another controller; `cc` NULL: with none. -errno; -EMLINK: others have its prefix and metric. */
int route_set(const struct route *r, const char *cc);
int route_delete(const struct route *r);
bool route_is_ours(const struct route *r);
/* A router's advertisements keep it as it is. */
bool route_is_advertised(const struct route *r);
/* Make a route to the prefix, like that by which its first address is reached. -errno. */
int route_make(const struct prefix *p, const char *cc);

#endif
