/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `use --default`: the default controller of a namespace, and what it was before. -1 with a message. */
#ifndef DEFAULT_H
#define DEFAULT_H

#include "uses/given.h"

/* The default of a namespace before `use` changes it. */
struct default_before {
	char now[CC_NAME_LEN];
	struct past past;
};
/* They act in the namespace that the thread is in. `b`: for default_undo(). */
int default_use(const char *cc, bool by_trial, struct default_before *b);
void default_undo(const char *cc, const struct default_before *b);
/*
 * A trial of `cc` ends: if it is the default by that, what was before it is again; if another has set it since, it stays,
 * and *left is counted up, with a message.
 */
int default_end(const char *cc, const char *netns, int *left);
/* Returns whether it was the default. */
int default_unuse(const char *cc, bool only_count);
/* Namespaces whose default is `cc` keep the instance they met: make them meet the one that has the name now. */
int defaults_renew(const char *cc);

#endif
