/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * `try`: uses that end by themselves. They are in the state files, and in the program of a cgroup; so anybody can
 * end them, whatever became of the command that made them.
 */
#ifndef TRIAL_H
#define TRIAL_H

#include "uses/uses.h"

struct trial {
	const char *guard;          /* what ends it, if the command cannot: for the user */
	bool by_systemd;
	char id[CC_NAME_LEN];       /* no other trial of that name has it */
};

/* -1 with a message, if one is under way; or if that cannot be told. */
int trial_refuse_second(const char *cc);
/* Before anything is changed: from now on it is under way. -1 with a message. */
int trial_begin(struct trial *t, const char *cc, long seconds);
/* All or none. -1 with a message. */
int trial_make(const struct trial *t, const struct uses *u, long seconds);
/*
 * All that is still as the trial made it is as it was before. Returns how many places others have changed since, each with
 * a message; -1 with a message. Without a trial there is nothing to do; nor if it is another than `id`, if that is not NULL.
 */
int trial_end(const char *cc, const char *id);
/* Calls `look` for each that is under way; `over`: for so many seconds its end is past, below 0: it is to come. */
int trials_each(void (*look)(const char *cc, bool by_systemd, long over, void *ctx), void *ctx);

#endif
