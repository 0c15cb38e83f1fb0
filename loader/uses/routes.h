/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `use --route`: routes that name a controller, and what they had before. -1 with a message. */
#ifndef ROUTES_H
#define ROUTES_H

#include "kernel/route.h"

/*
 * All routes to just this prefix, in the table where the kernel finds the one that connections take, or a new one there.
 * `undo`, zeros at first, is what was before.
 */
int route_use(const struct prefix *p, const char *cc, struct routes *undo, bool *made);
void route_undo(const struct prefix *p, const char *cc, const struct routes *undo, bool made);
/* A trial of `cc` ends: as default_end(). */
int routes_end(const char *cc, const char *netns, int *left);
/*
 * Those of the namespace that name `cc`, to prefix `p` (NULL: to any), and what `use` remembers of those that lost it.
 * Returns how many; goes on over those that fail, and tells the first.
 */
int routes_unuse(const struct prefix *p, const char *cc, bool only_count);

#endif
