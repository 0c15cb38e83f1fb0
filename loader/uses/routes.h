/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `use --route`: routes that name a controller, and what they had before. -1 with a message. */
#ifndef ROUTES_H
#define ROUTES_H

#include "kernel/route.h"
#include "uses/given.h"

/* The routes to one prefix, and what was remembered of each, before `use` changes them. */
struct route_before {
	struct routes routes;
	struct past *past;
};
/*
 * All routes to just this prefix, in the table where the kernel finds the one that connections take, or a new one there.
 * `b`, zeros at first, is what was before.
 */
int route_use(const struct prefix *p, const char *cc, bool by_trial, struct route_before *b, bool *made);
void route_undo(const struct prefix *p, const char *cc, const struct route_before *b, bool made);
void route_before_free(struct route_before *b);
/* A trial of `cc` ends: as default_end(). */
int routes_end(const char *cc, const char *netns, int *left);
/*
 * Those of the namespace that name `cc`, to prefix `p` (NULL: to any), and what `use` remembers of those that lost it.
 * Returns how many; goes on over those that fail, and tells the first.
 */
int routes_unuse(const struct prefix *p, const char *cc, bool only_count);

#endif
