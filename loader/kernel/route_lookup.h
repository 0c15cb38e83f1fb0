/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The route that connections to a prefix take. */
#ifndef ROUTE_LOOKUP_H
#define ROUTE_LOOKUP_H

#include "kernel/sock_diag.h"
#include "kernel/route.h"

/*
 * The route that connections to the prefix take, where no longer one does: those of sockets without a device or a mark
 * of their own. The caller frees its message. -errno; -ENOTUNIQ: longer ones take them all, the last of which is in
 * `text`.
 */
int route_find(const struct prefix *p, struct route *r);
/* The route that a connection takes now, without a message. -errno. */
int route_of(const struct connection *c, struct route *r);
bool prefix_has(const struct prefix *p, const unsigned char *addr);
/*
 * Would one to the prefix that is like this take the same packets? -errno; -EXDEV: a rule would let others have it;
 * -EMEDIUMTYPE: this is of some sources alone.
 */
int route_check_like(const struct prefix *p, const struct route *like);

#endif
