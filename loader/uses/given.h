/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `use` gave a default or a route a controller, and remembers this of it. -1 with a message. */
#ifndef GIVEN_H
#define GIVEN_H

#include "uses/state.h"

#define NONE "-" /* no controller, and no controller's name */

/* The record before a change. */
struct past {
	struct record record;
	int known; /* 0: nothing was */
};

/* Did `use` give `cc`? It did so at any moment of its work, and of its undoing: hence two names. */
bool is_given(const struct record *g, const char *cc);
bool is_trial_of(const struct record *g, const char *cc);

/* Before what has `now` gets `cc`. */
int given_remember(const char *file, const char *now, const char *cc, bool by_trial, struct past *past);
/* It is as before: so is what is remembered of it. */
int given_restore(const char *file, const struct past *past);
/* A trial has ended: what is remembered is as before it. */
int given_end_trial(const char *file, const struct record *g);

#endif
