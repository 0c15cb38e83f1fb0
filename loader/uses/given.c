// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>
#include <string.h>

#include "uses/given.h"

#define TRIAL "try"

bool is_given(const struct record *g, const char *cc)
{
	return !strcmp(g->name, cc) || !strcmp(g->before, cc);
}

bool is_trial_of(const struct record *g, const char *cc)
{
	return !strcmp(g->mark, TRIAL) && !strcmp(g->name, cc);
}

int given_remember(const char *file, const char *now, const char *cc, bool by_trial, struct past *past)
{
	struct record next = {};
	const char *original = now;

	past->known = state_read(file, &past->record);
	if (past->known < 0)
		return -1;
	if (past->known && is_given(&past->record, now))
		original = past->record.original;
	if (!strcmp(original, cc)) /* nothing is its own past */
		original = NONE;
	snprintf(next.original, CC_NAME_LEN, "%s", original);
	snprintf(next.name, CC_NAME_LEN, "%s", cc);
	snprintf(next.before, CC_NAME_LEN, "%s", now);
	snprintf(next.mark, CC_NAME_LEN, "%s", by_trial ? TRIAL : "");
	return state_write(file, &next);
}

int given_restore(const char *file, const struct past *past)
{
	return past->known ? state_write(file, &past->record) : state_remove(file);
}

int given_end_trial(const char *file, const struct record *g)
{
	struct record past = *g;

	if (!strcmp(g->before, NONE) || !strcmp(g->before, g->name) ||
	    !strcmp(g->before, g->original)) /* by no `use` */
		return state_remove(file);
	memcpy(past.name, g->before, CC_NAME_LEN);
	past.mark[0] = 0;
	return state_write(file, &past);
}
